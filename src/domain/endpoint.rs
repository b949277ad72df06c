//! Where an agent's requests go.

use std::fmt;
use std::rc::Rc;

/// A text that must never be shown, logged, traced or stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Rc<str>);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: &str) -> Self {
        Self(Rc::from(text))
    }

    /// The text itself, for a request header and for nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// One model at one provider, with what is needed to reach it. Agents share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The provider's name in the configuration (`openai`, `echo`, or a user's own).
    pub provider: String,
    /// Which wire protocol it speaks: the name of a row in the provider table.
    pub kind: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Up to and with the version segment, without a trailing slash (`https://host/v1`).
    pub base_url: String,
    /// The credential, if there is one; local servers need none.
    pub key: Option<Secret>,
    /// Additional headers of every request.
    pub headers: Vec<(String, String)>,
}

impl Endpoint {
    /// The built-in provider that needs no network.
    pub fn echo() -> Self {
        Self {
            provider: "echo".into(),
            kind: "echo".into(),
            model: "echo".into(),
            base_url: String::new(),
            key: None,
            headers: Vec::new(),
        }
    }

    /// `provider/model`, as a person names it and as the store keeps it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}
