//! How the program is linked on Linux with glibc. It cannot be in `config.toml`, which procedural macros obey too. A static
//! program is linked by other rules, which these options contradict.
//!
//! - At a fixed address: relocating took a fifth of the time of `--version` and 0.8 MB of each process. Its own code is
//!   memory-safe, and libraries stay at random addresses.
//! - With the functions that a start runs next to each other (`start.ld`, written by `make layout`): the kernel maps code in
//!   blocks of 64 KB, and a chat had 9 MB of them for 3 MB of functions. Names that are not found do no harm.

fn main() {
    for file in ["build.rs", "start.ld"] {
        println!("cargo::rerun-if-changed=.cargo/{file}");
    }
    let is_static = var_of("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    if var_of("CARGO_CFG_TARGET_OS") != "linux" || var_of("CARGO_CFG_TARGET_ENV") != "gnu" || is_static {
        return;
    }
    println!("cargo::rustc-link-arg=-no-pie");
    // These do not read scripts.
    let linker = var_of("CARGO_ENCODED_RUSTFLAGS") + &var_of("RUSTC_LINKER");
    let reads_scripts = !["mold", "wild"].iter().any(|name| linker.contains(name));
    if var_of("PROFILE") == "release" && reads_scripts {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/.cargo/start.ld", var_of("CARGO_MANIFEST_DIR"));
    }
}

fn var_of(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
