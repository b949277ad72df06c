//! The one error type: a kind that drives behaviour, and words for a person.

use std::fmt;

/// What sort of thing went wrong; callers decide by this and never by the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The conversation does not fit the model.
    ContextTooLong,
    /// Credentials missing, wrong or expired.
    Auth,
    /// The provider asks to slow down (HTTP 429).
    RateLimited,
    /// The provider is out of capacity (HTTP 503, 529 and other 5xx).
    Overloaded,
    /// DNS, connect, TLS, or a connection that broke.
    Network,
    /// A limit on the whole duration ran out.
    Timeout,
    /// No byte for too long.
    Stalled,
    /// The provider rejects the request as such.
    BadRequest,
    /// The provider declines to answer (content filter).
    Refused,
    /// The bytes do not mean what the protocol says they must.
    Protocol,
    /// The database.
    Store,
    /// The terminal.
    Terminal,
    /// A tool could not be run.
    Tool,
    /// The operating system said no to something else.
    System,
    /// What a person typed cannot be carried out.
    Usage,
}

impl ErrorKind {
    /// The kinds that a provider, or the way to it, can fail with.
    pub const PROVIDER_KINDS: [Self; 10] = [
        Self::ContextTooLong,
        Self::Auth,
        Self::RateLimited,
        Self::Overloaded,
        Self::Network,
        Self::Timeout,
        Self::Stalled,
        Self::BadRequest,
        Self::Refused,
        Self::Protocol,
    ];

    /// A short stable name, for traces and scripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ContextTooLong => "context_too_long",
            Self::Auth => "auth",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Stalled => "stalled",
            Self::BadRequest => "bad_request",
            Self::Refused => "refused",
            Self::Protocol => "protocol",
            Self::Store => "store",
            Self::Terminal => "terminal",
            Self::Tool => "tool",
            Self::System => "system",
            Self::Usage => "usage",
        }
    }

    /// Whether the same request may succeed if it is sent again.
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::Network | Self::Timeout | Self::Stalled)
    }
}

/// Something of the world went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What drives behaviour.
    pub kind: ErrorKind,
    /// What a person reads: what happened and, where there is one, the way out.
    pub message: String,
    /// How long the other side asks to wait before the next attempt, in seconds.
    pub retry_after: Option<u32>,
}

/// The result of everything that touches the world.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind with these words.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// The request needs a Cargo feature that this program was built without.
    pub fn not_built_in(feature: &str) -> Self {
        Self::new(ErrorKind::Usage, format!("the {feature} is not built in: rebuild with --features {feature}"))
    }

    /// The same error with `what` in front of its words.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::System, error.to_string())
    }
}
