//! How agents come to be: from their row in the store, or by a fork. Both give the same agent.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::agent::{Agent, Identity, Talk};
use crate::domain::config::Config;
use crate::domain::endpoint::Endpoint;
use crate::domain::history::History;
use crate::store::AgentRow;
use crate::tools::Environment;

/// What all agents are born with.
pub struct Nursery {
    endpoint: Rc<Endpoint>,
    system: Rc<str>,
    environment: Arc<Environment>,
}

impl Nursery {
    /// What the configuration says.
    pub fn new(config: &Config) -> Self {
        let output_directory =
            config.data_directory.as_ref().map_or_else(std::env::temp_dir, |directory| directory.join("outputs"));
        Self {
            endpoint: Rc::new(config.endpoint.clone()),
            system: system_prompt(&config.working_directory).into(),
            environment: Arc::new(Environment {
                working_directory: config.working_directory.clone(),
                output_directory,
                supervisor: config.supervisor.clone(),
                bash_timeout: config.settings.bash_timeout,
                output_cap: config.settings.output_cap,
            }),
        }
    }

    /// An agent that the store knows; its conversation is read when it is first needed.
    pub fn from_row(&self, row: &AgentRow) -> Agent {
        let talk = Talk {
            endpoint: self.endpoint.clone(),
            system: self.system.clone(),
            environment: self.environment.clone(),
            history: None,
        };
        Agent::new(identity_of(row), talk)
    }

    /// A child that was just entered into the store: everything it inherits is shared.
    pub fn fork(parent: &mut Agent, row: &AgentRow) -> Agent {
        let talk = Talk {
            endpoint: parent.talk.endpoint.clone(),
            system: parent.talk.system.clone(),
            environment: parent.talk.environment.clone(),
            history: parent.talk.history.as_mut().map(History::fork),
        };
        Agent::new(identity_of(row), talk)
    }
}

/// Who a row of the store is.
pub fn identity_of(row: &AgentRow) -> Identity {
    Identity {
        id: row.id,
        ordinal: row.ordinal,
        name: row.name.clone(),
        parent: row.parent,
        fork_point: row.fork_point,
        created_at: row.created_at,
    }
}

fn system_prompt(working_directory: &Path) -> String {
    format!(
        "You are a helpful assistant in a terminal. Answer in plain, concise language. \
         You can read and write files and run commands through your tools; writes and commands are shown to the \
         person first, who may refuse. The working directory is {}.",
        working_directory.display()
    )
}
