//! What has no idea of a chat: identifiers, time, errors, rings, text on a screen.

pub mod clock;
pub mod error;
pub mod file;
pub mod id;
pub mod ring;
pub mod text;
