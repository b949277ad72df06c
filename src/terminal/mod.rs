//! The door to the terminal: bytes in and out, keys from bytes, frames to bytes.
//!
//! Only here are crossterm, termina and the terminal's modes known. Nothing here knows an agent or waits for anything:
//! the loop registers [`tty::Tty`], reads when it is told, and hands the bytes on.

pub mod clipboard;
pub mod keys;
pub mod screen;
pub mod tty;
