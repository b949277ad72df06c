//! Width, wrapping and sanitising of text.
