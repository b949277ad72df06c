//! How much a test does: in the suite a part, with `make nightly` and `make faults` all of it.

/// Has tests do all of it.
const FULL: &str = "POLYLOGUE_TEST_FULL";

fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// The distance between the places that are tried; in the suite it is this one.
pub fn stride(usual: usize) -> usize {
    if is_full() { 1 } else { usual }
}

/// How many there are in a test of scale: all of them, or in the suite so many.
pub fn scaled(full: usize, usual: usize) -> usize {
    if is_full() { full } else { usual }
}
