//! Basics that are independent of a chat: ids, time, errors, rings, text on a screen.

pub mod beneath;
pub mod clock;
pub mod descriptors;
pub mod digest;
pub mod error;
pub mod file;
pub mod fuzzy;
pub mod id;
pub mod job;
pub mod json_rpc;
#[cfg(any(feature = "hosts", feature = "mcp"))]
pub mod lines;
pub mod percent;
pub mod process;
pub mod project;
pub mod ring;
pub mod text;
pub mod wake_fd;
