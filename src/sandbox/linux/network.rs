//! A new network namespace: its loopback interface has to be switched on (rtnetlink(7)); on it listens a proxy that the
//! main process serves. A socket stays in the namespace in which it was made, even in another process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use crate::base::descriptors::send_with;
use crate::domain::host::{Host, HostPattern};

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
const IFF_UP: u32 = 1;
/// The loopback interface is the first one of every namespace.
const LOOPBACK: u32 = 1;

/// The names by which programs know a proxy; some take only one spelling.
const PROXY: [&str; 6] = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// The command's own servers, which are reached directly.
const OWN: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Where the loop serves a command. Never by the proxy, even if the command may reach a server of this machine.
pub const SERVICE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

pub fn start_loopback() -> rustix::io::Result<()> {
    // Without a protocol it is NETLINK_ROUTE, whose number is 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message(), SendFlags::empty())?;
    Ok(())
}

/// Sends a listener to the main process. Returns the variables that point the command to it.
pub fn start_proxy(
    hosts: &[HostPattern],
    socket: Option<OwnedFd>,
    is_served: bool,
) -> io::Result<Vec<(&'static str, String)>> {
    let socket = socket.ok_or_else(|| io::Error::other("there is no event loop to serve it"))?;
    let url = format!("http://{}", listen(socket, Ipv4Addr::LOCALHOST)?);
    let is_named = |own: &&str| hosts.iter().any(|pattern| pattern.host().is_some_and(|host| is_host(host, own)));
    let service = is_served.then(|| SERVICE.to_string());
    let direct: Vec<&str> = OWN.into_iter().filter(|own| !is_named(own)).chain(service.as_deref()).collect();
    let mut variables: Vec<(&str, String)> = PROXY.iter().map(|name| (*name, url.clone())).collect();
    variables.extend(NO_PROXY.iter().map(|name| (*name, direct.join(","))));
    // Without it, node's own `fetch` does not use a proxy.
    variables.push(("NODE_USE_ENV_PROXY", "1".into()));
    Ok(variables)
}

/// Opens a listener on a loopback address and sends it to the main process. Returns its address.
pub fn listen(socket: OwnedFd, address: Ipv4Addr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((address, 0))?;
    send_with(&UnixStream::from(socket), b"l", Some(listener.as_fd()))?;
    listener.local_addr()
}

fn is_host(host: &Host, text: &str) -> bool {
    Host::parse(text).as_ref() == Some(host)
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
