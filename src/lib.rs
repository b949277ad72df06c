//! polylogue: one person, many agents, one thread, one poll loop.
//!
//! The house has floors; imports go down only. From the top: [`cli`], [`repl`] (the loop), [`commands`],
//! [`team`] (many agents), [`agent`] (one agent), then the doors to the world, one heavy dependency each
//! ([`reactor`], [`net`], [`provider`], [`tools`], [`store`], [`terminal`]), then plain data ([`domain`])
//! and what has no idea of a chat at all ([`base`]).
//!
//! Start reading at [`repl::Repl::turn`].

pub mod agent;
pub mod base;
pub mod cli;
pub mod commands;
pub mod domain;
pub mod net;
pub mod provider;
pub mod reactor;
pub mod repl;
pub mod store;
pub mod team;
pub mod terminal;
pub mod tools;
