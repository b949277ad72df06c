//! Whole conversations with each kind of model: the real loop, a scripted peer that looks whether each request is
//! valid.

mod abilities;
mod anthropic;
mod clouds;
mod events;
mod fallback;
mod files;
mod google;
mod kinds;
mod lists;
mod meanwhile;
mod parameters;
mod reasoning;
mod responses;
mod switching;
mod table;
pub(crate) mod usage;
mod walk;
