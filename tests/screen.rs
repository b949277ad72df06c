//! The screen around the conversation.

mod lines;
