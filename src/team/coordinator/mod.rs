//! Many agents on one task: who works when, how long, how often, and what their answers become.
//!
//! Pure: nothing here reads a file, asks a clock, touches an agent or writes anywhere. The loop asks a [`task::Task`]
//! what to do next, does it with ordinary agents, and tells it what became of that.

pub mod aggregate;
mod attempts;
#[cfg(test)]
mod dice;
mod document;
pub mod event;
pub mod health;
pub mod judge;
mod markdown;
pub mod member;
pub mod outcome;
pub mod result;
mod schedule;
pub mod settings;
pub mod task;
pub mod template;
pub mod workflow;
