//! The chat on the terminal that the program was started from.

use std::io::Write as _;
use std::path::Path;

use super::arguments::{ALLOW_EVERYTHING, Arguments, EVERYTHING_ALLOWED};
use super::config::Loaded;
use super::opening;
use super::waiting::{self, Part};
use super::{code, connect, data_directory, process, serve};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::domain::choices::{Opening, Opens};
use crate::domain::config::Config;
use crate::reactor::Signals;
use crate::repl::{Device, Repl, Waiting, WayBack};
use crate::socket::Listener;
use crate::store::Store;
use crate::terminal::tty::Tty;

/// Runs the chat until the user leaves.
pub fn run(arguments: &Arguments, loaded: Loaded) -> Result<u8> {
    if arguments.inline {
        process::require_scrollback()?;
    }
    // A chat that can be attached to can go on without its terminal.
    let is_shared = loaded.config().data_directory.is_some() && !arguments.read_only;
    let back = data_directory::options(arguments, loaded.explicit_data_directory());
    let modes = process::terminal_modes(&loaded.config().display);
    let pipe = match if is_shared { waiting::split(Some((modes, &back)))? } else { Part::Chat(None) } {
        Part::Chat(pipe) => pipe,
        Part::Waited(code) => return Ok(code),
    };
    process::prepare();
    let mut opening = connect::opening(arguments, &loaded)?;
    let (record, records_texts) = (arguments.record.clone(), arguments.record_texts);
    // An existing conversation has a model of its own.
    let loaded = match opening.agent.is_some() || opening.opens != Opens::New {
        true if arguments.model.is_none() => loaded.without_model_error(),
        _ => loaded,
    };
    let config = Config { supervisor: process::own_binary()?, record, records_texts, ..loaded.into_config()? };
    let directory = config.data_directory.clone();
    opening.notes.extend(process::inline_note(&config.display).map(str::to_owned));
    let (mut repl, tty) = open(arguments, config)?;
    let outcome = start(&mut repl, tty, opening, arguments.dangerously_allow_everything).and_then(|shown| {
        if let Some(directory) = directory.as_deref().filter(|_| !arguments.read_only) {
            // After the first frame, which no client is to delay.
            listen(&mut repl, directory, shown);
            let log = directory.join(serve::LOG);
            pipe.into_iter()
                .for_each(|pipe| repl.set_waiting(Waiting { pipe, log: log.clone(), options: back.clone() }));
        }
        repl.run()
    });
    let (agents, loss, way) = (repl.roster().len(), repl.loss(), repl.take_way_back());
    let edited = repl.take_edited_file();
    process::print_slow_turns(&repl);
    drop(repl);
    if let Some(path) = edited {
        let _ = writeln!(std::io::stderr(), "polylogue: the text in your editor is in {}", path.display());
    }
    if outcome.is_ok() {
        if let Some(line) = farewell(arguments, directory.is_some(), agents, &back, way) {
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        if let Some(loss) = data_directory::loss(directory.as_deref(), loss) {
            let _ = writeln!(std::io::stderr(), "polylogue: {loss}");
        }
    }
    outcome.map(|()| code::DONE)
}

/// Opens the store and takes the terminal.
fn open(arguments: &Arguments, config: Config) -> Result<(Repl, Tty)> {
    let mut tty = Tty::open()?;
    let store = match &config.data_directory {
        Some(directory) if arguments.read_only => Store::open_read_only(directory)?,
        directory => match opening::open(directory.as_deref(), None)? {
            Some(store) => store,
            None => return Err(Error::new(ErrorKind::Held, "another process has started to serve")),
        },
    };
    process::restore_terminal_on_panic();
    // Before the terminal is changed, because then every signal has to restore it.
    let signals = Signals::catch()?;
    tty.set_modes(process::terminal_modes(&config.display));
    tty.enter()?;
    let mut repl = Repl::open(config, store, Clock::system())?;
    repl.set_signals(signals);
    Ok((repl, tty))
}

/// Lets other processes use the agents of this chat. A chat works without that as well.
fn listen(repl: &mut Repl, directory: &Path, shown: AgentId) {
    match Listener::bind(directory) {
        Ok(listener) => repl.serve(listener),
        Err(error) => {
            let note = format!("other terminals and scripts cannot use this chat: {}", error.message);
            repl.announce(shown, &note);
        }
    }
}

/// Draws the first frame, of the conversation that the command line asks for, and sends the prompt. Returns that
/// conversation.
fn start(repl: &mut Repl, tty: Tty, opening: Opening, allows_everything: bool) -> Result<AgentId> {
    if allows_everything && opening.agent.is_none() && opening.opens == Opens::Listed {
        return Err(Error::usage(format!("{ALLOW_EVERYTHING} needs the conversation: -r NAME")));
    }
    let opened = repl.open_conversation(opening, None)?;
    let agent_id = opened.agent;
    if allows_everything {
        repl.lift_restrictions(agent_id);
        repl.announce(agent_id, EVERYTHING_ALLOWED);
    }
    repl.show_opened(Device::Terminal(Box::new(tty)), opened);
    Ok(agent_id)
}

/// The last line of a chat, with the command that returns to this conversation.
fn farewell(arguments: &Arguments, is_stored: bool, agents: usize, options: &str, way: WayBack) -> Option<String> {
    if !is_stored {
        return Some("nothing was stored (--ephemeral)".into());
    }
    if arguments.read_only {
        return Some("nothing was changed (--read-only)".into());
    }
    let agents = counted(agents, "agent", "agents");
    match way {
        WayBack::Unopened => None,
        WayBack::Unwritten => Some(format!("nothing was written, so this conversation is not kept; {agents} stored")),
        WayBack::Options(back) => Some(format!("{agents} stored; to continue: polylogue{options}{back}")),
    }
}
