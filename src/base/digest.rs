//! SHA-256, which identifies contents.

pub use sha2::{Digest, Sha256};

use crate::base::text::hex;

/// In lower-case hexadecimal digits.
pub fn sha256(content: impl AsRef<[u8]>) -> String {
    hex(Sha256::digest(content))
}

/// HMAC-SHA256 of a text (RFC 2104).
pub fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}
