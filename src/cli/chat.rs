//! The chat on the terminal that the program was started from.

use std::io::Write as _;
use std::path::Path;

use super::agent_choice::AgentChoice;
use super::arguments::{ALLOW_EVERYTHING, Arguments, EVERYTHING_ALLOWED};
use super::config::Loaded;
use super::opening;
use super::waiting::{self, Part};
use super::{code, data_directory, process, serve};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::commands::agent_tree;
use crate::domain::approval::Policy;
use crate::domain::config::Config;
use crate::domain::flow::Change;
use crate::reactor::Signals;
use crate::repl::{Device, Repl, Waiting};
use crate::socket::Listener;
use crate::store::Store;
use crate::terminal::tty::Tty;

/// Runs the chat until the user leaves.
///
/// # Errors
/// The configuration is invalid, or the store or the terminal cannot be used.
pub fn run(arguments: &Arguments, loaded: Loaded) -> Result<u8> {
    if arguments.inline {
        process::require_scrollback()?;
    }
    // What can be attached to again can go on without its terminal.
    let is_shared = loaded.config().data_directory.is_some() && !arguments.read_only;
    let back = data_directory::options(arguments, loaded.explicit_data_directory());
    let modes = process::terminal_modes(&loaded.config().display);
    let pipe = match if is_shared { waiting::split(Some((modes, &back)))? } else { Part::Chat(None) } {
        Part::Chat(pipe) => pipe,
        Part::Waited(code) => return Ok(code),
    };
    process::prepare();
    let policy = loaded.is_explicit("approval").then_some(loaded.config().policy).filter(|_| !arguments.read_only);
    let (record, records_texts) = (arguments.record.clone(), arguments.record_texts);
    let sets_up = arguments.sets_up;
    let config = Config { supervisor: process::own_binary()?, record, records_texts, sets_up, ..loaded.into_config()? };
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
    let note = process::inline_note(&config.display);
    let (mut repl, tty) = open(arguments, config)?;
    let outcome = start(&mut repl, tty, arguments, &model, policy, note).and_then(|shown| {
        if let Some(directory) = directory.as_deref().filter(|_| !arguments.read_only) {
            // After the first frame, which no client is to delay.
            listen(&mut repl, directory, shown);
            let log = directory.join(serve::LOG);
            pipe.into_iter()
                .for_each(|pipe| repl.set_waiting(Waiting { pipe, log: log.clone(), options: back.clone() }));
        }
        repl.run()
    });
    let (agents, loss, resumed) = (repl.roster().len(), repl.loss(), repl.resume_name());
    let edited = repl.take_edited_file();
    process::print_slow_turns(&repl);
    drop(repl);
    if let Some(path) = edited {
        let _ = writeln!(std::io::stderr(), "polylogue: the text in your editor is in {}", path.display());
    }
    if outcome.is_ok() {
        let options = back + &resumed.map(|name| format!(" -r {name}")).unwrap_or_default();
        let _ = writeln!(std::io::stdout(), "{}", farewell(arguments, directory.is_some(), agents, &options));
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
    // Before the terminal is changed: from then on every signal has to restore it.
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

/// Draws the first frame, of the agent that the command line names, and sends the prompt. Returns that agent.
fn start(
    repl: &mut Repl,
    tty: Tty,
    arguments: &Arguments,
    model: &str,
    policy: Option<Policy>,
    note: Option<&str>,
) -> Result<AgentId> {
    let root = repl.roster().nth(0).expect("there is at least agent 0");
    let mut last_note = None;
    let agent_id = match AgentChoice::of(arguments) {
        AgentChoice::New if arguments.read_only => root,
        AgentChoice::New => {
            let (new, last) = repl.begin_conversation_here()?;
            last_note = last;
            new
        }
        AgentChoice::Unnamed if arguments.dangerously_allow_everything => {
            return Err(Error::usage(format!("{ALLOW_EVERYTHING} needs the conversation: -r NAME")));
        }
        AgentChoice::Unnamed => return Ok(pick(repl, tty, arguments, (model, policy), note)),
        choice => choice.resolve(repl, arguments.model.is_some().then_some(model), None)?,
    };
    if agent_id != root {
        repl.show_welcome(agent_id);
    }
    last_note.as_deref().into_iter().chain(note).for_each(|note| repl.announce(agent_id, note));
    repl.attach_terminal(Device::Terminal(Box::new(tty)), agent_id);
    // What a person names now counts for the agent that is shown, as its model does.
    if let Some(policy) = policy {
        repl.apply(agent_id, Change::Approval(policy))?;
    }
    if arguments.dangerously_allow_everything {
        repl.lift_restrictions(agent_id);
        repl.announce(agent_id, EVERYTHING_ALLOWED);
    }
    if let Some(prompt) = arguments.prompt() {
        repl.apply(agent_id, Change::Submit(prompt))?;
    }
    Ok(agent_id)
}

/// Draws all conversations, of which the person chooses one. What the command line names counts for that one.
fn pick(
    repl: &mut Repl,
    tty: Tty,
    arguments: &Arguments,
    (model, policy): (&str, Option<Policy>),
    note: Option<&str>,
) -> AgentId {
    let root = repl.roster().nth(0).expect("there is at least agent 0");
    let model = arguments.model.is_some().then(|| Change::Model(model.to_owned()));
    let prompt = arguments.prompt().map(Change::Submit);
    let then = model.into_iter().chain(policy.map(Change::Approval)).chain(prompt).collect();
    if !repl.attach_picker(Device::Terminal(Box::new(tty)), root, then) {
        let agents = agent_tree(&repl.command_context(root));
        repl.announce(root, &format!("to show an agent: /switch NAME, NUMBER or ID\n{agents}"));
    }
    note.into_iter().for_each(|note| repl.announce(root, note));
    root
}

fn farewell(arguments: &Arguments, is_stored: bool, agents: usize, options: &str) -> String {
    if !is_stored {
        return "nothing was stored (--ephemeral)".into();
    }
    if arguments.read_only {
        return "nothing was changed (--read-only)".into();
    }
    format!("{} stored; to continue: polylogue{options}", counted(agents, "agent", "agents"))
}
