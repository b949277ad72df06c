//! `polylogue -p`: one answer for a script. The answer goes to standard output and notes to standard error; no terminal is
//! needed.
//!
//! | module | holds |
//! |---|---|
//! | `prompt` | the prompt and the deadline, from the command line |
//! | `agent` | the agent of the run |
//! | `session` | the run itself |
//! | `turns` | its turns, as a client of the loop in which the agent works |
//! | `output` | what is written where, and the exit code |
//! | `claude_lines` | the lines of `claude-stream-json` |
//! | `schema` | the JSON schema of the answer |
//! | `trajectory` | the file of `--trajectory` |
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
//! {"v":1,"type":"result","agent":"<id>","model":"openai/gpt-5","outcome":"completed","text":"...",
//!  "usage":{"input":9,"cached":0,"written":0,"output":5},"cost":120000,"error":null,"stop_reason":"stop","turns":1,"ms":830}
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
//! same object as its last line; its first line is of type `init`, with the agent, its model and its directory.
//! `claude-stream-json` writes the lines of Claude Code instead.
//!
//! `--input-format stream-json` reads one object per line: `{"type":"user","text":"..."}` is a turn, queued while the agent
//! works; `{"type":"interrupt"}` interrupts the current turn. A bad line is skipped, with a note that gives its number. The
//! run ends when the input has ended and all turns are over.

mod agent;
mod claude_lines;
mod output;
mod prompt;
mod schema;
mod session;
pub(in crate::cli) mod summary;
mod trajectory;
mod turns;
mod written;

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::arguments::{Arguments, InputFormat, OutputFormat};
use super::config::{self, Loaded, ProcessEnvironment};
use super::host::{Host, HostOptions};
use super::stdio::input::{Input, InputLines, MAX_BYTES, WholeInput, text_of};
use super::stdio::{print_note, say_waits_for_input};
use super::waiting::{self, Part};
use super::{code, data_directory};
use crate::base::error::{Error, Result};
use crate::domain::approval::Policy;
use crate::reactor::Signals;
use output::PrintOutput;
use prompt::Prompt;
pub(super) use prompt::{deadline, held_too_long, retry_ms};
use schema::Schema;
use session::Run;
use trajectory::TrajectoryFile;
use turns::Turns;

/// Said where the policy `ask` is named.
const ASKS_NOBODY: &str = "approval ask: nobody answers questions of --print, so what would ask is refused; --allow RULE or \
                           --approval auto permits it";

/// Runs the mode. Returns the exit code.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    let started = Instant::now();
    run_from(arguments, env, started).inspect_err(|error| {
        if arguments.output_format != OutputFormat::Text {
            // Standard output may be closed.
            let _ = writeln!(std::io::stdout(), "{}", output::not_begun(arguments, error, started));
        }
    })
}

fn run_from(arguments: &Arguments, env: &ProcessEnvironment, started: Instant) -> Result<u8> {
    let deadline = deadline(arguments, started)?;
    let schema = arguments.schema.as_deref().map(Schema::read).transpose()?;
    let trajectory = arguments.trajectory.as_deref().map(TrajectoryFile::new).transpose()?;
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
    output.has_result_per_turn = arguments.input_format == InputFormat::StreamJson;
    let pipe = match if arguments.keep_background { waiting::split(None)? } else { Part::Chat(None) } {
        Part::Chat(pipe) => pipe,
        Part::Waited(code) => return Ok(code),
    };
    let configure = |loaded: Loaded| {
        let mut config = loaded.unattended().into_config()?;
        config.settings.retry_time = retry_ms(deadline).map_or(config.settings.retry_time, Duration::from_millis);
        Ok(config)
    };
    // With several turns, or commands that go on, each turn is reported before the end.
    let tells_at_end = arguments.input_format == InputFormat::Text && !arguments.keep_background;
    let options = HostOptions { tells_at_end, ..HostOptions::for_run((arguments, env), deadline, &configure) };
    let (mut host, config) = Host::open(&options).map_err(|error| held_too_long(error, deadline))?;
    let signals = Signals::catch_termination()?;
    let agent = agent::choose(&mut host, (arguments, env), &config, output.schema.as_ref())?;
    if agent.approval.as_deref() == Some(Policy::Ask.name()) {
        output.note(ASKS_NOBODY);
    }
    output.begin(&agent);
    let turns = Turns::new(agent, arguments.max_turns, deadline);
    let run = Run {
        host,
        turns,
        output,
        lines,
        signals,
        deadline,
        trajectory,
        keeps_background: pipe.is_some(),
        has_skipped: false,
        has_sent: false,
    };
    let (code, rest) = run.run(prompt.as_deref())?;
    if let Some(((host, mut turns), pipe)) = rest.zip(pipe) {
        let options = data_directory::options(arguments, config::load(arguments, env).explicit_data_directory());
        host.go_on(pipe, options, code, |host| turns.archive(host))?;
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
