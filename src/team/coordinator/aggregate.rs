//! Combines several answers into one: pure functions over results. Errors of members are never part of an answer; they
//! are reported apart ([`super::result::failures`]).

use std::collections::BTreeSet;

use super::markdown::{self, Line};
use super::result::MemberResult;
use super::settings::Aggregation;
use crate::base::error::{Error, ErrorKind, Result};

const SEPARATOR: &str = "\n---\n";
/// Upper bounds for two parts of a score: see [`score`].
const MAX_LENGTH_POINTS: usize = 40;
const MAX_SENTENCE_POINTS: usize = 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregated {
    /// The combined or chosen answer.
    pub text: String,
    /// The index of the result that was chosen; `None` if the answer was combined from several.
    pub chosen: Option<usize>,
    /// Remarks for the user on how the answer was made, a line each.
    pub notes: Vec<String>,
}

/// Combines the answers of all results that have one.
///
/// # Errors
/// No member answered; for [`Aggregation::Vote`], all answers are blank.
pub fn aggregate(aggregation: Aggregation, results: &[MemberResult]) -> Result<Aggregated> {
    let answers = answers(results);
    if answers.is_empty() {
        return Err(no_answers(results));
    }
    match aggregation {
        Aggregation::Concatenate => Ok(combined(concatenate(&answers))),
        Aggregation::Merge => Ok(combined(merge(&answers))),
        Aggregation::Vote => vote(&answers),
        Aggregation::SelectBest => Ok(select_best(&answers)),
        Aggregation::FirstSuccess => Ok(first_success(results, &answers)),
        Aggregation::Last => Ok(answers.last().copied().map(single).expect("there is an answer")),
    }
}

/// The index of a result and its answer.
type Answer<'a> = (usize, &'a str);

pub(super) fn answers(results: &[MemberResult]) -> Vec<Answer<'_>> {
    results.iter().enumerate().filter_map(|(index, result)| Some((index, result.answer()?))).collect()
}

fn no_answers(results: &[MemberResult]) -> Error {
    let message = match results {
        [] => "the task has no members".into(),
        [result] => format!("{} did not answer: {}", result.member, result.error().unwrap_or_default()),
        [first, ..] => {
            let error = first.error().unwrap_or_default();
            format!("none of {} members answered; {}: {error}", results.len(), first.member)
        }
    };
    let kind = results.iter().find_map(MemberResult::failure);
    Error::new(kind.unwrap_or(ErrorKind::System), message)
}

const fn combined(text: String) -> Aggregated {
    Aggregated { text, chosen: None, notes: Vec::new() }
}

fn single((index, text): Answer<'_>) -> Aggregated {
    Aggregated { text: text.to_owned(), chosen: Some(index), notes: Vec::new() }
}

fn concatenate(answers: &[Answer<'_>]) -> String {
    let texts: Vec<&str> = answers.iter().map(|(_, text)| *text).collect();
    texts.join(SEPARATOR)
}

/// The most frequent answer, compared without surrounding white space. Ties go to the earliest member; blank answers do
/// not count.
fn vote(answers: &[Answer<'_>]) -> Result<Aggregated> {
    let votes: Vec<Answer<'_>> =
        answers.iter().map(|(index, text)| (*index, text.trim())).filter(|(_, text)| !text.is_empty()).collect();
    let count = |text: &str| votes.iter().filter(|(_, other)| *other == text).count();
    let best = first_max(&votes, |(_, text)| count(text));
    best.map(single).ok_or_else(|| Error::new(ErrorKind::System, "no votes: all answers are blank"))
}

fn select_best(answers: &[Answer<'_>]) -> Aggregated {
    first_max(answers, |(_, text)| score(text)).map(single).expect("there is an answer")
}

/// The answer that was finished first; ties go to the earliest member.
fn first_success(results: &[MemberResult], answers: &[Answer<'_>]) -> Aggregated {
    let first = answers.iter().copied().min_by_key(|(index, _)| results[*index].ended_at);
    first.map(single).expect("there is an answer")
}

/// The first item with the highest key.
fn first_max<T: Copy, K: Ord>(items: &[T], key: impl Fn(&T) -> K) -> Option<T> {
    items.iter().copied().rev().max_by_key(key)
}

/// Estimates the quality of an answer by its form: up to 40 points for length (1 per 100 bytes), 10 for a heading, 5 for
/// a list, 10 for a code fence, 5 for bold text, and 2 per sentence up to 30. Fenced code counts only towards the length.
pub(super) fn score(answer: &str) -> usize {
    let (mut heading, mut item, mut fence, mut bold, mut sentence_count) = (false, false, false, false, 0);
    for (kind, line) in markdown::lines(answer) {
        heading |= kind == Line::Heading;
        item |= kind == Line::Item;
        fence |= kind == Line::Fence;
        if !matches!(kind, Line::Fence | Line::Code) {
            bold |= markdown::has_bold(line);
            sentence_count += sentences(line);
        }
    }
    let form = 10 * usize::from(heading) + 5 * usize::from(item) + 10 * usize::from(fence) + 5 * usize::from(bold);
    (answer.len() / 100).min(MAX_LENGTH_POINTS) + form + (2 * sentence_count).min(MAX_SENTENCE_POINTS)
}

/// Counts the ends of sentences in a line: `.`, `!` or `?` before white space, the end of the line or a closing mark.
/// Chinese and Japanese full stops need nothing after them. The number of a list item ends no sentence.
fn sentences(line: &str) -> usize {
    let body = without_number(line.trim());
    let following = body.chars().skip(1).map(Some).chain([None]);
    let is_end = |(c, next): &(char, Option<char>)| match c {
        '。' | '！' | '？' => true,
        '.' | '!' | '?' => {
            next.is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '*' | '_' | '”' | '’'))
        }
        _ => false,
    };
    body.chars().zip(following).filter(is_end).count()
}

fn without_number(body: &str) -> &str {
    let rest = body.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() < body.len() { rest.trim_start_matches(['.', ')']) } else { body }
}

/// The sections of all answers in order of first appearance, without duplicates. The text before the first heading is a
/// section, too. Surrounding white space is ignored.
fn merge(answers: &[Answer<'_>]) -> String {
    let mut seen = BTreeSet::new();
    let sections = answers.iter().flat_map(|(_, text)| sections(text));
    let unique: Vec<&str> = sections.filter(|section| seen.insert(*section)).collect();
    unique.join("\n\n")
}

/// The text split before each heading; sections are trimmed, and blank ones left out.
fn sections(text: &str) -> Vec<&str> {
    let mut bounds = vec![0];
    let mut offset = 0;
    for (kind, line) in markdown::lines(text) {
        if kind == Line::Heading {
            bounds.push(offset);
        }
        offset += line.len();
    }
    bounds.push(text.len());
    let sections = bounds.windows(2).map(|bounds| text[bounds[0]..bounds[1]].trim());
    sections.filter(|section| !section.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::team::coordinator::result::MemberOutcome;

    fn results(outcomes: &[MemberOutcome]) -> Vec<MemberResult> {
        let result = |(index, outcome): (usize, &MemberOutcome)| MemberResult {
            member: format!("m{index}"),
            outcome: outcome.clone(),
            attempts: 1,
            duration: Duration::from_secs(1),
            // Later members finish earlier.
            ended_at: Duration::from_secs(100 - index as u64),
            tokens: 0,
        };
        outcomes.iter().enumerate().map(result).collect()
    }

    fn answered(texts: &[&str]) -> Vec<MemberResult> {
        results(&texts.iter().map(|text| MemberOutcome::Answered((*text).into())).collect::<Vec<_>>())
    }

    fn run(aggregation: Aggregation, texts: &[&str]) -> (String, Option<usize>) {
        let aggregated = aggregate(aggregation, &answered(texts)).expect("there are answers");
        (aggregated.text, aggregated.chosen)
    }

    #[test]
    fn concatenate_joins_all_answers_in_member_order() {
        let run_with = |texts| run(Aggregation::Concatenate, texts);
        assert_eq!(run_with(&["b", "a\n", "a\n"]), ("b\n---\na\n\n---\na\n".into(), None));
        assert_eq!(run_with(&["alone"]).0, "alone");
        assert_eq!(run_with(&["a", "", "b"]).0, "a\n---\n\n---\nb", "an empty answer counts");
    }

    #[test]
    fn vote_compares_trimmed_answers_and_prefers_the_earliest() {
        let run_with = |texts| run(Aggregation::Vote, texts);
        assert_eq!(run_with(&["yes", "no", " no\n"]), ("no".into(), Some(1)));
        assert_eq!(run_with(&["a", "b", "b", "a"]), ("a".into(), Some(0)));
        assert_eq!(run_with(&["", "  ", "\n", " x "]), ("x".into(), Some(3)), "blank answers do not count");
        assert_eq!(run_with(&["Yes", "yes", "yes."]), ("Yes".into(), Some(0)), "only white space is trimmed");
    }

    #[test]
    fn vote_fails_if_all_answers_are_blank() {
        let error = aggregate(Aggregation::Vote, &answered(&["", " \t\n"])).unwrap_err();
        assert!(error.message.contains("blank"), "{error}");
    }

    #[test]
    fn score_follows_the_formula() {
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
    fn select_best_takes_the_highest_score_and_prefers_the_earliest() {
        let run_with = |texts| run(Aggregation::SelectBest, texts);
        assert_eq!(run_with(&["plain", "# heading\n", "- item"]), ("# heading\n".into(), Some(1)));
        assert_eq!(run_with(&["a", "b"]).1, Some(0));
        assert_eq!(run_with(&["", " ", "\n"]).1, Some(0));
    }

    #[test]
    fn merge_keeps_each_section_once_and_the_text_before_the_first_heading() {
        let first = "Intro.\n\n# A\nsame\n\n# B\nmine\n";
        let second = "\n# B\nother\n## C\nmore\n# A\nsame";
        let merged = "Intro.\n\n# A\nsame\n\n# B\nmine\n\n# B\nother\n\n## C\nmore";
        assert_eq!(run(Aggregation::Merge, &[first, second]).0, merged);
        assert_eq!(run(Aggregation::Merge, &["same", " same ", "other", ""]).0, "same\n\nother");
        assert_eq!(run(Aggregation::Merge, &["", "\n \n"]).0, "");
    }

    #[test]
    fn merge_does_not_split_inside_fences() {
        let answer = "# A\n```sh\n# comment\nls\n```\ntext\n# B";
        assert_eq!(sections(answer), ["# A\n```sh\n# comment\nls\n```\ntext", "# B"]);
        assert_eq!(
            run(Aggregation::Merge, &[answer, "```\n# B\n"]).0,
            format!("# A\n```sh\n# comment\nls\n```\ntext\n\n# B\n\n```\n# B")
        );
    }

    #[test]
    fn first_success_is_the_answer_that_was_finished_first() {
        assert_eq!(run(Aggregation::FirstSuccess, &["early member", "early end"]), ("early end".into(), Some(1)));
    }

    #[test]
    fn errors_are_not_part_of_answers_and_no_answer_is_an_error() {
        let without = [
            MemberOutcome::Failed(Error::new(ErrorKind::Auth, "boom")),
            MemberOutcome::TimedOut("boom".into()),
            MemberOutcome::Skipped("boom".into()),
            MemberOutcome::Cancelled("boom".into()),
        ];
        for aggregation in Aggregation::ALL {
            let mut outcomes = without.to_vec();
            assert!(aggregate(aggregation, &results(&outcomes)).unwrap_err().message.contains("boom"), "{aggregation}");
            assert!(aggregate(aggregation, &[]).unwrap_err().message.contains("no members"), "{aggregation}");
            outcomes.insert(2, MemberOutcome::Answered("fine".into()));
            assert_eq!(aggregate(aggregation, &results(&outcomes)).expect("one answer").text, "fine", "{aggregation}");
        }
    }

    #[test]
    fn random_answers_give_the_results_of_a_naive_implementation() {
        let samples = ["", " ", "a", "a ", "b", "# h\nx", "# h\nx\n", "p\n# h\nx", "```\n# h\n```", "One. Two."];
        for seed in 1..2000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let texts: Vec<&str> = (0..1 + rng.usize(..6)).map(|_| samples[rng.usize(..samples.len())]).collect();
            assert_eq!(run(Aggregation::Concatenate, &texts).0, texts.join("\n---\n"));
            let mut best = 0;
            for (index, text) in texts.iter().enumerate() {
                if score(text) > score(texts[best]) {
                    best = index;
                }
            }
            assert_eq!(run(Aggregation::SelectBest, &texts), (texts[best].to_owned(), Some(best)), "{texts:?}");
            let mut most = (0, None);
            for (index, text) in texts.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
                let votes = texts.iter().filter(|other| other.trim() == text.trim()).count();
                if votes > most.0 {
                    most = (votes, Some(index));
                }
            }
            let voted = aggregate(Aggregation::Vote, &answered(&texts)).ok().and_then(|aggregated| aggregated.chosen);
            assert_eq!(voted, most.1, "{texts:?}");
            let merged = run(Aggregation::Merge, &texts).0;
            assert_eq!(
                run(Aggregation::Merge, &[&merged, &merged]).0,
                merged,
                "merging twice changes nothing: {texts:?}"
            );
        }
    }
}
