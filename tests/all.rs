//! The integration tests: one binary, one file per subject.

mod provider;
mod support;

mod support_works;
mod tools;
mod store;
