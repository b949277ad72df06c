//! Three changes of one repository at once, each by an agent in a worktree of its own: one asks, one is thrown away, two
//! land. The keys besides the prompts are counted.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::first_minutes::Server;
use crate::support::openai::last_user_text;
use crate::support::peer::Exchange;
use crate::tour::{Place, Tour};

/// For all of it, besides what the agents are asked for.
const MOST_KEYS: u32 = 40;

const CART: &str = "//! The cart.\n\npub struct Cart {\n    lines: Vec<Line>,\n}\n\nimpl Cart {\n    /// What all of it costs.\n    \
    pub fn total(&self) -> Money {\n        self.lines.iter().map(|l| l.price).sum()\n    }\n\n    \
    pub fn is_empty(&self) -> bool {\n        self.lines.is_empty()\n    }\n}\n";

/// What an agent is asked for, the command that does it, and what it says then.
const WORK: [(&str, &str, &str); 3] = [
    (
        "make the total count the pieces",
        "sed -i 's/What all of it costs/The price of all pieces/; s/l.price/l.price * l.count/' src/cart.rs",
        "The total counts the pieces now.",
    ),
    (
        "add a page about prices and publish it",
        "echo '# Prices' > prices.md && make publish",
        "The page is there, and published.",
    ),
    ("call it a basket", "sed -i 's/Cart/Basket/g' src/cart.rs", "It is called Basket, but its users do not build."),
];

/// A repository below a home directory, whose owner is asked before anything is published.
pub fn repository(home: &Path) -> PathBuf {
    let (repo, config) = (home.join("shop"), home.join(".config/polylogue"));
    for directory in [&repo.join("src"), &config] {
        std::fs::create_dir_all(directory).expect("a directory");
    }
    for (path, text) in [
        (config.join("config.toml"), "[rules]\nask = [\"bash(make publish*)\"]\n"),
        (repo.join("src/cart.rs"), CART),
        (repo.join("Makefile"), "publish:\n\t@echo published\n"),
    ] {
        std::fs::write(path, text).expect("a file");
    }
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "Ada"],
        &["config", "user.email", "ada@localhost"],
        &["add", "."],
        &["commit", "-q", "-m", "the cart"],
    ] {
        git(&repo, args);
    }
    repo
}

fn git(repo: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(repo).output().expect("git runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn play(place: &Place, repo: &Path, pictures: Option<PathBuf>) {
    let server = Server::start_with(answer);
    let variables = [("OPENAI_BASE_URL", server.url.as_str()), ("POLYLOGUE_MODEL", "openai/gpt-5")];
    let place = Place {
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..place.clone()
    };
    let tour = &mut Tour::new(place, repo, &["--approval", "auto"], pictures);
    tour.until("? keys");
    let mut typed = 0;
    for (prompt, ..) in WORK {
        prompt.chars().for_each(|c| tour.keys(&c.to_string()));
        typed += u32::try_from(prompt.len()).expect("a short prompt");
        tour.keys("\x18");
        tour.keys("\r");
    }
    tour.until(" asks");
    tour.press("\x1ba");
    tour.until("make publish");
    tour.press("y");
    tour.until("3 finished");
    tour.press("\r");
    let mut reviewed: Vec<&str> = Vec::new();
    while reviewed.len() < WORK.len() {
        tour.until_seen("a review of another agent", |screen| {
            file_of(screen).is_some_and(|file| !reviewed.contains(&file))
        });
        let file = ["price * l.count", "# Prices", "Basket"].into_iter().find(|file| tour.sees(file));
        let file = file.expect("it was seen");
        reviewed.push(file);
        if file == "price * l.count" {
            tour.look();
            tour.picture("review");
        }
        if file == "Basket" {
            tour.press("D");
            tour.press("D");
            tour.until("discarded polylogue/call-it-a-basket");
        } else {
            tour.press("l");
            tour.until("land on main");
            tour.press("\r");
            tour.until("landed 1 commit");
            if reviewed.len() < WORK.len() {
                tour.press("]");
            }
        }
    }
    tour.escape();
    let keys = tour.pressed - typed;
    tour.line("/exit");
    tour.see_it_end();
    println!(
        "three changes asked for, answered, reviewed, two landed and one thrown away: {keys} keys besides the prompts"
    );
    assert!(keys <= MOST_KEYS, "{keys}");
    assert_eq!(
        git(repo, &["log", "--no-merges", "--format=%s", "main"]).lines().count(),
        3,
        "the cart and what has landed"
    );
    assert!(!git(repo, &["grep", "-c", "l.count", "main"]).is_empty());
}

fn file_of(screen: &str) -> Option<&'static str> {
    ["price * l.count", "# Prices", "Basket"]
        .into_iter()
        .find(|file| screen.contains("review ─") && screen.contains(file))
}

fn answer(exchange: &Exchange) {
    if exchange.request().method == "GET" {
        exchange.answer(200, "application/json", r#"{"object":"list","data":[{"id":"gpt-5","object":"model"}]}"#);
        return;
    }
    let body = exchange.request().json();
    let has_result = body["messages"].as_array().and_then(|all| all.last()).is_some_and(|last| last["role"] == "tool");
    let said = last_user_text(&body);
    let (_, command, done) =
        WORK.into_iter().find(|(prompt, ..)| said.contains(prompt)).unwrap_or(("", "true", "Done."));
    if has_result {
        exchange.stream().text(done).finish("stop").done();
    } else {
        let arguments = serde_json::json!({"command": command}).to_string();
        exchange.stream().tool_call(0, "call-0", "bash", &arguments).finish("tool_calls").done();
    }
}
