//! Where answers to one prompt agree, as far as their texts show it: no meaning is guessed.
//!
//! Texts are equal if they differ only in blanks, in a full stop at the end and in the case of their first letter.

use crate::base::text;

/// Sentences in all answers are shown if they have this many words; shorter ones are headings or parts of code.
const LEAST_WORDS: usize = 3;

/// Lines that say which of these complete answers agree, and what they all say. None for fewer than two answers.
pub fn agreement(answers: &[(char, String)]) -> Vec<String> {
    if answers.len() < 2 {
        return Vec::new();
    }
    let groups = groups(answers);
    if groups.len() == 1 {
        return vec!["= all agree".to_owned()];
    }
    let (same, single): (Vec<&String>, Vec<&String>) = groups.iter().partition(|letters| letters.len() > 1);
    let mut lines = Vec::new();
    match (same.is_empty(), single.is_empty()) {
        (true, _) => lines.push("≠ all differ".to_owned()),
        (false, true) => lines.push(format!("= {}", agreeing(&same))),
        (false, false) => {
            let differ = if single.len() == 1 { "differs" } else { "differ" };
            let single: String = single.into_iter().map(String::as_str).collect();
            lines.push(format!("= {}; {} {differ}", agreeing(&same), join_letters(&single)));
        }
    }
    let shared = shared_sentences(answers);
    if !shared.is_empty() {
        lines.push(format!("= in all: {}", shared.join("; ")));
    }
    lines
}

/// The letters of answers that are equal, together.
fn groups(answers: &[(char, String)]) -> Vec<String> {
    let mut groups: Vec<(String, String)> = Vec::new();
    for (letter, answer) in answers {
        let text = normal(answer);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, letters)) => letters.push(*letter),
            None => groups.push((text, letter.to_string())),
        }
    }
    groups.into_iter().map(|(_, letters)| letters).collect()
}

fn agreeing(groups: &[&String]) -> String {
    groups.iter().map(|letters| format!("{} agree", join_letters(letters))).collect::<Vec<_>>().join(", ")
}

/// `a, b and c`.
fn join_letters(letters: &str) -> String {
    let mut names: Vec<String> = letters.chars().map(String::from).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) }
}

/// The sentences of the first answer that all others have too, each once.
fn shared_sentences(answers: &[(char, String)]) -> Vec<String> {
    let Some(((_, first), others)) = answers.split_first() else { return Vec::new() };
    let others: Vec<Vec<String>> = others.iter().map(|(_, other)| sentences(other)).collect();
    let mut shared: Vec<String> = Vec::new();
    for sentence in sentences(first) {
        if !shared.contains(&sentence) && others.iter().all(|other| other.contains(&sentence)) {
            shared.push(sentence);
        }
    }
    shared
}

/// The lines and sentences of an answer, without the signs of lists and headings, and without fenced code.
fn sentences(answer: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in answer.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let line = line.trim_start_matches(|c: char| c.is_whitespace() || "#>*-".contains(c));
            found.extend(line.split(". ").map(normal));
        }
    }
    found.retain(|sentence| sentence.split(' ').count() >= LEAST_WORDS);
    found
}

/// The text with single blanks, without a full stop at the end, and with a small first letter.
fn normal(said: &str) -> String {
    let words = text::sanitise(said).split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.strip_suffix('.').unwrap_or(&words);
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answers: &[&str]) -> Vec<String> {
        let answers = "abcef".chars().zip(answers.iter().map(|answer| (*answer).to_owned()));
        agreement(&answers.collect::<Vec<_>>())
    }

    #[test]
    fn equal_answers_agree_and_others_differ() {
        for (answers, line) in [
            (&["Yes.", "yes", " Yes\n"][..], "= all agree"),
            (&["yes", "no", "Yes."], "= a and c agree; b differs"),
            (&["yes", "no", "Yes.", "maybe"], "= a and c agree; b and e differ"),
            (&["yes", "no", "yes", "no"], "= a and c agree, b and e agree"),
            (&["let a = b + c;", "let a = b - c;"], "≠ all differ"),
            (&["use Foo", "use foo"], "≠ all differ"),
        ] {
            assert_eq!(said(answers), [line], "{answers:?}");
        }
        assert!(said(&["alone"]).is_empty());
    }

    #[test]
    fn what_all_say_is_shown_once_and_code_is_left_out() {
        let one = "# Plan\n- Use one connection. It is simpler.\n- Use one connection\n```rust\nlet it be so\n```";
        let other = "1\n* use one connection.\nbut a pool is fine\n```rust\nlet it be so\n```";
        assert_eq!(said(&[one, other]), ["≠ all differ", "= in all: use one connection"]);
    }
}
