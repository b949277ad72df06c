//! Paints the rows of a conversation.

use crate::domain::frame::{Color, Row, Style};
use crate::domain::scrollback::{LineKind, Mark, Reader, Scrollback, VisibleRow};
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
    if row.is_gap {
        return Row::default();
    }
    let (sign, sign_style) = sign_of(&row);
    let style = style_of(row.kind);
    let mut drawn = Row::of(sign, sign_style);
    let mut at = 0;
    for (range, own) in row.styles {
        drawn.push(&row.text[at..range.start], style);
        drawn.push(&row.text[range.clone()], own);
        at = range.end;
    }
    drawn.push(&row.text[at..], style);
    drawn
}

/// What stands on the left of a row.
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
        (LineKind::Error, _) => ("! ", style),
        (LineKind::Mark, _) => ("- ", style),
        _ => ("  ", style),
    }
}

fn style_of(kind: LineKind) -> Style {
    match kind {
        LineKind::PersonName => Style { bold: true, ..Style::color(Color::User) },
        LineKind::AgentName => Style { bold: true, ..Style::color(Color::Activity) },
        LineKind::Person => Style::BOLD,
        LineKind::Assistant | LineKind::ToolCall => Style::default(),
        LineKind::Thinking => Style { italic: true, ..Style::DIM },
        LineKind::ToolOutput | LineKind::Mark | LineKind::TurnEnd => Style::DIM,
        LineKind::Note => Style { dim: true, ..Style::color(Color::Note) },
        LineKind::Error => Style::color(Color::Error),
    }
}
