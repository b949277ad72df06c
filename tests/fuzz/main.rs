//! One target of `tests/bench/fuzz`, named by the variable `TARGET`, under libFuzzer: the bytes that it makes are the choices
//! of the generator, so that it finds those choices that reach new code.

#![no_main]
#![allow(dead_code)]

#[path = "../bench/chance.rs"]
mod chance;
#[path = "../bench/fuzz.rs"]
mod fuzz;
#[path = "../bench/process.rs"]
mod process;
#[path = "../support/mod.rs"]
mod support;

use std::cell::RefCell;

use chance::Chance;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static STEP: RefCell<fuzz::Step> = RefCell::new({
        let target = std::env::var("TARGET").unwrap_or_default();
        fuzz::step(&target).unwrap_or_else(|| panic!("no target {target:?}: TARGET=NAME names one"))
    });
}

fuzz_target!(|data: &[u8]| STEP.with_borrow_mut(|step| step(&mut Chance::given(data))));

/// The value of an option of the benchmark; there are none here.
fn asked(_: &str, default: f64) -> f64 {
    default
}
