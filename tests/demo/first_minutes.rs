//! A new user's first minutes: nothing is configured, a server is named, a model is chosen; a first answer, a fork, and the
//! first question. Keys and seconds are counted: it takes less than a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::tour::{self, Tour};

const MODELS: &str = r#"{"object":"list","data":[{"id":"small","object":"model"},{"id":"large","object":"model"}]}"#;
/// For a person, from the first screen to the answer of a forked agent.
const MOST: Duration = Duration::from_secs(60);
/// A person takes this long for a key, with the time to think of it.
const KEY: Duration = Duration::from_millis(250);

pub fn play(tour: &mut Tour) {
    let server = Server::start();
    let start = Instant::now();
    tour.until("which provider?");
    tour.look();
    tour.picture("setup");
    tour.line("another");
    tour.until("the URL of the server");
    tour.line(&server.url);
    tour.until("which model of server?");
    tour.press("\r");
    tour.until("server/small answers");
    tour.look();
    tour.line("What is a monolith?");
    tour.until("One large stone.");
    tour.line("/fork --name scout run the tests");
    tour.until("y to run it");
    tour.press("y");
    tour.until("All tests pass.");
    let (played, keys) = (start.elapsed(), tour.pressed);
    tour.look();
    tour.picture("first-minutes");
    tour.line("/exit");
    tour.see_it_end();
    let looks = played.saturating_sub(tour::KEY * keys);
    let person = looks + KEY * keys;
    println!(
        "from nothing to the answer of a forked agent: {keys} keys, {:.0} s at 4 keys a second ({:.1} s as played)",
        person.as_secs_f64(),
        played.as_secs_f64()
    );
    assert!(person < MOST, "{person:?}");
}

/// A server with two models that answers as the scene needs it.
pub struct Server {
    pub url: String,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        Self::start_with(answer)
    }

    /// Answers every request with this function.
    pub fn start_with(answer: fn(&Exchange)) -> Self {
        let peer = Peer::start();
        let (url, is_over) = (peer.url(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match peer.try_accept() {
                    Some(exchange) => answer(&exchange),
                    None => std::thread::park_timeout(Duration::from_millis(5)),
                }
            }
        });
        Self { url, is_over, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn answer(exchange: &Exchange) {
    if exchange.request().method == "GET" {
        exchange.answer(200, "application/json", MODELS);
        return;
    }
    let body = exchange.request().json();
    let has_result = body["messages"].as_array().and_then(|all| all.last()).is_some_and(|last| last["role"] == "tool");
    let said = last_user_text(&body);
    if said.contains("tests") && !has_result {
        exchange
            .stream()
            .tool_call(0, "call-0", "bash", r#"{"command":"echo 12 passed > tests.log"}"#)
            .finish("tool_calls")
            .done();
        return;
    }
    let text = match said {
        _ if has_result => "All tests pass.",
        said if said.contains("monolith") => "One large stone.",
        _ => "Hello!",
    };
    exchange.stream().text(text).finish("stop").done();
}
