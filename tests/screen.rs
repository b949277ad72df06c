//! The screen around the conversation.

mod announce;
mod asides;
#[cfg(feature = "syntax-colors")]
mod code;
mod folds;
mod line_mode;
mod lines;
mod links;
mod mouse;
mod pace;
mod resize;
mod safety;
mod widths;
