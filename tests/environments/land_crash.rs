//! A landing whose process is killed before or after each program that it runs: the branch is as before or as after it, and
//! landing again brings all of the work there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::worktrees::{git, is_there};
use crate::support::internals::tools::{Environment, Job, landing, worktree};
use crate::support::internals::{LandMethod, LandRequest, WorktreeExtras};
use crate::support::program::PROGRAM;
use crate::support::pty::died_of;

/// In the environment of the process that is to die: the worktree that it lands, and how.
const ROOT: &str = "POLYLOGUE_TEST_LAND";
const METHOD: &str = "POLYLOGUE_TEST_LAND_METHOD";
/// The distance between the places that the suite tries, over all ways to land and to die.
const USUAL_STRIDE: usize = 59;
/// More programs than a landing runs.
const MOST_PROGRAMS: usize = 100;

#[derive(Debug, Clone, Copy)]
enum Death {
    Before,
    After,
}

/// A repository and a worktree with a commit and more that is not committed.
struct Scene {
    top: tempfile::TempDir,
    repo: PathBuf,
    root: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let top = tempfile::TempDir::new().expect("a directory");
        let repo = fs::canonicalize(top.path()).expect("a directory").join("repo");
        fs::create_dir(&repo).expect("a directory");
        git(&repo, &["init", "-q", "-b", "main"]);
        git(&repo, &["config", "user.name", "test"]);
        git(&repo, &["config", "user.email", "test@localhost"]);
        for name in ["kept", "changed", "deleted"] {
            fs::write(repo.join(name), format!("{name}\n")).expect("a file");
        }
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-q", "-m", "first"]);
        let root = repo.with_file_name("worktrees").join("repo@a");
        let scene = Self { top, repo, root };
        let environment = scene.environment(Path::new(PROGRAM));
        let job = Job::new().expect("a job");
        worktree::add(&scene.repo, &scene.root, &WorktreeExtras::default(), &environment, &job).expect("a worktree");
        fs::write(scene.root.join("new"), "new\n").expect("a file");
        git(&scene.root, &["add", "."]);
        git(&scene.root, &["commit", "-q", "-m", "of the agent"]);
        fs::write(scene.root.join("changed"), "changed by the agent\n").expect("a file");
        fs::remove_file(scene.root.join("deleted")).expect("a file");
        // The branch moves on meanwhile.
        fs::write(scene.repo.join("kept"), "changed by the person\n").expect("a file");
        git(&scene.repo, &["commit", "-q", "-a", "-m", "of the person"]);
        scene
    }

    fn environment(&self, supervisor: &Path) -> Environment {
        Environment { supervisor: supervisor.into(), ..Environment::at(self.repo.clone()) }
    }

    /// Stands in for the program that runs git in the sandbox, and kills the process that wants the `number`th one.
    fn killer(&self, number: usize, death: Death) -> PathBuf {
        let place = |name: &str| self.top.path().join(name);
        fs::write(place("count"), "0\n").expect("a file");
        fs::write(place("plan"), format!("{number} {death:?} {PROGRAM}\n")).expect("a file");
        // A link: a program that was just written cannot be started while another test starts one.
        symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/landing/killer"), place("killer"))
            .expect("a link");
        place("killer")
    }

    /// Lands in a copy of this binary, which may be killed. Whether it was.
    fn land_in_a_copy(&self, method: &str, supervisor: &Path) -> bool {
        let mut copy = Command::new(std::env::current_exe().expect("the path of this binary"));
        copy.args(["--exact", "environments::land_crash::land_until_killed", "--nocapture", "--test-threads=1"]);
        copy.env(ROOT, &self.root).env(METHOD, method).env("POLYLOGUE_TEST_SUPERVISOR", supervisor);
        let output = crate::support::output(&mut copy);
        let is_killed = died_of(output.status, Signal::KILL);
        assert!(is_killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        is_killed
    }

    /// What the next start does, and then the person.
    fn check(&self, method: LandMethod, what: &str) {
        let (environment, job) = (self.environment(Path::new(PROGRAM)), Job::new().expect("a job"));
        landing::recover(&self.root, &environment, &job).expect(what);
        assert_eq!(git(&self.repo, &["status", "--porcelain"]), "", "{what}");
        let is_landed = self.repo.join("new").exists();
        assert_eq!(self.has_work(), is_landed, "{what}: all of it or nothing");
        let again = landing::land(&self.root, &request(method), &environment, &job);
        assert_eq!(again.is_ok(), !is_landed, "{what}: {again:?}");
        assert!(self.has_work(), "{what}: {again:?}");
        assert_eq!(fs::read_to_string(self.repo.join("kept")).unwrap(), "changed by the person\n", "{what}");
        for directory in [&self.repo, &self.root] {
            assert_eq!(git(directory, &["status", "--porcelain"]), "", "{what}");
        }
        assert_eq!(git(&self.repo, &["worktree", "list"]).lines().count(), 2, "{what}: nothing else is left");
        git(&self.repo, &["fsck", "--connectivity-only"]);
    }

    /// Whether the person's directory has the work of the agent.
    fn has_work(&self) -> bool {
        let is_changed = fs::read_to_string(self.repo.join("changed")).unwrap() == "changed by the agent\n";
        is_changed && self.repo.join("new").exists() && !self.repo.join("deleted").exists()
    }
}

fn request(method: LandMethod) -> LandRequest {
    let check = ["sh", "-c", "! test -e deleted"].map(str::to_owned).to_vec();
    LandRequest { method, commit: Some("the rest".into()), check, ..LandRequest::default() }
}

fn method_called(name: &str) -> LandMethod {
    match name {
        "rebase" => LandMethod::Rebase,
        "squash" => LandMethod::Squash,
        _ => LandMethod::Merge,
    }
}

/// Not a test: the entry point of the copy of this binary.
#[test]
fn land_until_killed() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let (root, method) = (PathBuf::from(root), std::env::var(METHOD).expect("a method"));
    let supervisor = std::env::var_os("POLYLOGUE_TEST_SUPERVISOR").expect("a program");
    let environment = Environment { supervisor: supervisor.into(), ..Environment::at(root.clone()) };
    let job = Job::new().expect("a job");
    landing::land(&root, &request(method_called(&method)), &environment, &job).expect("it lands");
}

#[test]
fn a_landing_that_is_killed_anywhere_loses_nothing() {
    if !is_there() {
        return;
    }
    let (mut tried, mut skipped, stride) = (0, 0, crate::support::size::stride(USUAL_STRIDE));
    let of_method = |method| [Death::Before, Death::After].map(|death| (method, death));
    for (method, death) in ["rebase", "squash", "merge"].into_iter().flat_map(of_method) {
        skipped += 9;
        for number in (1 + skipped % stride..MOST_PROGRAMS).step_by(stride) {
            let scene = Scene::new();
            let killer = scene.killer(number, death);
            let is_killed = scene.land_in_a_copy(method, &killer);
            scene.check(method_called(method), &format!("{method}, killed {death:?} program {number}"));
            if !is_killed {
                break;
            }
            tried += 1;
        }
    }
    println!("killed at {tried} places");
    assert!(tried * stride > 150, "{tried}");
}
