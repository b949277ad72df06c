//! The thin binary: everything is in the library.

use std::process::ExitCode;

use polylogue::tools::supervise;

fn main() -> ExitCode {
    // Before anything else: this mode must be small and start at once.
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == supervise::FLAG).is_some() {
        return supervise::main(arguments);
    }
    ExitCode::SUCCESS
}
