//! The integration tests: one binary, one file per subject.

mod background;
mod crashes;
mod damage;
mod errors;
mod families;
mod forks;
mod isolation;
mod kills;
mod letters;
mod lives;
mod memory;
mod names;
mod provider;
mod queue_and_interrupts;
mod readme;
mod restart;
mod scale;
mod slices;
mod slow_terminal;
mod store;
mod support;
mod support_works;
mod terminal;
mod timeouts;
mod tools;
mod tools_and_approvals;
