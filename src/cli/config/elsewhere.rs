//! The files of a project on another machine that need trust: its instructions and its skills.

use super::environment::ProcessEnvironment;
use super::trust::Contents;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::config::Config;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::remote_place::RemotePlace;
use crate::team::Environments;
use crate::tools::Job;
use crate::tools::remote::{Remote, reach};

/// Connects to the machine and reads them.
pub fn contents(text: &str, env: &ProcessEnvironment) -> Result<Contents> {
    let spec: EnvironmentSpec = text.parse()?;
    let Some(place @ RemotePlace::Ssh { .. }) = spec.remote.clone() else {
        let message = "the files of a container are those of the directory: trust them there";
        return Err(Error::usage(message));
    };
    let environments =
        Environments::new(&Config { working_directory: env.directory.clone(), ..Config::default() }, None);
    let connection = environments.connection(&place, &env.directory)?;
    let (directory, project) =
        reach(&place, &env.directory, &connection, &Job::new()?).map_err(|why| Error::new(ErrorKind::System, why))?;
    let remote = Remote::new(place.with_directory(&directory), &env.directory, connection);
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
