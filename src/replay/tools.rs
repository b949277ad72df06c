//! The tools of a scenario: real tool threads, whose results come from the file when the clock reaches their time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::scenario::Tool;
use crate::base::clock::Moment;
use crate::domain::tool::ScriptedTools;

/// A cancelled call is noticed within this time.
const CANCEL_POLL: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub struct Tools {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The tools that no call has used, in order.
    unused: Vec<Tool>,
    calls: Vec<Call>,
    count: u64,
}

/// A call whose thread waits here.
#[derive(Debug)]
struct Call {
    number: u64,
    after: Duration,
    /// `None`: the call has just begun.
    due: Option<Moment>,
    is_released: bool,
}

impl Tools {
    pub fn new(tools: Vec<Tool>) -> Self {
        Self { state: Mutex::new(State { unused: tools, ..State::default() }), released: Condvar::new() }
    }

    /// How many threads wait for their moment.
    pub fn waiting(&self) -> usize {
        self.lock().calls.iter().filter(|call| !call.is_released).count()
    }

    /// Notes since when calls run, and lets those end that are due. Returns whether some do.
    pub fn release(&self, now: Moment) -> bool {
        let mut has_released = false;
        for call in &mut self.lock().calls {
            let due = *call.due.get_or_insert(now + call.after);
            if due <= now && !call.is_released {
                call.is_released = true;
                has_released = true;
            }
        }
        self.released.notify_all();
        has_released
    }

    pub fn next_due(&self) -> Option<Moment> {
        self.lock().calls.iter().filter(|call| !call.is_released).filter_map(|call| call.due).min()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result that is meant for a call.
fn position(unused: &[Tool], name: &str, arguments: &Value) -> Option<usize> {
    let arguments = arguments.to_string();
    let is_meant =
        |tool: &Tool| tool.tool == name && tool.with.as_ref().is_none_or(|with| arguments.contains(with.as_str()));
    unused.iter().position(is_meant)
}

impl ScriptedTools for Tools {
    fn asks(&self, name: &str, arguments: &Value) -> Option<bool> {
        let state = self.lock();
        position(&state.unused, name, arguments).and_then(|at| state.unused[at].asks)
    }

    fn run(&self, name: &str, arguments: &Value, is_cancelled: &dyn Fn() -> bool) -> Result<String, String> {
        let mut state = self.lock();
        let Some(at) = position(&state.unused, name, arguments) else {
            return Err(format!("the scenario has no result for this call of {name}"));
        };
        let tool = state.unused.remove(at);
        state.count += 1;
        let number = state.count;
        let after = Duration::from_millis(tool.after);
        state.calls.push(Call { number, after, due: None, is_released: false });
        let is_waiting = |state: &State| state.calls.iter().any(|call| call.number == number && !call.is_released);
        while is_waiting(&state) && !is_cancelled() {
            state = self.released.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.calls.retain(|call| call.number != number);
        match tool.fails || is_cancelled() {
            true => Err(tool.result),
            false => Ok(tool.result),
        }
    }
}
