//! `polylogue acp`: the program as a process, driven by a scripted editor over pipes. Every message that it sends is
//! checked with the published JSON schema of the protocol.

mod cancels;
mod editor;
mod faults;
mod options;
mod served;
#[cfg(feature = "mcp")]
mod servers;
mod sessions;
mod turns;
