//! Trusted certificates, located once for all agents.
//!
//! With OpenSSL, libcurl's default parses the whole bundle for every connection, which takes 36 ms in the loop. A
//! hashed directory is read certificate by certificate as needed: 1.7 ms. libcurl requires a bundle as well, so it gets
//! one of a single certificate of that directory.

use std::path::PathBuf;

use curl::easy::Easy2;

/// Where the trusted certificates are.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// A bundle of all certificates.
    file: Option<PathBuf>,
    /// A hashed directory, and one certificate in it.
    directory: Option<(PathBuf, Vec<u8>)>,
}

impl Trust {
    /// From `SSL_CERT_FILE`, `SSL_CERT_DIR` and the usual directories.
    #[cfg(not(feature = "tls-rustls"))]
    pub fn probe() -> Self {
        let file = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let directory = std::env::var_os("SSL_CERT_DIR").map_or_else(|| "/etc/ssl/certs".into(), PathBuf::from);
        // A bundle inside the directory has the same certificates; a file of the user's own may have more.
        let is_covered = file.as_ref().is_none_or(|file| file.parent() == Some(&directory));
        let directory = if is_covered { first_certificate(&directory).map(|blob| (directory, blob)) } else { None };
        Self { file, directory }
    }

    /// rustls reads one bundle and shares it between connections.
    #[cfg(feature = "tls-rustls")]
    pub fn probe() -> Self {
        const BUNDLES: [&str; 4] = [
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/cert.pem",
            "/etc/ssl/ca-bundle.pem",
        ];
        let chosen = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let file = chosen.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.exists()));
        Self { file, directory: None }
    }

    pub(super) fn apply<H>(&self, easy: &mut Easy2<H>) -> Result<(), curl::Error> {
        if let Some((directory, certificate)) = &self.directory {
            easy.capath(directory)?;
            easy.ssl_cainfo_blob(certificate)?;
        } else if let Some(file) = &self.file {
            easy.cainfo(file)?;
        }
        Ok(())
    }
}

/// Any certificate with a name of `c_rehash`: eight hexadecimal digits, a dot, a number.
#[cfg(not(feature = "tls-rustls"))]
fn first_certificate(directory: &std::path::Path) -> Option<Vec<u8>> {
    let is_hashed = |name: &str| {
        name.split_once('.').is_some_and(|(hash, number)| {
            hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()) && number.bytes().all(|b| b.is_ascii_digit())
        })
    };
    std::fs::read_dir(directory)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_hashed))
        .find_map(|entry| std::fs::read(entry.path()).ok())
        .filter(|bytes| bytes.starts_with(b"-----BEGIN"))
}
