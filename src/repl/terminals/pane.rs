//! The content of a view: a title, rows and hints about its keys. Long text in it is scrolled.

use crate::base::text;
use crate::domain::frame::{Color, Row, Style, StyledLine};
use crate::domain::key::KeyCode;
use crate::repl::terminals::list::List;
use crate::repl::terminals::query::QueryLine;
use crate::repl::terminals::question::Page;

pub(crate) struct Pane {
    columns: u16,
    height: usize,
    pub rows: Vec<Row>,
    hints: Vec<Row>,
    /// The part of the question that is shown.
    pub(super) page: Option<Page>,
    pub has_whole_rules: bool,
    /// Column and row of the cursor, if it is in these rows.
    pub cursor: Option<(u16, u16)>,
}

impl Pane {
    /// Two spaces separate hints.
    pub fn new(title: &str, hints: &str, (columns, height): (u16, usize)) -> Self {
        let (rows, hints) = (vec![rule(title, columns)], hint_rows(hints, columns));
        Self { columns, height, rows, hints, page: None, has_whole_rules: false, cursor: None }
    }

    /// The number of rows that are left.
    pub fn room(&self) -> usize {
        self.height.saturating_sub(self.rows.len() + self.hints.len())
    }

    /// A line in place of an empty list.
    pub fn say(&mut self, line: &str) {
        self.rows.extend([Row::default(), Row::of(format!("  {line}"), Style::DIM)]);
    }

    pub fn rule(&mut self, title: &str) {
        self.rows.push(rule(title, self.columns));
    }

    pub(super) fn query(&mut self, query: &QueryLine, prompt: &str, color: Color) {
        let (row, column) = query.row(prompt, color);
        self.cursor = Some((column, u16::try_from(self.rows.len()).unwrap_or(u16::MAX)));
        self.rows.push(row);
    }

    /// At most this many rows of a list. Rows start with a blank, which is the place of the sign of the marked entry.
    pub fn list<T>(&mut self, list: &List<T>, room: usize, heading: impl Fn(&T) -> Row, row: impl Fn(&T) -> Row) {
        let marked = |row: Row| format!(">{}", row.text().get(1..).unwrap_or_default());
        self.rows.extend(list.rows(room, heading, |entry, is_marked| match is_marked {
            true => Row::of(marked(row(entry)), Style { reverse: true, ..Style::default() }),
            false => row(entry),
        }));
    }

    /// Fills or cuts it to its size, with the hints at the bottom.
    pub fn finished(mut self) -> Self {
        self.rows.resize(self.height.saturating_sub(self.hints.len()), Row::default());
        self.rows.append(&mut self.hints);
        self.rows.resize(self.height, Row::default());
        self.rows.iter_mut().for_each(|row| *row = std::mem::take(row).cut(self.columns));
        self
    }
}

/// Lines of text with a scroll position.
#[derive(Default)]
pub(super) struct ScrolledText {
    lines: Vec<StyledLine>,
    /// The lines wrapped for this screen. The marked row is at the top.
    rows: List<Row>,
    screen: (u16, u16),
}

impl ScrolledText {
    /// Shows these lines once they are laid out. The position stays.
    pub fn replace(&mut self, lines: Vec<StyledLine>) {
        (self.lines, self.screen) = (lines, (0, 0));
    }

    pub fn lay_out(&mut self, screen: (u16, u16)) {
        if self.screen != screen {
            let columns = usize::from(screen.0).saturating_sub(INDENT.len()).max(1);
            let rows = self.lines.iter().flat_map(|line| line.wrap(columns)).map(|row| row.indented(INDENT));
            self.rows.replace(rows.collect(), |_, _| false);
            self.screen = screen;
        }
    }

    /// Scrolls if this is a key for that.
    pub fn on_key(&mut self, code: KeyCode) {
        // Some rows stay on the screen.
        let page = isize::try_from(self.screen.1).unwrap_or(0).max(6) - 5;
        match code {
            KeyCode::PageUp => self.rows.step(-page),
            KeyCode::PageDown => self.rows.step(page),
            code => self.rows.on_key(code),
        }
    }

    pub fn rows(&self, room: usize) -> impl Iterator<Item = Row> {
        self.rows.iter().skip(self.rows.at()).take(room).cloned()
    }
}

/// Before text in a view.
const INDENT: &str = "  ";

/// A line, wrapped and indented by two blanks.
pub(super) fn indented(line: &str, style: Style, columns: u16) -> Vec<Row> {
    let line = text::sanitise(&text::expand_tabs(line)).replace('\n', " ");
    let width = usize::from(columns).saturating_sub(2).max(1);
    text::wrap(&line, width).map(|(_, part)| Row::of(format!("  {part}"), style)).collect()
}

fn hint_rows(hints: &str, columns: u16) -> Vec<Row> {
    let mut lines: Vec<String> = Vec::new();
    for hint in hints.split("  ").map(str::trim) {
        match lines.last_mut() {
            Some(line) if text::width(line) + 2 + text::width(hint) <= usize::from(columns) => {
                *line += &format!("  {hint}")
            }
            _ => lines.push(hint.to_owned()),
        }
    }
    let parts = lines.iter().flat_map(|line| text::wrap(line, columns.max(1).into()));
    parts.map(|(_, part)| hint_row(part, Style::DIM, Style::default())).collect()
}

/// A row of hints, which are separated by two spaces or a comma. The keys with which they begin have a style of their own.
pub(super) fn hint_row(hints: &str, plain: Style, key: Style) -> Row {
    let (mut row, mut is_begin) = (Row::default(), true);
    for word in hints.split_inclusive(' ') {
        let name = word.trim_end();
        let is_key = is_begin && is_key(name);
        row.push(word, if is_key { key } else { plain });
        is_begin = is_key || name.is_empty() || name.ends_with(',');
    }
    row
}

fn is_key(word: &str) -> bool {
    let is_named = ["Enter", "Esc", "Space", "Tab", "PgUp", "PgDn", "digits"].contains(&word);
    is_named || word.contains('+') || word.chars().count() == 1 && word != "…"
}

/// `── title ─────`.
fn rule(title: &str, columns: u16) -> Row {
    let room = usize::from(columns).saturating_sub(6);
    let title = text::sanitise(title);
    let title = if title.is_empty() { String::new() } else { format!(" {} ", text::shortened(&title, room)) };
    let rest = usize::from(columns).saturating_sub(text::width(&title) + 2);
    Row::of(format!("──{title}{}", "─".repeat(rest)), Style::DIM)
}

/// A row of parts side by side, each of this many columns.
pub(super) fn joined(parts: &[Vec<Row>], at: usize, between: &str, columns: u16) -> Row {
    let mut row = Row::default();
    for (n, part) in parts.iter().filter_map(|part| part.get(at)).enumerate() {
        row.push(if n > 0 { between } else { "" }, Style::DIM);
        let part = part.clone().cut(columns);
        let used = text::width(&part.text());
        part.spans.into_iter().for_each(|span| row.push(span.text, span.style));
        row.push(" ".repeat(usize::from(columns).saturating_sub(used)), Style::default());
    }
    row
}
