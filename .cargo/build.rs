//! How the program is linked on Linux with glibc. It cannot be in `config.toml`, which procedural macros obey too. A static
//! program is linked by other rules, which these options contradict.
//!
//! - At a fixed address: relocating took a fifth of the time of `--version` and 0.8 MB of each process. Its own code is
//!   memory-safe, and libraries stay at random addresses.
//! - With the unwinder of the C compiler inside, which only a panic needs: to load it as a library takes 0.2 ms.
//! - With the functions that a start runs next to each other (`start.ld`, written by `make layout`): the kernel maps code in
//!   blocks of 64 KB, and a chat had 9 MB of them for 3 MB of functions. Names that are not found do no harm.

use std::process::Command;

fn main() {
    for file in ["build.rs", "start.ld"] {
        println!("cargo::rerun-if-changed=.cargo/{file}");
    }
    let is_static = var("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    if var("CARGO_CFG_TARGET_OS") != "linux" || var("CARGO_CFG_TARGET_ENV") != "gnu" || is_static {
        return;
    }
    println!("cargo::rustc-link-arg=-no-pie");
    // Its path if there is one, otherwise the bare name. That of another machine may not fit.
    let unwinder = ask_linker("-print-file-name=libgcc_eh.a");
    if unwinder.contains('/') && var("TARGET") == var("HOST") {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
    // Other linkers do not read such scripts.
    let version = ask_linker("-Wl,--version");
    if var("PROFILE") == "release" && (version.starts_with("GNU ld") || version.contains("LLD")) {
        println!("cargo::rustc-link-arg-bins=-T");
        println!("cargo::rustc-link-arg-bins={}/.cargo/start.ld", var("CARGO_MANIFEST_DIR"));
    }
}

/// What the linker prints, with the options that it gets from the flags of the compiler.
fn ask_linker(question: &str) -> String {
    let linker = Some(var("RUSTC_LINKER")).filter(|linker| !linker.is_empty());
    let flags = var("CARGO_ENCODED_RUSTFLAGS");
    let options = flags.split('\u{1f}').filter_map(|flag| flag.split_once("link-arg")).map(|(_, option)| option);
    let options = options.flat_map(|option| option.trim_start_matches(['s', '=']).split(' '));
    let asked = Command::new(linker.as_deref().unwrap_or("cc")).args(options).arg(question).output();
    asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
