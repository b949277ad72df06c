//! `polylogue -p`: one answer for a script. The answer goes to standard output and notes to standard error; no terminal is
//! needed.
//!
//! | module | holds |
//! |---|---|
//! | `prompt` | the prompt and the deadline, from the command line |
//! | `session` | the run itself, over a `Host` |
//! | `local`, `remote` | the two hosts: the agent works in this process, or in the server that holds the data directory |
//! | `output` | what is written where, and the exit code |
//! | `schema` | the JSON schema of the answer |
//! | `written` | what was written of a reply that breaks off |
//! | `summary` | the result of the run, from the chunks of its agent |
//!
//! If standard input is not a terminal, it is read to its end and appended to the prompt before anything is sent, as
//! filters do; a program that passes on an input that never ends has to redirect it (`< /dev/null`). At most 16 MiB are
//! read.
//!
//! `--output-format text` writes the text of the replies as it arrives; to a terminal without control characters. `json`
//! writes one object at the end, in one line:
//!
//! ```json
//! {"v":1,"type":"result","agent":"<id>","outcome":"completed","text":"...","usage":{"input":9,"cached":0,"written":0,
//!  "output":5},"cost":120000,"error":null,"stop_reason":"stop","turns":1,"ms":830}
//! ```
//!
//! | field | |
//! |---|---|
//! | `outcome` | `completed`, `failed`, `interrupted`, `limit` |
//! | `text` | the text of the last turn |
//! | `usage`, `cost` | tokens, and billionths of a US dollar, of all turns; `cost` is null if it is not known |
//! | `error` | null, or `kind` and `text` of the first turn that failed, or of the limit (`kind` is `limit`) |
//! | `stop_reason` | why the last reply ended, as in the chunk `finish`; null if it did not |
//! | `turns` | requests to models, which `--max-turns` limits; retries do not count |
//! | `ms` | milliseconds since the start of the program |
//!
//! `stream-json` writes the agent's chunks as lines ([`crate::domain::chunk`]), each in one write as it happens, and the
//! same object as its last line.
//!
//! `--input-format stream-json` reads one object per line: `{"type":"user","text":"..."}` is a turn, queued while the agent
//! works; `{"type":"interrupt"}` interrupts the current turn. A bad line is skipped, with a note that gives its number. The
//! run ends when the input has ended and all turns are over.

mod local;
mod output;
mod prompt;
mod remote;
mod schema;
mod session;
pub(in crate::cli) mod summary;
mod written;

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::agent_choice::AgentChoice;
use super::arguments::{Arguments, EVERYTHING_ALLOWED, InputFormat, OutputFormat};
use super::config::{self, Loaded, ProcessEnvironment};
use super::stdio::input::{Input, InputLines, MAX_BYTES, WholeInput, text_of};
use super::stdio::{print_note, say_waits_for_input};
use super::waiting::{self, Part};
use super::{code, data_directory, opening, process, serve};
use crate::base::clock::Clock;
use crate::base::error::{Error, Result};
use crate::domain::config::Config;
use crate::reactor::Signals;
use crate::repl::{Repl, Waiting};
use local::LocalHost;
use output::PrintOutput;
use prompt::Prompt;
pub(super) use prompt::{deadline, retry_ms};
use schema::Schema;
use session::{Host, Run};

/// Said where the policy `ask` is named.
const ASKS_NOBODY: &str = "approval ask: nobody answers questions of --print, so what would ask is refused; --allow RULE or \
                           --approval auto permits it";

/// Runs the mode. Returns the exit code.
///
/// # Errors
/// The run could not begin.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    let started = Instant::now();
    run_from(arguments, env, started).inspect_err(|error| {
        if arguments.output_format != OutputFormat::Text {
            // Standard output may be closed.
            let _ = writeln!(std::io::stdout(), "{}", output::not_begun(error, started));
        }
    })
}

fn run_from(arguments: &Arguments, env: &ProcessEnvironment, started: Instant) -> Result<u8> {
    let deadline = deadline(arguments, started)?;
    let schema = arguments.schema.as_deref().map(Schema::read).transpose()?;
    let (prompt, lines) = match arguments.input_format {
        InputFormat::Text => match read_prompt(arguments, deadline)? {
            Ok(prompt) => (Some(prompt::with_files(prompt, &arguments.attach)?), None),
            Err(limit) => {
                print_note(&limit);
                return Ok(code::LIMIT);
            }
        },
        // A prompt on the command line is the first turn.
        InputFormat::StreamJson => (with_attached(arguments)?, Some(InputLines::new(Input::of_process()?))),
    };
    let mut output = PrintOutput::new(arguments.output_format, started)?;
    output.schema = schema;
    let start = Start { output, prompt, lines, deadline };
    let loaded = config::load(arguments, env);
    if loaded.asks_nobody() {
        print_note(ASKS_NOBODY);
    }
    match remote::host(arguments, env, loaded.config(), &start)? {
        Some((mut host, is_schema_set)) => start.run(&mut *host, Signals::catch_termination()?, !is_schema_set),
        None => run_here(arguments, env, loaded, start),
    }
}

/// What is known of a run before its agent is.
struct Start {
    output: PrintOutput,
    prompt: Option<String>,
    lines: Option<InputLines>,
    deadline: Option<Instant>,
}

impl Start {
    fn run(self, host: &mut dyn Host, signals: Signals, schema_is_in_prompts: bool) -> Result<u8> {
        let Self { output, prompt, lines, deadline } = self;
        Run { host, output, lines, signals, deadline, schema_is_in_prompts }.run(prompt.as_deref())
    }
}

/// The agent works in this process.
fn run_here(arguments: &Arguments, env: &ProcessEnvironment, loaded: Loaded, mut start: Start) -> Result<u8> {
    let back = data_directory::options(arguments, loaded.explicit_data_directory());
    let pipe = match if arguments.keep_background { waiting::split(None)? } else { Part::Chat(None) } {
        Part::Chat(pipe) => pipe,
        Part::Waited(code) => return Ok(code),
    };
    process::prepare();
    let mut config = Config { supervisor: process::own_binary()?, ..loaded.unattended().into_config()? };
    config.settings.retry_time = retry_ms(start.deadline).map_or(config.settings.retry_time, Duration::from_millis);
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
    let mut store = loop {
        if let Some(store) = opening::open(directory.as_deref(), start.deadline)? {
            break store;
        }
        if let Some((mut host, is_schema_set)) = remote::host(arguments, env, &config, &start)? {
            return start.run(&mut *host, Signals::catch_termination()?, !is_schema_set);
        }
    };
    config.notes.iter().for_each(|note| start.output.note(note));
    let signals = Signals::catch_termination()?;
    // One sync at the end, not one more of the database file.
    store.leave_log();
    let mut repl = Repl::open(config, store, Clock::system())?;
    let chosen_model = arguments.model.is_some().then_some(&*model);
    let agent_id = AgentChoice::of(arguments).resolve(&mut repl, chosen_model, &model)?;
    if arguments.dangerously_allow_everything {
        repl.lift_restrictions(agent_id);
        start.output.note(EVERYTHING_ALLOWED);
    }
    repl.warnings_of(agent_id).iter().for_each(|warning| start.output.note(warning));
    let schema = start.output.schema.as_ref();
    let is_schema_set = schema.map(|schema| repl.set_schema(agent_id, &schema.value)).transpose()?;
    let schema_is_in_prompts = is_schema_set == Some(false);
    let mut host = LocalHost::new(repl, agent_id, arguments.max_turns, pipe.is_some())?;
    let code = start.run(&mut host, signals, schema_is_in_prompts)?;
    if let (Some(pipe), Some(directory)) = (pipe, &directory) {
        host.go_on(Waiting { pipe, log: directory.join(serve::LOG), options: back }, directory, code)?;
    }
    if let Some(loss) = data_directory::loss(directory.as_deref(), None) {
        print_note(&loss);
    }
    Ok(code)
}

/// The first turn of the command line, if there is one.
fn with_attached(arguments: &Arguments) -> Result<Option<String>> {
    match arguments.prompt() {
        Some(prompt) => prompt::with_files(prompt, &arguments.attach).map(Some),
        None if arguments.attach.is_empty() => Ok(None),
        None => Err(Error::usage("--attach needs a prompt")),
    }
}

/// The prompt with the input appended, or the limit that was reached.
pub(super) fn read_prompt(
    arguments: &Arguments,
    deadline: Option<Instant>,
) -> Result<std::result::Result<String, String>> {
    let prompt = Prompt::of(arguments, rustix::termios::isatty(std::io::stdin()))?;
    if !prompt.has_input {
        return prompt.with_input("").map(Ok);
    }
    let bytes = match Input::of_process()?.read_whole(deadline, say_waits_for_input)? {
        WholeInput::Complete(bytes) => bytes,
        WholeInput::TooLong => return Ok(Err(format!("standard input is longer than {} MiB", MAX_BYTES >> 20))),
        WholeInput::TimedOut => return Ok(Err("reached the limit of --timeout before standard input ended".into())),
    };
    let (text, is_mended) = text_of(bytes);
    if is_mended {
        print_note("standard input is not valid UTF-8: invalid bytes were replaced");
    }
    prompt.with_input(&text).map(Ok)
}
