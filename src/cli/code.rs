//! Exit codes. Their reference is `topics/exit-codes.txt`.

use crate::base::error::ErrorKind;

pub const DONE: u8 = 0;
pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
pub const PROVIDER: u8 = 3;
pub const LIMIT: u8 = 4;
/// A turn was interrupted; the code of SIGINT.
pub const INTERRUPTED: u8 = 130;
/// The reader closed the output; the code of SIGPIPE.
pub const UNREAD: u8 = 141;

/// The code of a kind of error, given by name.
pub fn of_kind(name: &str) -> u8 {
    match name {
        _ if ErrorKind::PROVIDER_KINDS.iter().any(|kind| kind.name() == name) => PROVIDER,
        _ if name == ErrorKind::Usage.name() => USAGE,
        _ if name == ErrorKind::Limit.name() => LIMIT,
        _ => FAILED,
    }
}

/// The code of a process ended by this signal, as shells report it.
pub fn of_signal(number: i32) -> u8 {
    u8::try_from(number).map_or(u8::MAX, |number| number.saturating_add(128))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_signals_have_their_codes() {
        let kinds = [
            ("auth", 3),
            ("network", 3),
            ("protocol", 3),
            ("usage", 2),
            ("store", 1),
            ("limit", 4),
            ("internal", 1),
            ("", 1),
        ];
        for (kind, code) in kinds {
            assert_eq!(of_kind(kind), code, "{kind}");
        }
        assert_eq!([2, 15, 1, 13, 1000].map(of_signal), [INTERRUPTED, 143, 129, UNREAD, 255]);
    }
}
