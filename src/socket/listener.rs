//! Where a server is reached: `DATA/server/socket`. The directory and the socket belong to us and to nobody else, and
//! none of the two is a symbolic link; both sides look at that before they say a word.
//!
//! A socket's path may have only 107 bytes (`unix(7)`, `sun_path`), and a path can be turned to another place between a
//! look and a use. So the directory is opened once, what was opened is looked at, and the socket is reached through it.

use std::ffi::CStr;
use std::io::ErrorKind as IoKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmodat, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::base::error::{Error, ErrorKind, Result};

/// The directory in the data directory.
const DIRECTORY: &str = "server";
/// The socket in it.
const SOCKET: &CStr = c"socket";

/// A server's socket. It is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    directory: OwnedFd,
    /// Which file the socket is: nothing else is removed at the end.
    file: (u64, u64),
}

impl Listener {
    /// Makes the socket of the server that holds this data directory. The caller holds the store's lock: a socket that is
    /// there already was left by a server that ended without a word, and is replaced.
    ///
    /// # Errors
    /// In words that name the way out, if the directory or the socket belongs to somebody else, can be reached by
    /// somebody else, or is something else than it should be.
    pub fn bind(data_directory: &Path) -> Result<Self> {
        let path = data_directory.join(DIRECTORY);
        match mkdirat(CWD, &path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(refusal(&path, error)),
        }
        let directory = open_directory(&path)?.ok_or_else(|| refusal(&path, Errno::NOENT))?;
        if socket_in(&directory, &path)?.is_some() {
            unlinkat(&directory, SOCKET, AtFlags::empty()).map_err(|error| refusal(&path, error))?;
        }
        let listener = UnixListener::bind(way_to_socket(&directory, &path))?;
        // Whoever would come in between would have to pass the directory.
        chmodat(&directory, SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())
            .map_err(|error| refusal(&path, error))?;
        listener.set_nonblocking(true)?;
        let file = socket_in(&directory, &path)?.ok_or_else(|| refusal(&path, Errno::NOENT))?;
        Ok(Self { listener, directory, file: (file.st_dev, file.st_ino) })
    }

    /// The next client, if one waits. Who is not the same user is let go without a word.
    ///
    /// # Errors
    /// When the kernel gives no descriptor; the client goes on waiting.
    pub fn accept(&self) -> Result<Option<UnixStream>> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if is_ours(&stream) => return Ok(Some(stream)),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), IoKind::Interrupted | IoKind::ConnectionAborted) => {}
                Err(error) if error.kind() == IoKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The descriptor to watch for reading.
    pub fn fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let is_here = statat(&self.directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW);
        if is_here.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file) {
            // One that cannot be removed is stale, and the next server replaces it.
            let _ = unlinkat(&self.directory, SOCKET, AtFlags::empty());
        }
    }
}

/// Connects to the server of this data directory; `None` if there is none.
///
/// # Errors
/// As for [`Listener::bind`]: nothing is ever said to a socket that could be a stranger's.
pub fn connect(data_directory: &Path) -> Result<Option<UnixStream>> {
    let path = data_directory.join(DIRECTORY);
    let Some(directory) = open_directory(&path)? else { return Ok(None) };
    if socket_in(&directory, &path)?.is_none() {
        return Ok(None);
    }
    match UnixStream::connect(way_to_socket(&directory, &path)) {
        Ok(stream) if is_ours(&stream) => Ok(Some(stream)),
        Ok(_) => Err(strange(&path.join("socket"), "another user answers there")),
        // The server has ended, with or without a word.
        Err(error) if matches!(error.kind(), IoKind::ConnectionRefused | IoKind::NotFound) => Ok(None),
        Err(error) => Err(Error::from(error).context(path.join("socket").display())),
    }
}

/// Whether at the other end is a process of the same user.
fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

/// The directory, opened and found to be ours alone; `None` if there is none.
fn open_directory(path: &Path) -> Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(None),
        // Linux says NOTDIR for a symbolic link too, when asked for a directory.
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(strange(path, "it is no directory or a symbolic link")),
        Err(error) => return Err(refusal(path, error)),
    };
    let stat = fstat(&directory).map_err(|error| refusal(path, error))?;
    check_owner(path, &stat)?;
    if stat.st_mode & 0o077 != 0 {
        let words = format!("{0}: others may enter it: `chmod 700 {0}` closes it", path.display());
        return Err(Error::new(ErrorKind::System, words));
    }
    Ok(Some(directory))
}

/// What is known of the socket, found to be one and ours; `None` if there is none.
fn socket_in(directory: &OwnedFd, path: &Path) -> Result<Option<Stat>> {
    let path = path.join("socket");
    let stat = match statat(directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(refusal(&path, error)),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(strange(&path, "it is no socket"));
    }
    check_owner(&path, &stat)?;
    Ok(Some(stat))
}

fn check_owner(path: &Path, stat: &Stat) -> Result<()> {
    if stat.st_uid == geteuid().as_raw() { Ok(()) } else { Err(strange(path, "it belongs to another user")) }
}

/// A path that leads through the opened directory. Where there is no `/proc`, the plain one has to do.
fn way_to_socket(directory: &OwnedFd, path: &Path) -> PathBuf {
    let through = PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()));
    if through.exists() { through.join("socket") } else { path.join("socket") }
}

fn strange(path: &Path, what: &str) -> Error {
    let words = format!("{}: {what}: look at it and remove it, or choose another --data-dir", path.display());
    Error::new(ErrorKind::System, words)
}

fn refusal(path: &Path, error: Errno) -> Error {
    Error::from(std::io::Error::from(error)).context(path.display())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Read as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn the_socket_and_its_directory_are_ours_alone_and_the_socket_goes_with_the_server() {
        let data = tempfile::tempdir().unwrap();
        assert!(connect(data.path()).unwrap().is_none(), "nobody serves");
        let listener = Listener::bind(data.path()).unwrap();
        let (directory, socket) = (data.path().join("server"), data.path().join("server/socket"));
        assert_eq!((mode(&directory), mode(&socket)), (0o700, 0o600));
        let mut client = connect(data.path()).unwrap().expect("a server");
        drop(listener.accept().unwrap().expect("a client"));
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the server has hung up");
        assert!(listener.accept().unwrap().is_none());
        drop(listener);
        assert!(!socket.exists());
        assert!(connect(data.path()).unwrap().is_none());
    }

    #[test]
    fn a_socket_that_a_dead_server_left_is_no_server_and_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let listener = Listener::bind(data.path()).unwrap();
        let socket = data.path().join("server/socket");
        let stale = data.path().join("stale");
        // Its process has died: nobody listens, and the file is still there.
        fs::hard_link(&socket, &stale).unwrap();
        drop(listener);
        fs::rename(&stale, &socket).unwrap();
        assert!(connect(data.path()).unwrap().is_none(), "nobody answers");
        let listener = Listener::bind(data.path()).unwrap();
        assert!(connect(data.path()).unwrap().is_some());
        drop(listener);
    }

    #[test]
    fn a_path_of_any_length_leads_to_the_socket() {
        let data = tempfile::tempdir().unwrap();
        let deep = data.path().join("x".repeat(200)).join("y".repeat(200));
        fs::create_dir_all(&deep).unwrap();
        let _listener = Listener::bind(&deep).unwrap();
        assert!(connect(&deep).unwrap().is_some());
    }

    /// Neither side goes on, and the words name the place and the way out.
    fn refused(data: &Path, words: &str) {
        for refused in [Listener::bind(data).map(drop), connect(data).map(drop)] {
            let message = refused.expect_err(words).message;
            assert!(message.contains(words) && message.contains("server"), "{message}");
        }
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused_with_the_command_that_closes_it() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("server");
        fs::create_dir(&directory).unwrap();
        for mode in [0o755, 0o710, 0o701, 0o777] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            refused(data.path(), "`chmod 700 ");
        }
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        Listener::bind(data.path()).unwrap();
    }

    #[test]
    fn a_symbolic_link_or_a_file_in_the_place_of_the_directory_is_refused() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = data.path().join("server");
        symlink(elsewhere.path(), &directory).unwrap();
        refused(data.path(), "no directory or a symbolic link");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing was made behind the link");
        fs::remove_file(&directory).unwrap();
        fs::write(&directory, "").unwrap();
        refused(data.path(), "no directory or a symbolic link");
    }

    #[test]
    fn what_is_no_socket_in_the_place_of_the_socket_is_refused_and_left_alone() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        drop(Listener::bind(data.path()).unwrap());
        let socket = data.path().join("server/socket");
        fs::write(&socket, "mine").unwrap();
        refused(data.path(), "it is no socket");
        assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
        fs::remove_file(&socket).unwrap();
        // Behind the link somebody listens who could be anybody.
        let other = Listener::bind(elsewhere.path()).unwrap();
        symlink(elsewhere.path().join("server/socket"), &socket).unwrap();
        refused(data.path(), "it is no socket");
        drop(other);
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let data = tempfile::tempdir().unwrap();
        drop(Listener::bind(data.path()).unwrap());
        let directory = data.path().join("server");
        // Only root can give something away, and not in every container: else there is nothing to be shown here.
        if chown(&directory, Some(12_345), None).is_err() {
            return;
        }
        refused(data.path(), "belongs to another user");
        chown(&directory, Some(0), None).unwrap();
        let listener = Listener::bind(data.path()).unwrap();
        chown(directory.join("socket"), Some(12_345), None).unwrap();
        refused(data.path(), "belongs to another user");
        drop(listener);
    }

    #[test]
    fn a_server_removes_only_its_own_socket() {
        let data = tempfile::tempdir().unwrap();
        let old = Listener::bind(data.path()).unwrap();
        let new = Listener::bind(data.path()).unwrap();
        drop(old);
        assert!(connect(data.path()).unwrap().is_some(), "the other one's is there");
        drop(new);
        assert!(connect(data.path()).unwrap().is_none());
    }
}
