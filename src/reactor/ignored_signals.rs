//! Which signals are ignored by this process. Linux only, through `/proc`: asking the kernel directly (sigaction)
//! needs unsafe code.

use std::fs::File;
use std::io::Read as _;

/// More than `/proc/self/status` has, which is read at once if there is room.
const STATUS_SIZE: usize = 8 << 10;

/// Signals without those that are ignored, as far as that is known.
pub(super) fn without_ignored(signals: &[i32]) -> impl Iterator<Item = i32> {
    let mut status = String::with_capacity(STATUS_SIZE);
    // Unknown signals count as not ignored.
    let _ = File::open("/proc/self/status").and_then(|file| file.take(STATUS_SIZE as u64).read_to_string(&mut status));
    let mask = ignored_mask(&status);
    signals.iter().copied().filter(move |signal| mask >> (signal - 1) & 1 == 0)
}

/// `SigIgn` of proc_pid_status(5): one bit per signal, the lowest for signal 1.
fn ignored_mask(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_has_one_bit_per_signal() {
        assert_eq!(ignored_mask("Name:\tx\nSigIgn:\t0000000000001002\nSigCgt:\t0\n"), 0x1002);
        assert_eq!(ignored_mask(""), 0);
    }
}
