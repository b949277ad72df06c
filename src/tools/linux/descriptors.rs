//! Descriptors that this process inherited from the one that started it.

use std::fs;

/// Closes every descriptor above 2, so that commands cannot use one that was left open. Call it before any is opened.
pub fn close_inherited() {
    let listed: Vec<i32> = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in listed.into_iter().filter(|descriptor| *descriptor > 2) {
        // One of them was that of the list and is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
