//! Runs a command of the person, such as the tests, in a directory in which agents work: in the sandbox, for a model may have
//! written what it runs.

use std::path::Path;
use std::time::Duration;

use super::capture::Capture;
use super::command::{self, Ending, Program};
use super::file_access::reason;
use super::{Environment, Job, Outcome};

/// A longer run has failed.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// The bytes of the output that a model gets, and a person.
const MAX_OUTPUT: usize = 8 << 10;

/// How the command ended.
pub struct Checked {
    /// `None` if the command has succeeded.
    pub failure: Option<String>,
    pub output: String,
}

/// Runs the command in the directory of an environment, or in a worktree.
///
/// # Errors
/// It could not be run in a sandbox.
pub fn check(words: &[String], worktree: Option<&Path>, env: &Environment, job: &Job) -> Outcome<Checked> {
    if !env.is_sandboxed() {
        return Err("commands are not sandboxed here (polylogue doctor says why)".into());
    }
    let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut capture = Capture::new(MAX_OUTPUT, &env.output_directory);
    let directory = worktree.unwrap_or(&env.working_directory);
    let promised = if worktree.is_some() { env.sandbox.promise(directory) } else { env.promise() };
    let program = Program { promised, workspace: worktree, ..Program::new(&arguments, directory) };
    let outcome = command::run(&program, env, &mut capture, TIME_LIMIT, job).map_err(|error| reason(&error))?;
    let failure = match outcome.ending {
        Ending::Exited(Some(0)) => None,
        Ending::Exited(Some(code)) => Some(format!("exit code {code}")),
        Ending::Exited(None) => Some("it was killed".to_owned()),
        Ending::TimedOut => Some(format!("no end after {} s", TIME_LIMIT.as_secs())),
        Ending::Interrupted => return Err("interrupted".into()),
        Ending::NotStarted(why) | Ending::Weaker(why) | Ending::Lost(why) => return Err(why),
    };
    Ok(Checked { failure, output: capture.finish().trim_end().to_owned() })
}

/// The command in a text: of a script only the script.
pub fn name_of(words: &[String]) -> String {
    match words {
        [shell, option, script] if shell == "sh" && option == "-c" => script.clone(),
        words => words.join(" "),
    }
}
