//! Asks the linker for packed relative relocations (`DT_RELR`) where a program that has them links and starts.
//!
//! The program is position independent, so it carries some ten thousand relocations that only add the address at which
//! it was loaded: 24 bytes each as `RELA`, and a quarter of a megabyte in all; a bit or so each as `RELR`. Linkers know
//! the form for a few years, and glibc since 2.36. An older pair gets the program as it always was: so it is tried, with
//! the compiler, the flags and the linker of this very build, and never assumed.

use std::path::PathBuf;
use std::process::Command;

const PACK: &str = "-Wl,-z,pack-relative-relocs";

fn main() {
    println!("cargo::rerun-if-changed=.cargo/build.rs");
    // What a person waits for while developing is the linker; and what cannot be started here cannot be tried.
    let is_wanted = read("PROFILE") == "release" && read("CARGO_CFG_TARGET_OS") == "linux";
    if is_wanted && read("HOST") == read("TARGET") && starts_when_packed() {
        println!("cargo::rustc-link-arg-bins={PACK}");
    }
}

/// Links a program that does nothing as this one will be linked, and starts it.
fn starts_when_packed() -> bool {
    let out = PathBuf::from(read("OUT_DIR"));
    let (source, program) = (out.join("packed.rs"), out.join("packed"));
    if std::fs::write(&source, "fn main() {}").is_err() {
        return false;
    }
    let mut rustc = Command::new(read("RUSTC"));
    rustc.arg(source).arg("-o").arg(&program).args(["--target", &read("TARGET"), "-C"]).arg(format!("link-arg={PACK}"));
    rustc.args(read("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    rustc.output().is_ok_and(|linked| linked.status.success())
        && Command::new(program).output().is_ok_and(|ended| ended.status.success())
}

/// A variable that Cargo sets for every build script, or nothing.
fn read(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
