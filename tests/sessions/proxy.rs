//! The proxy of commands in a server: what it leaves behind, and what it does when descriptors run out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};

use super::{App, eventually};
use crate::support::client::request;
use crate::support::internals::socket;

/// Answers each connection with a few bytes; the address.
fn server() -> String {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            stream.read(&mut request).unwrap_or_default();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nanswered").unwrap_or_default();
        }
    });
    address
}

/// A server whose commands reach this host.
fn app(host: &str) -> App {
    let mut app = App::new();
    app.variables.push(("POLYLOGUE_APPROVAL".into(), "yolo".into()));
    app.variables.push(("POLYLOGUE_SANDBOX_NETWORK".into(), host.into()));
    app.serve();
    app
}

/// Has agent 0 run a command, and returns its log.
fn run(app: &App, script: &str) -> String {
    app.get(&["tell", "0", &format!("%tool bash {}", json!({"command": script}))]);
    app.get(&["wait", "0"]);
    app.get(&["logs", "0"])
}

fn descriptors(app: &App) -> u64 {
    let status: Value = serde_json::from_str(&app.get(&["status", "--json"])).expect("an object");
    status["descriptors"].as_u64().expect("a number")
}

/// The time that a process has used, in hundredths of a second (proc_pid_stat(5)).
fn used(pid: Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).expect("it runs");
    let behind = stat.rsplit(')').next().expect("fields");
    let fields: Vec<&str> = behind.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

fn can_restrict(log: &str) -> bool {
    let can = log.contains("proxied\n");
    if !can {
        eprintln!("no namespaces here: the proxy is not tried: {log}");
    }
    can
}

#[test]
fn descriptors_are_closed_when_a_command_is_over() {
    let host = server();
    let app = app(&host);
    let log = run(&app, "echo ${http_proxy:+proxied}");
    if !can_restrict(&log) {
        return;
    }
    let before = descriptors(&app);
    // One ends in order, one in the middle of a request, one after a refusal, and one is not used.
    let log = run(
        &app,
        &format!(
            "port=${{http_proxy##*:}}; to=/dev/tcp/127.0.0.1/$port
             exec 3<>$to; printf 'GET http://{host}/ HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3
             exec 4<>$to; printf 'GET http://{host}/ HT' >&4; exec 5<>$to; printf 'CONNECT a:1 HTTP/1.1\\r\\n\\r\\n' >&5
             exec 6<>$to; read -r line <&5; echo \"$line\""
        ),
    );
    assert!(log.contains("answered") && log.contains("403 Forbidden"), "{log}");
    eventually("the descriptors are closed", || descriptors(&app) <= before);
}

#[test]
fn without_descriptors_the_loop_waits_and_goes_on_when_there_are_some() {
    let host = server();
    let app = app(&host);
    if !can_restrict(&run(&app, "echo ${http_proxy:+proxied}")) {
        return;
    }
    // The command needs some of them before it begins.
    let most = Rlimit { current: Some(descriptors(&app) + 20), ..getrlimit(Resource::Nofile) };
    let script = format!(
        "port=${{http_proxy##*:}}; held=(); mkfifo never
         for n in $(seq 60); do exec {{fd}}<>/dev/tcp/127.0.0.1/$port; held+=($fd); done
         touch held; read -t 2 <>never
         for fd in ${{held[@]}}; do exec {{fd}}>&-; done
         exec 3<>/dev/tcp/127.0.0.1/$port; printf 'GET http://{host}/ HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    );
    prlimit(Some(app.pid()), Resource::Nofile, most).expect("it is our process");
    let before = used(app.pid());
    let log = run(&app, &script);
    assert!(Path::new(&app.workspace.path().join("held")).exists() && log.contains("answered"), "{log}");
    let used = used(app.pid()) - before;
    assert!(used < 100, "the server used {used} hundredths of a second while it had nothing to do");
}

/// Who is at the other end of a connection is read from /proc, which needs descriptors too.
#[test]
fn a_client_waits_while_there_is_no_descriptor_to_check_it() {
    let app = App::served();
    let connect = || BufReader::new(socket::connect(app.path()).expect("a socket of ours").expect("a server"));
    let ask = |stream: &mut BufReader<UnixStream>| {
        // One that has made room does not read.
        let _ = writeln!(stream.get_mut(), "{}", request("ps", json!({})));
    };
    let answer = |stream: &mut BufReader<UnixStream>| {
        let mut line = String::new();
        stream.read_line(&mut line).expect("it answers");
        line
    };
    let usual = getrlimit(Resource::Nofile);
    let used = descriptors(&app);
    for free in 0..4 {
        let mut known = connect();
        ask(&mut known);
        answer(&mut known);
        let few = Rlimit { current: Some(used + free), ..usual };
        prlimit(Some(app.pid()), Resource::Nofile, few).expect("it is our process");
        let mut new = connect();
        ask(&mut new);
        // Connections are accepted before requests are read. An idle client makes room for the new one.
        ask(&mut known);
        answer(&mut known);
        prlimit(Some(app.pid()), Resource::Nofile, usual).expect("it is our process");
        let answer = answer(&mut new);
        assert!(answer.starts_with("{\"ok\":"), "{free} free: {answer}");
    }
}

#[test]
fn the_hosts_that_one_agent_is_denied_are_refused_by_its_proxy() {
    let host = server();
    let app = app(&host);
    let script = format!("echo ${{http_proxy:+proxied}}; curl -sS --noproxy '' http://{host}/");
    let log = run(&app, &script);
    if !can_restrict(&log) {
        return;
    }
    assert!(log.contains("answered"), "{log}");
    let message = format!("%tool bash {}", json!({"command": script}));
    app.get(&["-p", "--approval", "yolo", "--deny", "net(127.0.0.1)", &message]);
    let listed: Value = serde_json::from_str(&app.get(&["ps", "--archived", "--json"])).expect("one run");
    let log = app.get(&["logs", listed["id"].as_str().expect("an id")]);
    assert!(log.contains("refused by the rule deny net(127.0.0.1)") && !log.contains("answered"), "{log}");
}
