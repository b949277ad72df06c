//! Lists of two columns, for terminals of any width.

use super::CommandContext;
use crate::base::text;

/// With fewer columns left for it, the second column is printed below the first.
const LEAST_SECOND: usize = 30;
/// Before a second column below the first.
const INDENT: &str = "    ";

/// Rows of two columns, the first of them `first` columns wide. The text of the second is wrapped.
#[derive(Debug, Default)]
pub struct TwoColumns {
    first: usize,
    rows: Vec<(String, String)>,
}

impl TwoColumns {
    pub fn new(first: usize) -> Self {
        Self { first, rows: Vec::new() }
    }

    pub fn row(&mut self, left: impl Into<String>, right: impl Into<String>) {
        self.rows.push((left.into(), right.into()));
    }

    /// The rows as text for a screen of this many columns; `None`: each row is one line.
    pub fn to_text(&self, columns: Option<usize>) -> String {
        let lines: Vec<String> = self.rows.iter().map(|(left, right)| self.lines(left, right, columns)).collect();
        lines.join("\n")
    }

    fn lines(&self, left: &str, right: &str, columns: Option<usize>) -> String {
        let line = format!("{left:<first$} {right}", first = self.first);
        let Some(columns) = columns.filter(|columns| text::width(&line) > *columns) else { return line };
        let second = (self.first.max(text::width(left)) + 1).min(columns);
        let is_beside = columns - second >= LEAST_SECOND;
        let (first_line, indent) = if is_beside {
            (format!("{left:<first$} ", first = self.first), " ".repeat(second))
        } else {
            (format!("{left}\n{INDENT}"), INDENT.to_owned())
        };
        let rows: Vec<&str> = text::wrap(right, columns.saturating_sub(indent.len())).map(|(_, row)| row).collect();
        first_line + &rows.join(&format!("\n{indent}"))
    }
}

impl CommandContext<'_> {
    /// The columns for text on the terminal where the command was typed.
    pub fn columns(&self) -> Option<usize> {
        self.terminal_infos.iter().find(|terminal| terminal.is_origin).map(|terminal| terminal.text_columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> TwoColumns {
        let mut list = TwoColumns::new(8);
        list.row("/fork", "create a child with the conversation of this agent");
        list.row("/exit", "leave");
        list
    }

    #[test]
    fn the_second_column_is_wrapped_beside_the_first_or_stands_below_it() {
        assert_eq!(list().to_text(None).lines().count(), 2);
        assert_eq!(list().to_text(Some(59)), list().to_text(None));
        let beside = "/fork    create a child with the\n         conversation of this agent\n/exit    leave";
        assert_eq!(list().to_text(Some(40)), beside);
        let below = "/fork\n    create a child with the\n    conversation of this agent\n/exit    leave";
        assert_eq!(list().to_text(Some(32)), below);
        for columns in 1..60 {
            let text = list().to_text(Some(columns));
            assert!(text.split_whitespace().eq(list().to_text(None).split_whitespace()) || columns < 20, "{text}");
        }
    }
}
