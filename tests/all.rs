//! The integration tests: one binary, one file per subject.

mod agent_limits;
mod agent_trees;
mod approval;
mod background;
mod commands;
mod configuration;
mod crashes;
mod damage;
mod environments;
mod errors;
mod fork_model;
mod forks;
mod frames;
mod interrupts;
mod isolation;
mod keys;
mod kills;
mod layers;
mod limits;

mod features;
mod lookups;
mod mail;
mod memory;
mod models;
#[cfg(feature = "coordinator")]
mod multi_agent;
mod names;
mod paths;
mod print;
mod provider;
mod queue_and_interrupts;
mod readme;
mod restart;
mod restored_questions;
mod rules;
mod sandbox;
mod scale;
mod secrets;
mod server;
mod sessions;
mod slices;
mod slow_terminal;
mod stalls;
mod store;
mod support;
mod support_works;
#[cfg(feature = "coordinator")]
mod team;
mod terminal;
mod terminals;
mod timeouts;
mod tools;
mod tools_and_approvals;
mod trace;
mod viewers;
