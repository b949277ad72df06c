//! Providers: recorded responses, golden request bodies, and random conversations.

mod anthropic;
mod google;
mod recorded;
mod requests;
mod responses;
mod validity;

use std::fs;
use std::path::Path;

/// Each body is valid for this provider and the one in `fixtures/requests/PROVIDER/NAME.json`.
fn assert_golden<'a>(provider: &str, cases: impl IntoIterator<Item = (&'a str, String)>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/requests").join(provider);
    for (name, actual) in cases {
        assert_eq!(crate::support::validity::check(provider, actual.as_bytes()), Ok(()), "{name}");
        let golden = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap_or_default();
        assert_eq!(actual, golden.trim_end(), "{name}");
    }
}
