//! Exit codes: what a script sees of how it ended.
//!
//! | code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed, here: the store, the system, a damaged file |
//! | 2 | wrong use |
//! | 3 | the provider: no key or a refused one, no connection, a request or a reply that it refuses |
//! | 4 | a limit is reached: `--max-turns`, `--timeout`, too much on standard input, a reader that takes nothing |
//! | 128 + n | ended by signal n, as shells count: 130 SIGINT (and an interrupted last turn), 143 SIGTERM, 129 SIGHUP |
//! | 141 | nobody reads the output any more: as if SIGPIPE had ended it |

use crate::base::error::ErrorKind;

/// All is well.
pub const DONE: u8 = 0;
/// It failed.
pub const FAILED: u8 = 1;
/// Wrong use.
pub const USAGE: u8 = 2;
/// A provider did not answer.
pub const PROVIDER: u8 = 3;
/// A limit is reached.
pub const LIMIT: u8 = 4;
/// A turn was interrupted: as if by SIGINT.
pub const INTERRUPTED: u8 = 130;
/// Nobody reads the output any more: as if by SIGPIPE.
pub const UNREAD: u8 = 141;

/// The code for an error of this kind, by its stable name.
pub fn of_kind(name: &str) -> u8 {
    match name {
        _ if ErrorKind::PROVIDER_KINDS.iter().any(|kind| kind.name() == name) => PROVIDER,
        _ if name == ErrorKind::Usage.name() => USAGE,
        _ => FAILED,
    }
}

/// The code for an end by this signal.
pub fn of_signal(number: i32) -> u8 {
    u8::try_from(number).map_or(u8::MAX, |number| number.saturating_add(128))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_signals_have_the_codes_that_are_promised() {
        let told = [("auth", 3), ("network", 3), ("protocol", 3), ("usage", 2), ("store", 1), ("internal", 1), ("", 1)];
        for (kind, code) in told {
            assert_eq!(of_kind(kind), code, "{kind}");
        }
        assert_eq!([2, 15, 1, 13, 1000].map(of_signal), [INTERRUPTED, 143, 129, UNREAD, 255]);
    }
}
