//! The internals of the program that tests use: the only way to [`polylogue::testing`].

pub use polylogue::testing::*;
