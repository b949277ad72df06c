//! The list of tasks that a model keeps with the `todo` tool, and its form as text, which models and readers get.

use std::fmt;

/// The tasks, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Todo(pub Vec<TodoItem>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoItem {
    /// In one line.
    pub content: String,
    pub status: TodoStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl TodoStatus {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Pending, "pending", "[ ] "),
        (Self::InProgress, "in_progress", "[>] "),
        (Self::Completed, "completed", "[x] "),
    ];

    /// The status of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(status, ..)| *status)
    }

    /// The name that models write.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    const fn mark(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

impl Todo {
    /// From its text; other lines are left out.
    pub fn parse(text: &str) -> Self {
        let item = |line: &str| {
            let (status, _, mark) = TodoStatus::ALL.iter().find(|(.., mark)| line.starts_with(mark))?;
            Some(TodoItem { content: line[mark.len()..].to_owned(), status: *status })
        };
        Self(text.lines().filter_map(item).collect())
    }

    /// How many are completed.
    pub fn completed(&self) -> usize {
        self.0.iter().filter(|item| item.status == TodoStatus::Completed).count()
    }

    /// How many per cent are completed; `None` without tasks.
    pub fn percent(&self) -> Option<usize> {
        (self.completed() * 100).checked_div(self.0.len())
    }

    /// The current task, or else the next one.
    pub fn current(&self) -> Option<&TodoItem> {
        let with = |status| self.0.iter().find(|item| item.status == status);
        with(TodoStatus::InProgress).or_else(|| with(TodoStatus::Pending))
    }

    /// `2 of 5 done: write tests`; empty without tasks.
    pub fn summary(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let current = self.current().map(|item| format!(": {}", item.content)).unwrap_or_default();
        format!("{} of {} done{current}", self.completed(), self.0.len())
    }
}

impl fmt::Display for Todo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}{}{}", item.status.mark(), item.content)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_from_its_text() {
        let text = "[x] read\n[>] write\n[ ] run";
        let todo = Todo::parse(text);
        assert_eq!((todo.to_string().as_str(), todo.completed(), todo.0.len()), (text, 1, 3));
        assert_eq!(todo.summary(), "1 of 3 done: write");
        assert_eq!(Todo::parse("[ ] a\nother\n[x] b").summary(), "1 of 2 done: a");
        assert_eq!(Todo::parse("[x] b").summary(), "1 of 1 done");
        assert_eq!(Todo::parse("no list").summary(), "");
    }

    #[test]
    fn every_status_has_its_own_mark() {
        for (status, name, mark) in TodoStatus::ALL {
            assert_eq!((TodoStatus::find(name), status.mark()), (Some(status), mark));
        }
    }
}
