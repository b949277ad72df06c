//! `polylogue -p`: one answer for a script. The answer goes to standard output and notes to standard error; no terminal is
//! needed.
//!
//! | module | holds |
//! |---|---|
//! | `prompt` | the prompt and the deadline, from the command line |
//! | `session` | the run itself, over a `Host` |
//! | `local`, `remote` | the two hosts: the agent works in this process, or in the server that holds the data directory |
//! | `output` | what is written where, and the exit code |
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
//!  "output":5},"cost":120000,"error":null,"turns":1,"ms":830}
//! ```
//!
//! | field | |
//! |---|---|
//! | `outcome` | `completed`, `failed`, `interrupted`, `limit` |
//! | `text` | the text of the last turn |
//! | `usage`, `cost` | tokens, and billionths of a US dollar, of all turns; `cost` is null if it is not known |
//! | `error` | null, or `kind` and `text` of the first turn that failed, or of the limit (`kind` is `limit`) |
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
mod session;
mod summary;

use std::path::Path;
use std::time::Instant;

use super::agent_choice::AgentChoice;
use super::arguments::{Arguments, InputFormat};
use super::config::{self, ProcessEnvironment};
use super::stdio::input::{Input, InputLines, MAX_BYTES, WholeInput, text_of};
use super::stdio::print_note;
use super::{code, data_directory, process};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::config::Config;
use crate::reactor::Signals;
use crate::repl::Repl;
use crate::store::{self, Store};
use local::LocalHost;
use output::PrintOutput;
use prompt::Prompt;
use session::Run;

/// Runs the mode. Returns the exit code.
///
/// # Errors
/// The run could not begin.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    let started = Instant::now();
    let deadline = prompt::deadline(arguments, started)?;
    let (prompt, lines) = match arguments.input_format {
        InputFormat::Text => match read_prompt(arguments, deadline)? {
            Ok(prompt) => (Some(prompt), None),
            Err(limit) => {
                print_note(&limit);
                return Ok(code::LIMIT);
            }
        },
        // A prompt on the command line is the first turn.
        InputFormat::StreamJson => (arguments.prompt(), Some(InputLines::new(Input::of_process()?))),
    };
    let mut output = PrintOutput::new(arguments.output_format, started)?;
    if let Some(mut host) = remote::host(arguments, env)? {
        let (signals, host) = (Signals::catch_termination()?, &mut *host);
        return Run { host, output, lines, signals, deadline }.run(prompt.as_deref());
    }
    process::prepare();
    let config =
        Config { supervisor: process::own_binary()?, ..config::load(arguments, env).unattended().into_config()? };
    config.hint.iter().chain(&config.notes).for_each(|note| output.note(note));
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
    let store = directory.as_deref().map_or_else(Store::in_memory, open)?;
    let signals = Signals::catch_termination()?;
    let mut repl = Repl::open(config, store, Clock::system())?;
    let chosen_model = arguments.model.is_some().then_some(&*model);
    let agent_id = AgentChoice::of(arguments).resolve(&mut repl, chosen_model, Some(&model))?;
    let host = &mut LocalHost::new(repl, agent_id, arguments.max_turns)?;
    let code = Run { host, output, lines, signals, deadline }.run(prompt.as_deref())?;
    if let Some(loss) = data_directory::loss(directory.as_deref(), 0) {
        print_note(&loss);
    }
    Ok(code)
}

fn open(directory: &Path) -> Result<Store> {
    Store::open(directory).map_err(|error| match store::holder(directory) {
        Some(process) => {
            let message = format!(
                "process {process}, a chat or another polylogue -p, holds {}: when it has ended, run polylogue serve \
                 --background to share the directory; or use --ephemeral",
                directory.display()
            );
            Error::new(ErrorKind::System, message)
        }
        None => error,
    })
}

/// The prompt with the input appended, or the limit that was reached.
fn read_prompt(arguments: &Arguments, deadline: Option<Instant>) -> Result<std::result::Result<String, String>> {
    let prompt = Prompt::of(arguments, rustix::termios::isatty(std::io::stdin()))?;
    if !prompt.has_input {
        return prompt.with_input("").map(Ok);
    }
    let bytes = match Input::of_process()?.read_whole(deadline)? {
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
