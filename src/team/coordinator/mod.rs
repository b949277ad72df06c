//! Several agents on one task: when each works, for how long and how often, and how their answers are combined.
//!
//! Nothing here reads a file or a clock, or has access to agents. The loop asks a [`task::Task`] what to do next, does it
//! with ordinary agents, and reports the results to the task.

pub mod aggregate;
mod attempts;
pub(crate) mod definitions;
mod document;
pub mod event;
pub mod health;
mod judge;
mod markdown;
pub mod member;
pub mod outcome;
pub(crate) mod plan;
pub mod result;
mod schedule;
pub mod settings;
pub(crate) mod task;
pub(crate) mod template;
pub mod workflow;
