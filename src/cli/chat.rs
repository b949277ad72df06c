//! The chat on the terminal that the program was started from.

use std::io::Write as _;
use std::path::Path;

use super::agent_choice::AgentChoice;
use super::arguments::Arguments;
use super::config::{self, ProcessEnvironment};
use super::{data_directory, process};
use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::text::counted;
use crate::commands::agent_tree;
use crate::domain::approval::Policy;
use crate::domain::config::Config;
use crate::domain::flow::Change;
use crate::reactor::Signals;
use crate::repl::{Device, Repl};
use crate::store::Store;
use crate::terminal::tty::Tty;

/// Runs the chat until the user leaves.
///
/// # Errors
/// The configuration is invalid, or the store or the terminal cannot be used.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<()> {
    process::prepare();
    let loaded = config::load(arguments, env);
    let explicit_directory = loaded.explicit_data_directory().map(Path::to_owned);
    let policy = loaded.is_explicit("approval").then_some(loaded.config().policy).filter(|_| !arguments.read_only);
    let config = Config { supervisor: process::own_binary()?, ..loaded.into_config()? };
    let (directory, model) = (config.data_directory.clone(), config.endpoint.full_name());
    let mut tty = Tty::open()?;
    let store = match &config.data_directory {
        Some(directory) if arguments.read_only => Store::open_read_only(directory)?,
        Some(directory) => Store::open(directory)?,
        None => Store::in_memory()?,
    };
    process::restore_terminal_on_panic();
    // Before the terminal is changed: from then on every signal has to restore it.
    let signals = Signals::catch()?;
    tty.set_modes(process::terminal_modes(&config.display));
    tty.enter()?;
    let mut repl = Repl::open_at(config, store, Clock::system(), Some(Device::Terminal(Box::new(tty))))?;
    repl.set_signals(signals);
    let outcome = start(&mut repl, arguments, &model, policy).and_then(|()| repl.run());
    let (agents, unsaved, resumed) = (repl.roster().len(), repl.unsaved(), repl.resume_name());
    drop(repl);
    if outcome.is_ok() {
        let options = data_directory::options(arguments, explicit_directory.as_deref());
        let options = options + &resumed.map(|name| format!(" -r {name}")).unwrap_or_default();
        let _ = writeln!(std::io::stdout(), "{}", farewell(arguments, directory.is_some(), agents, &options));
        if let Some(loss) = data_directory::loss(directory.as_deref(), unsaved) {
            let _ = writeln!(std::io::stderr(), "polylogue: {loss}");
        }
    }
    outcome
}

/// Shows the agent that the command line names, and sends the prompt.
fn start(repl: &mut Repl, arguments: &Arguments, model: &str, policy: Option<Policy>) -> Result<()> {
    let root = repl.roster().nth(0).expect("there is at least agent 0");
    let agent_id = match AgentChoice::of(arguments) {
        AgentChoice::New => root,
        AgentChoice::Unnamed => {
            let agents = agent_tree(&repl.command_context(root));
            repl.announce(root, &format!("to show an agent: /switch NAME, NUMBER or ID\n{agents}"));
            root
        }
        choice => choice.resolve(repl, arguments.model.is_some().then_some(model), None)?,
    };
    repl.apply(root, Change::Switch(agent_id))?;
    // What a person names now counts for the agent that is shown, as its model does.
    if let Some(policy) = policy {
        repl.apply(agent_id, Change::Approval(policy))?;
    }
    arguments.prompt().map_or(Ok(()), |prompt| repl.apply(agent_id, Change::Submit(prompt)))
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
