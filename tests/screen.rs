//! The screen around the conversation.

mod announce;
mod line_mode;
mod lines;
