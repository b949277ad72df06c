//! `polylogue -p`: one answer for a script. The answer goes to standard output and everything else to standard error; no
//! terminal is opened, and none is needed.
//!
//! | module | holds |
//! |---|---|
//! | `wanted` | what the command line asks for |
//! | `inlet` | standard input: a text, or turns as lines of JSON |
//! | `outlet` | standard output and error, which never block the loop |
//! | `account` | what the run came to, from the chunks of its agent |
//! | `streams` | standard output and error as a pair |
//! | `desk` | what is written where, and the exit code |
//! | `session` | the run itself |
//! | `own`, `served` | where its agent works: in a house of its own, or at the server that holds the data directory |
//!
//! With a prompt and a standard input that is no terminal, that is read to its end and joined to the prompt before anything
//! is sent, as filters do: a program that lends us an input that never ends says `< /dev/null`. More than 16 MiB is a limit.
//!
//! `--output-format text` writes the text of the replies as it streams, as it is; to a terminal without control characters.
//! `json` writes one object at the end, in one line:
//!
//! ```json
//! {"v":1,"type":"result","agent":"<id>","outcome":"completed","text":"...","usage":{"input":9,"cached":0,"written":0,
//!  "output":5},"cost":120000,"error":null,"turns":1,"ms":830}
//! ```
//!
//! | field | |
//! |---|---|
//! | `outcome` | `completed`, `failed`, `interrupted`, `limit` |
//! | `text` | what was said in the last turn |
//! | `usage`, `cost` | tokens and billionths of a US dollar of all turns; `cost` is null where it is not known |
//! | `error` | null, or `kind` and `text`: of the first turn that failed, or of the limit (`kind` is `limit`) |
//! | `turns` | requests to models, which `--max-turns` limits; those that were sent again count once |
//! | `ms` | milliseconds from the start of the program |
//!
//! `stream-json` writes the agent's chunks as lines ([`crate::domain::chunk`]), each in one write as it happens, and the
//! same object as its last line.
//!
//! `--input-format stream-json` reads one object a line: `{"type":"user","text":"..."}` is a turn, queued while the agent
//! works; `{"type":"interrupt"}` cuts the turn that is under way. A bad line is told on standard error with its number, and
//! skipped. The run ends when the input has ended and all turns are done.

mod account;
mod desk;
pub(in crate::cli) mod inlet;
mod outlet;
mod own;
mod served;
mod session;
pub(in crate::cli) mod streams;
mod wanted;

use std::io::{Write as _, stderr, stdin};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Instant;

use super::arguments::Arguments;
use super::config::{self, Surroundings};
use super::{code, process};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::domain::flow::Change;
use crate::reactor::Signals;
use crate::repl::Repl;
use crate::store::{self, Store};
use desk::Desk;
use inlet::{Inlet, Lines, Whole};
use own::Own;
use session::Run;
pub use wanted::{InputFormat, OutputFormat, Whom};

/// One run. Returns the code with which the program ends.
///
/// # Errors
/// It could not begin.
pub fn run(arguments: &Arguments, around: &Surroundings) -> Result<u8> {
    let started = Instant::now();
    let deadline = wanted::deadline(arguments, started)?;
    let (prompt, lines) = match arguments.input_format {
        InputFormat::Text => match prompt(arguments, deadline)? {
            Ok(prompt) => (Some(prompt), None),
            Err(limit) => {
                tell(&limit);
                return Ok(code::LIMIT);
            }
        },
        // The words on the command line are the first turn.
        InputFormat::StreamJson => (arguments.prompt(), Some(Lines::of(inlet()?))),
    };
    let mut desk = Desk::new(arguments.output_format, started)?;
    if let Some(mut host) = served::host(arguments, around)? {
        let (signals, host) = (Signals::catch_termination()?, &mut *host);
        return Run { host, desk, lines, signals, deadline }.run(prompt.as_deref());
    }
    process::prepare();
    let config = Config { supervisor: process::own_binary()?, ..config::load(arguments, around).into_config()? };
    config.hint.iter().chain(&config.notes).for_each(|words| desk.say(words));
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
    let store = directory.as_deref().map_or_else(Store::in_memory, open)?;
    let signals = Signals::catch_termination()?;
    let mut repl = Repl::open(config, store, Clock::system(), None)?;
    let agent_id = choose(&mut repl, &Whom::of(arguments), arguments.model.is_some().then_some(&*model), Some(&model))?;
    let host = &mut Own::new(repl, agent_id, arguments.max_turns)?;
    let code = Run { host, desk, lines, signals, deadline }.run(prompt.as_deref())?;
    if let Some(loss) = super::loss(directory.as_deref(), 0) {
        tell(&loss);
    }
    Ok(code)
}

/// The store, where no server holds it.
fn open(directory: &Path) -> Result<Store> {
    Store::open(directory).map_err(|error| match store::holder(directory) {
        Some(process) => {
            let place = directory.display();
            let words = format!(
                "process {process}, a chat or another polylogue -p, holds {place}: when it has ended, polylogue serve \
                 --background lets any number of them share it; --ephemeral needs none of it"
            );
            Error::new(ErrorKind::System, words)
        }
        None => error,
    })
}

/// The agent that is meant; `model`, if it is to be another one from now on.
///
/// # Errors
/// Nobody is meant, or the model cannot be had.
pub fn choose(repl: &mut Repl, whom: &Whom, model: Option<&str>, new: Option<&str>) -> Result<AgentId> {
    let root = repl.roster().nth(0).expect("there is at least agent 0");
    let agent_id = match whom {
        Whom::New => return repl.create(None, new),
        Whom::Last => repl.last_spoken_to()?,
        Whom::Named(agent_id) => repl.find(agent_id)?,
        Whom::Unnamed => {
            let words = format!("--resume needs the name, number or id of an agent:\n{}", repl.agents(root));
            return Err(Error::new(ErrorKind::Usage, words));
        }
    };
    let is_other =
        |model: &&str| repl.roster().get(agent_id).is_some_and(|one| one.talk.endpoint.full_name() != **model);
    if let Some(model) = model.filter(is_other) {
        repl.ask(agent_id, Change::Model(model.to_owned()))?;
    }
    Ok(agent_id)
}

/// The prompt with what is read for it, or which limit was reached.
fn prompt(arguments: &Arguments, deadline: Option<Instant>) -> Result<std::result::Result<String, String>> {
    let wanted = wanted::Prompt::of(arguments, rustix::termios::isatty(stdin()))?;
    if !wanted.has_input {
        return wanted.joined("").map(Ok);
    }
    let read = match inlet()?.read_whole(deadline)? {
        Whole::All(read) => read,
        Whole::TooMuch => return Ok(Err(format!("standard input is longer than {} MiB", inlet::MOST >> 20))),
        Whole::TooLate => return Ok(Err("--timeout: the time was over before standard input ended".into())),
    };
    let (text, is_mended) = inlet::text_of(read);
    if is_mended {
        tell("standard input is not all UTF-8: what is none was replaced");
    }
    wanted.joined(&text).map(Ok)
}

fn inlet() -> Result<Inlet> {
    Ok(Inlet::on(stdin().as_fd()).map_err(std::io::Error::from)?)
}

/// Before there is a desk, and after it.
fn tell(words: &str) {
    // Standard error may be closed, and then nobody is left to tell.
    let _ = writeln!(stderr(), "polylogue: {words}");
}
