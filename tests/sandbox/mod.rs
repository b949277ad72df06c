//! Attempts to get out of the sandbox, and ordinary work in it: at every level that this machine can do, as the user of
//! the test, and as an ordinary user where the test runs as root.
//!
//! An attempt is a line of shell. Each runs behind the real walls; what it is expected to do at a level is in a table,
//! the gaps of a level included. Places outside lie in cargo's directory for temporary files, because `/tmp` is private
//! in the sandbox.

mod bombs;
mod escapes;
mod fallback;
mod lasting;
mod links;
mod network;
mod obeyed;
mod proxy;
mod races;
mod registries;
mod servers;
mod syscalls;
mod together;
mod work;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use polylogue::config::{Network, SandboxSettings};
use tempfile::TempDir;

use crate::support::internals::sandbox::{Level, Places, Policy, Report, ResourceLimits, Watch};
use crate::support::internals::supervisor;
use crate::support::program::PROGRAM;

const WALLS: [Level; 3] = [Level::Namespaces, Level::SharedProc, Level::Landlock];

/// The ordinary user of tests that run as root: `nobody`.
const OTHER: u32 = 65534;

/// A home directory with secrets, a workspace and our data in it, and a directory outside.
struct Place {
    top: TempDir,
    user: Option<u32>,
    settings: SandboxSettings,
    limits: ResourceLimits,
    /// A script that runs before the program, in a mount namespace of its own, where it is root.
    before: Option<String>,
    /// Whether commands run as those in the background do.
    is_lasting: bool,
}

struct Response {
    out: String,
    code: Option<i32>,
    reports: Vec<Report>,
    /// What happened to protected files.
    changes: Vec<String>,
}

impl Place {
    fn new(user: Option<u32>) -> Self {
        let top = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let place = Self {
            top,
            user,
            settings: SandboxSettings::default(),
            limits: ResourceLimits::default(),
            before: None,
            is_lasting: false,
        };
        for directory in
            ["outside", "home/work", "home/.ssh", "home/.aws", "home/.cargo", "home/.local/share/polylogue"]
        {
            fs::create_dir_all(place.path(directory)).expect("a directory");
        }
        for file in SECRETS {
            fs::create_dir_all(place.path(file).parent().expect("a parent")).expect("a directory");
            fs::write(place.path(file), "SECRET\n").expect("a file");
        }
        for file in ["outside/file", "home/.bashrc", "home/.cargo/tool"] {
            fs::write(place.path(file), "before\n").expect("a file");
        }
        place.own();
        place
    }

    /// Gives all files to the user of the place.
    fn own(&self) {
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.top.path(), open).expect("permissions");
        let mut paths = vec![self.top.path().to_owned()];
        while let Some(path) = paths.pop() {
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                paths.extend(fs::read_dir(&path).expect("a directory").flatten().map(|entry| entry.path()));
            }
            if let Some(user) = self.user {
                std::os::unix::fs::lchown(&path, Some(user), Some(user)).expect("root may do this");
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().canonicalize().expect("a directory").join(name)
    }

    /// A command outside of the sandbox, as the user of the place.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path("home/work")).env("HOME", self.path("home")).stdin(Stdio::null());
        self.user.inspect(|user| {
            command.uid(*user).gid(*user);
        });
        command
    }

    /// Runs a shell script in the sandbox.
    fn run(&self, level: Level, script: &str) -> Response {
        self.run_in(&self.path("home/work"), level, script)
    }

    fn run_in(&self, workspace: &Path, level: Level, script: &str) -> Response {
        self.run_with(workspace, &self.path("home"), level, script)
    }

    /// Runs a script with the real home directory.
    fn run_at_home(&self, home: &Path, level: Level, script: &str) -> Response {
        self.run_with(&self.path("home/work"), home, level, script)
    }

    fn run_with(&self, workspace: &Path, home: &Path, level: Level, script: &str) -> Response {
        let settings =
            SandboxSettings { hidden: vec![self.path("home/.local/share/polylogue")], ..self.settings.clone() };
        let mut policy = Policy::new(settings);
        (policy.home, policy.limits) = (Some(home.to_owned()), self.limits);
        let places = Places { workspace, is_own_worktree: false, directory: workspace, more: &[], is_git: false };
        policy.account_home = Some(self.path("account"));
        let plan = policy.at_level(level).plan(&places).expect("a plan");
        let plan = if self.is_lasting { plan.lasting() } else { plan };
        let (control, theirs) = UnixStream::pair().expect("a socket");
        let mut command = match &self.before {
            None => self.command(PROGRAM),
            Some(script) => {
                let mut command = self.command("unshare");
                command.args(["-Urm", "bash", "--norc", "-c", &format!("{script}\nexec \"$@\""), "bash", PROGRAM]);
                command
            }
        };
        command.args([supervisor::FLAG, supervisor::SANDBOX, "--", "bash", "-c", script]).current_dir(workspace);
        command
            .env("HOME", home)
            .env("OUT", self.path("outside"))
            .env("PROBE_API_KEY", "SECRET")
            .env("SSH_AUTH_SOCK", "/agent");
        let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the supervisor starts");
        drop(command);
        let watch = Watch::start(&plan);
        plan.send(&control, None).expect("the supervisor reads");
        let output = crate::support::output_of(child);
        let changes = watch.map(|mut watch| watch.changes()).unwrap_or_default();
        let out = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Response { out, code: output.status.code(), reports: Report::receive(&control), changes }
    }

    /// The names of the attempts that succeed. Each is a name and a line of shell; `OUT` is the directory outside.
    fn allowed<'a>(&self, workspace: &Path, level: Level, attempts: &[(&'a str, &str)]) -> Vec<&'a str> {
        let lines: String = attempts
            .iter()
            .map(|(name, line)| format!("( {line} ) > /dev/null 2>&1 && echo '{name}: allowed'\n"))
            .collect();
        let variables = format!("OUT='{}'\n", self.path("outside").display());
        let response = self.run_in(workspace, level, &format!("{variables}{lines}echo done"));
        assert!(response.out.ends_with("done\n"), "{level:?}: {} {:?}", response.out, response.reports);
        let is_allowed = |name: &str| response.out.lines().any(|line| line == format!("{name}: allowed"));
        attempts.iter().map(|(name, _)| *name).filter(|name| is_allowed(name)).collect()
    }
}

const SECRETS: [&str; 18] = [
    "home/.ssh/id",
    "home/.aws/credentials",
    "home/.gnupg/key",
    "home/.kube/config",
    "home/.config/gh/hosts.yml",
    "home/.config/polylogue/config.toml",
    "home/.netrc",
    "home/.npmrc",
    "home/.cargo/credentials.toml",
    "home/.cache/huggingface/token",
    "home/.cache/git/credential/socket",
    "home/.cache/google-chrome-beta/Default/data",
    "home/.local/share/uv/credentials/credentials.toml",
    "home/.opam/plugins/opam-publish/me.token",
    "home/.dotnet/corefx/cryptography/x509stores/my/key.pfx",
    "home/.docker/config.json",
    "home/.bash_history",
    "home/.local/share/polylogue/polylogue.db",
];

/// Whether the other user can start the program and reach the directory of these tests.
fn other_user_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        if !rustix::process::geteuid().is_root() {
            return false;
        }
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        chown(directory.path(), Some(OTHER), Some(OTHER)).expect("root may do this");
        let mut command = Command::new(PROGRAM);
        command.arg("--version").current_dir("/").uid(OTHER).gid(OTHER).stdout(Stdio::null()).stderr(Stdio::null());
        let mut reach = Command::new("ls");
        reach.arg(directory.path()).uid(OTHER).gid(OTHER).stdout(Stdio::null()).stderr(Stdio::null());
        let runs = |mut command: Command| command.status().is_ok_and(|status| status.success());
        let works = runs(command) && runs(reach);
        if !works {
            eprintln!("another user cannot reach the build directory: nothing is tried as an ordinary user");
        }
        works
    })
}

fn users() -> Vec<Option<u32>> {
    [None].into_iter().chain(other_user_works().then_some(Some(OTHER))).collect()
}

/// The levels that can be built for this user.
fn levels(place: &Place) -> Vec<Level> {
    let works = |level: &Level| {
        let response = place.run(*level, "true");
        let is_unavailable = response.reports.iter().any(|report| matches!(report, Report::Unavailable(_)));
        if is_unavailable {
            eprintln!("{level:?} is not tried: {:?}", response.reports);
        }
        !is_unavailable
    };
    WALLS.into_iter().filter(works).collect()
}

/// Calls a test with every user and level.
fn everywhere(mut test: impl FnMut(&Place, Level)) {
    for user in users() {
        for level in levels(&Place::new(user)) {
            test(&Place::new(user), level);
        }
    }
}

#[test]
fn a_command_runs_with_its_output_and_exit_code() {
    everywhere(|place, level| {
        let response = place.run(level, "echo out; echo err >&2; pwd; exit 7");
        assert_eq!(response.code, Some(7), "{level:?}");
        let directory = place.path("home/work");
        assert_eq!(response.out, format!("out\n{}\nerr\n", directory.display()), "{level:?}");
        assert_eq!((response.reports, response.changes), (vec![], vec![]));
        assert_eq!(place.run(level, "kill -9 $$").code, Some(137), "{level:?}");
    });
}

#[test]
fn without_walls_a_command_reaches_what_the_walls_deny() {
    let place = Place::new(None);
    let attempts = escapes::FILES.iter().map(|(name, line, _)| (*name, *line)).collect::<Vec<_>>();
    let allowed = place.allowed(&place.path("home/work"), Level::None, &attempts);
    let all: Vec<&str> = attempts.iter().map(|(name, _)| *name).filter(|name| *name != "write to the system").collect();
    let tried: Vec<&str> = allowed.into_iter().filter(|name| *name != "write to the system").collect();
    assert_eq!(tried, all, "an attempt that fails anyway shows nothing");
}

#[test]
fn the_network_is_off_unless_it_is_granted() {
    assert_eq!(SandboxSettings::default().network, Network::Off);
}
