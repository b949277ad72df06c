//! polylogue: one person, many agents, one thread, one poll loop.
//!
//! The house has floors; imports go down only. From the top: cli, repl (the loop), commands,
//! team (many agents), agent (one agent), then the doors to the world, one heavy dependency each
//! (reactor, net, provider, tools, store, terminal), then plain data ([`domain`])
//! and what has no idea of a chat at all ([`base`]).
//!
//! Start reading at the turn of the loop.

pub mod base;
pub mod domain;
pub mod net;
pub mod reactor;
pub mod provider;
pub mod tools;
pub mod store;
pub mod terminal;
