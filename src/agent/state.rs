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

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing; waits for a person.
    Idle,
    /// A request is under way, waits for its place, or waits to be sent again.
    WaitingForLlm,
    /// Tool threads run, or are being stopped.
    ExecutingTool,
    /// A person has to decide about a call.
    AwaitingApproval,
}

impl State {
    /// A stable name, for the trace and for lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::WaitingForLlm => "waiting for the model",
            Self::ExecutingTool => "running a tool",
            Self::AwaitingApproval => "awaiting approval",
        }
    }

    /// Whether the way from here to `next` exists.
    pub const fn leads_to(self, next: Self) -> bool {
        use State::{AwaitingApproval, ExecutingTool, Idle, WaitingForLlm};
        matches!(
            (self, next),
            (Idle, WaitingForLlm)
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
    fn every_state_leads_back_to_idle_and_none_to_itself() {
        for state in [Idle, WaitingForLlm, ExecutingTool, AwaitingApproval] {
            assert!(!state.leads_to(state));
            assert_eq!(state.leads_to(Idle), state != Idle);
        }
    }

    #[test]
    fn a_call_is_never_asked_about_before_the_reply_is_whole() {
        assert!(!WaitingForLlm.leads_to(AwaitingApproval));
        assert!(!Idle.leads_to(ExecutingTool));
    }
}
