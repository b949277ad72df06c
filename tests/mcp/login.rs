//! Logins at servers over HTTP, in the real program: the peer is the server, and who grants access to it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::internals::sha256;
use crate::support::peer::{Exchange, Peer};
use crate::support::program::{Home, Program};

/// What a browser or a form says, without its escapes.
type Parameters = BTreeMap<String, String>;

fn parameters(query: &str) -> Parameters {
    let decoded = |text: &str| text.replace("%3A", ":").replace("%2F", "/").replace("%20", " ");
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.into(), decoded(value)))
        .collect()
}

struct Scene {
    home: Home,
    peer: Peer,
}

impl Scene {
    fn new() -> Self {
        let (home, peer) = (Home::new(), Peer::start());
        let url = format!("http://{}/mcp", peer.address());
        let added = home.run(&["mcp", "add", "web", "--url", &url]);
        assert_eq!(added.code, 0, "{added:?}");
        Self { home, peer }
    }

    fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.peer.address())
    }

    /// The next request, which has to be this one.
    fn next(&self, method: &str, path: &str) -> Exchange {
        let exchange = self.peer.accept();
        assert_eq!((&*exchange.request().method, &*exchange.request().path), (method, path));
        exchange
    }

    fn answers(&self, (method, path): (&str, &str), status: u16, value: &Value) -> Exchange {
        let exchange = self.next(method, path);
        exchange.answer(status, "application/json", value.to_string());
        exchange
    }

    fn begin(&self, more: &[&str]) -> Program {
        self.home.start_with_input(&[&["mcp", "login", "web"], more].concat())
    }

    /// Refuses the first message, and says who grants access.
    fn refuses(&self) {
        let challenge = format!("Bearer resource_metadata=\"{}\", scope=\"read write\"", self.at("/meta"));
        let exchange = self.next("POST", "/mcp");
        assert_eq!(exchange.request().json()["method"], "server/discover");
        assert_eq!(exchange.request().header("authorization"), None);
        exchange.head(401, &[("www-authenticate", &challenge), ("content-length", "0")]);
        let found = json!({"resource": self.at("/mcp"), "authorization_servers": [self.at("/tenant")]});
        self.answers(("GET", "/meta"), 200, &found);
    }

    fn metadata(&self) -> Value {
        json!({
            "issuer": self.at("/tenant"),
            "authorization_endpoint": self.at("/authorize"),
            "token_endpoint": self.at("/token"),
            "registration_endpoint": self.at("/register"),
            "code_challenge_methods_supported": ["S256"],
        })
    }

    fn has_metadata(&self, metadata: &Value) {
        self.answers(("GET", "/.well-known/oauth-authorization-server/tenant"), 200, metadata);
    }

    /// Up to the address that the person is to open: its parameters.
    fn is_shown(&self, program: &Program) -> Parameters {
        self.refuses();
        self.has_metadata(&self.metadata());
        let registered = self.answers(("POST", "/register"), 201, &json!({"client_id": "c-1"}));
        assert_eq!(registered.request().json()["token_endpoint_auth_method"], "none");
        let shown = shown_parameters(program, &self.at("/authorize"));
        assert_eq!(registered.request().json()["redirect_uris"], json!([shown["redirect_uri"]]));
        shown
    }

    /// Grants these tokens for a code or a refresh token: the form that was sent.
    fn grants(&self, tokens: &Value) -> Parameters {
        let exchange = self.answers(("POST", "/token"), 200, tokens);
        parameters(std::str::from_utf8(&exchange.request().body).expect("a form"))
    }

    fn logs_in(&self) {
        self.logs_in_with(&tokens(1));
    }

    fn logs_in_with(&self, tokens: &Value) {
        let program = self.begin(&[]);
        let shown = self.is_shown(&program);
        assert!(browse(&shown, &format!("code=xyz&state={}", shown["state"])).contains("200 OK"));
        self.grants(tokens);
        let ended = program.ends();
        assert_eq!(ended.code, 0, "{ended:?}");
    }

    /// A session with this token, until its tools are known.
    fn has_session(&self, token: &str) {
        let answer = |exchange: &Exchange, value: &Value| {
            let body = json!({"jsonrpc": "2.0", "id": exchange.request().json()["id"], "result": value});
            exchange.answer(200, "application/json", body.to_string());
        };
        let exchange = self.next("POST", "/mcp");
        assert_eq!(exchange.request().header("authorization"), Some(&*format!("Bearer {token}")));
        answer(&exchange, &json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}));
        let exchange = self.next("POST", "/mcp");
        assert_eq!(exchange.request().header("authorization"), Some(&*format!("Bearer {token}")));
        answer(&exchange, &json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}));
    }
}

fn tokens(number: u32) -> Value {
    json!({
        "access_token": format!("t-{number}"), "token_type": "Bearer", "expires_in": 3600,
        "refresh_token": format!("r-{number}"),
    })
}

/// The parameters of the address that the program shows.
fn shown_parameters(program: &Program, endpoint: &str) -> Parameters {
    let line = std::iter::repeat_with(|| program.line()).find(|line| line.starts_with(endpoint)).expect("endless");
    parameters(line.split_once('?').expect("parameters").1)
}

/// What the program answers a browser that is sent back to it.
fn browse(shown: &Parameters, query: &str) -> String {
    let address =
        shown["redirect_uri"].strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("an address");
    let mut stream = TcpStream::connect(address.0).expect("it listens");
    write!(stream, "GET /{}?{query} HTTP/1.1\r\nHost: {}\r\n\r\n", address.1, address.0).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_login_in_the_browser_is_used_renewed_and_forgotten() {
    let scene = Scene::new();
    let program = scene.begin(&[]);
    let shown = scene.is_shown(&program);
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "c-1"),
        ("code_challenge_method", "S256"),
        ("scope", "read write"),
        ("resource", &scene.at("/mcp")),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert!(browse(&shown, "code=theirs&state=of-another").contains("404 Not Found"));
    assert!(browse(&shown, &format!("code=xyz&state={}", shown["state"])).contains("200 OK"));
    let form = scene.grants(&tokens(1));
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "xyz"),
        ("client_id", "c-1"),
        ("redirect_uri", &shown["redirect_uri"]),
        ("resource", &scene.at("/mcp")),
    ] {
        assert_eq!(form[name], value, "{name}");
    }
    assert!(form["code_verifier"].len() >= 43, "{form:?}");
    let challenge = BASE64_URL_SAFE_NO_PAD.decode(&shown["code_challenge"]).expect("base64url");
    let challenge: String = challenge.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(challenge, sha256(&form["code_verifier"]));
    let ended = program.ends();
    assert!(ended.code == 0 && ended.out.contains("logged in"), "{ended:?}");
    let file = scene.home.data().join("mcp-logins.json");
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    assert!(scene.home.run(&["mcp", "list"]).out.contains(", logged in)"));

    let test = scene.home.start(&["mcp", "test", "web"]);
    scene.has_session("t-1");
    assert!(test.ends().out.contains("ok    web: 1 tool"));

    // The server does not take it any more.
    let test = scene.home.start(&["mcp", "test", "web"]);
    scene.answers(("POST", "/mcp"), 401, &json!({}));
    let form = scene.grants(&tokens(2));
    assert_eq!((&*form["grant_type"], &*form["refresh_token"]), ("refresh_token", "r-1"));
    scene.has_session("t-2");
    assert!(test.ends().out.contains("ok    web: 1 tool"));

    let test = scene.home.start(&["mcp", "test", "web"]);
    scene.answers(("POST", "/mcp"), 401, &json!({}));
    scene.answers(("POST", "/token"), 400, &json!({"error": "invalid_grant"}));
    let ended = test.ends();
    let expected = "its login has ended (no token was granted: invalid_grant (HTTP 400)): polylogue mcp login web";
    assert!(ended.code == 1 && ended.out.contains(expected), "{ended:?}");

    assert!(scene.home.run(&["mcp", "logout", "web"]).out.contains("the login is forgotten"));
    assert!(!scene.home.run(&["mcp", "list"]).out.contains("logged in"));
}

#[test]
fn a_new_token_that_is_refused_as_well_ends_the_session() {
    let scene = Scene::new();
    scene.logs_in();
    let test = scene.home.start(&["mcp", "test", "web"]);
    scene.answers(("POST", "/mcp"), 401, &json!({}));
    scene.grants(&tokens(2));
    scene.answers(("POST", "/mcp"), 401, &json!({}));
    let ended = test.ends();
    assert!(ended.out.contains("fail  web: needs a login (HTTP 401): polylogue mcp login web"), "{ended:?}");
    assert!(scene.peer.try_accept().is_none());
}

#[test]
fn the_address_of_a_browser_on_another_machine_can_be_pasted() {
    let scene = Scene::new();
    let mut program = scene.begin(&["--scope", "less"]);
    let shown = scene.is_shown(&program);
    assert_eq!(shown["scope"], "less");
    program.write("what is this?\n");
    program.write(&format!("{}?code=other&state=x\n", shown["redirect_uri"]));
    // Longer than what standard input is read by.
    let code = "pasted".repeat(400);
    program.write(&format!("  {}?code={code}&state={}\n", shown["redirect_uri"], shown["state"]));
    assert_eq!(scene.grants(&tokens(1))["code"], code);
    assert_eq!(program.ends().code, 0);
}

#[test]
fn a_login_that_is_declined_or_not_safe_is_none() {
    let scene = Scene::new();
    let program = scene.begin(&[]);
    let shown = scene.is_shown(&program);
    assert!(browse(&shown, &format!("error=access_denied&state={}", shown["state"])).contains("refused"));
    let ended = program.ends();
    assert!(ended.code != 0 && ended.err.contains("the login was refused: access_denied"), "{ended:?}");

    for (key, value, expected) in [
        ("issuer", json!("https://elsewhere.example"), "has the metadata of \"https://elsewhere.example\""),
        ("code_challenge_methods_supported", json!(["plain"]), "does not protect logins with PKCE"),
        ("token_endpoint", json!("http://example.org/token"), "it is not https"),
        ("token_endpoint", json!("example.org/token"), "it does not begin with https://"),
    ] {
        let mut metadata = scene.metadata();
        metadata[key] = value;
        let program = scene.begin(&[]);
        scene.refuses();
        scene.has_metadata(&metadata);
        let ended = program.ends();
        assert!(ended.code != 0 && ended.err.contains(expected), "{key}: {ended:?}");
    }
    assert!(!scene.home.data().join("mcp-logins.json").exists());
}

#[test]
fn a_client_that_a_person_has_registered_shows_its_secret() {
    let mut scene = Scene::new();
    scene.home.variables.push(("CLIENT_SECRET".into(), "s3cret".into()));
    let program = scene.begin(&["--client-id", "mine", "--client-secret-env", "CLIENT_SECRET"]);
    scene.refuses();
    scene.has_metadata(&scene.metadata());
    let shown = shown_parameters(&program, &scene.at("/authorize"));
    assert_eq!(shown["client_id"], "mine");
    browse(&shown, &format!("code=xyz&state={}", shown["state"]));
    let exchange = scene.answers(("POST", "/token"), 200, &tokens(1));
    assert_eq!(exchange.request().header("authorization"), Some("Basic bWluZTpzM2NyZXQ="));
    assert_eq!(program.ends().code, 0);
}

/// The revision 2025-03-26 has no metadata of the server.
#[test]
fn a_server_without_metadata_grants_access_itself() {
    let scene = Scene::new();
    let program = scene.begin(&[]);
    scene.answers(("POST", "/mcp"), 401, &json!({}));
    for path in [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration",
    ] {
        scene.answers(("GET", path), 404, &json!({}));
    }
    scene.answers(("POST", "/register"), 201, &json!({"client_id": "c-1"}));
    let shown = shown_parameters(&program, &scene.at("/authorize"));
    browse(&shown, &format!("code=xyz&state={}", shown["state"]));
    scene.grants(&tokens(1));
    assert_eq!(program.ends().code, 0);
}

#[test]
fn a_chat_uses_a_new_login_with_its_next_message() {
    let scene = Scene::new();
    let mut chat =
        scene.home.start_with_input(&["-p", "--input-format", "stream-json", "--output-format", "stream-json"]);
    let message = |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}}).to_string() + "\n";
    chat.write(&message("first"));
    scene.answers(("POST", "/mcp"), 401, &json!({}));
    chat.next("finish");
    scene.logs_in();
    chat.write(&message("second"));
    scene.has_session("t-1");
    chat.next("finish");
    assert_eq!(chat.ends().code, 0);
}

#[test]
fn a_running_session_uses_a_new_login_too() {
    let scene = Scene::new();
    scene.logs_in();
    let mut chat = scene.home.start_with_input(&[
        "-p",
        "--allow",
        "mcp(*)",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
    ]);
    let message = || {
        let text = "%tool mcp__web__look {}";
        json!({"type": "user", "message": {"role": "user", "content": text}}).to_string() + "\n"
    };
    chat.write(&message());
    scene.has_session("t-1");
    for number in [1, 2] {
        let exchange = scene.next("POST", "/mcp");
        assert_eq!(exchange.request().header("authorization"), Some(&*format!("Bearer t-{number}")));
        let result = json!({"content": [{"type": "text", "text": "seen"}]});
        let body = json!({"jsonrpc": "2.0", "id": exchange.request().json()["id"], "result": result});
        exchange.answer(200, "application/json", body.to_string());
        chat.next("finish");
        if number == 1 {
            scene.logs_in_with(&tokens(2));
            chat.write(&message());
        }
    }
    assert_eq!(chat.ends().code, 0);
}

#[test]
fn a_request_that_needs_more_rights_says_which_login_gives_them() {
    let scene = Scene::new();
    scene.logs_in();
    let test = scene.home.start(&["mcp", "test", "web"]);
    for _ in ["server/discover", "initialize"] {
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"read admin\"";
        scene.next("POST", "/mcp").head(403, &[("www-authenticate", challenge), ("content-length", "0")]);
    }
    let ended = test.ends();
    let expected = "needs a login that may do more (HTTP 403): polylogue mcp login web --scope 'read admin'";
    assert!(ended.out.contains(expected), "{ended:?}");
    let program = scene.begin(&["--scope", "read admin"]);
    assert_eq!(scene.is_shown(&program)["scope"], "read write admin");
    program.signal(rustix::process::Signal::TERM);
}

#[test]
fn a_server_that_answers_everybody_needs_no_login() {
    let scene = Scene::new();
    let program = scene.begin(&[]);
    for _ in ["server/discover", "initialize"] {
        scene.answers(("POST", "/mcp"), 200, &json!({}));
    }
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        scene.answers(("GET", path), 404, &json!({}));
    }
    let ended = program.ends();
    assert!(ended.code == 0 && ended.out.contains("web needs no login"), "{ended:?}");
    let added = scene.home.run(&["mcp", "add", "program", "--", "true"]);
    assert_eq!(added.code, 0);
    let ended = scene.home.run(&["mcp", "login", "program"]);
    assert!(ended.code == 2 && ended.err.contains("only servers with a url have a login"), "{ended:?}");
}

#[test]
fn an_issuer_that_a_person_names_may_grant_access() {
    let scene = Scene::new();
    let program = scene.begin(&["--issuer", "https://elsewhere.example"]);
    scene.refuses();
    let mut metadata = scene.metadata();
    metadata["issuer"] = json!("https://elsewhere.example/");
    metadata["scopes_supported"] = json!(["read", "write", "offline_access"]);
    scene.has_metadata(&metadata);
    scene.answers(("POST", "/register"), 201, &json!({"client_id": "c-1"}));
    let shown = shown_parameters(&program, &scene.at("/authorize"));
    assert_eq!(shown["scope"], "read write offline_access");
    browse(&shown, &format!("code=xyz&state={}", shown["state"]));
    scene.grants(&tokens(1));
    assert_eq!(program.ends().code, 0);
}

#[test]
fn a_token_is_renewed_before_it_ends_and_used_for_as_long_as_it_lasts() {
    let scene = Scene::new();
    let program = scene.begin(&[]);
    let shown = scene.is_shown(&program);
    browse(&shown, &format!("code=xyz&state={}", shown["state"]));
    let mut soon = tokens(1);
    soon["expires_in"] = json!(20);
    scene.grants(&soon);
    assert_eq!(program.ends().code, 0);
    let test = scene.home.start(&["mcp", "test", "web"]);
    scene.answers(("POST", "/token"), 503, &json!({}));
    scene.has_session("t-1");
    assert!(test.ends().out.contains("ok    web: 1 tool"));
    let test = scene.home.start(&["mcp", "test", "web"]);
    scene.grants(&tokens(2));
    scene.has_session("t-2");
    assert!(test.ends().out.contains("ok    web: 1 tool"));
}

#[test]
fn tools_cannot_read_the_tokens_even_where_nothing_is_stored() {
    let scene = Scene::new();
    scene.logs_in();
    let file = scene.home.data().join("mcp-logins.json");
    let call = format!("%tool read_file {}", json!({"path": file}));
    let program = scene.home.start(&["-p", "--ephemeral", "-m", "echo", "--approval", "yolo", &call]);
    scene.has_session("t-1");
    let ended = program.ends();
    assert!(!ended.out.contains("t-1") && !ended.err.contains("t-1"), "{ended:?}");
    assert!(ended.out.contains("access denied: data and configuration of polylogue"), "{ended:?}");
}

#[test]
fn a_code_can_be_entered_on_another_machine() {
    let scene = Scene::new();
    let program = scene.begin(&["--device"]);
    scene.refuses();
    let mut metadata = scene.metadata();
    metadata["device_authorization_endpoint"] = json!(scene.at("/device"));
    scene.has_metadata(&metadata);
    let registered = scene.answers(("POST", "/register"), 201, &json!({"client_id": "c-1"}));
    let grant = "urn:ietf:params:oauth:grant-type:device_code";
    assert_eq!(registered.request().json()["grant_types"], json!([grant, "refresh_token"]));
    let device = json!({
        "device_code": "d-1", "user_code": "ABCD-EFGH", "verification_uri": scene.at("/enter"), "expires_in": 600,
        "interval": 0,
    });
    scene.answers(("POST", "/device"), 200, &device);
    let shown: Vec<String> = std::iter::repeat_with(|| program.line()).take(6).collect();
    assert!(shown.contains(&scene.at("/enter")) && shown[5].contains("ABCD-EFGH"), "{shown:?}");
    scene.answers(("POST", "/token"), 400, &json!({"error": "authorization_pending"}));
    scene.answers(("POST", "/token"), 503, &json!({}));
    let form = scene.grants(&tokens(1));
    assert_eq!((&*form["grant_type"], &*form["device_code"]), (grant, "d-1"));
    assert_eq!(program.ends().code, 0);

    let program = scene.begin(&["--device"]);
    scene.refuses();
    scene.has_metadata(&scene.metadata());
    let ended = program.ends();
    assert!(ended.code == 2 && ended.err.contains("leave out --device"), "{ended:?}");
}
