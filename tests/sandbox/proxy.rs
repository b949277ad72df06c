//! The network by host: what commands reach through the proxy of the loop, and what they do not.
//!
//! The loop, the sandbox and the servers are real; the hosts are loopback addresses, which a call has to name.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use polylogue::config::{Network, Policy, Rules};
use serde_json::json;

use super::{Place, levels};
use crate::support::PATIENCE;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::scene::turn_a_while;

/// Whether this machine can restrict the network to hosts, and has curl.
pub(super) fn can_restrict() -> bool {
    let can = levels(&Place::new(None)).iter().any(|level| level.has_namespaces());
    let curl = std::process::Command::new("curl").arg("--version").output().is_ok_and(|end| end.status.success());
    if !can || !curl {
        eprintln!("no namespaces or no curl here: the proxy is not tried");
    }
    can && curl
}

/// These hosts are named by a rule: a call alone does not reach loopback.
pub(super) fn app(named: &[&str]) -> Harness {
    let allow = named.iter().map(|host| format!("net({host})").parse().expect("a rule")).collect();
    let rules = Rules { allow, ..Rules::default() };
    Harness::new(Plan { real_time: true, policy: Policy::Yolo, rules, ..Plan::default() })
}

/// A server on loopback that answers every connection in the same way, in a thread of its own.
pub(super) struct Server {
    port: u16,
    /// What came, each time a connection has ended.
    received: Receiver<String>,
}

impl Server {
    pub(super) fn start(serve: impl Fn(&mut TcpStream) -> String + Send + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, received): (Sender<String>, _) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, serve, sender) = (stream.expect("a connection"), serve.clone(), sender.clone());
                thread::spawn(move || sender.send(serve(&mut stream)));
            }
        });
        Self { port, received }
    }

    /// Answers with this text when the head of a request is there.
    fn with(text: &'static str) -> Self {
        Self::start(move |stream| {
            let head = read_head(stream);
            let response =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
            stream.write_all(response.as_bytes()).unwrap_or_default();
            head
        })
    }

    pub(super) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn received(&self) -> String {
        self.received.recv_timeout(PATIENCE).expect("a connection")
    }
}

pub(super) fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Has the model call `bash`.
fn call(app: &mut Harness, script: &str, network: &[&str]) {
    app.say(0, &format!("%tool bash {}", json!({"command": script, "network": network})));
}

/// The result of a call that asks nothing.
pub(super) fn run(app: &mut Harness, script: &str, network: &[&str]) -> String {
    call(app, script, network);
    result(app)
}

fn result(app: &mut Harness) -> String {
    app.turn_until_idle();
    app.tool_results(0).pop().expect("a result").content
}

#[test]
fn a_command_reaches_the_hosts_of_its_call_and_no_others() {
    if !can_restrict() {
        return;
    }
    let (listed, other) = (Server::with("hello"), Server::with("secret"));
    let (url, unlisted) = (listed.host(), other.host());
    let mut app = app(&[&url]);
    assert_eq!(run(&mut app, &format!("curl -sS http://{url}/plain?q"), &[&url]), "hello");
    let head = listed.received();
    assert!(head.starts_with(&format!("GET /plain?q HTTP/1.1\r\nHost: {url}\r\n")), "{head}");
    assert!(head.ends_with("\r\nConnection: close\r\n\r\n") && !head.contains("Proxy-Connection"), "{head}");
    assert_eq!(run(&mut app, &format!("curl -sS -p http://{url}/tunnel"), &[&url]), "hello");
    assert!(listed.received().starts_with("GET /tunnel HTTP/1.1\r\n"));

    let refused = run(&mut app, &format!("curl -sS -w '%{{http_code}}' http://{unlisted}/"), &[&url]);
    assert!(
        refused.contains(&format!("may not connect to {unlisted}, only to {url}: if it is meant, add {unlisted} to")),
        "{refused}"
    );
    assert!(refused.contains("\n403\n"), "{refused}");
    let refused = run(&mut app, &format!("curl -sS -p http://{unlisted}/"), &[&url]);
    assert!(refused.contains("CONNECT tunnel failed, response 403"), "{refused}");
    assert!(refused.contains(&format!("[network: the command may not connect to {unlisted}, only to")), "{refused}");
    // Without the proxy the servers are not there, and without hosts there is no proxy.
    for (script, network) in
        [(format!("curl -sS --noproxy '*' http://{url}/"), &[&*url][..]), (format!("curl -sS http://{url}/"), &[])]
    {
        let failed = run(&mut app, &script, network);
        assert!(failed.contains("connect to") && failed.contains("[exit code 7]"), "{failed}");
    }
    assert!(other.received.try_recv().is_err(), "the other server was reached");
}

#[test]
fn a_second_request_on_a_connection_cannot_name_another_host() {
    if !can_restrict() {
        return;
    }
    let (listed, other) = (Server::with("first"), Server::with("second"));
    let (url, unlisted) = (listed.host(), other.host());
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}
         printf 'GET http://{url}/ HTTP/1.1\\r\\n\\r\\nGET http://{unlisted}/ HTTP/1.1\\r\\n\\r\\n' >&3
         cat <&3"
    );
    let out = run(&mut app(&[&url]), &script, &[&url]);
    // The end of a connection on which more was sent may reach the command before what it was sent.
    assert!((out.ends_with("first") || out.contains("reset")) && !out.contains("second"), "{out}");
    assert!(listed.received().starts_with("GET / HTTP/1.1\r\n"));
    assert!(other.received.try_recv().is_err() && listed.received.try_recv().is_err());
}

#[test]
fn a_name_that_leads_to_a_private_address_is_refused_unless_that_is_named() {
    if !can_restrict() {
        return;
    }
    let server = Server::with("private");
    let script = format!("curl -sS --noproxy '' http://localhost:{}/", server.port);
    let mut app =
        app(&["localhost", "127.0.0.1"].map(|name| format!("{name}:{}", server.port)).each_ref().map(|name| &**name));
    let refused = run(&mut app, &script, &[&format!("*:{}", server.port)]);
    let (v4, v6) = ("address 127.0.0.1, which is not public", "address ::1, which is not public");
    assert!(refused.contains(v4) || refused.contains(v6), "{refused}");
    assert!(server.received.try_recv().is_err());
    for named in ["localhost", "127.0.0.1"] {
        let network = [format!("*:{}", server.port), format!("{named}:{}", server.port)];
        assert_eq!(run(&mut app, &script, &[&network[0], &network[1]]), "private", "{named}");
    }
    // An unknown name is no reason to wait.
    let unknown = run(&mut app, "curl -sS -w '%{http_code}' http://unknown.invalid/", &["*"]);
    assert!(unknown.contains("unknown.invalid has no address") && unknown.contains("\n502\n"), "{unknown}");
}

#[test]
fn a_call_reaches_this_machine_and_private_networks_only_where_a_person_names_them() {
    if !can_restrict() {
        return;
    }
    let server = Server::with("private");
    let port = server.port;
    let any: Rules = Rules { allow: vec![format!("net(*:{port})").parse().expect("a rule")], ..Rules::default() };
    for (policy, rules) in [(Policy::Yolo, Rules::default()), (Policy::Yolo, any.clone()), (Policy::Auto, any)] {
        let mut app = Harness::new(Plan { real_time: true, policy, rules, ..Plan::default() });
        for host in ["127.0.0.1", "localhost", "a.localhost", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1"] {
            call(&mut app, "curl -sS --noproxy '' http://localhost/", &[&format!("{host}:{port}")]);
            app.turn_until_asked(0);
            let reason = app.agent(0).question().expect("a question").question.detail.join("\n");
            assert!(reason.contains("which is this machine or a private network"), "{host}: {reason}");
            app.answer(0, false);
            assert!(result(&mut app).contains("denied"));
        }
        let network = format!("127.0.0.1:{port}");
        call(&mut app, &format!("curl -sS --noproxy '' http://{network}/"), &[&network]);
        app.turn_until_asked(0);
        app.answer(0, true);
        assert_eq!(result(&mut app), "private");
    }
}

#[test]
fn who_does_not_read_stops_who_writes_and_the_loop_waits() {
    if !can_restrict() {
        return;
    }
    let server = Server::start(|stream| {
        read_head(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_or_default();
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a socket");
        let (block, mut sent) = ([b'x'; 1 << 16], 0_u64);
        while let Ok(count @ 1..) = stream.write(&block) {
            sent += count as u64;
        }
        sent.to_string()
    });
    let url = server.host();
    let mut app = app(&[&url]);
    // The command opens the connection and reads nothing.
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}
         printf 'GET http://{url}/ HTTP/1.1\\r\\n\\r\\n' >&3; touch asked; read -t 60 <>never"
    );
    std::process::Command::new("mkfifo").arg(app.directory().join("never")).status().expect("a fifo");
    call(&mut app, &script, &[&url]);
    let mut sent = None;
    app.turn_until("the server is stopped", |_| {
        sent = sent.take().or_else(|| server.received.try_recv().ok());
        sent.is_some()
    });
    let sent: u64 = sent.expect("a number").parse().expect("a number");
    assert!(sent < 32 << 20, "{sent} bytes were taken that nobody read");
    // A poll of the tool may be due in between.
    app.turn_until("the loop waits", |app| app.timeout().after != Some(Duration::ZERO));
    app.escape();
    app.turn_until_idle();
}

#[test]
fn large_bodies_arrive_whole_in_both_directions() {
    if !can_restrict() {
        return;
    }
    const SIZE: usize = 24 << 20;
    let server = Server::start(|stream| {
        read_head(stream);
        let mut got = vec![0; SIZE];
        stream.read_exact(&mut got).expect("a body");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("a client");
        stream.write_all(&got).expect("a client");
        String::new()
    });
    let url = server.host();
    let mut app = app(&[&url]);
    for tunnel in ["", "-p"] {
        let script = format!(
            "head -c {SIZE} /dev/urandom > sent && \
             curl -sS {tunnel} -H Expect: --data-binary @sent -o got http://{url}/ && cmp sent got && echo same"
        );
        assert_eq!(run(&mut app, &script, &[&url]), "same\n");
    }
    // Who is refused in the middle of a large request can read why.
    let refused = run(&mut app, "curl -sS -H Expect: --data-binary @sent http://127.0.0.1:1/", &[&url]);
    assert!(refused.starts_with("polylogue: the command may not connect to 127.0.0.1:1,"), "{refused}");
}

#[test]
fn many_connections_are_served_and_more_than_the_limit_wait() {
    if !can_restrict() {
        return;
    }
    let server = Server::with("ok ");
    let url = server.host();
    let mut app = app(&[&url]);
    // Connections without a request take all places; when they are closed, the others are served.
    let script = format!(
        "port=${{http_proxy##*:}}; held=()
         for n in $(seq 140); do exec {{fd}}<>/dev/tcp/127.0.0.1/$port; held+=($fd); done
         touch held; until [ -e go ]; do read -t 0.01 <>never; done
         for fd in ${{held[@]}}; do exec {{fd}}>&-; done
         seq 60 | xargs -P 20 -I% curl -sS http://{url}/% | wc -c"
    );
    std::process::Command::new("mkfifo").arg(app.directory().join("never")).status().expect("a fifo");
    call(&mut app, &script, &[&url]);
    let (held, go) = (app.directory().join("held"), app.directory().join("go"));
    app.turn_until("all connections are open", |app| held.exists() && app.repl.proxied_connections() == 128);
    turn_a_while(&mut app);
    assert_eq!(app.repl.proxied_connections(), 128);
    assert_ne!(app.timeout().after, Some(Duration::ZERO), "the loop is busy with those that wait");
    std::fs::write(go, "").expect("a file");
    assert_eq!(result(&mut app), "180\n");
}

#[test]
fn when_the_call_is_over_or_interrupted_its_connections_are_closed() {
    if !can_restrict() {
        return;
    }
    // Ends when the proxy has closed the connection.
    let server = Server::start(|stream| {
        let head = read_head(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nbegun").unwrap_or_default();
        stream.read_to_end(&mut Vec::new()).unwrap_or_default();
        head
    });
    let url = server.host();
    let mut app = app(&[&url]);
    let script = format!(
        "curl -sSN http://{url}/ > one & curl -sSNp http://{url}/ > got & until [ -s one ] && [ -s got ]; do :; done"
    );
    run(&mut app, &script, &[&url]);
    app.turn_until("its connections are closed", |app| app.repl.proxied_connections() == 0);
    for _ in 0..2 {
        app.turn_until("the connection is closed", |_| server.received.try_recv().is_ok());
    }
    std::fs::remove_file(app.directory().join("got")).expect("a file");
    call(&mut app, &format!("curl -sSN http://{url}/ > got"), &[&url]);
    let got = app.directory().join("got");
    app.turn_until("the response", |_| std::fs::metadata(&got).is_ok_and(|found| found.len() > 0));
    assert_eq!(app.repl.proxied_connections(), 1);
    app.escape();
    app.turn_until_idle();
    app.turn_until("the connection is closed", |_| server.received.try_recv().is_ok());
    app.turn_until("nothing is left", |app| app.repl.proxied_connections() == 0);
}

#[test]
fn the_question_names_the_hosts_and_the_answer_allows_them_once_or_always() {
    if !can_restrict() {
        return;
    }
    let server = Server::with("reached\n");
    let url = server.host();
    let script = format!("curl -sS http://{url}/");
    let mut app =
        Harness::new(Plan { real_time: true, policy: Policy::Auto, rules: Rules::default(), ..Plan::default() });
    let ask = |app: &mut Harness, network: &[&str], key: &[u8]| {
        call(app, &script, network);
        app.turn_until_asked(0);
        app.press_at_question(key);
    };
    call(&mut app, &script, &[&url]);
    app.turn_until_asked(0);
    app.turn_until("keys answer", |app| app.screen_text().contains("n to refuse it, a always"));
    let detail = app.agent(0).question().expect("a question").question.detail.join("\n");
    let shown = format!("; network: only {url}, by HTTP and HTTPS\nasks because: no rule allows net({url})");
    assert!(detail.ends_with(&shown), "{detail}");
    app.type_bytes(b"n");
    assert!(result(&mut app).contains("the user denied this call"));
    // Once, and again: it asks each time.
    ask(&mut app, &[&url], b"y");
    assert_eq!(result(&mut app), "reached\n");
    ask(&mut app, &[&url], b"a");
    app.turn_until("the rule", |app| app.screen_text().contains(&format!("question:\n  net({url})\n  s: all agents")));
    // A letter counts only after a time without one.
    let shown = Instant::now();
    while shown.elapsed() < Duration::from_millis(350) {
        app.turn_within(Duration::from_millis(20));
    }
    app.type_bytes(b"t");
    assert!(app.agent(0).question().is_none());
    assert_eq!(result(&mut app), "reached\n");
    assert_eq!(run(&mut app, &script, &[&url]), "reached\n");
    // Another host asks, and the rule would be for that one alone.
    call(&mut app, &script, &[&url, "example.org"]);
    app.turn_until_asked(0);
    let ways = app.agent(0).question().expect("a question").question.ways.clone();
    assert_eq!(ways.rules.iter().map(ToString::to_string).collect::<Vec<_>>(), ["net(example.org)"]);
    app.escape();
    app.turn_until_idle();
}

#[test]
fn rules_about_hosts_decide_without_a_question() {
    if !can_restrict() {
        return;
    }
    let server = Server::with("reached\n");
    let url = server.host();
    let rules = |allow: &[&str], ask: &[&str], deny: &[&str]| {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("a rule")).collect();
        Rules { allow: parse(allow), ask: parse(ask), deny: parse(deny) }
    };
    let app = |policy, rules| Harness::new(Plan { real_time: true, policy, rules, ..Plan::default() });
    let script = format!("curl -sS http://{url}/");
    let (allow, any) = (format!("net({url})"), format!("*:{}", server.port));
    let mut allowed = app(Policy::Auto, rules(&[&allow], &[], &[]));
    assert_eq!(run(&mut allowed, &script, &[&url]), "reached\n");
    call(&mut allowed, &script, &[&url, "example.org"]);
    allowed.turn_until_asked(0);
    let mut denied = app(Policy::Yolo, rules(&[], &[], &["net(127.0.0.1)"]));
    assert_eq!(run(&mut denied, &script, &[&url]), "refused by the rule deny net(127.0.0.1)");
    let refused = run(&mut denied, &script.replace("curl", "curl --noproxy ''"), &[&any]);
    assert!(refused.contains("is refused by the rule deny net(127.0.0.1)"), "{refused}");
    let mut asked = app(Policy::Yolo, rules(&["net(*)"], &[&allow], &[]));
    call(&mut asked, &script, &[&any]);
    asked.turn_until_asked(0);
    let mut never = app(Policy::Never, rules(&["bash(curl *)"], &[], &[]));
    let refused = run(&mut never, &script, &[&url]);
    let remedy = format!("no question is asked (policy never); the user can allow it with --allow 'net({url})'");
    assert!(refused.contains(&format!("(no rule allows net({url})")), "{refused}");
    // Without the grammar no rule allows the command.
    assert!(!cfg!(feature = "shell-grammar") || refused.ends_with(&remedy), "{refused}");
    assert!(run(&mut never, &script, &["http://example.org/"]).contains("without scheme and path"));
}

#[test]
fn hosts_of_the_configuration_are_reached_by_every_command() {
    if !can_restrict() {
        return;
    }
    let server = Server::with("reached\n");
    let network = Network::of_hosts([&*server.host()].into_iter()).expect("a host");
    let plan = Plan { real_time: true, policy: Policy::Auto, rules: Rules::default(), network, ..Plan::default() };
    let mut app = Harness::new(plan);
    assert_eq!(run(&mut app, &format!("curl -sS http://{}/", server.host()), &[]), "reached\n");
    assert_eq!(run(&mut app, "echo ${no_proxy-unset}", &[]), "localhost,::1\n");
}
