//! One request that is waited for: is somebody there, and does he know our key? Never used by the loop.

use std::time::Duration;

use curl::easy::{Easy2, Handler, List, WriteError};

use super::{Trust, explain};
use crate::base::error::Result;

/// Asks for a URL and gives the status of the answer, whose body is thrown away. Blocks for at most `patience`.
///
/// # Errors
/// Nobody answered in time; the words name the host and never a credential.
pub fn probe(url: &str, headers: &[(String, String)], patience: Duration) -> Result<u32> {
    ask(url, headers, patience).map_err(|error| explain(&error, url, patience))
}

fn ask(url: &str, headers: &[(String, String)], patience: Duration) -> std::result::Result<u32, curl::Error> {
    let mut easy = Easy2::new(Deaf);
    easy.url(url)?;
    let mut list = List::new();
    for (name, value) in headers {
        list.append(&format!("{name}: {value}"))?;
    }
    easy.http_headers(list)?;
    easy.useragent(concat!("polylogue/", env!("CARGO_PKG_VERSION")))?;
    easy.timeout(patience)?;
    // A key does not follow to wherever a server points.
    easy.follow_location(false)?;
    // Threads and signals do not go together.
    easy.signal(false)?;
    Trust::probe().apply(&mut easy)?;
    easy.perform()?;
    easy.response_code()
}

/// Takes everything and keeps nothing.
struct Deaf;

impl Handler for Deaf {
    fn write(&mut self, bytes: &[u8]) -> std::result::Result<usize, WriteError> {
        Ok(bytes.len())
    }
}
