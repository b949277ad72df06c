//! Percent escapes (RFC 3986, 2.1).

/// Escapes everything but unreserved characters, for one part of a path or a query.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Replaces escapes. What only looks like one stays.
pub fn decode(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let escaped = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_made_and_replaced() {
        assert_eq!(encode("a b/ü~"), "a%20b%2F%C3%BC~");
        assert_eq!(decode("%e2%82%ac%"), "€%".as_bytes());
    }
}
