//! The text that a person is typing.
