//! The sandbox in which tools run commands: what a command may see and do, and how the kernel enforces it.
//!
//! A command is started by two helpers. The supervisor, which is this program's own binary executed again
//! (`polylogue --supervise`), is outside of the sandbox and ends all processes; it forks the init process, which restricts
//! itself and starts the command.
//!
//! ```text
//!   polylogue ── plan ──▶ supervisor ── fork ──▶ init ────────────▶ command
//!             ◀─ reports ─ new namespaces ◀─ reports ─ mounts, Landlock,
//!                                                      limits, seccomp
//! ```
//!
//! | module | contains |
//! |---|---|
//! | `policy` | what the person decided, for all calls; remembers which level works |
//! | `plan` | what one call may do, in absolute paths; sent to the helpers |
//! | `protection` | what is read-only in the open places, and what cannot be kept so |
//! | `covers` | keeps protected names that do not exist from processes that last |
//! | `git` | what a repository makes git obey |
//! | `search` | looks through the open places for what has to be protected |
//! | `watch` | compares that before and after a command |
//! | `hints` | why a command may have failed |
//! | `variables` | the environment variables that commands get |
//! | `report` | what the helpers answer |
//! | `linux` | the restrictions, one file each |
//!
//! This process is not restricted: everything happens in the helpers, each with a single thread. On other systems than
//! Linux there is no sandbox, and every attempt to build one is reported as failed.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::start;
#[cfg(not(target_os = "linux"))]
mod unavailable;
#[cfg(not(target_os = "linux"))]
pub use unavailable::start;

mod covers;
mod git;
mod hints;
mod level;
mod plan;
mod policy;
mod protection;
mod report;
mod search;
pub mod variables;
mod watch;

pub use git::{git_directory, own_git_directory};
pub use hints::likely_cause;
pub use level::Level;
pub use plan::{Places, Plan, Refusal, ResourceLimits, Sharing};
pub use policy::{Policy, Promise};
pub use report::{Descriptors, Report, send_descriptor};
pub use watch::Watch;
