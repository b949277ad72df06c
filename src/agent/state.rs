//! The four states of an agent and the ways between them.
//!
//! ```text
//!            begin                       reply with calls
//!   Idle ------------> WaitingForLlm ----------------------> ExecutingTool
//!    ^                  |   ^   ^                              |   |   ^
//!    |   reply, error,  |   |   |        all calls answered    |   |   | allowed
//!    +------------------+   |   +------------------------------+   |   | or refused
//!    |                      |                                      v   |
//!    +----------------------|------- interrupt ------------- AwaitingApproval
//! ```
//! After a restart, an idle agent awaits the approval for which an earlier process has asked.

/// The state of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// No turn is under way.
    Idle,
    /// A request is running, waits for a slot, a key or a retry.
    WaitingForLlm,
    /// Tool threads run, or are being stopped.
    ExecutingTool,
    /// A tool call waits for a person.
    AwaitingApproval,
}

impl State {
    /// A stable name for the trace and for lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::WaitingForLlm => "waiting for the model",
            Self::ExecutingTool => "running a tool",
            Self::AwaitingApproval => "awaiting approval",
        }
    }

    /// Whether this change of state is allowed.
    pub const fn can_become(self, next: Self) -> bool {
        use State::{AwaitingApproval, ExecutingTool, Idle, WaitingForLlm};
        matches!(
            (self, next),
            (Idle, WaitingForLlm | AwaitingApproval)
                | (WaitingForLlm, ExecutingTool | Idle)
                | (ExecutingTool, WaitingForLlm | AwaitingApproval | Idle)
                | (AwaitingApproval, ExecutingTool | Idle)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::State::{AwaitingApproval, ExecutingTool, Idle, WaitingForLlm};

    #[test]
    fn every_state_returns_to_idle_and_none_to_itself() {
        for state in [Idle, WaitingForLlm, ExecutingTool, AwaitingApproval] {
            assert!(!state.can_become(state));
            assert_eq!(state.can_become(Idle), state != Idle);
        }
    }

    #[test]
    fn a_call_needs_no_approval_before_the_reply_is_complete() {
        assert!(!WaitingForLlm.can_become(AwaitingApproval));
        assert!(Idle.can_become(AwaitingApproval), "after a restart");
        assert!(!Idle.can_become(ExecutingTool));
    }
}
