//! seccomp(2): system calls that no command needs and that bypass the other restrictions.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::InitPlan;
use crate::domain::sandbox::Network;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever their arguments are.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    // Keys of the kernel.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large parts of the kernel that are often attacked.
    libc::SYS_bpf,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    // Files by handle.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // The system as a whole.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_personality,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// This bit marks the calls of the x32 interface, which the filter does not tell from the others.
const X32: i64 = 0x4000_0000;
/// Calls that only x32 numbers in its own way: `ioctl`, `ptrace`, `kexec_load`, `process_vm_readv` and others.
const X32_ONLY: std::ops::RangeInclusive<i64> = 512..=547;

/// Insert input into a terminal (ioctl_tty(2), ioctl_console(2)).
const REFUSED_IOCTLS: [u64; 2] = [0x5412, 0x541c];

/// Forbids the calls to this process and its future children.
pub fn restrict(init: &InitPlan) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("seccomp: {error}");
    let architecture = std::env::consts::ARCH.try_into().map_err(|error| failed(&error))?;
    let refused = refused_calls(init).map_err(|error| failed(&error))?;
    // Its flags are in memory, where no filter can look; libraries use clone(2) when it is missing.
    let missing = with_x32([(libc::SYS_clone3, Vec::new())].into());
    for (rules, errno) in [(refused, libc::EPERM), (missing, libc::ENOSYS)] {
        let action = SeccompAction::Errno(errno as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture);
        let program = filter.and_then(BpfProgram::try_from).map_err(|error| failed(&error))?;
        seccompiler::apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn refused_calls(init: &InitPlan) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    let equal = |value| condition(1, SeccompCmpOp::Eq, value).and_then(|one| SeccompRule::new(vec![one]));
    rules.insert(libc::SYS_ioctl, REFUSED_IOCTLS.into_iter().map(equal).collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_clone, namespace_flags()?);
    rules.insert(libc::SYS_socket, sockets(init)?);
    let mut rules = with_x32(rules);
    if cfg!(target_arch = "x86_64") {
        rules.extend(X32_ONLY.map(|call| (call | X32, Vec::new())));
    }
    Ok(rules)
}

fn with_x32(rules: Rules) -> Rules {
    let mut both = rules.clone();
    if cfg!(target_arch = "x86_64") {
        both.extend(rules.into_iter().map(|(call, rules)| (call | X32, rules)));
    }
    both
}

/// The kernel checks only the lower half of these arguments.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// One rule for each flag of clone(2) that makes a namespace.
fn namespace_flags() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let flags = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let has = |flag: i32| {
        let flag = u64::from(flag as u32);
        condition(0, SeccompCmpOp::MaskedEq(flag), flag).and_then(|one| SeccompRule::new(vec![one]))
    };
    flags.into_iter().map(has).collect()
}

/// Refuses every family of sockets that is not named. Without namespaces Landlock cannot tell who listens on a Unix
/// socket, and does not know all protocols of the network.
fn sockets(init: &InitPlan) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let network = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let allowed: &[i32] = match (init.plan.level.has_namespaces(), &init.plan.network) {
        (true, _) => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        (false, Network::Host) => &network,
        (false, Network::Off | Network::Hosts(_)) => return Ok(Vec::new()),
    };
    let differs = |family: &i32| condition(0, SeccompCmpOp::Ne, u64::from(*family as u32));
    Ok(vec![SeccompRule::new(allowed.iter().map(differs).collect::<Result<_, _>>()?)?])
}
