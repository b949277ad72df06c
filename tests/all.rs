//! The integration tests: one binary, one file per subject.

mod acp;
#[cfg(feature = "hosts")]
mod agent_hosts;
mod agent_limits;
mod agent_trees;
mod approval;
mod background;
mod commands;
mod compaction;
mod configuration;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod counts;
mod crashes;
mod damage;
mod definitions;
mod done;
mod environments;
mod errors;
mod faults;
mod fork_model;
mod forks;
mod frames;
mod hooks;
mod hosts;
mod interrupts;
mod isolation;
mod keep;
mod keys;
mod kills;
mod layers;
mod limits;
mod lines;

mod features;
mod lookups;
mod mail;
#[cfg(feature = "mcp")]
mod mcp;
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
mod reads;
mod recordings;
mod restart;
mod restored_questions;
mod retries;
#[cfg(feature = "coordinator")]
mod reviews;
mod rules;
mod sandbox;
mod scale;
mod scenarios;
mod screen;
mod secrets;
mod semantics;
mod server;
mod sessions;
mod skills;
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
mod unattended;
mod undo;
mod user_tools;
mod viewers;
mod views;
