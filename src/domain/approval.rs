//! Approval policies: what an agent may do without a question.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, ErrorKind};

/// What an agent may do without a question. The order is by power: what a policy allows without a question, every greater
/// one allows too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Reads only: everything that changes something is refused, even if a rule allows it.
    Plan,
    /// As `Ask`, but what would ask is refused.
    Never,
    /// Reads in the workspace are free; changes and commands ask.
    #[default]
    Ask,
    /// What runs in the sandbox needs no question; what needs more asks.
    Auto,
    /// Nothing asks except changes of protected files and what a rule asks for.
    Yolo,
}

impl Policy {
    /// All policies, the least first.
    pub const ALL: [Self; 5] = [Self::Plan, Self::Never, Self::Ask, Self::Auto, Self::Yolo];

    /// The name that a person types.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Never => "never",
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Yolo => "yolo",
        }
    }

    /// Its meaning in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Plan => "reads only; changes are refused",
            Self::Never => "what would ask is refused",
            Self::Ask => "reads in the workspace are free; changes and commands ask",
            Self::Auto => {
                "commands in the sandbox and changes in the workspace run without a question; everything else asks"
            }
            Self::Yolo => {
                "commands and changes run without a question, in the sandbox unless it is off; protected files still ask"
            }
        }
    }

    /// The policy of a child: never more than that of its parent.
    pub fn narrow(parent: Self, child: Self) -> Self {
        parent.min(child)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        let unknown = || format!("unknown policy {text:?}: expected ask, auto, plan, never or yolo");
        found.ok_or_else(|| Error::new(ErrorKind::Usage, unknown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_written_and_a_child_never_gets_more() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
            assert_eq!(Policy::narrow(policy, Policy::Yolo), policy);
            assert_eq!(Policy::narrow(Policy::Plan, policy), Policy::Plan);
        }
        let error = "Auto".parse::<Policy>().unwrap_err().message;
        assert_eq!(error, "unknown policy \"Auto\": expected ask, auto, plan, never or yolo");
    }
}
