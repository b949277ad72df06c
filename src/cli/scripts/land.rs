//! `land`: merges the worktree of an agent, through the server or, without one, directly.

use std::path::Path;

use super::stored::open;
use crate::base::error::{Error, Result};
use crate::cli::arguments::{Arguments, Land};
use crate::cli::client::Client;
use crate::cli::config::{self, ProcessEnvironment};
use crate::cli::process;
use crate::cli::stdio::print_line;
use crate::commands::any_stored;
use crate::domain::config::Config;
use crate::domain::file_change::LandRequest;
use crate::domain::wire::Request;
use crate::team::Environments;
use crate::tools::{Job, landing};

/// Prints what was done.
pub fn run(options: &Land, arguments: &Arguments, directory: &Path) -> Result<()> {
    let Land { agent, rebase: is_rebase, commit, verify: verifies } = options.clone();
    if let Some(mut client) = Client::connect(directory)? {
        client.wait_forever()?;
        let response = client.request(&Request::Land { agent, is_rebase, commit, verifies })?;
        print_line(response["text"].as_str().unwrap_or_default());
        return Ok(());
    }
    let store = open(directory)?;
    let id = any_stored(&store, &agent)?;
    let row = store.agent(id)?.ok_or_else(|| Error::usage(format!("no agent {agent:?}")))?;
    if row.was_busy {
        return Err(Error::usage(format!("{} was interrupted in a turn: continue it in a chat first", row.label())));
    }
    process::prepare();
    let env = ProcessEnvironment::current()?;
    let config = config::load(arguments, &env).unattended().into_config()?;
    let config = Config { supervisor: process::own_binary()?, data_directory: Some(directory.to_owned()), ..config };
    let mut environments = Environments::new(&config, None);
    let root = row.directory.as_ref().and_then(|path| environments.worktree_around(Path::new(path)));
    let root = root.filter(|root| root.exists());
    let root =
        root.ok_or_else(|| Error::usage(format!("{} does not work in a git worktree of its own", row.label())))?;
    let request = LandRequest { is_rebase, commit, verifies };
    let landed = landing::land(&root, &request, &environments.usual().environment, &Job::new()?);
    print_line(&landed.map_err(Error::usage)?);
    Ok(())
}
