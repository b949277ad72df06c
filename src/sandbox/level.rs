//! How much of the sandbox a kernel can do.

use serde::{Deserialize, Serialize};

/// How strictly a command is restricted, from the strongest level to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// User, mount, PID, IPC and network namespaces, Landlock and seccomp.
    Namespaces,
    /// As [`Level::Namespaces`], with the `/proc` of the system: a container covers parts of it, so the kernel refuses
    /// another one. Landlock has to protect other processes' secrets.
    SharedProc,
    /// Landlock (ABI version 6 or later) and seccomp.
    Landlock,
    /// No restrictions.
    None,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::SharedProc, Self::Landlock, Self::None];

    /// The level to try when this one cannot be built.
    pub fn next(self) -> Option<Self> {
        let weaker = Self::ALL.into_iter().find(|level| *level > self);
        weaker.filter(|_| self != Self::None)
    }

    pub fn has_namespaces(self) -> bool {
        self <= Self::SharedProc
    }

    /// Whether a command may run at this level if another one was promised: the levels with namespaces protect the
    /// same.
    pub fn holds(self, promised: Self) -> bool {
        self <= promised || self.has_namespaces()
    }

    /// The mechanisms of the level, for the user.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces, Landlock and seccomp",
            Self::SharedProc => "namespaces with the system's /proc, Landlock and seccomp",
            Self::Landlock => "Landlock and seccomp without namespaces",
            Self::None => "none",
        }
    }
}
