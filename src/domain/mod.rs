//! Plain data that several floors share. Nothing here does I/O or knows who uses it.

pub mod chunk;
pub mod config;
pub mod custom;
pub mod draft;
pub mod endpoint;
pub mod environment;
pub mod flow;
pub mod frame;
pub mod history;
pub mod http;
pub mod key;
pub mod mail;
pub mod message;
pub mod readiness;
pub mod scrollback;
pub mod slice;
pub mod stream;
pub mod thinking;
pub mod tool;
pub(crate) mod wire;
