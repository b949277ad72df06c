//! The error type: a kind that decides what the program does, and a message for the user.

use std::fmt;

/// Callers decide by the kind, never by the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The conversation exceeds the context of the model.
    ContextTooLong,
    /// Credentials are missing, wrong or expired.
    Auth,
    /// The provider limits requests (HTTP 429).
    RateLimited,
    /// The provider is out of capacity (HTTP 503, 529 and other 5xx).
    Overloaded,
    /// DNS, connection or TLS failure.
    Network,
    /// A limit on the total duration was exceeded.
    Timeout,
    /// No data was received for too long.
    Stalled,
    /// The provider rejects the request as invalid.
    BadRequest,
    /// The model cannot call tools, and the request offers some.
    NoTools,
    /// The provider declines to answer (content filter).
    Refused,
    /// The response violates the protocol.
    Protocol,
    /// The database failed.
    Store,
    /// Another process holds the data directory.
    Held,
    /// The terminal failed.
    Terminal,
    /// A tool could not be run.
    Tool,
    /// A limit of a tree of agents was reached.
    Limit,
    /// Another system call failed.
    System,
    /// The input or the configuration is invalid.
    Usage,
}

impl ErrorKind {
    /// The kinds of errors of a provider or the connection to it.
    pub const PROVIDER_KINDS: [Self; 11] = [
        Self::ContextTooLong,
        Self::Auth,
        Self::RateLimited,
        Self::Overloaded,
        Self::Network,
        Self::Timeout,
        Self::Stalled,
        Self::BadRequest,
        Self::NoTools,
        Self::Refused,
        Self::Protocol,
    ];

    /// A stable name for traces and scripts.
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
            Self::NoTools => "no_tools",
            Self::Refused => "refused",
            Self::Protocol => "protocol",
            Self::Store => "store",
            Self::Held => "held",
            Self::Terminal => "terminal",
            Self::Tool => "tool",
            Self::Limit => "limit",
            Self::System => "system",
            Self::Usage => "usage",
        }
    }

    /// Whether the same request may succeed later.
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::Network | Self::Timeout | Self::Stalled)
    }
}

/// A failure of the input, the system, the network or a provider. Broken invariants panic instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What callers decide by.
    pub kind: ErrorKind,
    /// What happened and, where possible, what to do, for the user.
    pub message: String,
    /// The wait before the next attempt that the provider asks for, in seconds.
    pub retry_after: Option<u32>,
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this kind and message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// A request that cannot be carried out as it is.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// The request needs a Cargo feature that this program was built without.
    pub fn not_built_in(feature: &str) -> Self {
        Self::new(ErrorKind::Usage, format!("the {feature} is not built in: rebuild with --features {feature}"))
    }

    /// The same error with `what: ` before its message.
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
        Self::new(ErrorKind::System, system_message(&error))
    }
}

/// The system's message without the number that std appends to it.
pub fn system_message(error: &impl fmt::Display) -> String {
    let message = error.to_string();
    message.split(" (os error ").next().unwrap_or_default().to_owned()
}
