//! Commands that use more than they should. All are bounded by themselves as well.

use std::fs;

use super::{Level, Place, ResourceLimits, everywhere};

/// Whether a PID namespace can bound its numbers (Linux 6.14), which is what limits root.
fn root_is_limited() -> bool {
    let version = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 14)
}

#[test]
fn the_number_of_processes_is_limited() {
    let limits = ResourceLimits { processes: 320, ..ResourceLimits::default() };
    let of_the_machine = || fs::read_to_string("/proc/sys/kernel/pid_max").expect("a Linux");
    let before = of_the_machine();
    // 360 in all, each of which does nothing. A plain `sh` gives up at the first failure; bash tries again for 15 s.
    let script = "exec sh -c 'for i in $(seq 360); do sleep 20 & echo started; done' 2> /dev/null";
    everywhere(|place, level| {
        let is_root = place.user.is_none() && rustix::process::geteuid().is_root();
        if !level.has_namespaces() || is_root && !root_is_limited() {
            return;
        }
        let place = Place { limits, ..Place::new(place.user) };
        let response = place.run(level, script);
        let started = response.out.lines().count();
        assert!((200..330).contains(&started), "{level:?} {:?}: {started}", place.user);
    });
    assert_eq!(of_the_machine(), before);
}

#[test]
fn memory_files_and_scratch_space_are_limited() {
    let limits = ResourceLimits { memory: 256 << 20, file: 1 << 20, scratch: 2 << 20, ..ResourceLimits::default() };
    everywhere(|place, level| {
        let place = Place { limits, ..Place::new(place.user) };
        let response = place.run(level, "x=$(head -c 400M /dev/zero | tr '\\0' a); echo ${#x}");
        assert_ne!(response.out.trim(), (400 << 20).to_string(), "{level:?}");
        place.run(level, "head -c 4M /dev/zero > file");
        assert_eq!(fs::metadata(place.path("home/work/file")).expect("a file").len(), 1 << 20, "{level:?}");
        assert_eq!(place.run(level, "ulimit -c").out, "0\n");
        if level != Level::Landlock {
            let out = place
                .run(
                    level,
                    "for n in 1 2 3 4; do head -c 1M /dev/zero > /tmp/$n; done 2> /dev/null; du -skx /tmp | cut -f1",
                )
                .out;
            let kibibytes = out.lines().last().and_then(|line| line.parse::<u64>().ok());
            assert!(kibibytes.is_some_and(|size| size <= 2100), "{level:?}: {out}");
        }
    });
}

#[test]
fn all_places_outside_of_the_workspace_share_one_bound() {
    let limits = ResourceLimits { scratch: 4 << 20, ..ResourceLimits::default() };
    everywhere(|place, level| {
        if !level.has_namespaces() {
            return;
        }
        let place = Place { limits, ..Place::new(place.user) };
        let script = "for f in /tmp/f /var/tmp/f /dev/shm/f ~/.cargo/f; do head -c 2M /dev/zero > $f; done 2> /dev/null
            cat /tmp/f /var/tmp/f /dev/shm/f ~/.cargo/f 2> /dev/null | wc -c";
        let out = place.run(level, script).out;
        let bytes = out.trim().parse::<u64>().unwrap_or(u64::MAX);
        assert!((2 << 20..=4 << 20).contains(&bytes), "{level:?} {:?}: {out}", place.user);
    });
}

#[test]
fn a_fork_bomb_ends_with_its_call() {
    let limits = ResourceLimits { processes: 100, ..ResourceLimits::default() };
    everywhere(|place, level| {
        // Elsewhere, all processes of the user count.
        if !level.has_namespaces() {
            return;
        }
        let mark = crate::support::scene::mark();
        let place = Place { limits, ..Place::new(place.user) };
        // A bomb without an end of its own can take all process numbers of the machine where nothing limits root.
        let script = format!(
            "b() {{ sleep {mark} & if [ $1 -gt 0 ]; then b $(($1 - 1)) | b $(($1 - 1)) & fi; }}; (b 8) 2> /dev/null; echo over"
        );
        let response = place.run(level, &script);
        assert!(response.out.contains("over") || response.code != Some(0), "{level:?}: {}", response.out);
        assert!(!crate::support::scene::is_running(&mark), "{level:?}");
    });
}
