//! The `skill` tool of environments that run elsewhere: the text of a skill is read there when it is used.

use std::path::Path;

use crate::base::digest::sha256;

use super::call::Request;
use super::fetch::Kind;
use super::place::LOOK_LIMIT;
use super::{Remote, remote_of, script};
use crate::domain::skill::Skill;
use crate::policy::paths::Access;
use crate::tools::skill::{self, CHANGED};
use crate::tools::{Environment, Job, Output, Prepared, Run, ToolSpec, visible};

pub const SPEC: ToolSpec = ToolSpec { run: Run::OnThread(run), ..skill::SPEC };

/// Bytes of the names of files.
const MAX_NAMES: usize = 64 << 10;

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let read = skill::called_skill(call, env).and_then(|known| {
        let remote = remote_of(env);
        read_again(remote, known, job).map_err(|problem| format!("skill {}: {problem}", known.name))?;
        Ok((known, files(remote, &known.directory, job)?))
    });
    match read {
        Ok((known, files)) => skill::output(known, &files, call, env),
        Err(message) => Output::failure(message),
    }
}

fn read_again(remote: &Remote, known: &Skill, job: &Job) -> Result<(), String> {
    let fetched = remote.fetch(&known.file(), Access::Read, job)?;
    match fetched.kind {
        Kind::File if sha256(&fetched.content) == known.digest => Ok(()),
        Kind::File => Err(CHANGED.into()),
        _ => Err("its file no longer exists".into()),
    }
}

/// The files of the folder besides `SKILL.md`, as relative paths.
fn files(remote: &Remote, folder: &Path, job: &Job) -> Result<Vec<String>, String> {
    let script = script::files_of_skill(folder);
    let found = remote.collect(&Request { script: &script, data: None, limit: LOOK_LIMIT }, MAX_NAMES, job)?;
    let text = String::from_utf8_lossy(&found.output).into_owned();
    let mut names: Vec<String> = text.lines().filter_map(|line| line.strip_prefix("./")).map(visible).collect();
    names.sort();
    Ok(names)
}
