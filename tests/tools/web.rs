//! `web_fetch` against a server that does everything wrong that servers do.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use polylogue::config::{Policy, Rules};
use polylogue::{Change, ToolResult};
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::program::{Home, PROGRAM, Program};
use crate::support::scene::app_with_agents;

const PAGE: &str = "<!DOCTYPE html><html><head><title>t</title><style>x{}</style></head><body><h1>Head</h1>\
    <script>evil()</script><p>One <b>two</b> <a href=\"/x\">link</a></p><ul><li>a</li><li>b</li></ul></body></html>";

/// 100 MB of zeros.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let zeros = Command::new("sh").args(["-c", "head -c 104857600 /dev/zero | gzip -c"]).output().expect("gzip");
    assert!(zeros.stdout.len() > 10_000 && zeros.stdout.len() < 1_000_000);
    zeros.stdout
});

/// A server on loopback, for as long as the test runs.
struct Server {
    port: u16,
    requests: Arc<AtomicUsize>,
    /// Connections whose client has closed them.
    closed: Arc<AtomicUsize>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (requests, closed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counts = (Arc::clone(&requests), Arc::clone(&closed));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, closed) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
                thread::spawn(move || {
                    requests.fetch_add(1, Ordering::SeqCst);
                    // The client may go at any time.
                    let _ = serve(stream);
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, requests, closed }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n")?;
    stream.write_all(body)
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines.by_ref() {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let html = "Content-Type: text/html\r\n";
    match path.as_str() {
        "/page" => respond(&mut stream, "200 OK", html, PAGE.as_bytes()),
        "/here" => respond(&mut stream, "302 Found", "Location: page\r\n", b""),
        "/there" => respond(&mut stream, "301 Moved", "Location: http://192.0.2.7/x\r\n", b"moved"),
        "/odd" => respond(&mut stream, "301 Moved", "Location: file:///etc/passwd\r\n", b"moved"),
        "/far" => respond(&mut stream, "302 Found", &format!("Location: {}\r\n", "x".repeat(20_000)), b""),
        "/typed" => respond(&mut stream, "200 OK", &format!("Content-Type: a/{}\r\n", "x".repeat(20_000)), b"\0"),
        "/circle" => respond(&mut stream, "307 Again", "Location: /circle\r\n", b""),
        "/large" => respond(&mut stream, "200 OK", "Content-Type: text/plain\r\n", &b"0123456789\n".repeat(1_000_000)),
        "/bomb" => respond(&mut stream, "200 OK", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", &BOMB),
        "/latin" => respond(&mut stream, "200 OK", "Content-Type: text/plain; charset=ISO-8859-1\r\n", b"caf\xe9"),
        "/meta" => respond(&mut stream, "200 OK", html, b"<html><head><meta charset=shift_jis></head>\x93\xfa\x96\x7b"),
        "/image" => respond(&mut stream, "200 OK", "Content-Type: image/png\r\n", b"\x89PNG\r\n"),
        "/json" => respond(&mut stream, "200 OK", "Content-Type: application/json\r\n", br#"{"a": "<b>"}"#),
        "/gone" => respond(&mut stream, "404 Not Found", html, b"<h1>Nothing here</h1>"),
        "/deep" => respond(&mut stream, "200 OK", html, "<div>".repeat(400_000).as_bytes()),
        "/garbage" => stream.write_all(b"\x00\x01 no http at all\r\n\r\n"),
        "/silent" => wait_for_end(stream),
        "/stalls" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nthe beginning")?;
            wait_for_end(stream)
        }
        "/endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
        _ => respond(&mut stream, "500 Oops", "", path.as_bytes()),
    }
}

fn wait_for_end(mut stream: TcpStream) -> std::io::Result<()> {
    stream.read(&mut [0; 1]).map(drop)
}

fn app(policy: Policy, allow: &[String]) -> Harness {
    let allow = allow.iter().map(|rule| rule.parse().expect("a rule")).collect();
    let rules = Rules { allow, ..Rules::default() };
    app_with_agents(1, Plan { policy, rules, real_time: true, ..Plan::default() })
}

/// A server on loopback, which a rule names.
fn app_with_server() -> (Server, Harness) {
    let server = Server::start();
    let rule = format!("net(127.0.0.1:{})", server.port);
    (server, app(Policy::Yolo, &[rule]))
}

fn fetch(app: &mut Harness, arguments: &serde_json::Value) -> ToolResult {
    app.say(0, &format!("%tool web_fetch {arguments}"));
    app.turn_until_idle();
    app.tool_results(0).pop().expect("a result")
}

/// The result for a page of the server.
fn get(app: &mut Harness, server: &Server, path: &str) -> ToolResult {
    fetch(app, &json!({ "url": server.url(path) }))
}

#[test]
fn html_becomes_markdown_and_other_text_stays() {
    let (server, mut app) = app_with_server();
    let page = get(&mut app, &server, "/page");
    assert!(page.content.starts_with(&format!("[{}: status 200]\n# Head", server.url("/page"))), "{}", page.content);
    for (part, expected) in [("**two**", true), ("[link](/x)", true), ("a\n", true), ("evil", false), ("x{}", false)] {
        assert_eq!(page.content.contains(part), expected, "{part}: {}", page.content);
    }
    assert!(get(&mut app, &server, "/json").content.ends_with("]\n{\"a\": \"<b>\"}"));
    assert!(get(&mut app, &server, "/latin").content.ends_with("café"));
    assert!(get(&mut app, &server, "/meta").content.ends_with("日本"));
}

#[test]
fn redirects_are_followed_to_the_same_host_only() {
    let (server, mut app) = app_with_server();
    assert!(get(&mut app, &server, "/here").content.contains("/page: status 200]\n# Head"));
    let told = get(&mut app, &server, "/there");
    assert!(told.content.contains("redirects to http://192.0.2.7/x, which is not followed"), "{}", told.content);
    assert!(get(&mut app, &server, "/odd").content.contains("redirects to an invalid address: only http and https"));
    let far = get(&mut app, &server, "/far").content;
    assert!(far.contains("redirects to an invalid address: it is longer than 8192 bytes"), "{far:.200}");
    let before = server.requests.load(Ordering::SeqCst);
    assert!(get(&mut app, &server, "/circle").content.contains("more than 5 redirects"));
    assert_eq!(server.requests.load(Ordering::SeqCst) - before, 6);
}

#[test]
fn what_is_received_is_bounded_in_size_and_time() {
    let (server, mut app) = app_with_server();
    for path in ["/large", "/bomb", "/endless"] {
        let result = get(&mut app, &server, path);
        assert!(
            result.content.contains("only the first 4194304 bytes were received"),
            "{path}: {:.200}",
            result.content
        );
        assert!(result.content.len() < 40_000 && !result.is_error, "{path}: {}", result.content.len());
    }
    let short = |path: &str| json!({"url": server.url(path), "timeout": 500});
    let cut = fetch(&mut app, &short("/stalls")).content;
    assert!(cut.contains("only the first 13 bytes") && cut.ends_with("the beginning"), "{cut}");
    let silent = fetch(&mut app, &short("/silent"));
    assert!(silent.is_error && silent.content.contains("no response from 127.0.0.1"), "{}", silent.content);
}

#[test]
fn what_is_no_page_is_said() {
    let (server, mut app) = app_with_server();
    for (path, expected) in [
        ("/image", "not text: image/png, 6 bytes"),
        ("/gone", "status 404]\n# Nothing here"),
        ("/garbage", "127.0.0.1"),
    ] {
        let result = get(&mut app, &server, path);
        assert!(result.is_error && result.content.contains(expected), "{path}: {}", result.content);
    }
    let typed = get(&mut app, &server, "/typed").content;
    assert!(typed.contains("not text: a/xxx") && typed.len() < 300, "{typed:.500}");
    let deep = get(&mut app, &server, "/deep");
    assert!(deep.content.contains("the HTML is too complex to convert") && !deep.is_error, "{:.200}", deep.content);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut other = self::app(Policy::Yolo, &[format!("net(127.0.0.1:{closed})")]);
    let refused = fetch(&mut other, &json!({"url": format!("http://127.0.0.1:{closed}/")}));
    assert!(refused.is_error && refused.content.contains("refused the connection"), "{}", refused.content);
    for url in ["ftp://example.org/", "https://user:pass@example.org/", ""] {
        assert!(fetch(&mut app, &json!({ "url": url })).content.contains("`url`: "));
    }
}

#[test]
fn a_host_asks_unless_a_rule_allows_it() {
    let server = Server::start();
    let mut app = app(Policy::Auto, &[]);
    app.say(0, &format!("%tool web_fetch {}", json!({"url": server.url("/page")})));
    app.turn_until_asked(0);
    let question = app.agent(0).question().unwrap().question.clone();
    assert_eq!(question.detail[0], server.url("/page"));
    let rule = format!("net(127.0.0.1:{})", server.port);
    assert_eq!(question.ways.rules.iter().map(ToString::to_string).collect::<Vec<_>>(), [rule.as_str()]);
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
    app.answer(0, true);
    app.turn_until_idle();
    assert!(app.tool_results(0)[0].content.contains("# Head"));
    let mut allowed = self::app(Policy::Never, &[rule]);
    assert!(get(&mut allowed, &server, "/page").content.contains("# Head"));
    let mut refused = self::app(Policy::Never, &["net(*)".into()]);
    let result = get(&mut refused, &server, "/page");
    assert!(result.is_error && result.content.contains("needs approval"), "another port: {}", result.content);
    for (policy, rule) in [(Policy::Yolo, None), (Policy::Auto, Some(format!("net(*:{})", server.port)))] {
        let mut app = self::app(policy, rule.as_slice());
        for host in ["127.0.0.1", "localhost", "[::ffff:7f00:1]"] {
            let url = format!("http://{host}:{}/page", server.port);
            app.say(0, &format!("%tool web_fetch {}", json!({ "url": url })));
            app.turn_until_asked(0);
            app.answer(0, false);
            app.turn_until_idle();
        }
    }
    assert_eq!(server.requests.load(Ordering::SeqCst), 2);
}

#[test]
fn a_deny_rule_with_a_port_refuses_that_port() {
    let rule = |text: &str| vec![text.parse().expect("a rule")];
    let rules = Rules { allow: rule("net(localhost)"), deny: rule("net(localhost:443)"), ..Rules::default() };
    let mut app = app_with_agents(1, Plan { policy: Policy::Yolo, rules, real_time: true, ..Plan::default() });
    let result = fetch(&mut app, &json!({"url": "https://localhost/"}));
    assert!(result.is_error && result.content.contains("the rule deny net(localhost:443)"), "{}", result.content);
}

#[test]
fn a_proxy_of_the_environment_is_used_for_its_scheme_only() {
    let server = Server::start();
    let proxy = server.url("");
    for (variables, expected) in [
        (&[("http_proxy", proxy.as_str())][..], "status 500]\nhttp://name.invalid/page"),
        (&[("https_proxy", &proxy)], "cannot resolve name.invalid: no address found"),
        (&[("http_proxy", &proxy), ("no_proxy", ".invalid")], "cannot resolve name.invalid: no address found"),
    ] {
        let home = Home::new();
        let call = format!("%tool web_fetch {}", json!({"url": "http://name.invalid/page"}));
        let mut command = home.command(PROGRAM, &["-p", "--approval", "yolo", &call]);
        command.envs(variables.iter().copied());
        let response = Program::start(command).ends();
        assert!(response.out.contains(expected), "{variables:?}: {}{}", response.out, response.err);
    }
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

#[test]
fn esc_ends_a_transfer_and_closes_its_connection() {
    let (server, mut app) = app_with_server();
    app.say(0, &format!("%tool web_fetch {}", json!({"url": server.url("/silent")})));
    app.turn_until("the request", |_| server.requests.load(Ordering::SeqCst) == 1);
    app.turn_until("the state", |app| app.screen_text().contains("fetching a page"));
    app.ask(0, Change::Interrupt);
    app.turn_until_idle();
    app.turn_until("the end of the connection", |_| server.closed.load(Ordering::SeqCst) == 1);
}
