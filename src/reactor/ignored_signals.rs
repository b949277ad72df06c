//! Whether a signal is ignored by this process. Linux only, through `/proc`: asking the kernel directly (sigaction) needs
//! unsafe code.

/// False where it cannot be told.
pub(super) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_mask(&status) >> (signal - 1) & 1 == 1
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
