//! Paints the rows of a conversation.

use crate::domain::frame::{Color, Row, Style};
use crate::domain::scrollback::{LineKind, Reader, Scrollback, VisibleRow};
use crate::repl::terminals::draw::text_width;

/// The visible rows of the scrollback, exactly so many.
pub(super) fn rows(scrollback: &Scrollback, reader: Reader, columns: u16, height: usize) -> Vec<Row> {
    let screen = (text_width(columns), u16::try_from(height).unwrap_or(u16::MAX));
    let visible = scrollback.visible(reader, screen.0, screen.1);
    let mut rows: Vec<Row> = visible.into_iter().map(|row| text_row(row).cut(columns)).collect();
    rows.resize(height, Row::default());
    if !scrollback.shows_end(reader, screen.0, screen.1)
        && let Some(last) = rows.last_mut()
    {
        *last = Row::of("  ↓ more below (Ctrl+End)", Style::DIM).cut(columns);
    }
    rows
}

fn text_row(row: VisibleRow) -> Row {
    let (sign, style) = look_of(row.kind);
    if row.is_gap {
        return Row::default();
    }
    let mut drawn = Row::of(if row.is_first_of_block { sign } else { "  " }, Style { dim: true, ..style });
    let mut at = 0;
    for (range, own) in row.styles {
        drawn.push(&row.text[at..range.start], style);
        drawn.push(&row.text[range.clone()], own);
        at = range.end;
    }
    drawn.push(&row.text[at..], style);
    drawn
}

fn look_of(kind: LineKind) -> (&'static str, Style) {
    match kind {
        LineKind::Person => ("> ", Style { bold: true, ..Style::color(Color::User) }),
        LineKind::Assistant => ("  ", Style::default()),
        LineKind::Thinking => ("~ ", Style { italic: true, ..Style::DIM }),
        LineKind::ToolCall => ("* ", Style::color(Color::Tool)),
        LineKind::ToolOutput => ("| ", Style::DIM),
        LineKind::Note => ("  ", Style { dim: true, ..Style::color(Color::Note) }),
        LineKind::Error => ("! ", Style::color(Color::Error)),
        LineKind::Mark => ("- ", Style::DIM),
    }
}
