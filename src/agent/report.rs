//! What is known of an agent's work besides what it says.

use crate::domain::diff::line_counts;

/// What was found out about the files that an agent has changed. Not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WorkReport {
    /// The lines that its worktree has more and less than the branch that it left.
    pub size: Option<(usize, usize)>,
    /// How the command ended that says whether it is done: `make test passes`.
    pub check: String,
    /// That command has failed.
    pub fails: bool,
    /// With what it conflicts, and in which files: `stdin: src/cli.py`.
    pub conflicts: Vec<String>,
}

impl WorkReport {
    pub fn set_check(&mut self, name: &str, fails: bool) {
        self.check = format!("{name} {}", if fails { "fails" } else { "passes" });
        self.fails = fails;
    }

    /// Nothing is known any more about whether it is done.
    pub fn clear_check(&mut self) {
        self.check.clear();
        self.fails = false;
    }

    /// In one line; empty if nothing is known.
    pub fn line(&self) -> String {
        let size = self.size.filter(|size| *size != (0, 0)).map(|(added, removed)| line_counts(added, removed));
        let check = Some(self.check.clone()).filter(|check| !check.is_empty());
        let conflicts = (!self.conflicts.is_empty()).then(|| format!("conflicts with {}", self.conflicts.join(", ")));
        size.into_iter().chain(check).chain(conflicts).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_is_known() {
        assert_eq!(WorkReport::default().line(), "");
        let report = WorkReport {
            size: Some((8, 2)),
            check: "make test passes".into(),
            fails: false,
            conflicts: vec!["stdin: src/cli.py".into()],
        };
        assert_eq!(report.line(), "+8 -2, make test passes, conflicts with stdin: src/cli.py");
        let unchanged = WorkReport { size: Some((0, 0)), ..WorkReport::default() };
        assert_eq!(unchanged.line(), "");
    }
}
