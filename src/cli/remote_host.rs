//! `polylogue --host ssh://HOST`: runs the same command line with the polylogue of another machine, over the system's
//! ssh. Only ssh crosses the network: standard input and output of that program, or its terminal.
//!
//! The words of the command line are quoted for a POSIX shell, which sshd starts with them. Several commands share one
//! connection, whose socket is in a directory that only the user can enter.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind as IoKind;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, kill_process, pidfd_open};

use super::arguments::{self, Arguments, McpCommand};
use super::config::{ProcessEnvironment, mcp};
use super::stdio::print_note;
use super::{code, waiting};
use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::reactor::Signals;

const VARIABLE: &str = "POLYLOGUE_HOST";
/// How long a connection without a command stays open, in seconds.
const PERSIST: &str = "60";
/// The longest directory for the sockets of connections: ssh adds 58 bytes, and 107 are allowed (unix(7)).
const LONGEST_DIRECTORY: usize = 49;
/// The exit code of ssh if it fails itself, and that of a shell which does not find a program.
const SSH_FAILED: i32 = 255;
const NOT_FOUND: i32 = 127;

/// Another machine, as ssh reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SshHost {
    /// `HOST` or `USER@HOST`.
    destination: String,
    port: Option<u16>,
}

impl FromStr for SshHost {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |why: &str| Error::usage(format!("--host {text:?}: {why}: expected ssh://[USER@]HOST[:PORT]"));
        let rest = text.strip_prefix("ssh://").ok_or_else(|| refused("unknown form"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, address) = rest.rsplit_once('@').map_or((None, rest), |(user, address)| (Some(user), address));
        let (host, port) = match address.strip_prefix('[').and_then(|address| address.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(|| refused("bad address"))?)),
            None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(|| refused("bad port")));
        // ssh would take a word that begins with a hyphen for an option, and it replaces % in some of its settings.
        let is_fine = |word: &str| {
            let is_fine = |c: char| c.is_ascii_alphanumeric() || "._-:+~".contains(c);
            !word.is_empty() && !word.starts_with('-') && word.chars().all(is_fine)
        };
        if !is_fine(host) || user.is_some_and(|user| !is_fine(user)) {
            return Err(refused("bad name of a host or user"));
        }
        let destination = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        Ok(Self { destination, port: port.transpose()? })
    }
}

/// Runs the command line on the host that it or the environment names, if one is named. Returns the exit code.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<Option<u8>> {
    use arguments::Command::{Completions, Help, Man};
    if matches!(arguments.command, Some(Help { .. } | Man | Completions { .. })) {
        return Ok(None);
    }
    let Some(named) = arguments.host.clone().or_else(|| env.text(VARIABLE)).filter(|host| !host.is_empty()) else {
        return Ok(None);
    };
    let host: SshHost = named.parse()?;
    require_remote_files(arguments, &host)?;
    let words = without_host(std::env::args_os().skip(1));
    let (has_terminal, reads_input) = (has_terminal(arguments), reads_input(arguments, &words));
    let mut ssh = command(&host, has_terminal, &words, sockets(env).as_deref());
    if !reads_input {
        ssh.stdin(Stdio::null());
    }
    let child = ssh.spawn().map_err(|error| {
        let message = match error.kind() {
            IoKind::NotFound => "there is no ssh program in PATH: install OpenSSH's client (openssh-client)".into(),
            _ => format!("cannot start ssh: {}", system_message(&error)),
        };
        Error::new(ErrorKind::System, message)
    })?;
    wait(child, &host).map(Some)
}

/// ssh with the remote command as its last argument.
fn command(host: &SshHost, has_terminal: bool, words: &[OsString], sockets: Option<&Path>) -> Command {
    let mut command = Command::new("ssh");
    command.arg(if has_terminal { "-t" } else { "-T" });
    if let Some(sockets) = sockets {
        let mut path = OsString::from("ControlPath=");
        path.push(sockets.join("%C"));
        command.args(["-o", "ControlMaster=auto", "-o", &format!("ControlPersist={PERSIST}"), "-o"]).arg(path);
    }
    if let Some(port) = host.port {
        command.args(["-p", &port.to_string()]);
    }
    let mut remote = b"polylogue".to_vec();
    for word in words {
        remote.push(b' ');
        remote.extend(quote_word(word));
    }
    command.args([&host.destination, "--"]).arg(OsString::from_vec(remote));
    command
}

/// A word for a POSIX shell.
fn quote_word(word: &OsStr) -> Vec<u8> {
    let bytes = word.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return bytes.to_vec();
    }
    let mut quoted = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// The words of the command line without the host.
fn without_host(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut is_value, mut is_text) = (Vec::new(), false, false);
    for word in words {
        if std::mem::take(&mut is_value) {
            continue;
        }
        is_text |= word == "--";
        if !is_text && word == "--host" {
            is_value = true;
        } else if is_text || !word.as_bytes().starts_with(b"--host=") {
            kept.push(word);
        }
    }
    kept
}

/// Whether the remote program needs a terminal, and this one has it to give.
fn has_terminal(arguments: &Arguments) -> bool {
    use arguments::Command::{Attach, Config, Mcp};
    let needs = match &arguments.command {
        None => !arguments.print,
        // The address that the browser ends at is pasted.
        Some(Attach { .. } | Config(_) | Mcp(McpCommand::Login(_))) => true,
        Some(_) => false,
    };
    needs && rustix::termios::isatty(std::io::stdin()) && rustix::termios::isatty(std::io::stdout())
}

/// Whether standard input is passed on. Typed text is only where it is asked for: the remote program has no terminal and
/// would wait for its end.
fn reads_input(arguments: &Arguments, words: &[OsString]) -> bool {
    has_terminal(arguments) || !rustix::termios::isatty(std::io::stdin()) || words.iter().any(|word| word == "-")
}

/// Refuses file names that refer to this machine.
fn require_remote_files(arguments: &Arguments, host: &SshHost) -> Result<()> {
    let attached = arguments.attach.iter().map(|file| ("--attach", file));
    let named = arguments.mcp_config.iter().filter(|value| !mcp::is_text(value));
    let named: Vec<PathBuf> = named.map(PathBuf::from).collect();
    let schema = arguments.schema.iter().map(|file| ("--schema", file));
    let trajectory = arguments.trajectory.iter().map(|file| ("--trajectory", file));
    let mut files = attached.chain(schema).chain(trajectory).chain(named.iter().map(|file| ("--mcp-config", file)));
    match files.find(|(_, file)| file.is_relative()) {
        Some((option, file)) => {
            let (file, destination) = (file.display(), &host.destination);
            let port = host.port.map(|port| format!("-P {port} ")).unwrap_or_default();
            Err(Error::usage(format!(
                "{option} {file}: with --host, files are read on the other machine: copy it there (scp {port}{file} \
                 {destination}:/tmp/) and name it with its absolute path there"
            )))
        }
        None => Ok(()),
    }
}

/// A directory for the sockets of connections, which only the user can enter. Without one, each command connects again.
fn sockets(env: &ProcessEnvironment) -> Option<PathBuf> {
    let runtime = env.set("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let named = runtime.map(|directory| directory.join("polylogue"));
    let temporary = std::env::temp_dir().join(format!("polylogue-{}", geteuid().as_raw()));
    named.into_iter().chain([temporary]).find(|directory| is_private(directory))
}

/// Creates a directory if it is missing. Returns whether only this account can enter it.
fn is_private(directory: &Path) -> bool {
    // If this fails because the directory exists, the checks below apply to it too.
    let _ = std::fs::DirBuilder::new().mode(0o700).create(directory);
    let is_ours = directory.symlink_metadata().is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.permissions().mode() & 0o077 == 0
    });
    is_ours && directory.as_os_str().len() <= LONGEST_DIRECTORY
}

/// Waits for ssh, to which signals are passed on. Returns its exit code, and says what to do if it failed itself.
fn wait(mut child: Child, host: &SshHost) -> Result<u8> {
    let mut signals = Signals::catch_to_pass_on()?;
    let id = Pid::from_child(&child);
    let exit = pidfd_open(id, PidfdFlags::empty()).map_err(std::io::Error::from)?;
    loop {
        let mut ready =
            [PollFd::new(&exit, PollFlags::IN), PollFd::from_borrowed_fd(signals.borrowed_fd(), PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
        let has_ended = !ready[0].revents().is_empty();
        for number in signals.take().into_iter().filter_map(waiting::number_of) {
            // It may have ended just now.
            let _ = kill_process(id, number);
        }
        if has_ended {
            break;
        }
    }
    let status = child.wait()?;
    if let Some(remedy) = status.code().and_then(|code| remedy(code, host)) {
        print_note(&remedy);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.or_else(|| status.signal().map(code::of_signal)).unwrap_or(code::FAILED))
}

/// What to do about an exit code that polylogue does not use.
fn remedy(exit_code: i32, host: &SshHost) -> Option<String> {
    let SshHost { destination, port } = host;
    let ssh = port.map_or_else(|| format!("ssh {destination}"), |port| format!("ssh -p {port} {destination}"));
    match exit_code {
        SSH_FAILED => Some(format!("lost or could not make the connection to {destination}; to see why: {ssh} true")),
        NOT_FOUND => Some(format!(
            "there is no polylogue on {destination} in the PATH of commands that ssh runs: install it there (make install \
             PREFIX=/usr/local), or add its directory to PATH in a file that such shells read; to see the PATH: {ssh} \
             'echo $PATH'"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_and_what_ssh_could_take_for_something_else_is_refused() {
        let host = |text: &str| text.parse::<SshHost>().map(|host| (host.destination, host.port));
        assert_eq!(host("ssh://box").unwrap(), ("box".into(), None));
        assert_eq!(host("ssh://me@box.example.org:2222/").unwrap(), ("me@box.example.org".into(), Some(2222)));
        assert_eq!(host("ssh://me@[::1]:22").unwrap(), ("me@::1".into(), Some(22)));
        for refused in [
            "box",
            "http://box",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://-x@box",
            "ssh://me@-x",
            "ssh://box:0",
            "ssh://box:99999",
            "ssh://box:",
            "ssh://a b",
            "ssh://box/path",
            "ssh://%h",
            "ssh://$(id)",
            "ssh://[::1]x",
        ] {
            let error = host(refused).expect_err(refused);
            assert!(error.message.contains("expected ssh://[USER@]HOST[:PORT]"), "{refused}: {error}");
        }
    }

    #[test]
    fn the_host_is_removed_and_the_rest_stays_as_it_was() {
        let without = |line: &str| without_host(line.split(' ').map(OsString::from)).join(OsStr::new(" "));
        assert_eq!(without("--host ssh://a ps --json"), "ps --json");
        assert_eq!(without("ps --host=ssh://a --json"), "ps --json");
        assert_eq!(without("-p --host ssh://a -- --host x"), "-p -- --host x");
    }

    #[test]
    fn a_word_reaches_the_program_through_a_shell_as_it_is() {
        let odd: [&[u8]; 6] = [b"", b"it's", b"$HOME `id` \"x\"", b"a\nb\\", b"\xff*?[", b"--a=b c"];
        for word in odd {
            let mut script = b"printf %s ".to_vec();
            script.extend(quote_word(OsStr::from_bytes(word)));
            let output = Command::new("sh").arg("-c").arg(OsString::from_vec(script)).output().expect("a shell");
            assert_eq!(output.stdout, word);
        }
    }
}
