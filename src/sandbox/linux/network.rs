//! The loopback interface of a new network namespace: it has to be switched on (rtnetlink(7)).

use rustix::io;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
const IFF_UP: u32 = 1;
/// The loopback interface is the first one of every namespace.
const LOOPBACK: u32 = 1;

/// # Errors
/// The kernel refuses.
pub fn start_loopback() -> io::Result<()> {
    // Without a protocol it is NETLINK_ROUTE, whose number is 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message(), SendFlags::empty())?;
    Ok(())
}

/// A `nlmsghdr` and an `ifinfomsg`.
fn message() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    bytes.extend(32_u32.to_ne_bytes());
    bytes.extend(RTM_NEWLINK.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]); // sequence number, port
    bytes.extend([0; 4]); // family, padding, type
    bytes.extend(LOOPBACK.to_ne_bytes());
    bytes.extend(IFF_UP.to_ne_bytes()); // flags
    bytes.extend(IFF_UP.to_ne_bytes()); // which of them change
    bytes
}
