//! Paints the rows of a conversation.

use std::ops::Range;
use std::rc::Rc;

use crate::base::text;
use crate::domain::frame::{Color, Copied, Row, Style, StyledLine};
use crate::domain::scrollback::{LineKind, Mark, OPENS, Reader, Scrollback, VisibleRow};
use crate::repl::terminals::draw::{GUTTER, text_width};

/// Exactly this many visible rows of the scrollback.
pub(super) fn rows(
    scrollback: &Scrollback,
    reader: Reader,
    columns: u16,
    height: usize,
    selected: Option<i64>,
) -> Vec<Row> {
    let screen = (text_width(columns), u16::try_from(height).unwrap_or(u16::MAX));
    let visible = scrollback.numbered_rows(reader, screen.0, screen.1);
    let mut rows: Vec<Row> = visible
        .into_iter()
        .map(|(line, row)| match selected == Some(line) && row.is_first_of_line {
            true => text_row(&selected_row(row), true).cut(columns),
            false => text_row(&row, false).filled(columns.into()).cut(columns),
        })
        .collect();
    rows.resize(height, Row::default());
    if !scrollback.shows_end(reader, screen.0, screen.1)
        && let Some(last) = rows.last_mut()
    {
        *last = Row::of("  ↓ more below (Ctrl+End)", Style::DIM).cut(columns);
    }
    rows
}

/// What was said and done last, without marks, ends of turns and, where there are only few rows, who speaks.
pub(super) fn last_words(scrollback: &Scrollback, columns: u16, height: usize) -> Vec<Row> {
    const SKIPPED_ROWS: usize = 40;
    const FEW_ROWS: usize = 6;
    let is_word = |row: &VisibleRow| match row.kind {
        LineKind::Mark | LineKind::TurnEnd => false,
        _ if height > FEW_ROWS => true,
        kind => !row.is_gap && !matches!(kind, LineKind::PersonName | LineKind::AgentName),
    };
    let most = u16::try_from(height + SKIPPED_ROWS).unwrap_or(u16::MAX);
    let mut visible = scrollback.numbered_rows(Reader::End, text_width(columns), most);
    visible.retain(|(_, row)| is_word(row));
    let end = visible.iter().rposition(|(_, row)| !row.is_gap).map_or(0, |last| last + 1);
    let rows = visible.drain(end.saturating_sub(height)..end);
    rows.map(|(_, row)| text_row(&row, false).filled(columns.into()).cut(columns)).collect()
}

/// The last lines that a running command has written, a row each.
pub(super) fn live_rows(output: &str, prefix: &str, columns: u16, most: usize) -> Vec<Row> {
    let row = |line: &str| {
        let line = StyledLine { prefix: prefix.into(), parts: vec![(last_version(line).to_owned(), Style::DIM)] };
        line.wrap(columns.into()).swap_remove(0)
    };
    text::last_lines(output, most).into_iter().map(row).collect()
}

/// What is left of a line that a program has written over, as for a progress bar.
fn last_version(line: &str) -> &str {
    line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default()
}

/// The hint at the right names the key that opens the selected item, in as many bytes.
fn selected_row(mut row: VisibleRow) -> VisibleRow {
    const ENTER_OPENS: &str = "Enter opens ";
    const { assert!(ENTER_OPENS.len() == OPENS.len()) };
    if let Some(at) = row.text.rfind(OPENS) {
        row.text.replace_range(at..at + OPENS.len(), ENTER_OPENS);
    }
    row
}

/// The rows of these lines.
pub(super) fn rows_between(scrollback: &Scrollback, from: i64, end: i64, columns: u16) -> Vec<Row> {
    let rows = scrollback.rows_between(from, end, text_width(columns));
    rows.into_iter().map(|row| text_row(&row, false).cut(columns)).collect()
}

fn text_row(row: &VisibleRow, is_selected: bool) -> Row {
    if row.is_gap {
        return Row::default();
    }
    let (sign, sign_style) = sign_of(row);
    let style = style_of(row.kind);
    let sign = if is_selected { "▸ " } else { sign };
    let mut drawn = Row::of(sign, if is_selected { Style { reverse: true, ..sign_style } } else { sign_style });
    drawn.copied = Copied { skipped: row.copied.skipped + GUTTER, ..row.copied };
    let mut at = 0;
    for (range, own) in &row.styles {
        push_part(&mut drawn, row, at..range.start, style);
        push_part(&mut drawn, row, range.clone(), *own);
        at = range.end;
    }
    push_part(&mut drawn, row, at..row.text.len(), style);
    drawn
}

/// Appends a part of the row in one style; some of it may be links.
fn push_part(drawn: &mut Row, row: &VisibleRow, part: Range<usize>, style: Style) {
    let mut at = part.start;
    for (range, to) in &row.links {
        let (begin, end) = (range.start.max(at), range.end.min(part.end));
        if begin < end {
            drawn.push(&row.text[at..begin], style);
            drawn.push_linked(&row.text[begin..end], style, Some(Rc::clone(to)));
            at = end;
        }
    }
    drawn.push(&row.text[at..part.end], style);
}

/// The sign on the left of a row.
fn sign_of(row: &VisibleRow) -> (&'static str, Style) {
    let style = style_of(row.kind);
    match (row.kind, row.mark) {
        (LineKind::Person, _) => ("┃ ", Style::color(Color::User)),
        (LineKind::ToolOutput, _) => ("│ ", Style::DIM),
        _ if !row.is_first_of_block => ("  ", style),
        (_, Mark::Running) => ("● ", Style::color(Color::Activity)),
        (_, Mark::Done) => ("● ", Style::color(Color::Tool)),
        (_, Mark::Failed) => ("✗ ", Style::color(Color::Error)),
        (_, Mark::Thinking | Mark::Thought) => ("⋯ ", Style::DIM),
        (LineKind::Warning | LineKind::Error, _) => ("! ", style),
        (LineKind::Mark, _) => ("- ", style),
        _ => ("  ", style),
    }
}

pub(super) fn style_of(kind: LineKind) -> Style {
    match kind {
        LineKind::PersonName => Style { bold: true, ..Style::color(Color::User) },
        LineKind::AgentName => Style { bold: true, ..Style::color(Color::Activity) },
        LineKind::Person => Style::BOLD,
        LineKind::Assistant | LineKind::ToolCall => Style::default(),
        LineKind::Thinking => Style { italic: true, ..Style::DIM },
        LineKind::ToolOutput | LineKind::Mark | LineKind::TurnEnd => Style::DIM,
        LineKind::Note => Style { dim: true, ..Style::color(Color::Note) },
        LineKind::Warning => Style::color(Color::Attention),
        LineKind::Error => Style::color(Color::Error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_marked_and_not_dim() {
        let mut scrollback = Scrollback::default();
        scrollback.push(LineKind::Warning, "config.toml:1: unknown key x");
        let row = rows(&scrollback, Reader::End, 80, 1, None).remove(0);
        assert_eq!(row.text(), "! config.toml:1: unknown key x");
        assert!(row.spans.iter().all(|span| span.style == Style::color(Color::Attention)), "{row:?}");
    }
}
