//! The screen around the conversation.

mod announce;
mod lines;
