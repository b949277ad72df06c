//! The agent of a run: a new one, or the one that the command line selects.

use serde_json::Value;

use super::schema::Schema;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::agent_choice::{AgentChoice, no_name};
use crate::cli::arguments::{Arguments, EVERYTHING_ALLOWED};
use crate::cli::config::ProcessEnvironment;
use crate::cli::connect;
use crate::cli::host::Host;
use crate::cli::stdio::print_note;
use crate::domain::config::Config;
use crate::domain::wire::{NewAgent, Request};

pub struct RunAgent {
    pub id: String,
    /// As `provider/model`.
    pub model: String,
    pub directory: String,
    /// The name of its policy.
    pub policy: String,
    /// It was made for this run or another one, and is archived when the run ends.
    pub is_print_run: bool,
    /// The policy that the command line names.
    pub approval: Option<String>,
    /// Its protocol enforces the schema.
    pub has_schema: bool,
}

pub fn choose(
    host: &mut Host,
    (arguments, env): (&Arguments, &ProcessEnvironment),
    config: &Config,
    schema: Option<&Schema>,
) -> Result<RunAgent> {
    let choice = AgentChoice::of(arguments);
    if !host.is_local() && choice != AgentChoice::New {
        check_options(arguments)?;
    }
    let new = connect::agent_for_run(host, arguments, env, config);
    let approval = new.choices.approval.clone();
    let mut agent = select(host, &choice, new)?;
    let id = agent["id"].as_str().unwrap_or_default().to_owned();
    if arguments.session_id.is_some_and(|wanted| wanted.to_string() != id) {
        return Err(Error::usage(
            "--session-id: the running server is of a version without it: stop it (polylogue stop)",
        ));
    }
    if let (AgentChoice::New, Some(hint), "echo/echo") =
        (&choice, &config.hint, agent["model"].as_str().unwrap_or_default())
    {
        host.request(&Request::run(["delete", &id]))?;
        return Err(Error::new(ErrorKind::Auth, format!("{hint}; the running polylogue would answer with echo")));
    }
    // A server may have models that are not configured here.
    let model =
        arguments.model.as_ref().map(|typed| if host.is_local() { config.endpoint.full_name() } else { typed.clone() });
    if let Some(model) = model.filter(|_| choice != AgentChoice::New) {
        host.request(&Request::run_at(&id, ["model", &model]))?;
        agent = host.request(&Request::show(&id))?;
    }
    if arguments.dangerously_allow_everything {
        host.lift_restrictions(&id)?;
        print_note(EVERYTHING_ALLOWED);
    }
    let warnings = agent["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    warnings.for_each(print_note);
    if !host.is_local() {
        for request in connect::parameters(arguments, &id)? {
            host.request(&request).map_err(|error| error.context("--set"))?;
        }
    }
    let set = schema.map(|schema| Request::Schema { agent: id.clone(), schema: schema.value.clone() });
    let has_schema = set.map(|request| host.request(&request)).transpose()? == Some(Value::Bool(true));
    let text_of = |name: &str| agent[name].as_str().unwrap_or_default().to_owned();
    let (model, directory, policy) = (text_of("model"), text_of("directory"), text_of("policy"));
    Ok(RunAgent { id, model, directory, policy, is_print_run: agent["print_run"] == true, approval, has_schema })
}

fn select(host: &mut Host, choice: &AgentChoice, new: NewAgent) -> Result<Value> {
    let request = match choice {
        AgentChoice::New => Request::create(new),
        // If no text was ever sent from this directory, a new one.
        AgentChoice::Last => Request::Open { agent: None, last_in: new.directory.clone(), new: Some(Box::new(new)) },
        AgentChoice::Named(name) => Request::show(name),
        AgentChoice::Unnamed => return Err(no_name()),
    };
    host.request(&request)
}

fn check_options(arguments: &Arguments) -> Result<()> {
    let options = [
        (!(arguments.allow.is_empty() && arguments.deny.is_empty()), "--allow and --deny hold"),
        (arguments.schema.is_some(), "--schema holds"),
        (arguments.append_system_prompt.is_some(), "--append-system-prompt holds"),
    ];
    match options.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, options)) => Err(Error::usage(format!(
            "{options} for a new agent of the running server: leave out --continue and --resume, or stop the server \
             (polylogue stop)"
        ))),
        None => Ok(()),
    }
}
