//! The screen around the conversation.

mod announce;
mod line_mode;
mod lines;
mod mouse;
mod resize;
mod safety;
mod widths;
