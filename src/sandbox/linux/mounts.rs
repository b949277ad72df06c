//! The file system of a command: the system's, read-only, with some directories covered and the open places put back.
//!
//! ```text
//!   /           read-only          /proc  of the new PID namespace, read-only
//!   /home/me    covered, empty     /tmp   private
//!     .cargo    overlay            /run   empty
//!     work      the workspace      /dev   harmless devices only
//!       .git    writable
//!         hooks read-only; a symbolic link stays where it is
//! ```
//!
//! Copies of the open places are taken first, as detached mounts; then directories are covered, and the copies are mounted
//! where they were, parents before children. One pass over all mounts makes everything read-only that is not to be
//! written. A directory between a writable place and a protected file becomes a mount point, because renaming it would
//! remove the protection otherwise.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::sched::CloneFlags;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
    mount_bind_recursive, mount_change, mount_remount, move_mount, open_tree, unmount,
};

use super::{InitPlan, limits};
use crate::base::beneath::open_directory;
use crate::domain::sandbox::Network;
use crate::sandbox::{Level, Plan, Report};

/// Device, and the links beside them (proc(5)).
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Kept in `/run`: programs of the system on NixOS.
const KEPT_IN_RUN: &str = "/run/current-system";
const RESOLVER: &str = "/etc/resolv.conf";
/// One file system for everything that a call writes outside of the workspace, so that one size bounds it. It is
/// mounted here until its parts are in their places.
const SCRATCH: &str = "/run/.scratch";
/// How many files it may hold: empty ones have no size.
const MAX_SCRATCH_FILES: u64 = 1 << 20;
/// How often mounts are made read-only that other processes move meanwhile.
const ATTEMPTS: usize = 64;

/// The changes of a path, applied in this order if the path is the same.
enum Step {
    /// An empty directory that cannot be written.
    Cover,
    /// An empty directory for temporary files.
    Scratch,
    Link(PathBuf),
    Keep(OwnedFd),
    Overlay(OwnedFd),
    Mask,
}

impl Step {
    fn rank(&self) -> u8 {
        match self {
            Self::Cover | Self::Scratch => 0,
            Self::Link(_) => 1,
            Self::Keep(_) => 2,
            Self::Overlay(_) => 3,
            Self::Mask => 4,
        }
    }
}

struct Builder<'a> {
    plan: &'a Plan,
    /// Whether paths are writable; the longest path decides.
    is_writable: BTreeMap<PathBuf, bool>,
    /// How many parts of [`SCRATCH`] are in use.
    parts: usize,
}

/// Builds the file system in a new mount namespace and enters the directory of the command.
pub fn build(init: &InitPlan) -> Result<(), Report> {
    let builder = Builder { plan: &init.plan, is_writable: BTreeMap::new(), parts: 0 };
    builder.build(&init.sockets)?;
    let directory = &init.plan.directory;
    std::env::set_current_dir(directory).map_err(|error| {
        let reason = "the sandbox does not show it; start in the workspace";
        Report::NotStarted(format!("cannot enter {}: {reason} ({})", directory.display(), error.kind()))
    })
}

fn with_context<T, E: std::fmt::Display>(what: impl std::fmt::Display, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

impl Builder<'_> {
    fn build(mut self, sockets: &[PathBuf]) -> Result<(), Report> {
        let steps = self.enter().map_err(Report::Unavailable)?;
        self.open(steps, sockets).map_err(Report::NotStarted)?;
        self.close().map_err(Report::Unavailable)
    }

    /// The steps that are the same for every call, so that a failure is the kernel's.
    fn enter(&mut self) -> Result<Vec<(PathBuf, Step)>, String> {
        with_context("mount namespace", nix::sched::unshare(CloneFlags::CLONE_NEWNS))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        with_context("private mounts", mount_change("/", private))?;
        let mut devices = Vec::new();
        for name in DEVICES {
            devices.push((name, with_context(name, tree(&Path::new("/dev").join(name)))?));
        }
        let steps = self.steps();
        if self.plan.level == Level::Namespaces {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            with_context("/proc", mount("proc", "/proc", "proc", flags, None))?;
        }
        self.devices(devices)?;
        Ok(steps)
    }

    /// The steps that depend on the paths of the plan.
    fn open(&mut self, steps: Vec<(PathBuf, Step)>, sockets: &[PathBuf]) -> Result<(), String> {
        for (path, step) in steps {
            self.carry_out(&path, step)?;
        }
        with_context(SCRATCH, unmount(SCRATCH, UnmountFlags::DETACH))?;
        self.mount_points()?;
        for socket in sockets {
            match mount_bind_recursive("/dev/null", socket) {
                // In a covered or removed directory.
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                Err(error) => return Err(format!("{}: {error}", socket.display())),
            }
        }
        Ok(())
    }

    fn close(&self) -> Result<(), String> {
        self.bound_namespaces()?;
        self.make_read_only()
    }

    /// Every change of a path: covers first, then the rest, parents before children.
    fn steps(&mut self) -> Vec<(PathBuf, Step)> {
        let plan = self.plan;
        let mut steps = Vec::new();
        let covered =
            [("/run", Step::Cover), ("/tmp", Step::Scratch), ("/var/tmp", Step::Scratch), ("/dev/shm", Step::Scratch)];
        let mut covered: Vec<(PathBuf, Step)> =
            covered.into_iter().map(|(path, step)| (PathBuf::from(path), step)).collect();
        let is_open = |path: &Path| plan.writable.iter().any(|open| path.starts_with(open));
        let mut homes: Vec<&PathBuf> = plan.homes().filter(|home| !is_open(home)).collect();
        // One may be in the other.
        homes.sort();
        covered.extend(homes.into_iter().map(|home| (home.clone(), Step::Cover)));
        let is_there = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        covered.retain(|(path, _)| path.starts_with("/dev") || is_there(path));
        for (path, _) in &covered {
            self.is_writable.insert(path.clone(), false);
        }
        let more = [PathBuf::from(KEPT_IN_RUN)].into_iter().chain(self.resolver());
        for path in plan.readable.iter().cloned().chain(more) {
            self.is_writable.insert(path.clone(), false);
            steps.extend(tree(&path).map(|tree| (path, Step::Keep(tree))));
        }
        for path in &plan.caches {
            self.is_writable.insert(path.clone(), false);
            steps.extend(tree(path).map(|tree| (path.clone(), Step::Overlay(tree))));
        }
        steps.extend(plan.missing_caches.iter().map(|path| (path.clone(), Step::Scratch)));
        for path in &plan.writable {
            self.is_writable.insert(path.clone(), true);
            steps.extend(tree(path).map(|tree| (path.clone(), Step::Keep(tree))));
        }
        steps.extend(plan.links.iter().map(|(path, target)| (path.clone(), Step::Link(target.clone()))));
        steps.extend(plan.denied.iter().map(|path| (path.clone(), Step::Mask)));
        steps.sort_by(|(one, step), (other, next)| one.cmp(other).then(step.rank().cmp(&next.rank())));
        // `/run` first, because it contains the file system of the others.
        covered.extend(steps);
        covered
    }

    /// The file with the addresses of name servers, if it lies in a directory that is covered.
    fn resolver(&self) -> Option<PathBuf> {
        let real = fs::canonicalize(RESOLVER).ok().filter(|_| self.plan.network == Network::Host)?;
        (real != Path::new(RESOLVER)).then_some(real)
    }

    fn devices(&mut self, nodes: Vec<(&str, OwnedFd)>) -> Result<(), String> {
        let dev = Path::new("/dev");
        tmpfs(dev, "755")?;
        for (name, node) in nodes {
            self.place(&dev.join(name), &node)?;
        }
        for name in ["shm", "pts"] {
            with_context(name, fs::create_dir(dev.join(name)))?;
        }
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        let options = c"newinstance,ptmxmode=0666,mode=620";
        with_context("/dev/pts", mount("devpts", "/dev/pts", "devpts", flags, Some(options)))?;
        for (name, target) in DEVICE_LINKS {
            with_context(name, symlink(target, dev.join(name)))?;
        }
        self.is_writable.insert(dev.to_owned(), false);
        self.is_writable.insert(dev.join("pts"), true);
        Ok(())
    }

    fn carry_out(&mut self, path: &Path, step: Step) -> Result<(), String> {
        match step {
            Step::Cover => {
                with_context(path.display(), fs::create_dir_all(path))?;
                tmpfs(path, "755")
            }
            Step::Scratch => self.scratch(path),
            Step::Link(target) => {
                // Fails where the link itself is still there, because its directory is not covered.
                drop(path.parent().map(fs::create_dir_all));
                let _ = symlink(target, path);
                Ok(())
            }
            Step::Keep(tree) => self.place(path, &tree),
            Step::Overlay(tree) => {
                self.place(path, &tree)?;
                // Where the kernel refuses, the cache is read-only.
                let is_mounted = self.overlay(path).is_ok();
                self.is_writable.insert(path.to_owned(), is_mounted);
                Ok(())
            }
            Step::Mask => self.mask(path),
        }
    }

    /// Mounts a tree at a path, which is created if its directory is covered.
    fn place(&self, path: &Path, tree: &OwnedFd) -> Result<(), String> {
        let found = with_context(path.display(), rustix::fs::fstat(tree))?;
        let is_directory = rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir();
        if path.symlink_metadata().is_err() {
            let created = match path.parent().filter(|_| !is_directory) {
                Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::File::create(path).map(drop)),
                None => fs::create_dir_all(path),
            };
            with_context(path.display(), created)?;
        }
        with_context(path.display(), move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH))
    }

    /// A new directory in [`SCRATCH`].
    fn part(&mut self) -> Result<PathBuf, String> {
        if self.parts == 0 {
            with_context(SCRATCH, fs::create_dir_all(SCRATCH))?;
            let size = self.plan.limits.scratch;
            tmpfs_with(Path::new(SCRATCH), &format!("size={size},nr_inodes={MAX_SCRATCH_FILES},mode=755"))?;
        }
        self.parts += 1;
        let part = Path::new(SCRATCH).join(self.parts.to_string());
        with_context(part.display(), fs::create_dir(&part))?;
        Ok(part)
    }

    /// Covers a directory with an empty one in which everybody may create files.
    fn scratch(&mut self, path: &Path) -> Result<(), String> {
        with_context(path.display(), fs::create_dir_all(path))?;
        let part = self.part()?;
        with_context(part.display(), fs::set_permissions(&part, fs::Permissions::from_mode(0o1777)))?;
        self.is_writable.insert(path.to_owned(), true);
        with_context(path.display(), mount_bind(&part, path))
    }

    /// Puts an overlay on a directory (the kernel's documentation of overlayfs).
    fn overlay(&mut self, path: &Path) -> Result<(), String> {
        let text = path.to_str().filter(|text| !text.contains([',', ':', '\\']));
        let lower = text.ok_or("the path cannot be written in the options of a mount")?;
        let upper = self.part()?;
        let upper = upper.display();
        with_context(&upper, fs::create_dir(format!("{upper}/upper")))?;
        with_context(&upper, fs::create_dir(format!("{upper}/work")))?;
        let options = format!("userxattr,lowerdir={lower},upperdir={upper}/upper,workdir={upper}/work");
        let options = with_context(path.display(), CString::new(options))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        with_context(path.display(), mount("overlay", path, "overlay", flags, Some(options.as_c_str())))
    }

    /// Makes a path unreadable. A directory that something open lies in can be entered.
    fn mask(&mut self, path: &Path) -> Result<(), String> {
        self.is_writable.insert(path.to_owned(), false);
        let mut masked = Ok(());
        // It may be removed and replaced in between.
        for _ in 0..ATTEMPTS {
            let Ok(found) = path.symlink_metadata() else { return Ok(()) };
            masked = if found.is_dir() {
                let mut open = self.plan.writable.iter().chain(&self.plan.readable);
                let is_passed = open.any(|open| open.starts_with(path) && open != path);
                tmpfs(path, if is_passed { "711" } else { "000" })
            } else {
                with_context(path.display(), mount_bind_recursive("/dev/null", path))
            };
            if masked.is_ok() {
                break;
            }
        }
        masked
    }

    /// Makes mount points of everything protected, of the symbolic links that lead to it, and of every directory between a
    /// writable place and what is protected or masked in it.
    fn mount_points(&mut self) -> Result<(), String> {
        let plan = self.plan;
        let mut points: BTreeMap<&Path, Option<&Path>> = BTreeMap::new();
        let links = plan.kept_links.iter().map(|(link, target)| (&**link, Some(&**target)));
        let protected = plan.protected.iter().map(|path| (&**path, None));
        for (path, target) in links.chain(protected).chain(plan.denied.iter().map(|path| (&**path, None))) {
            let inside = |root: &&PathBuf| path.starts_with(root) && *root != path;
            let Some(root) = plan.writable.iter().filter(inside).max_by_key(|root| root.as_os_str().len()) else {
                continue;
            };
            points.extend(path.ancestors().skip(1).take_while(|above| above != root).map(|above| (above, None)));
            if !plan.denied.iter().any(|denied| denied == path) {
                points.insert(path, target);
            }
        }
        for (path, target) in points {
            keep_place(path, target).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        self.is_writable.extend(plan.protected.iter().map(|path| (path.clone(), false)));
        Ok(())
    }

    /// Forbids further user namespaces and bounds the number of processes.
    fn bound_namespaces(&self) -> Result<(), String> {
        const MAX_USER_NAMESPACES: &str = "/proc/sys/user/max_user_namespaces";
        let written = fs::write(MAX_USER_NAMESPACES, "0");
        limits::bound_pids(&self.plan.limits);
        if self.plan.level == Level::Namespaces {
            return with_context(MAX_USER_NAMESPACES, written);
        }
        // The system's /proc may be read-only; seccomp forbids namespaces as well.
        Ok(())
    }

    fn may_write(&self, path: &Path) -> bool {
        path.ancestors().find_map(|above| self.is_writable.get(above)).copied().unwrap_or(false)
    }

    /// Makes every mount that a command can reach read-only, except the open ones. Other processes may move a directory
    /// with its mounts in the meantime, so this is repeated until nothing is left to do.
    fn make_read_only(&self) -> Result<(), String> {
        let mut closed = BTreeSet::new();
        for _ in 0..ATTEMPTS {
            let mut lacking = self.lacking()?;
            lacking.retain(|entry| !closed.contains(&entry.id));
            if lacking.is_empty() {
                return Ok(());
            }
            for entry in lacking {
                match mount_remount(&entry.path, entry.flags | MountFlags::BIND | self.needed(&entry.path), c"") {
                    // Whether it is still there is seen next time.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::INVAL) => {}
                    // In a directory of another user, which a command cannot enter either.
                    Err(Errno::ACCESS) => drop(closed.insert(entry.id)),
                    Err(error) => return Err(format!("{} read-only: {error}", entry.path.display())),
                }
            }
        }
        Err("mounts cannot be made read-only, or other processes keep changing them".into())
    }

    /// The mounts that a command can get to and that lack a flag.
    fn lacking(&self) -> Result<Vec<Mounted>, String> {
        let table = with_context("/proc/self/mountinfo", fs::read("/proc/self/mountinfo"))?;
        let all = Mounts::of(&table);
        // A link cannot be written, and a path to it leads elsewhere.
        let is_link = |path: &Path| self.plan.kept_links.iter().any(|(link, _)| link == path);
        let lacks = |entry: &&Mounted| {
            !entry.flags.contains(self.needed(&entry.path)) && !is_link(&entry.path) && all.is_reachable(entry)
        };
        Ok(all.by_id.values().filter(lacks).cloned().collect())
    }

    fn needed(&self, path: &Path) -> MountFlags {
        let mut flags = MountFlags::NOSUID;
        if !self.may_write(path) {
            flags |= MountFlags::RDONLY;
        }
        if !(path.starts_with("/dev") && path != Path::new("/dev")) {
            flags |= MountFlags::NODEV;
        }
        flags
    }
}

/// A detached copy of the mount at a path.
fn tree(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
}

/// Mounts the file at a path on itself, so that it cannot be moved, removed or replaced. A missing file is not an
/// error. `target` is the expected content of a symbolic link.
fn keep_place(path: &Path, target: Option<&Path>) -> Result<(), String> {
    const CHANGED: &str = "was changed while the sandbox was set up; try again";
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let found = open_directory(parent).and_then(|parent| {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(&parent, name, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
        Ok((parent, tree))
    });
    let (parent, tree) = match found {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return Err(CHANGED.into()),
        Err(error) => return Err(error.to_string()),
    };
    let text = rustix::fs::readlinkat(&tree, "", Vec::new()).ok().map(CString::into_bytes);
    if text.as_deref() != target.map(|target| target.as_os_str().as_bytes()) {
        return Err(CHANGED.into());
    }
    match move_mount(&tree, "", &parent, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH) {
        // Removed in between.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// An empty directory that is not written to later.
fn tmpfs(path: &Path, mode: &str) -> Result<(), String> {
    tmpfs_with(path, &format!("size=64k,mode={mode}"))
}

fn tmpfs_with(path: &Path, options: &str) -> Result<(), String> {
    let options = with_context(path.display(), CString::new(options))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    with_context(path.display(), mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str())))
}

/// A line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone)]
struct Mounted {
    id: u64,
    /// The mount that it is mounted on.
    parent: u64,
    path: PathBuf,
    flags: MountFlags,
}

impl Mounted {
    fn of(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
        let (id, parent) = (number()?, number()?);
        let path = unescaped(fields.nth(2)?);
        let flags = std::str::from_utf8(fields.next()?).ok()?.split(',').map(flag);
        let flags = flags.fold(MountFlags::empty(), |all, one| all | one);
        Some(Self { id, parent, path: PathBuf::from(std::ffi::OsString::from_vec(path)), flags })
    }
}

/// All mounts of a namespace.
struct Mounts {
    by_id: BTreeMap<u64, Mounted>,
    /// Where something is mounted on each mount.
    places: HashMap<u64, HashSet<PathBuf>>,
}

impl Mounts {
    fn of(table: &[u8]) -> Self {
        let lines = table.split(|byte| *byte == b'\n');
        let by_id: BTreeMap<_, _> = lines.filter_map(Mounted::of).map(|entry| (entry.id, entry)).collect();
        let mut places: HashMap<u64, HashSet<PathBuf>> = HashMap::new();
        for entry in by_id.values().filter(|entry| entry.parent != entry.id) {
            places.entry(entry.parent).or_default().insert(entry.path.clone());
        }
        Self { by_id, places }
    }

    /// Whether a command can reach it: no other mount covers it or a directory above it. The path alone is not enough,
    /// because it may change at any time.
    fn is_reachable(&self, entry: &Mounted) -> bool {
        !self.is_covered(entry, &entry.path) && self.has_place(entry)
    }

    fn is_covered(&self, entry: &Mounted, path: &Path) -> bool {
        self.places.get(&entry.id).is_some_and(|places| places.contains(path))
    }

    /// Whether the directory that it is mounted on can be got to.
    fn has_place(&self, entry: &Mounted) -> bool {
        let parent = self.by_id.get(&entry.parent).filter(|parent| parent.id != entry.id);
        let Some(parent) = parent else { return true };
        if entry.path == parent.path {
            return self.has_place(parent);
        }
        let mut above = entry.path.ancestors().skip(1).filter(|above| *above != parent.path);
        self.is_reachable(parent) && !above.any(|above| self.is_covered(parent, above))
    }
}

/// A remount must repeat the present flags of the mount, which may be locked (mount_namespaces(7)).
fn flag(option: &str) -> MountFlags {
    match option {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        "nosymfollow" => MountFlags::NOSYMFOLLOW,
        _ => MountFlags::empty(),
    }
}

/// Blanks, line ends and backslashes are written as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match behind.get(..3).filter(|_| *first == b'\\').and_then(octal) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_with_its_escapes() {
        let line = b"36 35 98:0 /mnt1 /mnt\\040two\\134 rw,noatime,nodev master:1 - ext3 /dev/root rw,errors=continue";
        let entry = Mounted::of(line).unwrap();
        assert_eq!((entry.id, entry.parent, &*entry.path), (36, 35, Path::new("/mnt two\\")));
        assert_eq!(entry.flags, MountFlags::NOATIME | MountFlags::NODEV);
        assert!(Mounted::of(b"").is_none());
    }

    #[test]
    fn a_mount_that_another_one_covers_is_out_of_reach() {
        let table = [
            "1 0 8:1 / / rw - ext4 x rw",
            "2 1 0:2 / /run rw - tmpfs x rw",
            "3 2 0:3 / /run/user rw - tmpfs x rw",
            "4 2 0:4 / /run rw - tmpfs x rw",
            "5 1 0:5 / /home/me/disk rw - ext4 x rw",
            "6 1 0:6 / /home/me rw - tmpfs x rw",
            "7 6 0:7 / /home/me/disk rw - ext4 x rw",
            "8 1 0:8 / /home/melanie rw - ext4 x rw",
            "9 4 0:9 / /run/user rw - tmpfs x rw",
        ];
        let all = Mounts::of(table.join("\n").as_bytes());
        let reachable = all.by_id.values().filter(|entry| all.is_reachable(entry)).map(|entry| entry.id);
        assert_eq!(reachable.collect::<Vec<_>>(), [1, 4, 6, 7, 8, 9]);
    }
}
