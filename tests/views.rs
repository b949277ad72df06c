//! Views over many agents.

mod compare;
mod frames;
mod inbox;
mod search;
mod timeline;
mod wall;
