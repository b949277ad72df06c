//! The faults of the C program, as its design document lists them: its loop served only the agent on the screen, and its
//! callbacks wrote into the agent on the screen.

use std::str::FromStr;

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Only the sockets of the agent on the screen are in the sets of `select`.
    FrozenDescriptors,
    /// Only the timers and tools of the agent on the screen bound the wait.
    FrozenTimeouts,
    /// Only the transfers of the agent on the screen go on.
    FrozenCompletions,
    /// Only the tool of the agent on the screen is checked.
    FrozenTools,
    /// Text goes to the agent on the screen.
    WrongContent,
    /// Token counts go to the agent on the screen.
    WrongUsage,
    /// Errors go to the agent on the screen.
    WrongError,
    /// The end of a transfer ends the turn of the agent on the screen.
    WrongCompletion,
    /// The thread of a tool sets the flag of the agent on the screen.
    WrongTool,
}

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::FrozenDescriptors,
        Self::FrozenTimeouts,
        Self::FrozenCompletions,
        Self::FrozenTools,
        Self::WrongContent,
        Self::WrongUsage,
        Self::WrongError,
        Self::WrongCompletion,
        Self::WrongTool,
    ];
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(name).map_err(|error| error.to_string())
    }
}
