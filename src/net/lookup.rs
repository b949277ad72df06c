//! The addresses of a host, asked of the system on a thread of its own: the system's resolver blocks, and nothing can
//! interrupt it. Nobody waits for the thread: it holds nothing but its slot, and ends with the process.

use std::net::ToSocketAddrs;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::error::{Error, ErrorKind, Result};

/// Text of addresses, as libcurl takes them. Empty: the name has none.
pub type Addresses = Vec<String>;

/// A question to the system's resolver.
#[derive(Debug)]
pub struct Lookup {
    host: String,
    answer: Arc<Mutex<Option<Addresses>>>,
}

impl Lookup {
    /// Asks for the addresses of `host:port`. `wake` is called on the thread once they are there.
    ///
    /// # Errors
    /// No thread is left.
    pub fn start(host: String, wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self> {
        let answer = Arc::new(Mutex::new(None));
        let (slot, asked) = (Arc::clone(&answer), host.clone());
        let thread = std::thread::Builder::new().name("name lookup".into()).spawn(move || {
            let found = addresses(&asked);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            wake();
        });
        thread.map_err(|error| Error::new(ErrorKind::System, format!("no thread to look a name up: {error}")))?;
        Ok(Self { host, answer })
    }

    /// `host:port`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The addresses, once they are there. Empties.
    pub fn take_answer(&self) -> Option<Addresses> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn addresses(host: &str) -> Addresses {
    let mut found = Addresses::new();
    for address in host.to_socket_addrs().into_iter().flatten() {
        let text = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn answer(host: &str) -> Addresses {
        let (woken, wakes) = mpsc::channel();
        let wake = Arc::new(move || woken.send(()).unwrap());
        let lookup = Lookup::start(host.into(), wake).unwrap();
        wakes.recv().unwrap();
        assert_eq!(lookup.host(), host);
        lookup.take_answer().expect("it is there when the loop is woken")
    }

    #[test]
    fn a_name_has_addresses_in_libcurls_form_and_one_that_is_not_there_has_none() {
        let found = answer("localhost:80");
        assert!(!found.is_empty() && found.iter().all(|one| one == "127.0.0.1" || one == "[::1]"), "{found:?}");
        // No part of a name is longer than 63 bytes (RFC 1035, 2.3.4), so no server is asked that may not answer.
        assert_eq!(answer(&format!("{}.invalid:80", "x".repeat(64))), Addresses::new());
    }
}
