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

    /// Whether calls of a reply run or wait for approval.
    pub const fn is_at_calls(self) -> bool {
        matches!(self, Self::ExecutingTool | Self::AwaitingApproval)
    }

    /// The next state.
    ///
    /// # Panics
    /// This state cannot become that one: the program is wrong, and would go on with an agent in no known state.
    pub fn enter(self, next: Self) -> Self {
        assert!(self.can_become(next), "invalid transition from {} to {}", self.name(), next.name());
        next
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
    fn every_transition_that_is_not_in_the_picture_panics_and_names_both_states() {
        let states = [Idle, WaitingForLlm, ExecutingTool, AwaitingApproval];
        let mut refused = 0;
        for (from, to) in states.into_iter().flat_map(|from| states.map(|to| (from, to))) {
            let outcome = std::panic::catch_unwind(|| from.enter(to));
            assert_eq!(outcome.is_ok(), from.can_become(to), "{from:?} to {to:?}");
            if let Err(panic) = outcome {
                let message = panic.downcast_ref::<String>().unwrap();
                assert!(message.contains(from.name()) && message.contains(to.name()), "{message}");
                refused += 1;
            }
        }
        assert_eq!(refused, 7);
    }

    #[test]
    fn a_call_needs_no_approval_before_the_reply_is_complete() {
        assert!(!WaitingForLlm.can_become(AwaitingApproval));
        assert!(Idle.can_become(AwaitingApproval), "after a restart");
        assert!(!Idle.can_become(ExecutingTool));
    }
}
