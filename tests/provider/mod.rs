//! Providers: recorded responses, golden request bodies, and random conversations.

mod anthropic;
mod google;
mod parameters;
mod recorded;
mod requests;
mod responses;
mod validity;

use std::fs;
use std::path::Path;

/// Each body is valid for this provider and the one in `fixtures/requests/PROVIDER/NAME.json`, which
/// `fixtures/provider/validate.py` has checked with the types of the provider's own SDK. With `POLYLOGUE_WRITE_REQUESTS`
/// the bodies are written into that folder for it instead.
pub(crate) fn assert_golden<'a>(provider: &str, cases: impl IntoIterator<Item = (&'a str, String)>) {
    let written = std::env::var_os("POLYLOGUE_WRITE_REQUESTS").map(|folder| Path::new(&folder).join(provider));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/requests").join(provider);
    for (name, actual) in cases {
        assert_eq!(crate::support::validity::check(provider, actual.as_bytes()), Ok(()), "{name}");
        if let Some(folder) = &written {
            fs::create_dir_all(folder).expect("a folder");
            fs::write(folder.join(format!("{name}.json")), actual + "\n").expect("a file");
            continue;
        }
        let golden = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap_or_default();
        assert_eq!(actual, golden.trim_end(), "{name}");
    }
}
