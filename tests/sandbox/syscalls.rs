//! System calls that the filter refuses. Perl makes them by number; the arguments make no sense, so that the kernel itself
//! would answer with another error.

use std::process::Command;

use super::{Level, everywhere};

const EPERM: &str = "1";
const ENOSYS: &str = "38";

/// The name, the number and the arguments.
fn calls() -> Vec<(&'static str, i64, &'static str)> {
    let mut calls = vec![
        ("ptrace", libc::SYS_ptrace, "99, 1, 0, 0"),
        ("process_vm_readv", libc::SYS_process_vm_readv, "$$, 0, 0, 0, 0, 99"),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, "-1, 0, 0"),
        ("keyctl", libc::SYS_keyctl, "9999, 0, 0, 0, 0"),
        ("add_key", libc::SYS_add_key, "0, 0, 0, 0, 0"),
        ("bpf", libc::SYS_bpf, "9999, 0, 0"),
        ("io_uring_setup", libc::SYS_io_uring_setup, "0, 0"),
        ("userfaultfd", libc::SYS_userfaultfd, "-1"),
        ("perf_event_open", libc::SYS_perf_event_open, "0, 0, 0, 0, 0"),
        ("unshare", libc::SYS_unshare, "0"),
        ("unshare of a user namespace", libc::SYS_unshare, "0x10000000"),
        ("clone of a user namespace", libc::SYS_clone, "0x10000000, 0, 0, 0, 0"),
        ("setns", libc::SYS_setns, "-1, 0"),
        ("mount", libc::SYS_mount, "0, 0, 0, 0, 0"),
        ("umount", libc::SYS_umount2, "0, 0"),
        ("fsopen", libc::SYS_fsopen, "0, 0"),
        ("open_tree", libc::SYS_open_tree, "-1, 0, -1"),
        ("pivot_root", libc::SYS_pivot_root, "0, 0"),
        ("chroot", libc::SYS_chroot, "0"),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "-1, 0, 0"),
        ("kexec_load", libc::SYS_kexec_load, "0, 0, 0, -1"),
        ("finit_module", libc::SYS_finit_module, "-1, 0, 0"),
        ("personality", libc::SYS_personality, "0xffffffff"),
        ("TIOCSTI", libc::SYS_ioctl, "0, 0x5412, 0"),
        ("TIOCSTI with other high bits", libc::SYS_ioctl, "0, 0x100005412, 0"),
        ("TIOCLINUX", libc::SYS_ioctl, "0, 0x541c, 0"),
        ("vsock", libc::SYS_socket, "40, 1, 0"),
        ("packet socket", libc::SYS_socket, "17, 3, 0"),
        ("socket of the crypto interface", libc::SYS_socket, "38, 5, 0"),
        ("raw socket", libc::SYS_socket, "2, 3, 1"),
    ];
    if cfg!(target_arch = "x86_64") {
        calls.push(("ptrace of x32", 521 | 0x4000_0000, "99, 1, 0, 0"));
        calls.push(("unshare of x32", libc::SYS_unshare | 0x4000_0000, "0"));
    }
    calls
}

#[test]
fn dangerous_system_calls_are_refused() {
    if Command::new("perl").args(["-e", "1"]).status().is_err() {
        return eprintln!("there is no Perl here: system calls are not tried");
    }
    let call = |(_, number, arguments): &(&str, i64, &str)| {
        format!("print((syscall({number}, {arguments}) == -1 ? $!+0 : 'allowed'), qq{{\\n}});\n")
    };
    let script = calls().iter().map(call).collect::<String>();
    everywhere(|place, level| {
        let out = place.run(level, &format!("perl - <<'END'\n{script}END\n")).out;
        let refused: Vec<(&str, &str)> = calls().iter().map(|(name, ..)| *name).zip(out.lines()).collect();
        assert_eq!(refused.len(), calls().len(), "{out}");
        let open: Vec<_> = refused.into_iter().filter(|(_, answer)| *answer != EPERM).collect();
        assert_eq!(open, [], "{level:?}");
        let clone3 = format!("perl -e 'syscall({}, 0, 0); print $!+0'", libc::SYS_clone3);
        assert_eq!(place.run(level, &clone3).out, ENOSYS, "{level:?}");
    });
}

#[test]
fn no_capability_is_left_and_none_can_be_gained() {
    everywhere(|place, level| {
        let out =
            place.run(level, "grep -E '^(CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status").out;
        let values: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        let none = "0000000000000000";
        assert_eq!(values, [none, none, none, none, "1", "2"], "{level:?}");
        let su = place.run(level, "unshare -Ur true || ! mount -t tmpfs none /tmp || su -c true < /dev/null");
        assert!(!su.out.is_empty(), "{level:?}");
        if level.has_namespaces() {
            let devices = place.run(level, "ls /dev | tr '\\n' ' '; mknod n c 1 5").out;
            assert!(
                devices.starts_with("fd full null ptmx pts random shm stderr stdin stdout urandom zero "),
                "{devices}"
            );
            assert!(devices.contains("not permitted"), "{devices}");
        }
    });
    assert!(Level::Namespaces < Level::Landlock);
}
