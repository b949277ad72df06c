//! Begins the run, in a loop of this process or in the one that holds the data directory.

use super::report::Report;
use super::session::Session;
use crate::base::error::Result;
use crate::cli::arguments::{Arguments, EVERYTHING_ALLOWED};
use crate::cli::config::{Loaded, ProcessEnvironment};
use crate::cli::connect;
use crate::cli::host::{Host, HostOptions};
use crate::cli::stdio::streams::Streams;
use crate::domain::config::Config;
use crate::domain::wire::Request;
use crate::reactor::Signals;
use crate::team::coordinator::plan::Plan;
use crate::team::coordinator::settings::MAX_MEMBERS;

/// Returns the exit code.
pub fn run(plan: &Plan, arguments: &Arguments, env: &ProcessEnvironment, is_json: bool) -> Result<u8> {
    let mut report = Report::new(Streams::of_process()?, is_json);
    let signals = Signals::catch_termination()?;
    let configure = |loaded: Loaded| {
        // The default is meant for a chat; here all members may work at once.
        let limit = if loaded.is_explicit("working_limit") { loaded.config().working_limit } else { MAX_MEMBERS };
        let config = Config { working_limit: limit, ..loaded.unattended().into_config()? };
        plan.check_models(&config.catalog).map(|()| config)
    };
    let (mut host, config) = Host::open(&HostOptions::for_run((arguments, env), None, &configure))?;
    let new = host.request(&Request::create(connect::agent_for_run(&host, arguments, env, &config)))?;
    let agent = new["id"].as_str().unwrap_or_default().to_owned();
    if arguments.dangerously_allow_everything {
        host.lift_restrictions(&agent)?;
        report.streams.note(EVERYTHING_ALLOWED);
    }
    let team = Request::Team { agent: agent.clone(), plan: plan.to_json() };
    let parameters = connect::parameters(arguments, &agent)?;
    if let Err(error) = parameters.iter().try_for_each(|request| host.request(request).map(drop)) {
        // The first error says more than one of the clean-up.
        let _ = host.request(&Request::run(["archive", "--when-idle", "--", &agent]));
        return Err(error.context("--set"));
    }
    Session::begin(host, &team, report, signals)?.run()
}
