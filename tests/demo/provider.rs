//! The model server of the ten agents: a peer that knows what each of them answers and takes its time, as models do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};

const LOOK_FOR_REQUESTS: Duration = Duration::from_millis(5);
/// Milliseconds before a word of a reply that takes a while.
const SLOW: u64 = 400;
const REPEATED: u64 = 70;
/// The person has gone on by then.
const BEFORE_A_FAILURE: Duration = Duration::from_secs(4);
const BEFORE_THE_FIRST_WORD: Duration = Duration::from_millis(300);

/// One request of an agent and what the server does with it.
enum Step {
    /// A text, with so many milliseconds before each word.
    Says(u64, &'static str),
    /// The same text again and again, until the person stops it.
    Repeats(&'static str),
    /// A text, and a call of this tool with these arguments.
    Calls(&'static str, &'static str, &'static str),
    /// An error instead of a reply.
    Fails(u16, &'static str),
}

use Step::{Calls, Fails, Repeats, Says};

/// What is answered: to an agent whose first prompt begins with the first text, if its last one begins with the second and
/// the model is the third; an empty text matches all. There is one step for each round of tool calls.
type Answer = (&'static str, &'static str, &'static str, &'static [Step]);

const COUNT: &str = r#"{"file_path":"src/cart.rs","old_string":"line.price","new_string":"line.price * line.count"}"#;
const ZERO: &str = r#"{"file_path":"src/cart.rs","old_string":"    cart","new_string":"    assert!(cart.lines.iter().all(|line| line.count > 0));\n    cart"}"#;
const PUSH: &str = r#"{"command":"git push --force origin main"}"#;
const CHECKOUT: &str = "The checkout has three steps, each with one form. The first asks for the address and keeps it while \
    the person goes back. The second shows what delivery costs, by weight and by country. The third has the total with \
    all taxes, and one button. Every step works without scripts, can be printed, and says what is wrong beside the field \
    where it is wrong. An empty cart leads back to the shop. ";
const QUERIES: &str = "The slow ones read `orders` by `customer_id`, which has no index: 340 ms each, 12 a second. The next \
    join `lines` twice and could read a view instead. The third kind sorts all carts by date although only ten are shown. \
    With one index and a limit the page needs 9 ms instead of 700. I measure the others one by one, each with a cold and \
    with a warm cache, and write down what they read. ";

const ANSWERS: &[Answer] = &[
    (
        "what is left",
        "what is left",
        "",
        &[Says(
            20,
            "Three things:\n\n1. **shop**: the total ignores the count\n2. **infra**: `main` is red\n3. **site**: the README does not mention the cart",
        )],
    ),
    (
        "what is left",
        "name one risk",
        "",
        &[Says(SLOW, "The total changes for carts that are stored already: announce it.")],
    ),
    (
        "what is left",
        "which crate",
        "gpt-5",
        &[Says(
            45,
            "Use **rusqlite**:\n\n- one writer, one file\n- its backup can run while the shop does\n- no runtime is needed\n\n```rust\nlet db = Connection::open(path)?;\ndb.pragma_update(None, \"journal_mode\", \"wal\")?;\n```",
        )],
    ),
    (
        "what is left",
        "which crate",
        "gpt-5-mini",
        &[Says(
            40,
            "Use **sqlx**: queries are checked when the shop is compiled. It is async, so the handlers have to be as well.",
        )],
    ),
    (
        "what is left",
        "which crate",
        "gpt-5-nano",
        &[Says(30, "Use **diesel**:\n\n1. migrations are included\n2. types for every table\n3. long compile times")],
    ),
    (
        "what is left",
        "then sketch",
        "",
        &[Says(30, "One table for carts, one for lines, and a foreign key between them.")],
    ),
    (
        "make the total",
        "make the total",
        "",
        &[
            Calls("", "read_file", r#"{"file_path":"src/cart.rs"}"#),
            Calls("The total ignores the count.", "edit_file", COUNT),
            Says(20, "The count is used now."),
        ],
    ),
    (
        "make the total",
        "refuse a count",
        "",
        &[
            Calls("A line with a count of zero is a mistake.", "edit_file", ZERO),
            Says(20, "A count of zero is an error now."),
        ],
    ),
    ("make the total", "write a test", "", &[Says(20, "The test adds two lines of three pieces and expects 30.")]),
    (
        "run the tests",
        "run the tests",
        "",
        &[Calls("", "bash", r#"{"command":"sh test.sh"}"#), Says(20, "All three tests pass.")],
    ),
    ("run the tests", "name one risk", "", &[Says(SLOW, "No test has a cart with two lines of the same product.")]),
    ("describe the checkout", "", "", &[Repeats(CHECKOUT)]),
    (
        "publish",
        "publish",
        "",
        &[
            Calls("The remote has two commits that are not here.", "bash", PUSH),
            Says(20, "I rebase on `main` first and push without force."),
        ],
    ),
    (
        "publish",
        "name one risk",
        "",
        &[Says(SLOW, "The rebase touches the migration: run it on a copy of the data first.")],
    ),
    (
        "why is main red",
        "",
        "gpt-5-codex",
        &[Fails(404, "The model gpt-5-codex does not exist or you have no access to it")],
    ),
    ("why is main red", "", "", &[Says(20, "The runner has an old linker; `apt-get install lld` mends it.")]),
    ("which queries", "", "", &[Repeats(QUERIES)]),
    (
        "describe the cart",
        "name one risk",
        "",
        &[Says(SLOW, "The README promises a price that includes taxes. Does it?")],
    ),
    ("describe the cart", "", "", &[Says(SLOW, "The README describes the cart now: adding, counting and paying.")]),
    ("draft the release", "name one risk", "", &[Says(SLOW, "The notes name a date. Nobody has agreed to it yet.")]),
    (
        "draft the release",
        "",
        "",
        &[Says(SLOW, "The release notes are drafted: two features, one fix, one thank-you.")],
    ),
    (
        "check the sitemap",
        "check the sitemap",
        "",
        &[Says(
            8,
            "Of 212 pages one has no canonical link: `/cart`.\n\nPut this into `head`:\n\n```html\n<link rel=\"canonical\" href=\"https://shop.example/cart\">\n```",
        )],
    ),
    ("check the sitemap", "put it", "", &[Says(20, "`/cart` has its canonical link now.")]),
    ("check the sitemap", "", "", &[Repeats(CHECKOUT)]),
];

/// Serves until it is dropped.
pub struct Provider {
    pub url: String,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    pub fn start() -> Self {
        let peer = Peer::start();
        let (url, is_over) = (peer.url(), Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match peer.try_accept() {
                    Some(exchange) => drop(std::thread::spawn(move || answer(&exchange))),
                    None => std::thread::sleep(LOOK_FOR_REQUESTS),
                }
            }
        });
        Self { url, is_over, thread: Some(thread) }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A server that has failed was seen in the tour.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(exchange: &Exchange) {
    let request = exchange.request().json();
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_user = |message: &&Value| message["role"] == "user";
    let first =
        messages.iter().find(is_user).map(|user| last_user_text(&json!({"messages": [user]}))).unwrap_or_default();
    let last = last_user_text(&request);
    let model = request["model"].as_str().unwrap_or_default();
    let round =
        messages.iter().rev().take_while(|message| !is_user(message)).filter(|message| message["role"] == "tool");
    let found = ANSWERS.iter().find(|(begins, ends, of, _)| {
        first.starts_with(begins) && last.starts_with(ends) && (of.is_empty() || *of == model)
    });
    let tokens = exchange.request().body.len() as u64 / 4;
    let step = found.and_then(|(.., steps)| steps.get(round.count()));
    if !matches!(step, None | Some(Fails(..))) {
        exchange.stream();
    }
    match step {
        Some(Says(pace, text)) => {
            stream(exchange, *pace, text);
            exchange.finish("stop").usage(tokens, text.len() as u64).done();
        }
        Some(Repeats(text)) => {
            while !exchange.is_closed_by_client() {
                stream(exchange, REPEATED, text);
            }
        }
        Some(Calls(text, tool, arguments)) => {
            stream(exchange, 20, text);
            let id = format!("call-{tokens}");
            exchange.tool_call(0, &id, tool, arguments).finish("tool_calls").usage(tokens, 90).done();
        }
        Some(Fails(status, message)) => {
            std::thread::sleep(BEFORE_A_FAILURE);
            exchange.error(*status, "invalid_request_error", message);
        }
        None => {
            exchange.error(400, "tour", &format!("the tour has no answer to {last:?}"));
        }
    }
}

fn stream(exchange: &Exchange, pace: u64, text: &str) {
    std::thread::sleep(BEFORE_THE_FIRST_WORD);
    for word in text.split_inclusive(' ') {
        exchange.text(word);
        std::thread::sleep(Duration::from_millis(pace));
        if exchange.is_closed_by_client() {
            return;
        }
    }
}
