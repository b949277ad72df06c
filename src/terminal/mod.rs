//! The terminal: its modes, bytes in and out, keys from bytes, frames to bytes.
//!
//! Only this module uses crossterm and termina. Nothing here waits: the loop watches [`tty::Tty`] and reads it when it
//! is ready.

pub mod abilities;
pub mod announce;
pub mod clipboard;
pub mod clipboard_image;
pub mod editor;
pub mod inline;
pub mod keys;
pub mod screen;
pub mod tty;
