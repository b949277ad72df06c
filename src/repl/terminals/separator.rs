//! The line between conversation and input: who needs the person, the name of this agent, and the activity of the
//! others.

use crate::base::text;
use crate::domain::frame::{Color, Row, Style};

/// Columns of a title, at least.
const LEAST_TITLE: usize = 12;

/// Names of one kind that are shown; more are counted.
pub(super) const MOST_NAMES: usize = 6;

/// The content of the separator. The lists have at most [`MOST_NAMES`] names; the counts include all agents.
#[derive(Debug, Default)]
pub(super) struct Separator {
    /// Other agents with a question.
    pub asking: Names,
    /// The agent that is shown.
    pub label: String,
    pub parent: Option<String>,
    /// The title of its conversation, where there are other agents.
    pub title: String,
    /// Other agents that work.
    pub at_work: usize,
    /// Unread mail of the agent that is shown.
    pub mail: usize,
    /// Agents whose turn ended with the program, and that were not shown since.
    pub interrupted: Names,
    /// Agents whose turn has failed since they were last shown.
    pub failed: Names,
    /// Agents that have finished since they were last shown.
    pub finished: Names,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    pub first: Vec<String>,
    pub count: usize,
}

/// How much is written out, from everything to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Names,
    /// The number of finished agents.
    Asking,
    Counts,
}

impl Names {
    /// The first of these names. `count`: how many there are in all.
    pub fn of(labels: impl Iterator<Item = String>, count: usize) -> Self {
        let first = labels.take(MOST_NAMES).map(|label| text::sanitise(&label).into_owned()).collect();
        Self { first, count }
    }

    /// Names or a count, and a verb; `None` if there are none.
    fn part(&self, sign: char, is_named: bool, verbs: [&str; 2]) -> Option<String> {
        let verb = verbs[usize::from(self.count > 1)];
        match self.count {
            0 => None,
            count if is_named && count <= self.first.len() => Some(format!("{sign}{} {verb}", self.first.join(", "))),
            count => Some(format!("{sign}{count} {verb}")),
        }
    }
}

impl Separator {
    /// The line in this many columns: counts replace names, then parts are left out from the right. Who asks is never
    /// left out.
    pub fn row(&self, columns: usize) -> Row {
        let detail =
            [Detail::Names, Detail::Asking].into_iter().find(|detail| width_of(&self.parts(*detail)) <= columns);
        let mut parts = self.parts(detail.unwrap_or(Detail::Counts));
        let least = usize::from(self.asking.count > 0) + 1;
        while parts.len() > least && width_of(&parts) > columns {
            parts.pop();
        }
        self.insert_title(&mut parts, columns);
        let excess = width_of(&parts).saturating_sub(columns);
        if excess > 0
            && let Some((label, _)) = parts.last_mut()
        {
            let room = text::width(label).saturating_sub(excess);
            *label = text::shortened(label, room).into_owned();
        }
        draw(&parts, columns)
    }

    /// Puts the title behind the agent and its parent, as far as there is room for it.
    fn insert_title(&self, parts: &mut Vec<(String, Style)>, columns: usize) {
        let at = 1 + usize::from(self.asking.count > 0) + usize::from(self.parent.is_some());
        let room = columns.saturating_sub(width_of(parts) + text::width(joint(at, "")));
        if room >= LEAST_TITLE && at <= parts.len() && !self.title.is_empty() {
            parts.insert(at, (text::shortened(&self.title, room).into_owned(), Style::DIM));
        }
    }

    /// The title of the window: who asks, and what this agent does.
    pub fn title(&self, asks: bool, works: bool) -> String {
        let others = self.asking.part('!', true, ["asks", "ask"]).map(|part| part + " - ").unwrap_or_default();
        let (sign, state) = match (asks, works) {
            (true, _) => ("!", " asks"),
            (false, true) => ("", " works"),
            (false, false) => ("", ""),
        };
        format!("{others}{sign}{}{state} - polylogue", self.label)
    }

    /// The parts from the left, most important first.
    fn parts(&self, detail: Detail) -> Vec<(String, Style)> {
        let asking = self.asking.part('!', detail < Detail::Counts, ["asks", "ask"]);
        let parent = self.parent.as_ref().map(|parent| format!(" ↑ {}", text::sanitise(parent)));
        let counted = [(self.at_work, "at work"), (self.mail, "mail")];
        let mut parts: Vec<(String, Style)> = Vec::new();
        parts.extend(asking.map(|text| (text, Style::color(Color::Attention))));
        parts.push((text::sanitise(&self.label).into_owned(), Style::BOLD));
        parts.extend(parent.map(|text| (text, Style::DIM)));
        parts.extend(counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| (format!("{n} {what}"), Style::DIM)));
        let interrupted = self.interrupted.part('✗', detail == Detail::Names, ["interrupted", "interrupted"]);
        parts.extend(interrupted.map(|text| (text, Style::color(Color::Attention))));
        let failed = self.failed.part('✗', detail == Detail::Names, ["failed", "failed"]);
        parts.extend(failed.map(|text| (text, Style::color(Color::Error))));
        let finished = self.finished.part('●', detail == Detail::Names, ["new", "new"]);
        parts.extend(finished.map(|text| (text, Style::color(Color::Activity))));
        parts
    }
}

/// The parent follows its child without a line between them.
fn joint(at: usize, part: &str) -> &'static str {
    match at {
        0 => "── ",
        _ if part.starts_with(" ↑") => "",
        _ => " ─ ",
    }
}

fn width_of(parts: &[(String, Style)]) -> usize {
    let parts = parts.iter().enumerate();
    parts.map(|(at, (part, _))| text::width(joint(at, part)) + text::width(part)).sum::<usize>() + 1
}

fn draw(parts: &[(String, Style)], columns: usize) -> Row {
    let mut row = Row::default();
    for (at, (part, style)) in parts.iter().enumerate() {
        row.push(joint(at, part), Style::DIM);
        row.push(part.as_str(), *style);
    }
    row.push(" ", Style::DIM);
    let used = text::width(&row.text());
    row.push("─".repeat(columns.saturating_sub(used)), Style::DIM);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Names {
        Names::of(all.iter().map(|name| (*name).to_owned()), all.len())
    }

    fn full() -> Separator {
        Separator {
            asking: names(&["deploy"]),
            label: "web".into(),
            parent: Some("plan".into()),
            title: String::new(),
            at_work: 4,
            mail: 2,
            interrupted: Names::default(),
            failed: Names::default(),
            finished: names(&["docs"]),
        }
    }

    fn drawn(separator: &Separator, columns: usize) -> String {
        let text = separator.row(columns).text();
        assert!(text::width(&text) <= columns, "{columns}: {text}");
        text.trim_end_matches('─').trim_end().to_owned()
    }

    #[test]
    fn who_asks_is_first_and_is_never_left_out() {
        let (mut some, mut many) = (full(), full());
        assert_eq!(drawn(&some, 80), "── !deploy asks ─ web ↑ plan ─ 4 at work ─ 2 mail ─ ●docs new");
        assert_eq!(drawn(&some, 200), drawn(&some, 80));
        assert_eq!(drawn(&some, 40), "── !1 asks ─ web ↑ plan ─ 4 at work");
        assert_eq!(drawn(&some, 20), "── !1 asks ─ web");
        many.asking = names(&["a-long-name", "another-name", "third"]);
        many.finished = names(&["one", "two"]);
        assert_eq!(
            drawn(&many, 200),
            "── !a-long-name, another-name, third ask ─ web ↑ plan ─ 4 at work ─ 2 mail ─ ●one, two new"
        );
        assert_eq!(
            drawn(&many, 84),
            "── !a-long-name, another-name, third ask ─ web ↑ plan ─ 4 at work ─ 2 mail ─ ●2 new"
        );
        assert_eq!(drawn(&many, 80), "── !3 ask ─ web ↑ plan ─ 4 at work ─ 2 mail ─ ●2 new");
        some.label = "a-very-long-name-of-an-agent".into();
        for columns in 16..200 {
            assert!(drawn(&some, columns).starts_with("── !"), "{columns}");
        }
        assert_eq!(drawn(&some, 20), "── !1 asks ─ a-ver…");
    }

    #[test]
    fn a_turn_that_failed_is_not_called_new() {
        let separator = Separator { failed: names(&["tests"]), interrupted: names(&["build"]), ..full() };
        let expected =
            "── !deploy asks ─ web ↑ plan ─ 4 at work ─ 2 mail ─ ✗build interrupted ─ ✗tests failed ─ ●docs new";
        assert_eq!(drawn(&separator, 200), expected);
    }

    #[test]
    fn the_title_has_the_room_that_is_left() {
        let mut titled = full();
        titled.title = "look into the red tests of the parser".into();
        assert_eq!(
            drawn(&titled, 80),
            "── !deploy asks ─ web ↑ plan ─ look into the … ─ 4 at work ─ 2 mail ─ ●docs new"
        );
        assert_eq!(drawn(&titled, 70), drawn(&full(), 70), "there is none");
        titled.parent = None;
        titled.asking = Names::default();
        assert!(drawn(&titled, 100).starts_with("── web ─ look into the red tests of the parser ─ 4 at work"));
        for columns in 16..200 {
            drawn(&titled, columns);
        }
    }

    #[test]
    fn more_names_than_a_line_can_have_are_counted() {
        let all = (0..2_000).map(|n| format!("agent {n}"));
        let separator = Separator { asking: Names::of(all, 2_000), ..full() };
        assert!(drawn(&separator, 200).starts_with("── !2000 ask ─ web"));
    }
}
