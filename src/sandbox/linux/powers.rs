//! Capabilities (capabilities(7)): the init process has those of its namespaces for the mounts, and then drops them.

use rustix::io;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

/// The number of the last capability that Linux may get, as the sets have 64 bits.
const LAST: u32 = 63;

/// Drops all capabilities for good, also for programs that would get some when they are executed.
pub fn give_up() -> io::Result<()> {
    let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    let bits = bits | CapabilitiesSecureBits::NO_SETUID_FIXUP | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
    let bits =
        bits | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    let has_power = capabilities(None)?.effective.contains(CapabilitySet::SETPCAP);
    if has_power {
        set_capabilities_secure_bits(bits)?;
        for number in 0..=LAST {
            // EINVAL for those that this kernel does not know.
            let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number));
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Closes this process to others of the same user.
pub fn close() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// As [`close`], and forbids gaining privileges by executing a program.
pub fn lock() -> io::Result<()> {
    close()?;
    set_no_new_privs(true)
}
