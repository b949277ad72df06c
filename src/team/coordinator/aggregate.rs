//! How several answers become one: pure functions over results. Errors of members stand in no answer; they are told
//! apart ([`super::result::failures`]).

use std::collections::BTreeSet;

use super::markdown::{self, Line};
use super::result::MemberResult;
use super::settings::Aggregation;
use crate::base::error::{Error, ErrorKind, Result};

/// What stands between two answers that are put behind one another.
const BETWEEN: &str = "\n---\n";
/// The most points for parts of a score: see [`score`].
const MOST_FOR_LENGTH: usize = 40;
const MOST_FOR_SENTENCES: usize = 30;

/// One answer made of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregated {
    /// The answer.
    pub text: String,
    /// Which result it is, where it is one of them.
    pub chosen: Option<usize>,
    /// What a person should be told about how it came to be, a line each.
    pub notes: Vec<String>,
}

/// Makes one answer of those results that have one.
///
/// # Errors
/// Nobody answered; for [`Aggregation::Vote`], nobody said anything.
pub fn aggregate(how: Aggregation, results: &[MemberResult]) -> Result<Aggregated> {
    let answers = answers(results);
    if answers.is_empty() {
        return Err(agent_gone(results));
    }
    match how {
        Aggregation::Concatenate => Ok(made_of_all(concatenate(&answers))),
        Aggregation::Merge => Ok(made_of_all(merge(&answers))),
        Aggregation::Vote => vote(&answers),
        Aggregation::SelectBest => Ok(select_best(&answers)),
        Aggregation::FirstSuccess => Ok(first_success(results, &answers)),
    }
}

/// An answer and which result it is.
type Answer<'a> = (usize, &'a str);

/// All answers in the order of the members.
pub(super) fn answers(results: &[MemberResult]) -> Vec<Answer<'_>> {
    results.iter().enumerate().filter_map(|(at, result)| Some((at, result.answer()?))).collect()
}

fn agent_gone(results: &[MemberResult]) -> Error {
    let words = match results {
        [] => "the task has no members: nobody can answer it".into(),
        [one] => format!("{} did not answer: {}", one.member, one.error().unwrap_or_default()),
        [first, ..] => {
            let why = first.error().unwrap_or_default();
            format!("none of {} members answered - {}: {why}", results.len(), first.member)
        }
    };
    let kind = results.iter().find_map(MemberResult::failure);
    Error::new(kind.unwrap_or(ErrorKind::System), words)
}

const fn made_of_all(text: String) -> Aggregated {
    Aggregated { text, chosen: None, notes: Vec::new() }
}

fn one_of_them((at, text): Answer<'_>) -> Aggregated {
    Aggregated { text: text.to_owned(), chosen: Some(at), notes: Vec::new() }
}

fn concatenate(answers: &[Answer<'_>]) -> String {
    let texts: Vec<&str> = answers.iter().map(|(_, text)| *text).collect();
    texts.join(BETWEEN)
}

/// The answer that most members gave, white space around it aside. Of several the one that was given first in the order
/// of the members. Who said nothing has no vote.
fn vote(answers: &[Answer<'_>]) -> Result<Aggregated> {
    let votes: Vec<Answer<'_>> =
        answers.iter().map(|(at, text)| (*at, text.trim())).filter(|(_, text)| !text.is_empty()).collect();
    let count = |text: &str| votes.iter().filter(|(_, other)| *other == text).count();
    let best = first_max(&votes, |(_, text)| count(text));
    best.map(one_of_them)
        .ok_or_else(|| Error::new(ErrorKind::System, "all answers are blank: there is nothing to vote on"))
}

fn select_best(answers: &[Answer<'_>]) -> Aggregated {
    first_max(answers, |(_, text)| score(text)).map(one_of_them).expect("there is an answer")
}

/// The one that ended first; of several in the same moment the earliest member's.
fn first_success(results: &[MemberResult], answers: &[Answer<'_>]) -> Aggregated {
    let first = answers.iter().copied().min_by_key(|(at, _)| results[*at].ended_at);
    first.map(one_of_them).expect("there is an answer")
}

/// The first of those with the most.
fn first_max<T: Copy, K: Ord>(all: &[T], key: impl Fn(&T) -> K) -> Option<T> {
    all.iter().copied().rev().max_by_key(key)
}

/// How good an answer looks: up to 40 for its length (1 for 100 bytes), 10 for a heading, 5 for a list, 10 for fenced
/// code, 5 for bold text, up to 30 for its sentences (2 each). What stands in fenced code counts for the length alone.
pub fn score(answer: &str) -> usize {
    let (mut heading, mut item, mut fence, mut bold, mut sentences) = (false, false, false, false, 0);
    for (kind, line) in markdown::lines(answer) {
        heading |= kind == Line::Heading;
        item |= kind == Line::Item;
        fence |= kind == Line::Fence;
        if !matches!(kind, Line::Fence | Line::Code) {
            bold |= markdown::has_bold(line);
            sentences += self::sentences(line);
        }
    }
    let form = 10 * usize::from(heading) + 5 * usize::from(item) + 10 * usize::from(fence) + 5 * usize::from(bold);
    (answer.len() / 100).min(MOST_FOR_LENGTH) + form + (2 * sentences).min(MOST_FOR_SENTENCES)
}

/// Ends of sentences in a line: `.`, `!` or `?` before a space, an end or a closing mark; in Chinese and Japanese
/// nothing has to follow. The number of an item of a list ends none.
fn sentences(line: &str) -> usize {
    let body = without_number(line.trim());
    let behind = body.chars().skip(1).map(Some).chain([None]);
    let is_end = |(c, behind): &(char, Option<char>)| match c {
        '。' | '！' | '？' => true,
        '.' | '!' | '?' => {
            behind.is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '*' | '_' | '”' | '’'))
        }
        _ => false,
    };
    body.chars().zip(behind).filter(is_end).count()
}

fn without_number(body: &str) -> &str {
    let behind = body.trim_start_matches(|c: char| c.is_ascii_digit());
    if behind.len() < body.len() { behind.trim_start_matches(['.', ')']) } else { body }
}

/// All sections of all answers in the order in which they are first seen, each once. What stands before the first
/// heading is a section, too. White space around a section does not count.
fn merge(answers: &[Answer<'_>]) -> String {
    let mut seen = BTreeSet::new();
    let sections = answers.iter().flat_map(|(_, text)| sections(text));
    let first: Vec<&str> = sections.filter(|section| seen.insert(*section)).collect();
    first.join("\n\n")
}

/// The text cut before each heading, without white space at both ends; blank sections left out.
fn sections(text: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    let mut at = 0;
    for (kind, line) in markdown::lines(text) {
        if kind == Line::Heading {
            cuts.push(at);
        }
        at += line.len();
    }
    cuts.push(text.len());
    let sections = cuts.windows(2).map(|ends| text[ends[0]..ends[1]].trim());
    sections.filter(|section| !section.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::team::coordinator::dice::Dice;
    use crate::team::coordinator::result::Ending;

    fn results(endings: &[Ending]) -> Vec<MemberResult> {
        let result = |(at, ending): (usize, &Ending)| MemberResult {
            member: format!("m{at}"),
            ending: ending.clone(),
            attempts: 1,
            duration: Duration::from_secs(1),
            // The later a member stands, the earlier it has ended.
            ended_at: Duration::from_secs(100 - at as u64),
            tokens: 0,
        };
        endings.iter().enumerate().map(result).collect()
    }

    fn answered(texts: &[&str]) -> Vec<MemberResult> {
        results(&texts.iter().map(|text| Ending::Answered((*text).into())).collect::<Vec<_>>())
    }

    fn made(how: Aggregation, texts: &[&str]) -> (String, Option<usize>) {
        let made = aggregate(how, &answered(texts)).expect("there are answers");
        (made.text, made.chosen)
    }

    #[test]
    fn concatenation_is_all_answers_in_the_order_of_the_members() {
        let made = |texts| made(Aggregation::Concatenate, texts);
        assert_eq!(made(&["b", "a\n", "a\n"]), ("b\n---\na\n\n---\na\n".into(), None));
        assert_eq!(made(&["alone"]).0, "alone");
        assert_eq!(made(&["a", "", "b"]).0, "a\n---\n\n---\nb", "to say nothing is an answer");
    }

    #[test]
    fn a_vote_trims_counts_and_breaks_ties_for_the_earliest() {
        let made = |texts| made(Aggregation::Vote, texts);
        assert_eq!(made(&["yes", "no", " no\n"]), ("no".into(), Some(1)));
        assert_eq!(made(&["a", "b", "b", "a"]), ("a".into(), Some(0)));
        assert_eq!(made(&["", "  ", "\n", " x "]), ("x".into(), Some(3)), "blank answers have no vote");
        assert_eq!(made(&["Yes", "yes", "yes."]), ("Yes".into(), Some(0)), "only white space is trimmed");
    }

    #[test]
    fn nothing_said_is_nothing_to_vote_on() {
        let error = aggregate(Aggregation::Vote, &answered(&["", " \t\n"])).unwrap_err();
        assert!(error.message.contains("blank"), "{error}");
    }

    #[test]
    fn the_score_is_the_formula() {
        for (answer, points) in [
            (String::new(), 0),
            ("x".repeat(99), 0),
            ("x".repeat(100), 1),
            ("x".repeat(3999), 39),
            ("x".repeat(4000), 40),
            ("x".repeat(9000), 40),
            ("# heading".into(), 10),
            ("- item".into(), 5),
            ("1. item".into(), 5),
            ("**bold**".into(), 5),
            ("```\ncode\n```".into(), 10),
            ("```\n# no. heading.\n- no item\n**no**\n```".into(), 10),
            ("One. Two! Three?".into(), 6),
            ("Version 1.2 of a.b... (yes.)".into(), 4),
            ("一。二！".into(), 4),
            ("A. ".repeat(15), 30),
            ("A. ".repeat(20), 30),
            ("# h\n- **b**. x\n```\n```\nEnd.".into(), 10 + 5 + 5 + 10 + 4),
        ] {
            assert_eq!(score(&answer), points, "{answer:?}");
        }
    }

    #[test]
    fn the_best_is_the_highest_score_and_of_equals_the_earliest() {
        let made = |texts| made(Aggregation::SelectBest, texts);
        assert_eq!(made(&["plain", "# heading\n", "- item"]), ("# heading\n".into(), Some(1)));
        assert_eq!(made(&["a", "b"]).1, Some(0));
        assert_eq!(made(&["", " ", "\n"]).1, Some(0));
    }

    #[test]
    fn a_merge_has_each_section_once_and_what_stands_before_the_first_heading() {
        let first = "Intro.\n\n# A\nsame\n\n# B\nmine\n";
        let second = "\n# B\nother\n## C\nmore\n# A\nsame";
        let merged = "Intro.\n\n# A\nsame\n\n# B\nmine\n\n# B\nother\n\n## C\nmore";
        assert_eq!(made(Aggregation::Merge, &[first, second]).0, merged);
        assert_eq!(made(Aggregation::Merge, &["same", " same ", "other", ""]).0, "same\n\nother");
        assert_eq!(made(Aggregation::Merge, &["", "\n \n"]).0, "");
    }

    #[test]
    fn a_merge_does_not_cut_within_fences() {
        let answer = "# A\n```sh\n# comment\nls\n```\ntext\n# B";
        assert_eq!(sections(answer), ["# A\n```sh\n# comment\nls\n```\ntext", "# B"]);
        assert_eq!(
            made(Aggregation::Merge, &[answer, "```\n# B\n"]).0,
            format!("# A\n```sh\n# comment\nls\n```\ntext\n\n# B\n\n```\n# B")
        );
    }

    #[test]
    fn the_first_success_is_the_one_that_ended_first() {
        assert_eq!(made(Aggregation::FirstSuccess, &["early member", "early end"]), ("early end".into(), Some(1)));
    }

    #[test]
    fn errors_stand_in_no_answer_and_nobody_s_answer_is_an_error() {
        let without = [
            Ending::Failed(Error::new(ErrorKind::Auth, "boom")),
            Ending::TimedOut("boom".into()),
            Ending::Skipped("boom".into()),
            Ending::Cancelled("boom".into()),
        ];
        for how in Aggregation::ALL {
            let mut endings = without.to_vec();
            assert!(aggregate(how, &results(&endings)).unwrap_err().message.contains("boom"), "{how}");
            assert!(aggregate(how, &[]).unwrap_err().message.contains("no members"), "{how}");
            endings.insert(2, Ending::Answered("fine".into()));
            assert_eq!(aggregate(how, &results(&endings)).expect("one answer").text, "fine", "{how}");
        }
    }

    /// The same in the plainest way, to hold the functions above against.
    #[test]
    fn whatever_is_answered_the_result_is_what_a_naive_reading_of_the_rules_gives() {
        let words = ["", " ", "a", "a ", "b", "# h\nx", "# h\nx\n", "p\n# h\nx", "```\n# h\n```", "One. Two."];
        for seed in 1..2000 {
            let mut dice = Dice(seed);
            let texts: Vec<&str> = (0..1 + dice.below(6)).map(|_| words[dice.below(words.len())]).collect();
            assert_eq!(made(Aggregation::Concatenate, &texts).0, texts.join("\n---\n"));
            let mut best = 0;
            for (at, text) in texts.iter().enumerate() {
                if score(text) > score(texts[best]) {
                    best = at;
                }
            }
            assert_eq!(made(Aggregation::SelectBest, &texts), (texts[best].to_owned(), Some(best)), "{texts:?}");
            let mut most = (0, None);
            for (at, text) in texts.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
                let votes = texts.iter().filter(|other| other.trim() == text.trim()).count();
                if votes > most.0 {
                    most = (votes, Some(at));
                }
            }
            let voted = aggregate(Aggregation::Vote, &answered(&texts)).ok().and_then(|made| made.chosen);
            assert_eq!(voted, most.1, "{texts:?}");
            let merged = made(Aggregation::Merge, &texts).0;
            assert_eq!(made(Aggregation::Merge, &[&merged, &merged]).0, merged, "a merge has nothing twice: {texts:?}");
        }
    }
}
