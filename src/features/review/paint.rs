//! How the review is drawn: files at the left, the hunks of the marked file at the right.

use std::ops::Range;

use super::comments::Comment;
use super::view::{ReviewView, place};
use crate::base::text;
use crate::domain::diff::{DiffColors, FileDiff, draw_code, heading_of, line_counts};
use crate::domain::frame::{Color, Row, Style, StyledLine};
use crate::repl::core::Core;
use crate::repl::terminals::views::{Pane, TileState};
use crate::tools::worktree::name_from;

/// Columns of the list of files, and the least that a screen has for it.
const LEAST_LIST: usize = 16;
const LEAST_SCREEN: usize = 70;
/// Columns of the name of the agent and of its worktree in the title.
const MOST_NAME: usize = 30;
/// Rows for comments on a hunk.
const MOST_COMMENT_ROWS: usize = 4;
const BETWEEN: &str = " │ ";
/// Beside the rows of the hunk that keys are about, and beside others.
const MARK: &str = "▌";
const NO_MARK: &str = " ";
/// Beside the first row of a hunk that Space has marked.
const PICKED: &str = "•";

/// The rows of the file that is shown, for a width of the screen.
#[derive(Default)]
pub(super) struct Layout {
    /// The file, by its place in the list, the columns, and how many lines have the colours of code.
    of: Option<(usize, usize, usize)>,
    pub rows: Vec<Row>,
    /// The rows of each hunk.
    hunks: Vec<Range<usize>>,
    /// The rows of the screen for it.
    pub height: usize,
    /// The hunk that keys are about is to be on the screen.
    pub reveals_hunk: bool,
}

impl ReviewView {
    /// Lays out the marked file, and scrolls to the hunk that keys are about.
    pub fn lay_out(&mut self, (columns, height): (u16, u16)) {
        let (columns, height) = (usize::from(columns), usize::from(height).saturating_sub(8).max(1));
        let room = columns - self.list_columns(columns);
        let (at, shown) = (self.files.at(), self.layout.of.map(|(file, ..)| file));
        if let Some(file) = self.files.marked().filter(|_| shown != Some(at)) {
            let known = self.colors.take().filter(|known| known.are_of(&file.path, &file.lines));
            self.colors = known.or_else(|| Some(DiffColors::of(&file.path, &file.lines)));
        }
        let count = self.colors.as_ref().map_or(0, DiffColors::count);
        let of = Some((at, room, count));
        self.layout.height = height;
        if self.layout.of != of {
            let colors = self.colors.as_ref();
            let (rows, hunks) = self.files.marked().map(|file| rows_of(file, colors, room)).unwrap_or_default();
            self.hunk = self.hunk.min(hunks.len().saturating_sub(1));
            // Colours alone move nothing.
            let is_same = self.layout.of.is_some_and(|(file, columns, _)| (file, columns) == (at, room));
            let reveals_hunk = !is_same || self.layout.reveals_hunk;
            self.layout = Layout { of, rows, hunks, height, reveals_hunk };
        }
        if let Some(rows) = self.layout.hunks.get(self.hunk).filter(|_| self.layout.reveals_hunk) {
            let is_whole = rows.start >= self.top && rows.end <= self.top + height;
            if !is_whole {
                self.top = if rows.len() >= height { rows.start } else { rows.end.saturating_sub(height) };
                self.top = self.top.min(rows.start);
            }
        }
    }

    /// The columns of the list of files with what separates it; 0 where it is left out.
    fn list_columns(&self, columns: usize) -> usize {
        if columns < LEAST_SCREEN || self.files.len() < 2 {
            return 0;
        }
        let widest = self
            .files
            .iter()
            .map(|file| text::width(&file.path.to_string_lossy()) + text::width(&short_counts(file)) + 4);
        widest.max().unwrap_or(0).clamp(LEAST_LIST, columns / 3) + text::width(BETWEEN)
    }

    pub fn paint(&self, core: &Core, size: (u16, usize)) -> Pane {
        let mut pane = Pane::new(&self.title(core), self.hints(), size);
        let message = match &self.changes {
            None => Some("comparing …".to_owned()),
            Some(Err(why)) => Some(why.clone()),
            Some(Ok(changes)) if self.files.is_empty() => Some(format!("{}{}", changes.heading, changes.not_shown)),
            Some(Ok(_)) => None,
        };
        if let Some(message) = message {
            let message = text::sanitise(&message);
            // What `say` puts before a line.
            let width = usize::from(size.0).saturating_sub(2).max(1);
            message.lines().flat_map(|line| text::wrap(line, width)).for_each(|(_, line)| pane.say(line));
            return pane;
        }
        let columns = usize::from(size.0);
        let list = self.list_columns(columns);
        if let Some(file) = self.files.marked() {
            pane.rows.push(self.heading(file, columns));
        }
        let notes = self.notes(columns);
        let room = pane.room().saturating_sub(notes.len());
        let files = self.files.rows(room, |_| Row::default(), |file, is_marked| self.file_row(file, is_marked, list));
        let here = self.layout.hunks.get(self.hunk).cloned().unwrap_or(0..0);
        let picked = self.picked_rows();
        for at in 0..room {
            let mut row = Row::default();
            if list > 0 {
                row = files.get(at).cloned().unwrap_or_default();
                let space = (list - text::width(BETWEEN)).saturating_sub(text::width(&row.text()));
                row.push(" ".repeat(space), Style::default());
                row.push(BETWEEN, Style::DIM);
            }
            let number = self.top + at;
            let (mark, color) = match here.contains(&number) {
                _ if picked.contains(&number) => (PICKED, Color::Attention),
                true => (MARK, Color::Activity),
                false => (NO_MARK, Color::Activity),
            };
            row.push(mark, Style::color(color));
            let spans = self.layout.rows.get(number).map(|row| row.spans.clone()).unwrap_or_default();
            spans.into_iter().for_each(|span| row.push(span.text, span.style));
            pane.rows.push(row);
        }
        pane.rows.extend(notes);
        pane
    }

    /// The first rows of the hunks of this file that are marked.
    fn picked_rows(&self) -> Vec<usize> {
        let Some(file) = self.files.marked() else { return Vec::new() };
        let hunks = file.hunks().into_iter().zip(&self.layout.hunks);
        hunks.filter(|(hunk, _)| self.is_marked(file, hunk)).map(|(_, rows)| rows.start).collect()
    }

    /// Which agent, where it works and how much has changed.
    fn title(&self, core: &Core) -> String {
        let agent = core.agent(self.agent);
        let name = agent.map_or_else(|| core.roster().label_of(self.agent), |agent| agent.listed().to_string());
        let short = |text: &str| text::shortened(text, MOST_NAME).into_owned();
        let mut parts = vec!["review".to_owned(), short(&name)];
        // Most worktrees are named after the task.
        let is_said = |place: &String| {
            let named = agent.is_some_and(|agent| agent.identity.name.is_some());
            !named && place.rsplit(':').next() == Some(&name_from(&name))
        };
        let place = agent.and_then(|agent| agent.inputs.environment.place_name()).filter(|place| !is_said(place));
        parts.extend(place.map(|place| short(&place)));
        parts.push(agent.map_or("ended", |agent| TileState::of(core, agent).name()).to_owned());
        if !self.files.is_empty() {
            let sum = |count: fn(&FileDiff) -> usize| self.files.iter().map(count).sum::<usize>();
            let files = text::counted(self.files.len(), "file", "files");
            parts.push(format!("{files} {}", line_counts(sum(|file| file.added), sum(|file| file.removed))));
        }
        parts.extend(agent.map(|agent| agent.report.check.clone()).filter(|check| !check.is_empty()));
        if !self.marked.is_empty() {
            parts.push(format!("{} marked", text::counted(self.marked.len(), "hunk", "hunks")));
        }
        if !self.comments.is_empty() {
            parts.push(text::counted(self.comments.len(), "comment", "comments"));
        }
        if self.is_reading() && self.changes.is_some() {
            parts.push("comparing …".into());
        }
        parts.join(" ─ ")
    }

    fn hints(&self) -> &'static str {
        "j k hunk  J K file  Space mark  c comment  s send  x revert  l land  A land all  m merge  D discard  [ ] agent  Esc back"
    }

    /// The marked file and hunk.
    fn heading(&self, file: &FileDiff, columns: usize) -> Row {
        let hunks = file.hunks();
        let (at, place) = match hunks.len() {
            0 => (String::new(), file.path.display().to_string()),
            count => (format!("   hunk {} of {count}", self.hunk + 1), place(file, &hunks, self.hunk)),
        };
        // Beside a list of files, that has the mark.
        let mark = if self.list_columns(columns) > 0 { "  " } else { "> " };
        let mut row = Row::of(mark, Style::color(Color::User));
        row.push(text::sanitise(&place), Style::BOLD);
        row.push(format!("   {}{at}", file.counts()), Style::DIM);
        row.cut(u16::try_from(columns).unwrap_or(u16::MAX))
    }

    fn file_row(&self, file: &FileDiff, is_marked: bool, list: usize) -> Row {
        let columns = list.saturating_sub(text::width(BETWEEN));
        let counts = short_counts(file);
        let comments = self.comments.iter().filter(|comment| comment.path == file.path).count();
        let is_marked_inside = self.marked.iter().any(|(path, _)| *path == file.path);
        let marks = [(is_marked_inside, PICKED), (comments > 0, "✎")].map(|(has, mark)| if has { mark } else { " " });
        let room = columns.saturating_sub(text::width(&counts) + 4);
        let path = shortened_path(&file.path.to_string_lossy(), room);
        let style = if is_marked { Style::BOLD } else { Style::default() };
        let mut row = Row::of(if is_marked { "> " } else { "  " }, Style::color(Color::User));
        row.push(format!("{path}{}", " ".repeat(room.saturating_sub(text::width(&path)))), style);
        row.push(marks.concat(), Style::color(Color::Attention));
        match counts.split_once(' ').filter(|_| !file.lines.is_empty()) {
            Some((added, removed)) => {
                row.push(added, Style::color(Color::Added));
                row.push(format!(" {removed}"), Style::color(Color::Removed));
            }
            None => row.push(counts, Style::DIM),
        }
        row
    }

    /// The comments on the marked hunk, and what is compared.
    fn notes(&self, columns: usize) -> Vec<Row> {
        let Some(file) = self.files.marked() else { return Vec::new() };
        let lines = file.hunks().get(self.hunk).map(|lines| &file.lines[lines.clone()]);
        let own = self.comments.iter().filter(|comment| comment.path == file.path && Some(&comment.lines[..]) == lines);
        let line = |comment: &Comment| StyledLine {
            prefix: "✎ ".into(),
            parts: vec![(comment.text.clone(), Style::color(Color::Attention))],
        };
        let mut rows: Vec<Row> = own.flat_map(|comment| line(comment).wrap(columns)).take(MOST_COMMENT_ROWS).collect();
        if let Some(Ok(changes)) = &self.changes {
            let unknown = changes.not_shown.trim_start();
            for line in [&changes.heading, unknown.lines().next().unwrap_or_default()] {
                let line = text::sanitise(line);
                rows.push(Row::of(text::shortened(&line, columns), Style::DIM));
            }
        }
        rows
    }
}

/// `+2 -1`, or what has happened to a file without lines.
fn short_counts(file: &FileDiff) -> String {
    match file.lines.is_empty() {
        true => file.about.split(' ').next().unwrap_or_default().to_owned(),
        false => line_counts(file.added, file.removed),
    }
}

/// The end of a path, which tells more than its beginning.
fn shortened_path(path: &str, columns: usize) -> String {
    let path = text::sanitise(path).replace('\n', "␊");
    if text::width(&path) <= columns {
        return path;
    }
    let mut end = path.as_str();
    while text::width(end) + 1 > columns && !end.is_empty() {
        let mut rest = end.chars();
        rest.next();
        end = rest.as_str();
    }
    format!("…{end}")
}

/// The rows of a file, and those of each of its hunks.
fn rows_of(file: &FileDiff, colors: Option<&DiffColors>, columns: usize) -> (Vec<Row>, Vec<Range<usize>>) {
    let colors = colors.map_or_else(|| vec![Vec::new(); file.lines.len()], |colors| colors.of_lines(&file.lines));
    let room = columns.saturating_sub(text::width(MARK)).max(1);
    let (mut rows, mut hunks) = (Vec::new(), Vec::new());
    for (number, lines) in file.hunks().into_iter().enumerate() {
        let heading = file.lines.get(lines.start).map(|line| heading_of(line)).unwrap_or_default();
        if number > 0 || !heading.is_empty() {
            rows.push(Row::of(format!("   … {}", text::sanitise(heading)), Style::DIM));
        }
        let begin = rows.len();
        let code = file.lines[lines.clone()].iter().map(String::as_str).zip(colors[lines].iter().map(Vec::as_slice));
        rows.extend(draw_code(code).iter().flat_map(|line| line.wrap(room)));
        hunks.push(begin..rows.len());
    }
    if rows.is_empty() {
        rows.push(Row::of(format!("  {}", file.counts()), Style::DIM));
    }
    (rows, hunks)
}
