//! The Unix sockets of other programs: their paths, which the init process covers.
//!
//! The kernel tells the name that a program gave to `bind`, which may be relative to an unknown directory, and the
//! inode of the file (sock_diag(7)). A socket in an open place is found by its inode. A relative name is looked for in the
//! working directories of all processes that may be seen.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::io;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const UDIAG_SHOW_NAME_AND_VFS: u32 = 3;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_VFS: u16 = 1;
/// Of a `nlmsghdr`, and of the `unix_diag_msg` after it.
const HEADER: usize = 16;
const MESSAGE: usize = 16;

/// A socket that is bound to a path.
#[derive(Debug, PartialEq, Eq)]
struct Bound {
    name: PathBuf,
    /// The lower half of the inode's number.
    inode: Option<u32>,
}

/// The paths of sockets that some program has bound. `found` are socket files in open places.
pub fn to_mask(found: &[PathBuf]) -> Vec<PathBuf> {
    let bound = ask_kernel().unwrap_or_else(|_| read_table());
    let (absolute, relative): (Vec<Bound>, Vec<Bound>) = bound.into_iter().partition(|one| one.name.is_absolute());
    let inodes: BTreeSet<u32> = absolute.iter().chain(&relative).filter_map(|one| one.inode).collect();
    let is_bound = |path: &&PathBuf| inode(path).is_some_and(|inode| inodes.is_empty() || inodes.contains(&inode));
    let mut paths: BTreeSet<PathBuf> = found.iter().filter(is_bound).cloned().collect();
    if !relative.is_empty() {
        for directory in working_directories() {
            let path = |one: &Bound| (directory.join(&one.name), one.inode);
            let is_it = |(path, bound): &(PathBuf, Option<u32>)| {
                inode(path).is_some_and(|inode| bound.is_none_or(|bound| bound == inode))
            };
            paths.extend(relative.iter().map(path).filter(is_it).map(|(path, _)| path));
        }
    }
    paths.extend(absolute.into_iter().map(|one| one.name));
    paths.into_iter().collect()
}

/// The lower half of the number of a socket's inode.
fn inode(path: &Path) -> Option<u32> {
    path.symlink_metadata().ok().filter(|found| found.file_type().is_socket()).map(|found| found.ino() as u32)
}

fn working_directories() -> BTreeSet<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok()).collect()
}

fn ask_kernel() -> io::Result<Vec<Bound>> {
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut bound = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (count, _) = recv(&socket, &mut *buffer, RecvFlags::empty())?;
        let mut rest = &buffer[..count];
        if rest.is_empty() {
            return Err(io::Errno::PROTO);
        }
        while rest.len() >= HEADER {
            let length = u32_at(rest, 0).unwrap_or_default() as usize;
            let message = rest.get(..length).filter(|message| message.len() >= HEADER).ok_or(io::Errno::PROTO)?;
            match u16_at(message, 4) {
                Some(NLMSG_DONE) => return Ok(bound),
                Some(NLMSG_ERROR) => return Err(io::Errno::PROTO),
                _ => bound.extend(message.get(HEADER + MESSAGE..).and_then(parse)),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// A `nlmsghdr` and a `unix_diag_req` for all sockets.
fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]); // sequence number, port
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]); // family, protocol, padding
    bytes.extend(u32::MAX.to_ne_bytes()); // states
    bytes.extend([0; 4]); // inode
    bytes.extend(UDIAG_SHOW_NAME_AND_VFS.to_ne_bytes());
    bytes.extend([0; 8]); // cookie
    bytes
}

/// The attributes of one socket, if it has a name in the file system.
fn parse(mut attributes: &[u8]) -> Option<Bound> {
    let (mut name, mut inode) = (None, None);
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let value = attributes.get(4..usize::from(length))?;
        match kind {
            UNIX_DIAG_NAME => name = Some(value.strip_suffix(b"\0").unwrap_or(value)),
            UNIX_DIAG_VFS => inode = u32_at(value, 0),
            _ => {}
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    // The name of an abstract one begins with a zero byte.
    let name = name.filter(|name| name.first().is_some_and(|first| *first != 0))?;
    Some(Bound { name: PathBuf::from(OsString::from_vec(name.to_vec())), inode })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads them from `/proc/net/unix` (proc_net(5)), without inodes, if the kernel does not answer.
fn read_table() -> Vec<Bound> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    table.split(|byte| *byte == b'\n').skip(1).filter_map(name_in).map(|name| Bound { name, inode: None }).collect()
}

/// The path is what follows seven columns; that of an abstract socket begins with `@`.
fn name_in(line: &[u8]) -> Option<PathBuf> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = &rest[end..];
    }
    let name = rest.strip_prefix(b" ").filter(|name| !name.is_empty() && name[0] != b'@')?;
    Some(PathBuf::from(OsString::from_vec(name.to_vec())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn a_bound_socket_is_found_by_both_ways() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a socket", "line\nend", "plain"].map(|name| directory.path().join(name));
        let _listeners = [UnixListener::bind(&paths[0]).unwrap(), UnixListener::bind(&paths[1]).unwrap()];
        let _datagrams = UnixDatagram::bind(&paths[2]).unwrap();
        let bound = ask_kernel().unwrap();
        for path in &paths {
            assert!(bound.contains(&Bound { name: path.clone(), inode: inode(path) }), "{path:?} {bound:?}");
        }
        let listed = read_table();
        assert!(listed.iter().any(|one| one.name == paths[0]) && listed.iter().any(|one| one.name == paths[2]));
    }

    #[test]
    fn only_sockets_that_are_bound_are_masked() {
        let directory = tempfile::tempdir().unwrap();
        let (stale, moved) = (directory.path().join("stale"), directory.path().join("moved"));
        drop(UnixListener::bind(&stale).unwrap());
        let _listener = UnixListener::bind(directory.path().join("first")).unwrap();
        fs::rename(directory.path().join("first"), &moved).unwrap();
        let masked = to_mask(&[stale.clone(), moved.clone()]);
        assert!(masked.contains(&moved) && !masked.contains(&stale), "{masked:?}");
    }
}
