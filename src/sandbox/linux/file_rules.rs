//! Landlock (landlock(7)): a second check besides the mounts, and the only one without namespaces.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use super::InitPlan;
use crate::sandbox::{Level, Plan};

/// The newest version that this table was written for.
const VERSION: ABI = ABI::V7;
/// From this version on, signals and abstract sockets cannot leave the sandbox.
const NEEDED: ABI = ABI::V6;

/// Devices that commands may write to where `/dev` is the system's. Not the shared memory, which other programs use too.
const DEVICES: [&str; 8] = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"];
/// Covered by the mounts, or full of sockets of other programs.
const CLOSED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// Restricts this process and its future children.
///
/// # Errors
/// What is missing, if the level needs it.
pub fn restrict(init: &InitPlan) -> Result<(), String> {
    let (read, write) = match init.plan.level {
        Level::Landlock => (readable(&init.plan), writable(init)),
        _ => (vec![PathBuf::from("/")], behind_mounts(&init.plan)),
    };
    let status = ruleset(&read, &write).and_then(RulesetCreated::restrict_self);
    let status = status.map_err(|error| format!("Landlock: {error}"))?;
    let is_new_enough =
        matches!(status.landlock, LandlockStatus::Available { effective_abi, .. } if effective_abi >= NEEDED);
    let is_enforced = status.ruleset != RulesetStatus::NotEnforced;
    match init.plan.level {
        // The mounts and the namespaces are enough without it.
        Level::Namespaces => Ok(()),
        _ if is_enforced && is_new_enough => Ok(()),
        _ if is_enforced => Err("Landlock: version 6 or later is needed".into()),
        _ => Err("Landlock: the kernel does not have it, or it is disabled".into()),
    }
}

fn ruleset(read: &[PathBuf], write: &[PathBuf]) -> Result<RulesetCreated, RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let ruleset = ruleset.handle_access(AccessFs::from_all(VERSION))?;
    let mut ruleset = ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)?.create()?;
    for (paths, access) in [(read, AccessFs::from_read(VERSION)), (write, AccessFs::from_all(VERSION))] {
        for path in paths {
            // A path that cannot be opened is not opened to the command either.
            let Ok(descriptor) = PathFd::new(path) else { continue };
            ruleset = ruleset.add_rule(PathBeneath::new(descriptor, fitting(path, access)))?;
        }
    }
    Ok(ruleset)
}

/// Only some rights are possible for files that are not directories.
fn fitting(path: &Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) }
}

/// Paths that their mounts make writable.
fn behind_mounts(plan: &Plan) -> Vec<PathBuf> {
    let more = ["/tmp", "/var/tmp", "/dev"].map(PathBuf::from);
    plan.writable.iter().chain(&plan.caches).chain(&plan.missing_caches).cloned().chain(more).collect()
}

fn writable(init: &InitPlan) -> Vec<PathBuf> {
    let devices = DEVICES.iter().map(|name| Path::new("/dev").join(name));
    let places = init.plan.writable.iter().flat_map(|path| without(path, &init.plan.denied));
    places.chain(devices).chain(init.temporary.clone()).collect()
}

fn readable(plan: &Plan) -> Vec<PathBuf> {
    let mut closed = plan.denied.clone();
    closed.extend(CLOSED.map(PathBuf::from));
    closed.extend(plan.homes().cloned());
    let opened = plan.readable.iter().chain(&plan.caches).flat_map(|path| without(path, &plan.denied));
    without(Path::new("/"), &closed).into_iter().chain(opened).collect()
}

/// The fewest paths that cover everything below `path` except `closed`.
fn without(path: &Path, closed: &[PathBuf]) -> Vec<PathBuf> {
    if closed.iter().any(|closed| path.starts_with(closed)) {
        return Vec::new();
    }
    if !closed.iter().any(|closed| closed.starts_with(path)) {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    // The target of a link is reached by its own path, if it is open.
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    entries.flat_map(|entry| without(&entry.path(), closed)).collect()
}
