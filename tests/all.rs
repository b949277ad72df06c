//! The integration tests: one binary, one file per subject.
