//! What the process needs of its surroundings.

use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::base::error::Result;
use crate::terminal::tty;

/// As many descriptors as are allowed, and no core dump that would hold keys and conversations.
pub fn prepare() {
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves what there was: fewer agents at once, or a dump that the system allows anyhow.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// A panic leaves the terminal as it was found, and its words readable.
pub fn restore_terminal_on_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A tool's thread may panic without the program ending: its call is answered with an error.
        if std::thread::current().name() == Some("main") {
            tty::restore_for_panic();
            told(panic);
        }
    }));
}

/// Our own binary, also after it was replaced by a newer one.
pub fn own_binary() -> Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { Ok(std::env::current_exe()?) }
}
