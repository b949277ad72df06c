//! The figures, measured on the release build and never by a timed test.
//!
//! What it measures against are copies of this very binary: so their work is not counted as ours.

#[path = "../support/mod.rs"]
mod support;

fn main() {
    support::flood::serve_if_asked();
    support::pty::become_the_program_if_asked();
}
