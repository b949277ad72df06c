//! Begins the run: in an event loop of its own, or in the process that holds the data directory.

use super::local::LocalHost;
use super::remote::ServerHost;
use super::report::Report;
use super::session::Session;
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::{Arguments, EVERYTHING_ALLOWED};
use crate::cli::config::{Loaded, ProcessEnvironment};
use crate::cli::opening;
use crate::cli::stdio::streams::Streams;
use crate::cli::{data_directory, process};
use crate::domain::config::Config;
use crate::reactor::Signals;
use crate::repl::Repl;
use crate::team::coordinator::plan::Plan;
use crate::team::coordinator::settings::MAX_MEMBERS;

/// Returns the exit code.
///
/// # Errors
/// The run could not begin: the configuration is invalid, a model is not configured, or the store cannot be opened.
pub fn run(
    plan: Plan,
    (arguments, env): (&Arguments, &ProcessEnvironment),
    loaded: Loaded,
    is_json: bool,
) -> Result<u8> {
    let mut report = Report::new(Streams::of_process()?, is_json);
    if let Some(mut host) = ServerHost::begin(arguments, env, loaded.config(), &plan)? {
        return Session::new(&mut host, report, Signals::catch_termination()?).run();
    }
    process::prepare();
    // The default is meant for a chat; here all members may work at once.
    let limit = if loaded.is_explicit("working_limit") { loaded.config().working_limit } else { MAX_MEMBERS };
    let config =
        Config { supervisor: process::own_binary()?, working_limit: limit, ..loaded.unattended().into_config()? };
    plan.check_models(&config.catalog)?;
    let directory = config.data_directory.clone();
    let store = loop {
        if let Some(store) = opening::open(directory.as_deref(), None)? {
            break store;
        }
        if let Some(mut host) = ServerHost::begin(arguments, env, &config, &plan)? {
            return Session::new(&mut host, report, Signals::catch_termination()?).run();
        }
    };
    config.notes.iter().for_each(|note| report.streams.note(note));
    let model = config.endpoint.full_name();
    let signals = Signals::catch_termination()?;
    let mut repl = Repl::open(config, store, Clock::system())?;
    if arguments.dangerously_allow_everything {
        let root = repl.roster().nth(0).expect("there is at least agent 0");
        repl.lift_restrictions(root);
        report.streams.note(EVERYTHING_ALLOWED);
    }
    let mut host = LocalHost::begin(repl, plan, &model)?;
    let code = Session::new(&mut host, report, signals).run()?;
    if let Some(loss) = data_directory::loss(directory.as_deref(), None) {
        return Err(Error::new(ErrorKind::Store, loss));
    }
    Ok(code)
}
