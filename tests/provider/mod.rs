//! Providers from outside: recorded bytes, golden bodies, and conversations that no log should break.

mod anthropic;
mod google;
mod recorded;
mod requests;
mod responses;
mod validity;
