//! Views over many agents.

mod compare;
mod frames;
mod inbox;
mod picker;
mod search;
mod timeline;
mod wall;
