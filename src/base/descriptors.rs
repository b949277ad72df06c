//! Descriptors that are sent with bytes on a Unix socket (unix(7), `SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// How many descriptors of one message are taken; the kernel closes further ones.
const MOST: usize = 1;

/// Sends bytes, which must not be empty, and with the first of them a descriptor. Returns how many were sent.
pub fn send_with(to: &UnixStream, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    let parts = [IoSlice::new(bytes)];
    Ok(retry_on_intr(|| sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL))?)
}

/// Receives bytes, and the descriptor that came with them. No bytes are the end.
pub fn receive_with(from: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let received = loop {
        match recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, rights.flatten().next()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_bytes_and_is_another_of_the_same_file() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        assert_eq!(send_with(&near, b"ab", Some(writer.as_fd())).unwrap(), 2);
        drop(writer);
        let mut bytes = [0; 8];
        let (count, descriptor) = receive_with(&far, &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"ab");
        let mut file = std::fs::File::from(descriptor.unwrap());
        file.write_all(b"through").unwrap();
        drop(file);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        send_with(&near, b"c", None).unwrap();
        assert!(matches!(receive_with(&far, &mut bytes), Ok((1, None))));
        drop(near);
        assert!(matches!(receive_with(&far, &mut bytes), Ok((0, None))));
    }
}
