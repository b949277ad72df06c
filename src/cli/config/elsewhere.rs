//! What a project on another machine brings, to be trusted: its instructions and its skills.

use std::sync::{Arc, mpsc};

use super::environment::ProcessEnvironment;
use super::trust::Contents;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::config::Config;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::remote_place::RemotePlace;
use crate::team::{Environments, Reaching};
use crate::tools::remote::Remote;

/// Connects to the place and reads what is there.
///
/// # Errors
/// It cannot be reached, or its files cannot be read.
pub fn contents(text: &str, env: &ProcessEnvironment) -> Result<Contents> {
    let spec: EnvironmentSpec = text.parse()?;
    let Some(place @ RemotePlace::Ssh { .. }) = spec.remote.clone() else {
        let message = "the files of a container are those of the directory: trust them there";
        return Err(Error::usage(message));
    };
    let environments =
        Environments::new(&Config { working_directory: env.directory.clone(), ..Config::default() }, None);
    let (sender, done) = mpsc::channel();
    let wake = Arc::new(move || {
        let _ = sender.send(());
    });
    let Reaching { running, connection, project } = environments.reach(&spec, &env.directory, wake)?;
    // It says so when it is complete.
    while !running.is_complete() && done.recv().is_ok() {}
    let result = running.collect();
    if result.is_error {
        return Err(Error::new(ErrorKind::System, result.content));
    }
    let remote = Remote::new(place.with_directory(&result.content), &env.directory, connection);
    let project = project.try_recv().unwrap_or_default();
    if let Some(problem) = project.problem {
        return Err(Error::new(ErrorKind::System, format!("{text}: {problem}")));
    }
    let skills = project.skill_files(&remote).into_iter().map(|(path, text)| (path, Ok(text))).collect();
    Ok(Contents {
        project: None,
        mcp: None,
        instructions: project.instructions,
        skills,
        claude: None,
        commands: Vec::new(),
        scripts: Vec::new(),
    })
}
