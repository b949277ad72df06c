//! Providers: recorded responses, golden request bodies, and random conversations.

mod anthropic;
mod google;
mod recorded;
mod requests;
mod responses;
mod validity;
