//! A corpus of repositories in which 2 to 10 agents change the same and different files: every conflict that git has is
//! announced and no other, and a queue of landings leaves a branch that passes its check and loses nothing.
//!
//! The suite tries some of the repositories; `make faults` tries all.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::worktrees::{git, is_there};
use crate::support::internals::tools::conflicts::{Other, Survey};
use crate::support::internals::tools::{Environment, Job, landing, worktree};
use crate::support::internals::{LandMethod, LandRequest, WorktreeExtras};
use crate::support::program::PROGRAM;

const REPOSITORIES: u64 = 60;
/// The distance between those that the suite tries: by chance each has only three agents.
const USUAL_STRIDE: usize = 20;
const TEXTS: u64 = 6;
/// Fails where somebody has written `BAD`.
const CHECK: &str = "! grep -rq BAD --include='*.txt' .";

/// Numbers that look random and are the same in each run (a linear congruential generator, Knuth's MMIX).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct Scene {
    _top: tempfile::TempDir,
    repo: PathBuf,
    roots: Vec<PathBuf>,
    env: Environment,
    job: Job,
}

impl Scene {
    fn new(dice: &mut Dice) -> Self {
        let top = tempfile::TempDir::new().expect("a directory");
        let repo = fs::canonicalize(top.path()).expect("a directory").join("repo");
        fs::create_dir_all(repo.join("sub")).expect("a directory");
        git(&repo, &["init", "-q", "-b", "main"]);
        git(&repo, &["config", "user.name", "test"]);
        git(&repo, &["config", "user.email", "test@localhost"]);
        for n in 0..TEXTS {
            let lines: String = (0..20).map(|line| format!("{n} line {line}\n")).collect();
            fs::write(repo.join(text(n)), lines).expect("a file");
        }
        fs::write(repo.join("image.bin"), [0, 1, 2, 255, 254, 0]).expect("a file");
        git(&repo, &["add", "."]);
        // A submodule, as git sees one that is not checked out.
        let module = "160000,0123456789012345678901234567890123456789,module";
        git(&repo, &["update-index", "--add", "--cacheinfo", module]);
        fs::create_dir(repo.join("module")).expect("a directory");
        git(&repo, &["commit", "-q", "-m", "first"]);
        let env = Environment { supervisor: PROGRAM.into(), ..Environment::at(repo.clone()) };
        let job = Job::new().expect("a job");
        let roots =
            (0..2 + dice.roll(9)).map(|n| repo.with_file_name("worktrees").join(format!("repo@a{n}"))).collect();
        let scene = Self { _top: top, repo, roots, env, job };
        for root in &scene.roots {
            worktree::add(&scene.repo, root, &WorktreeExtras::default(), &scene.env, &scene.job).expect("a worktree");
        }
        scene
    }

    /// The pairs that the survey announces, and those with the branch.
    fn announced(&self, survey: &Survey) -> BTreeSet<(usize, Option<usize>)> {
        let place = |root: &PathBuf| self.roots.iter().position(|known| known == root).expect("a worktree");
        let pair = |root, other: &Other| match other {
            Other::Branch(_) => (place(root), None),
            Other::Worktree(other) => (place(root).min(place(other)), Some(place(root).max(place(other)))),
        };
        survey.conflicts().iter().map(|found| pair(&found.root, &found.other)).collect()
    }

    /// The pairs that conflict when git merges them.
    fn real(&self) -> BTreeSet<(usize, Option<usize>)> {
        let scratch = self.repo.with_file_name("scratch");
        git(&self.repo, &["worktree", "add", "-q", "--detach", &scratch.to_string_lossy()]);
        let tips: Vec<String> = self.roots.iter().map(|root| snapshot(root)).collect();
        let conflicts = |one: &str, other: &str| {
            git(&scratch, &["checkout", "-q", "--force", "--detach", one]);
            let mut merge = Command::new("git");
            merge.args(["merge", "-q", "--no-ff", "--no-edit", other]).current_dir(&scratch);
            let fails = !merge.output().expect("git runs").status.success();
            git(&scratch, &["reset", "-q", "--hard"]);
            fails
        };
        let mut found = BTreeSet::new();
        for (at, one) in tips.iter().enumerate() {
            if conflicts("main", one) {
                found.insert((at, None));
            }
            let others = tips.iter().enumerate().skip(at + 1);
            found.extend(others.filter(|(_, other)| conflicts(one, other)).map(|(to, _)| (at, Some(to))));
        }
        git(&self.repo, &["worktree", "remove", "--force", &scratch.to_string_lossy()]);
        found
    }
}

fn text(n: u64) -> String {
    if n < 3 { format!("{n}.txt") } else { format!("sub/{n}.txt") }
}

/// A commit of all that is in a worktree, which stays as it is.
fn snapshot(root: &Path) -> String {
    let index = root.with_extension("index");
    let run = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).env("GIT_INDEX_FILE", &index).output();
        String::from_utf8_lossy(&output.expect("git runs").stdout).trim().to_owned()
    };
    run(&["read-tree", "HEAD"]);
    run(&["add", "--all"]);
    let tree = run(&["write-tree"]);
    let commit = run(&["commit-tree", &tree, "-p", "HEAD", "-m", "snapshot"]);
    fs::remove_file(&index).expect("an index");
    commit
}

/// What an agent does once.
fn change(root: &Path, dice: &mut Dice, by: usize) {
    use std::os::unix::fs::PermissionsExt as _;
    let name = text(dice.roll(TEXTS));
    let path = root.join(&name);
    match dice.roll(10) {
        0 => drop(fs::remove_file(&path)),
        1 => drop(fs::rename(&path, root.join(format!("{name}.{by}.txt")))),
        2 => fs::write(root.join("image.bin"), [0, u8::try_from(by).expect("few"), 255]).expect("a file"),
        3 if path.exists() => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a file"),
        4 => fs::write(root.join(format!("new{}.txt", dice.roll(4))), format!("of {by}\n")).expect("a file"),
        5 if dice.roll(4) == 0 => fs::write(root.join(format!("bad{by}.txt")), "BAD\n").expect("a file"),
        6 => {
            git(root, &["add", "--all"]);
            git(root, &["commit", "-q", "--allow-empty", "-m", &format!("of {by}")]);
        }
        _ => {
            let Ok(content) = fs::read_to_string(&path) else { return };
            let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
            let at = usize::try_from(dice.roll(20)).expect("small").min(lines.len() - 1);
            lines[at] = format!("{at} by {by} {}", dice.roll(100));
            fs::write(&path, lines.join("\n") + "\n").expect("a file");
        }
    }
}

fn try_repository(seed: u64) {
    let mut dice = Dice(seed);
    let scene = Scene::new(&mut dice);
    let all: BTreeSet<PathBuf> = scene.roots.iter().cloned().collect();
    let mut survey = Survey::new(scene.roots[0].parent().expect("a directory"));
    for _ in 0..scene.roots.len() * 4 {
        let by = usize::try_from(dice.roll(scene.roots.len() as u64)).expect("few");
        change(&scene.roots[by], &mut dice, by);
        let changed = BTreeSet::from([scene.roots[by].clone()]);
        survey = survey.update(&all, &changed, &scene.env, &scene.job).expect("git runs");
    }
    assert_eq!(scene.announced(&survey), scene.real(), "repository {seed}");

    for root in &scene.roots {
        let before = git(&scene.repo, &["rev-parse", "main"]);
        let request = LandRequest {
            method: LandMethod::Rebase,
            commit: Some("the rest".into()),
            check: ["sh", "-c", CHECK].map(str::to_owned).to_vec(),
            ..LandRequest::default()
        };
        let landed = landing::land(root, &request, &scene.env, &scene.job);
        let branch = worktree::branch_of(root);
        let is_left = landed.as_ref().is_err_and(|left| !left.is_up_to_date);
        assert_eq!(git(&scene.repo, &["rev-parse", "main"]) == before, landed.is_err(), "{seed} {landed:?}");
        assert_eq!(git(root, &["status", "--porcelain"]), "", "{seed}: what was not committed is {landed:?}");
        let missing = git(&scene.repo, &["rev-list", "--count", &format!("main..{branch}")]);
        assert_eq!(missing != "0", is_left, "{seed} {branch}: it has all of its commits, or main has {landed:?}");
        let check = Command::new("sh").args(["-c", CHECK]).current_dir(&scene.repo).status().expect("sh runs");
        assert!(check.success(), "{seed}: main passes");
        assert_eq!(git(&scene.repo, &["status", "--porcelain"]), "", "{seed}");
    }
    git(&scene.repo, &["fsck", "--connectivity-only"]);
}

#[test]
fn every_conflict_is_announced_and_no_other_and_what_lands_passes() {
    if !is_there() {
        return;
    }
    for seed in (2..REPOSITORIES + 2).step_by(crate::support::size::stride(USUAL_STRIDE)) {
        try_repository(seed);
    }
}
