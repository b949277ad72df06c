//! The integration tests: one binary, one file per subject.

mod support;

mod support_works;
