//! Standard input and output of modes that run without a terminal. The contents do not matter here.
//!
//! | module | holds |
//! |---|---|
//! | `input` | bounded reading of standard input: all of it, or lines of JSON |
//! | `output` | a writer that never blocks the event loop |
//! | `streams` | standard output for the answer and standard error for notes, both non-blocking |
//!
//! The functions below write at once, for modes that have no event loop.

pub mod input;
pub mod output;
pub mod streams;

use std::io::Write as _;

use crate::base::text::sanitise;

/// Writes a line to standard output; false if it is closed.
pub fn print_line(text: &str) -> bool {
    writeln!(std::io::stdout(), "{text}").is_ok()
}

/// Writes a note to standard error.
pub fn print_note(message: &str) {
    // There is nowhere left to report that standard error is closed.
    let _ = writeln!(std::io::stderr(), "polylogue: {}", sanitise(message));
}

/// Says why nothing happens while standard input is open.
pub fn say_waits_for_input() {
    print_note("waiting for the end of standard input, which is part of the prompt; without it: < /dev/null");
}
