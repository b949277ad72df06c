//! Chance, for waits that are not to coincide.

/// A number from 0 up to, not including, 1.
pub fn chance() -> f64 {
    let bytes = uuid::Uuid::new_v4();
    let [a, b, c, d, ..] = *bytes.as_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}
