//! The network and sockets of other programs.

use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Stdio;

use polylogue::config::Network;

use super::{Level, Place, everywhere};

/// Connects to a Unix socket by Perl, since the shell cannot; the name of an abstract one begins with a zero byte.
fn connect(name: &str) -> String {
    format!(
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack_sockaddr_un(\"{name}\")) or exit 1'"
    )
}

pub(super) fn has_perl() -> bool {
    let has = std::process::Command::new("perl").args(["-MSocket", "-e", "1"]).status().is_ok_and(|end| end.success());
    if !has {
        eprintln!("there is no Perl here: Unix sockets are not tried");
    }
    has
}

#[test]
fn nothing_outside_is_reached_while_the_network_is_off() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    receiver.set_nonblocking(true).expect("a socket");
    let (tcp, udp) = (listener.local_addr().expect("a port").port(), receiver.local_addr().expect("a port").port());
    let lines = [
        ("TCP", format!("exec 3<> /dev/tcp/127.0.0.1/{tcp}")),
        ("TCP to another machine", "exec 3<> /dev/tcp/192.0.2.1/80".into()),
        ("DNS", "getent hosts example.com".into()),
    ];
    let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, &**line)).collect();
    everywhere(|place, level| {
        let workspace = place.path("home/work");
        assert_eq!(place.allowed(&workspace, level, &lines), Vec::<&str>::new(), "{level:?}");
        place.run(level, &format!("echo x > /dev/udp/127.0.0.1/{udp}"));
        assert_eq!(receiver.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut granted = Place::new(place.user);
        granted.settings.network = Network::Host;
        assert_eq!(granted.allowed(&workspace, level, &lines[..1]), ["TCP"], "{level:?}");
        granted.run(level, &format!("echo x > /dev/udp/127.0.0.1/{udp}"));
        assert_eq!(receiver.recv(&mut [0; 8]).expect("a packet"), 2);
    });
}

#[test]
fn sockets_of_other_programs_are_out_of_reach_whether_the_network_is_on_or_off() {
    if !has_perl() {
        return;
    }
    everywhere(|place, level| {
        for network in [Network::Off, Network::Host] {
            let mut place = Place::new(place.user);
            place.settings.network = network.clone();
            let names = ["outside/socket", "home/work/socket", "home/.local/share/polylogue/socket"];
            let listeners: Vec<_> =
                names.iter().map(|name| UnixListener::bind(place.path(name)).expect("a socket")).collect();
            place.own();
            let name = format!("polylogue-{}", place.path("").display());
            let address = SocketAddr::from_abstract_name(&name).expect("a name");
            let hidden = UnixListener::bind_addr(&address).expect("a socket");
            let mut lines: Vec<(&str, String)> =
                names.iter().map(|name| (*name, connect(&place.path(name).to_string_lossy()))).collect();
            lines.push(("abstract", connect(&format!("\\0{name}"))));
            let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, &**line)).collect();
            let allowed = place.allowed(&place.path("home/work"), level, &lines);
            assert_eq!(allowed, Vec::<&str>::new(), "{level:?} {network:?}");
            let all = place.allowed(&place.path("home/work"), Level::None, &lines);
            assert_eq!(all.len(), lines.len(), "without walls they are reached");
            drop((listeners, hidden));
        }
    });
}

/// The program listens in the workspace and outside, by names that are hard to find.
const LISTENERS: &str = r#"use Socket; $| = 1; chdir $ENV{TOP};
    sub bound { my ($type, $to, $directory, $name) = @_; chdir "$ENV{TOP}/$directory" or die;
        socket($to, AF_UNIX, $type, 0) && bind($to, pack_sockaddr_un($name)) or die "$name: $!" }
    bound(SOCK_STREAM, "A", "home/work", "relative"); bound(SOCK_STREAM, "B", "outside", "relative");
    bound(SOCK_STREAM, "C", "home/work", "a b"); bound(SOCK_STREAM, "D", "outside", "$ENV{TOP}/outside/two\nlines");
    bound(SOCK_DGRAM, "E", "outside", "$ENV{TOP}/outside/datagram"); bound(SOCK_STREAM, "F", "home/work", "first");
    bound(SOCK_STREAM, "S", "home/work", "stale");
    listen($_, 1) or die for "A", "B", "C", "D", "F", "S"; close "S"; mkdir "sub"; rename "first", "sub/renamed" or die;
    chdir "$ENV{TOP}/outside"; print "ready\n"; sleep 1000"#;

#[test]
fn sockets_with_strange_names_and_datagrams_are_out_of_reach() {
    if !has_perl() {
        return;
    }
    everywhere(|place, level| {
        let mut perl = place.command("perl");
        perl.args(["-e", LISTENERS]).env("TOP", place.path("")).stdout(Stdio::piped());
        let mut perl = perl.spawn().expect("Perl");
        let mut ready = [0; 6];
        perl.stdout.take().expect("a pipe").read_exact(&mut ready).expect("it listens");
        place.own();
        let (work, outside) = (place.path("home/work"), place.path("outside"));
        let to = |path: &str| {
            format!(
                "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, \
            pack_sockaddr_un(qq{{{path}}})) or exit 1'"
            )
        };
        let (work, outside) = (work.display(), outside.display());
        let lines = [
            ("relative in the workspace", to("relative")),
            ("relative outside", to(&format!("{outside}/relative"))),
            ("blank", to("a b")),
            ("line end", to(&format!("{outside}/two\\nlines"))),
            ("renamed", to(&format!("{work}/sub/renamed"))),
            ("datagram", to(&format!("{outside}/datagram")).replace("SOCK_STREAM", "SOCK_DGRAM")),
        ];
        let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, &**line)).collect();
        let all = place.allowed(&place.path("home/work"), Level::None, &lines);
        assert_eq!(all.len(), lines.len(), "without walls they are reached: {all:?}");
        let allowed = place.allowed(&place.path("home/work"), level, &lines);
        let response = place.run(level, "rm stale");
        perl.kill().and_then(|()| perl.wait()).expect("a child");
        assert_eq!(allowed, Vec::<&str>::new(), "{level:?} {:?}", place.user);
        assert_eq!(response.code, Some(0), "what nobody listens on can be removed: {}", response.out);
    });
}

#[test]
fn a_command_reaches_its_own_servers() {
    if !has_perl() {
        return;
    }
    let script = r"perl -MSocket -e '
        socket(S, AF_INET, SOCK_STREAM, 0) && bind(S, pack_sockaddr_in(0, INADDR_LOOPBACK)) && listen(S, 1) or die;
        socket(C, AF_INET, SOCK_STREAM, 0) && connect(C, getsockname(S)) or die;
        socket(U, AF_UNIX, SOCK_STREAM, 0) or die; print qq{connected\n}'";
    everywhere(|place, level| {
        let out = place.run(level, script).out;
        // Without a network namespace, a loopback interface of its own does not exist.
        assert_eq!(out == "connected\n", level != Level::Landlock, "{level:?}: {out}");
    });
}
