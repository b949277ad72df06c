//! Colours of several languages, and the life of the thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::{Colored, Highlighter, Job, Outcome};
use crate::base::job::Wake;
use crate::domain::frame::Color;

fn wake() -> (Wake, Receiver<()>) {
    let (sender, receiver) = channel();
    (Arc::new(move || _ = sender.send(())), receiver)
}

fn job(block: u64, language: &str, first: usize, lines: &[&str]) -> Job {
    Job { block, language: language.into(), first, lines: lines.iter().map(|line| (*line).to_owned()).collect() }
}

fn next(highlighter: &mut Highlighter, woken: &Receiver<()>) -> Colored {
    loop {
        if let Some(result) = highlighter.take().pop() {
            return result;
        }
        woken.recv_timeout(Duration::from_secs(60)).expect("the thread answers");
    }
}

/// The coloured parts of a text.
fn colored(language: &str, text: &str) -> Vec<(String, Color)> {
    let (wake, woken) = wake();
    let mut highlighter = Highlighter::default();
    let lines: Vec<&str> = text.lines().collect();
    highlighter.send(job(1, language, 0, &lines), &wake);
    let Outcome::Lines(parts) = next(&mut highlighter, &woken).outcome else { panic!("{language} is known") };
    let part = |(line, parts): (&&str, Vec<(std::ops::Range<usize>, Color)>)| {
        parts.into_iter().map(|(range, color)| (line[range].to_owned(), color)).collect::<Vec<_>>()
    };
    lines.iter().zip(parts).flat_map(part).collect()
}

#[test]
fn code_has_the_colours_of_its_parts() {
    for (language, text, expected) in [
        ("rust", "fn main() { // x", vec![("fn", Color::Keyword), ("main", Color::Function), ("// x", Color::Comment)]),
        (
            "python",
            "return \"a\" + 1",
            vec![("return", Color::Keyword), ("\"a\"", Color::String), ("1", Color::Number)],
        ),
        ("js", "const a = null;", vec![("const", Color::Keyword), ("null", Color::Constant)]),
        ("json", "{\"a\": true}", vec![("true", Color::Constant)]),
        ("html", "<p class=\"x\">", vec![("p", Color::Tag), ("class", Color::Tag), ("\"x\"", Color::String)]),
        ("diff", "+new\n-old", vec![("+new", Color::Added), ("-old", Color::Removed)]),
        ("c", "/* a\nb */ return 0;", vec![("/* a", Color::Comment), ("b */", Color::Comment), ("0", Color::Number)]),
    ] {
        let found = colored(language, text);
        for (part, color) in expected {
            assert!(found.contains(&(part.to_owned(), color)), "{language}: {part} in {found:?}");
        }
    }
}

/// What models write behind the fence, most of all these.
const LANGUAGES: &str = "rust rs python py python3 javascript js jsx typescript ts tsx json jsonc yaml yml toml bash sh shell \
    zsh console fish c cpp c++ h csharp c# cs java kotlin scala swift go golang ruby rb php perl lua sql html css scss xml \
    markdown md diff patch dockerfile makefile make cmake nix haskell hs elixir erlang clojure r julia dart zig ini graphql \
    terraform hcl protobuf proto vue svelte latex tex vim nginx objective-c ocaml groovy asm awk http Rust JSON";

#[test]
fn the_names_that_models_use_are_known() {
    let (wake, woken) = wake();
    let mut highlighter = Highlighter::default();
    let mut outcome = |language: &str| {
        highlighter.send(job(1, language, 0, &["x"]), &wake);
        next(&mut highlighter, &woken).outcome
    };
    for known in LANGUAGES.split_whitespace() {
        assert_ne!(outcome(known), Outcome::Unknown, "{known}");
    }
    for unknown in ["text", "plaintext", "no-such-language", ""] {
        assert_eq!(outcome(unknown), Outcome::Unknown, "{unknown}");
    }
}

#[test]
fn code_within_many_brackets_has_its_colours_and_text_after_them_its_own() {
    let nested = format!("{}1{} 2", "[".repeat(90), "]".repeat(90));
    assert_eq!(colored("json", &nested), [("1".to_owned(), Color::Number), ("2".to_owned(), Color::Number)]);
}

#[test]
fn a_block_in_parts_is_coloured_as_at_once_and_again_if_it_was_forgotten() {
    let (wake, woken) = wake();
    let mut highlighter = Highlighter::default();
    let lines = ["let a = \"one", "two\";", "/* three", "four */ 5"];
    highlighter.send(job(1, "rust", 0, &lines), &wake);
    let Outcome::Lines(whole) = next(&mut highlighter, &woken).outcome else { panic!("Rust is known") };
    for (at, line) in lines.iter().enumerate() {
        highlighter.send(job(2, "rust", at, &[line]), &wake);
        let result = next(&mut highlighter, &woken);
        assert_eq!((result.first, result.outcome), (at, Outcome::Lines(vec![whole[at].clone()])));
    }
    highlighter.send(job(3, "rust", 2, &lines[2..]), &wake);
    assert_eq!(next(&mut highlighter, &woken).outcome, Outcome::Forgotten);
    for block in 10..80 {
        highlighter.send(job(block, "rust", 0, &["x"]), &wake);
        next(&mut highlighter, &woken);
    }
    highlighter.send(job(1, "rust", 4, &["x"]), &wake);
    assert_eq!(next(&mut highlighter, &woken).outcome, Outcome::Forgotten, "only some blocks are kept");
}

#[test]
fn the_thread_ends_when_there_is_nothing_to_do_and_starts_again() {
    let (wake, woken) = wake();
    let mut highlighter = Highlighter::default();
    highlighter.idle = Duration::from_millis(1);
    for part in 0..3 {
        highlighter.send(job(1, "rust", part, &["x"]), &wake);
        let outcome = next(&mut highlighter, &woken).outcome;
        assert_eq!(outcome == Outcome::Forgotten, part > 0, "a new thread knows nothing: {outcome:?}");
        let (shared, end) = (highlighter.exchange.lock(), Duration::from_secs(60));
        let ended = highlighter.exchange.changed.wait_timeout_while(shared, end, |shared| shared.is_running);
        assert!(!ended.expect("not poisoned").1.timed_out());
        assert!(!highlighter.is_busy());
    }
}
