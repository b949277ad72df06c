//! Whole conversations with each kind of model: the real loop, a scripted peer that looks whether each request is
//! valid.

mod anthropic;
mod events;
mod google;
mod kinds;
mod meanwhile;
mod responses;
mod switching;
mod walk;
