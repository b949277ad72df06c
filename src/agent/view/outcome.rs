//! The result of a tool call, for a reader: a note beside the call, and its output below.

use std::path::Path;

use crate::agent::work::DENIED;
use crate::base::text;
use crate::domain::call_title::path_in;
use crate::domain::diff::{self, language_of};
use crate::domain::frame::{Style, StyledLine};
use crate::domain::scrollback::{Outcome, Shown};
use crate::domain::todo::{Todo, TodoItem, TodoStatus};
use crate::domain::tool::ToolResult;

/// Lines and bytes of the output that a reader can open; the model gets all of it, and the timeline shows it.
const OUTPUT_LINES: usize = 1_000;
const OUTPUT_BYTES: usize = 64 * 1024;
/// Lines of a change that are shown at once.
const DIFF_LINES: u32 = 20;
/// A shorter error is shown at once.
const SHORT_ERROR_LINES: u32 = 3;
/// The tools whose output ends with what counts, and how much of its end is shown at once.
const COMMANDS: [&str; 2] = ["bash", "bash_output"];
const DONE_LINES: u32 = 5;
const FAILED_LINES: u32 = 10;

/// Tasks that are shown at once.
const TODO_LINES: u32 = 30;
/// The tool whose result is a list of tasks.
pub(super) const TODO: &str = "todo";

/// What a reader sees of the result of a call, which may have changed a file.
pub(super) fn outcome(result: &ToolResult, file: Option<&FileCall>) -> Outcome {
    let content = result.readable_text();
    let content = content.trim_end();
    if let Some(reason) = content.strip_prefix(DENIED).filter(|_| result.is_error) {
        return denial(reason.trim_start_matches(": "));
    }
    if result.name == TODO && !result.is_error {
        return checklist(&Todo::parse(content));
    }
    let diff = if result.is_error { None } else { diff_of(content) };
    let created = file.filter(|_| !result.is_error && content.starts_with("created ")).and_then(FileCall::written);
    let is_diff = diff.is_some() || created.is_some();
    let is_command = COMMANDS.contains(&result.name.as_str());
    let text = || if is_command { plain_end(content) } else { plain(content) };
    let output = diff.or(created).unwrap_or_else(text);
    let lines = if content == "[no output]" { 0 } else { content.lines().count() };
    let is_short_error = result.is_error && lines <= SHORT_ERROR_LINES as usize && !content.ends_with(']');
    let note = match (result.is_error, is_diff) {
        (true, _) if is_short_error => String::new(),
        (true, _) => failure(content, lines),
        (false, true) => String::new(),
        (false, false) if lines == 0 => "no output".to_owned(),
        (false, false) => text::counted(lines, "line", "lines"),
    };
    let time = match result.duration.as_secs_f64() {
        seconds if seconds >= 0.1 => format!("  {seconds:.1} s"),
        _ => String::new(),
    };
    let shown = match () {
        () if is_diff => Shown::First(DIFF_LINES),
        () if is_short_error => Shown::First(SHORT_ERROR_LINES),
        () if !is_command => Shown::NONE,
        () if result.is_error => Shown::Last(FAILED_LINES),
        () => Shown::Last(DONE_LINES),
    };
    let output = if lines == 0 { Vec::new() } else { output };
    let diff_of = file.filter(|_| is_diff).map(|file| file.language.clone());
    Outcome { is_error: result.is_error, note: format!("{note}{time}"), output, diff_of, shown }
}

/// A list of tasks, which is shown whole.
fn checklist(todo: &Todo) -> Outcome {
    let line = |item: &TodoItem| {
        let (mark, style) = match item.status {
            TodoStatus::Pending => ("  · ", Style::default()),
            TodoStatus::InProgress => ("  ▸ ", Style::BOLD),
            TodoStatus::Completed => ("  ✓ ", Style::DIM),
        };
        StyledLine::of(format!("{mark}{}", item.content), style)
    };
    let output: Vec<StyledLine> = todo.0.iter().map(line).collect();
    let shown = Shown::First(TODO_LINES);
    Outcome { output, shown, ..Outcome::default() }
}

/// The person has refused the call, with or without a reason.
fn denial(reason: &str) -> Outcome {
    let output = if reason.is_empty() { Vec::new() } else { plain(reason) };
    Outcome { is_error: true, note: "denied".into(), output, shown: Shown::First(u32::MAX), ..Outcome::default() }
}

/// Why it failed: commands end with that in brackets.
fn failure(content: &str, lines: usize) -> String {
    let last = content.lines().last().unwrap_or_default();
    let why = last.strip_prefix('[').and_then(|last| last.strip_suffix(']'));
    let why = why.map_or("failed".into(), |why| why.replace("exit code", "exit"));
    match lines.saturating_sub(usize::from(last.starts_with('['))) {
        0 => why,
        lines => format!("{why}, {}", text::counted(lines, "line", "lines")),
    }
}

/// The lines with which a text begins, as many as a reader can open.
fn first_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut bytes = 0;
    let fits = |line: &&str| {
        bytes += line.len();
        bytes <= OUTPUT_BYTES
    };
    lines.take(OUTPUT_LINES).take_while(fits).collect()
}

fn plain(content: &str) -> Vec<StyledLine> {
    let lines = first_lines(content.lines());
    let left = content.lines().count() - lines.len();
    let shown = lines.into_iter().map(|line| StyledLine::of(line, Style::DIM));
    shown.chain((left > 0).then(|| more_lines(left))).collect()
}

/// The same for a text whose end counts.
fn plain_end(content: &str) -> Vec<StyledLine> {
    let lines = first_lines(content.lines().rev());
    let left = content.lines().count() - lines.len();
    let shown = lines.into_iter().rev().map(|line| StyledLine::of(line, Style::DIM));
    (left > 0).then(|| more_lines(left)).into_iter().chain(shown).collect()
}

fn more_lines(count: usize) -> StyledLine {
    let count = text::counted(count, "more line", "more lines");
    StyledLine::of(format!("… {count} (Enter in /timeline shows all)"), Style::DIM)
}

/// The lines of a unified diff after the first line of a result; `None` if there is none.
fn diff_of(content: &str) -> Option<Vec<StyledLine>> {
    let (_, lines) = content.split_once('\n')?;
    diff::hunk(lines.lines().next()?)?;
    let lines = diff::draw(lines.lines());
    (!lines.is_empty()).then_some(lines)
}

/// A call that changes a file, until its result is known.
#[derive(Debug)]
pub(super) struct FileCall {
    call: String,
    language: Box<str>,
    /// What it writes: as many lines as are shown, each as an added one, and how many more there are.
    written: Option<(Vec<String>, usize)>,
}

impl FileCall {
    /// From the arguments of a call.
    pub fn of(call: &str, name: &str, arguments: &str) -> Option<Self> {
        if !["write_file", "edit_file", "multi_edit"].contains(&name) {
            return None;
        }
        let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
        let language = path_in(&arguments).map(|path| language_of(Path::new(path))).unwrap_or_default();
        let content = ["content", "text", "contents"].iter().find_map(|key| arguments.get(key)?.as_str());
        let written = content.filter(|_| name == "write_file").map(|content| {
            let lines: Vec<String> = first_lines(content.lines()).into_iter().map(|line| format!("+{line}")).collect();
            let left = content.lines().count() - lines.len();
            (lines, left)
        });
        Some(Self { call: call.to_owned(), language, written })
    }

    /// Takes the call whose result has come.
    pub fn take(calls: &mut Vec<Self>, call: &str) -> Option<Self> {
        let at = calls.iter().position(|known| known.call == call)?;
        Some(calls.swap_remove(at))
    }

    fn written(&self) -> Option<Vec<StyledLine>> {
        let (added, left) = self.written.as_ref()?;
        let mut lines = diff::draw(added.iter().map(String::as_str));
        lines.extend((*left > 0).then(|| more_lines(*left)));
        Some(lines)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::frame::Color;

    fn of(name: &str, content: &str, is_error: bool) -> Outcome {
        let duration = Duration::from_millis(1_250);
        let result = ToolResult { call_id: "c".into(), name: name.into(), content: content.into(), is_error, duration };
        outcome(&result, None)
    }

    fn texts(outcome: &Outcome) -> Vec<String> {
        outcome.output.iter().map(StyledLine::text).collect()
    }

    #[test]
    fn a_note_says_how_a_call_ended() {
        for (content, is_error, note, shown) in [
            ("a\nb\n", false, "2 lines  1.2 s", Shown::Last(DONE_LINES)),
            ("[no output]", false, "no output  1.2 s", Shown::Last(DONE_LINES)),
            ("[no output]", true, "no output  1.2 s", Shown::Last(FAILED_LINES)),
            ("a\nb\n[exit code 101]", true, "exit 101, 2 lines  1.2 s", Shown::Last(FAILED_LINES)),
            ("[timed out after 2s]", true, "timed out after 2s  1.2 s", Shown::Last(FAILED_LINES)),
            ("not found", true, "  1.2 s", Shown::First(SHORT_ERROR_LINES)),
            ("1\n2\n3\n4", true, "failed, 4 lines  1.2 s", Shown::Last(FAILED_LINES)),
        ] {
            let outcome = of("bash", content, is_error);
            assert_eq!((outcome.note.as_str(), outcome.shown), (note, shown), "{content}");
        }
        let numbered: String = (1..=OUTPUT_LINES + 100).map(|number| format!("{number}\n")).collect();
        let of_command = texts(&of("bash", &numbered, true));
        assert_eq!(of_command[0], "… 100 more lines (Enter in /timeline shows all)");
        assert_eq!(of_command.last().map(String::as_str), Some("1100"), "the end of a command's output counts");
        let of_other = texts(&of("grep", &numbered, false));
        assert_eq!((&*of_other[0], &*of_other[OUTPUT_LINES]), ("1", "… 100 more lines (Enter in /timeline shows all)"));
    }

    #[test]
    fn a_diff_has_line_numbers_and_colours() {
        let edited = of("edit_file", "edited f\n@@ -4,3 +4,3 @@\n a\n-b\n+c\n d\n@@ -20 +20,0 @@\n-z", false);
        assert_eq!(texts(&edited), ["   4  a", "   5 -b", "   5 +c", "   6  d", "   … ", "  20 -z"]);
        assert_eq!(edited.output[1].parts[0].1, Style::color(Color::Removed).on(Color::RemovedLine));
        assert_eq!((edited.note.as_str(), edited.shown), ("  1.2 s", Shown::First(DIFF_LINES)));
        assert_eq!(of("read_file", "a\nb", false).shown, Shown::NONE, "what was read is no news");
        let last = format!("x\n@@ -{0} +{0} @@\n a\n b", usize::MAX);
        assert_eq!(texts(&of("bash", &last, false)).len(), 2);
        let read = of("read_file", "1 x\n@ -4", false);
        assert_eq!(texts(&read), ["1 x", "@ -4"]);
    }

    #[test]
    fn a_list_of_tasks_is_shown_whole() {
        let listed = of("todo", "[x] read\n[>] write\n[ ] run", false);
        assert_eq!(texts(&listed), ["  ✓ read", "  ▸ write", "  · run"]);
        assert_eq!((listed.shown, listed.output[1].parts[0].1), (Shown::First(TODO_LINES), Style::BOLD));
        assert_eq!(texts(&of("todo", "bad", true)), ["bad"]);
    }

    #[test]
    fn a_new_file_is_shown_as_added_lines() {
        let written = FileCall::of("c", "write_file", r#"{"file_path": "f", "content": "a\nb\n"}"#).unwrap();
        let result = ToolResult {
            call_id: "c".into(),
            name: "write_file".into(),
            content: "created f (4 bytes)".into(),
            is_error: false,
            duration: Duration::ZERO,
        };
        assert_eq!(texts(&outcome(&result, Some(&written))), ["   1 +a", "   2 +b"]);
        assert!(FileCall::of("c", "bash", "{}").is_none());
    }
}
