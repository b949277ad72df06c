//! The socket of a server, `DATA/server/socket`. Server and clients check, before anything is sent, that directory and
//! socket belong to the user, that no other user may enter the directory, and that neither is a symbolic link.
//!
//! The path of a socket may have only 107 bytes (`unix(7)`, `sun_path`), and a path may lead elsewhere between check and
//! use. So the directory is opened once, the open descriptor is checked, and the socket is reached through it.

use std::ffi::CStr;
use std::io::ErrorKind as IoKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmodat, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::peer::{Peer, peer_of};
use crate::base::error::{Error, ErrorKind, Result};

const DIRECTORY: &str = "server";
const SOCKET: &CStr = c"socket";

/// The listening socket of a server. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    directory: OwnedFd,
    /// Device and inode of the socket: no other file is removed.
    file: (u64, u64),
}

impl Listener {
    /// Creates the socket. The caller holds the lock of the store, so an existing socket is left over from a server
    /// that crashed, and is replaced.
    ///
    /// # Errors
    /// The directory or the socket belongs to another user, can be entered by others, or is of another type.
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
        let listener = UnixListener::bind(socket_path(&directory, &path))?;
        // Until then the directory keeps others out.
        chmodat(&directory, SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())
            .map_err(|error| refusal(&path, error))?;
        listener.set_nonblocking(true)?;
        let file = socket_in(&directory, &path)?.ok_or_else(|| refusal(&path, Errno::NOENT))?;
        Ok(Self { listener, directory, file: (file.st_dev, file.st_ino) })
    }

    /// The next client, if one waits, and whether it may make requests. Connections of other users are closed. A client is
    /// taken only if there are descriptors to look at its process as well; otherwise this fails, and it continues to wait.
    pub(crate) fn accept(&self) -> Result<Option<(UnixStream, bool)>> {
        loop {
            let mut waiting = [PollFd::new(&self.listener, PollFlags::IN)];
            if poll(&mut waiting, Some(&Timespec::default())) == Ok(0) {
                return Ok(None);
            }
            let for_peer = [self.listener.try_clone()?, self.listener.try_clone()?];
            let accepted = self.listener.accept();
            drop(for_peer);
            match accepted {
                Ok((stream, _)) => match peer_of(&stream) {
                    Peer::OtherUser => {}
                    peer => return Ok(Some((stream, peer == Peer::Person))),
                },
                Err(error) if matches!(error.kind(), IoKind::Interrupted | IoKind::ConnectionAborted) => {}
                Err(error) if error.kind() == IoKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let current = statat(&self.directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW);
        if current.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file) {
            // If this fails, the next server replaces the socket.
            let _ = unlinkat(&self.directory, SOCKET, AtFlags::empty());
        }
    }
}

/// Connects to the server of this data directory; `None` if there is none.
pub fn connect(data_directory: &Path) -> Result<Option<UnixStream>> {
    let path = data_directory.join(DIRECTORY);
    let Some(directory) = open_directory(&path)? else { return Ok(None) };
    if socket_in(&directory, &path)?.is_none() {
        return Ok(None);
    }
    match UnixStream::connect(socket_path(&directory, &path)) {
        Ok(stream) if is_ours(&stream) => Ok(Some(stream)),
        Ok(_) => Err(unsafe_path(&path.join("socket"), "another user is listening there")),
        Err(error) if matches!(error.kind(), IoKind::ConnectionRefused | IoKind::NotFound) => Ok(None),
        Err(error) => Err(Error::from(error).context(path.join("socket").display())),
    }
}

/// Whether the peer is a process of the same user.
fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

/// Opens and checks the directory; `None` if there is none.
fn open_directory(path: &Path) -> Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(None),
        // With O_DIRECTORY, Linux gives NOTDIR for a symbolic link too.
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(unsafe_path(path, "not a directory, or a symbolic link")),
        Err(error) => return Err(refusal(path, error)),
    };
    let stat = fstat(&directory).map_err(|error| refusal(path, error))?;
    check_owner(path, &stat)?;
    if stat.st_mode & 0o077 != 0 {
        let message = format!("{0} is accessible to other users: run `chmod 700 {0}`", path.display());
        return Err(Error::new(ErrorKind::System, message));
    }
    Ok(Some(directory))
}

/// Checks the socket; `None` if there is none.
fn socket_in(directory: &OwnedFd, path: &Path) -> Result<Option<Stat>> {
    let path = path.join("socket");
    let stat = match statat(directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(refusal(&path, error)),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(unsafe_path(&path, "not a socket"));
    }
    check_owner(&path, &stat)?;
    Ok(Some(stat))
}

fn check_owner(path: &Path, stat: &Stat) -> Result<()> {
    if stat.st_uid == geteuid().as_raw() { Ok(()) } else { Err(unsafe_path(path, "belongs to another user")) }
}

/// The path of the socket through the open directory; without `/proc` the plain path.
fn socket_path(directory: &OwnedFd, path: &Path) -> PathBuf {
    let through = PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()));
    if through.exists() { through.join("socket") } else { path.join("socket") }
}

fn unsafe_path(path: &Path, what: &str) -> Error {
    let message = format!("{}: {what}; remove it, or use another --data-dir", path.display());
    Error::new(ErrorKind::System, message)
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
        fs::symlink_metadata(path).expect("the file exists").mode() & 0o777
    }

    #[test]
    fn socket_and_directory_are_private_and_the_socket_is_removed_with_the_server() {
        let data = tempfile::tempdir().unwrap();
        assert!(connect(data.path()).unwrap().is_none(), "there is no server");
        let listener = Listener::bind(data.path()).unwrap();
        let (directory, socket) = (data.path().join("server"), data.path().join("server/socket"));
        assert_eq!((mode(&directory), mode(&socket)), (0o700, 0o600));
        let mut client = connect(data.path()).unwrap().expect("a server");
        drop(listener.accept().unwrap().expect("a client"));
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the server has closed the connection");
        assert!(listener.accept().unwrap().is_none());
        drop(listener);
        assert!(!socket.exists());
        assert!(connect(data.path()).unwrap().is_none());
    }

    #[test]
    fn a_stale_socket_is_no_server_and_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let listener = Listener::bind(data.path()).unwrap();
        let socket = data.path().join("server/socket");
        let stale = data.path().join("stale");
        // As after a crash: the file exists, and no process listens.
        fs::hard_link(&socket, &stale).unwrap();
        drop(listener);
        fs::rename(&stale, &socket).unwrap();
        assert!(connect(data.path()).unwrap().is_none(), "no process listens");
        let listener = Listener::bind(data.path()).unwrap();
        assert!(connect(data.path()).unwrap().is_some());
        drop(listener);
    }

    #[test]
    fn a_path_of_any_length_works() {
        let data = tempfile::tempdir().unwrap();
        let deep = data.path().join("x".repeat(200)).join("y".repeat(200));
        fs::create_dir_all(&deep).unwrap();
        let _listener = Listener::bind(&deep).unwrap();
        assert!(connect(&deep).unwrap().is_some());
    }

    /// Both sides refuse the directory, with this text in the message.
    fn refused(data: &Path, expected: &str) {
        for refused in [Listener::bind(data).map(drop), connect(data).map(drop)] {
            let message = refused.expect_err(expected).message;
            assert!(message.contains(expected) && message.contains("server"), "{message}");
        }
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused_with_the_command_to_run() {
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
    fn a_symbolic_link_or_a_file_instead_of_the_directory_is_refused() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = data.path().join("server");
        symlink(elsewhere.path(), &directory).unwrap();
        refused(data.path(), "not a directory, or a symbolic link");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing was created in the target of the link");
        fs::remove_file(&directory).unwrap();
        fs::write(&directory, "").unwrap();
        refused(data.path(), "not a directory, or a symbolic link");
    }

    #[test]
    fn a_file_or_link_instead_of_the_socket_is_refused_and_not_removed() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        drop(Listener::bind(data.path()).unwrap());
        let socket = data.path().join("server/socket");
        fs::write(&socket, "mine").unwrap();
        refused(data.path(), "not a socket");
        assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
        fs::remove_file(&socket).unwrap();
        // A process listens on the target of the link.
        let other = Listener::bind(elsewhere.path()).unwrap();
        symlink(elsewhere.path().join("server/socket"), &socket).unwrap();
        refused(data.path(), "not a socket");
        drop(other);
    }

    #[test]
    fn a_directory_or_socket_of_another_user_is_refused() {
        let data = tempfile::tempdir().unwrap();
        drop(Listener::bind(data.path()).unwrap());
        let directory = data.path().join("server");
        // Only root may change the owner, and not in every container; otherwise this cannot be tested.
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
        assert!(connect(data.path()).unwrap().is_some(), "the other server's socket is left");
        drop(new);
        assert!(connect(data.path()).unwrap().is_none());
    }
}
