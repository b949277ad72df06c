//! polylogue: one person, many agents, one thread, one poll loop.
//!
//! The house has floors; imports go down only. From the top: [`cli`], [`repl`] (the loop), [`commands`],
//! [`team`] (many agents), [`agent`] (one agent), then the doors to the world, one heavy dependency each
//! ([`reactor`], [`net`], [`provider`], [`tools`], [`store`], [`terminal`], [`socket`]), then plain data ([`domain`])
//! and what has no idea of a chat at all ([`base`]).
//!
//! Start reading at [`repl::Repl::turn`]. Around it, each in a room of its own in `src/repl`:
//!
//! | room | |
//! |---|---|
//! | `terminals` | several terminals, each with the agent that it looks at |
//! | `viewers` | whoever else reads what agents say, each of them a number in an agent's ring (`src/agent/output.rs`) |
//! | `serve` | clients at a socket: scripts, and terminals that attach ([`domain::wire`] is what they say) |
//! | `library` | what a program asks that hosts the loop, as below |
//! | `team` | tasks that several agents work on; who does what when is decided in [`team::coordinator`] |
//!
//! `team` is the Cargo feature `coordinator`, on by default.
//!
//! # As a library
//!
//! A program can host agents itself: it opens a [`repl::Repl`] without a terminal and turns it. Everything that an agent
//! says and is told, is told in [`domain::chunk`]s; every viewer reads each of them once and in order.
//!
//! ```
//! use polylogue::base::clock::Clock;
//! use polylogue::domain::chunk::Chunk;
//! use polylogue::domain::config::Config;
//! use polylogue::repl::Repl;
//! use polylogue::store::Store;
//!
//! # fn main() -> polylogue::base::error::Result<()> {
//! // Nothing is kept, and all agents run on the built-in provider, which repeats what it is told.
//! let mut house = Repl::open(Config::default(), Store::in_memory()?, Clock::system(), None)?;
//! let mut viewers = Vec::new();
//! for name in ["ada", "grace"] {
//!     let agent = house.create(Some(name), None)?;
//!     viewers.push((name, house.attach(agent, None)?));
//!     house.send(agent, &format!("hello from {name}"))?;
//!     house.send(agent, "and again")?; // waits until the first is answered
//! }
//! while house.list().iter().any(|agent| !agent.status.is_at_rest()) {
//!     house.turn(None)?;
//! }
//! let mut said = String::new();
//! for (name, viewer) in viewers {
//!     while house.has_unread(viewer) {
//!         for one in house.read(viewer, 100).chunks {
//!             match one.chunk {
//!                 Chunk::User(text) => said += &format!("\n> {text}\n{name}: "),
//!                 Chunk::Text(text) => said += &text,
//!                 _ => {} // states, usage, marks
//!             }
//!         }
//!     }
//! }
//! print!("{said}");
//! # assert_eq!(said, "\n> hello from ada\nada: hello from ada\n> and again\nada: and again\
//! #     \n> hello from grace\ngrace: hello from grace\n> and again\ngrace: and again");
//! # Ok(())
//! # }
//! ```

pub mod agent;
pub mod base;
pub mod cli;
pub mod commands;
pub mod domain;
pub mod net;
pub mod provider;
pub mod reactor;
pub mod repl;
pub mod socket;
pub mod store;
pub mod team;
pub mod terminal;
pub mod tools;
