//! How much a model thinks before it answers.

use std::fmt;
use std::str::FromStr;

use crate::base::error::Error;

/// How much a model thinks. Each provider maps the levels to its own parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// No parameter is sent: the default of the model.
    #[default]
    Unspecified,
    /// As little as the model allows.
    Off,
    /// Low effort.
    Low,
    /// Medium effort.
    Medium,
    /// High effort.
    High,
    /// At most this many tokens.
    Budget(u32),
}

impl Thinking {
    /// The names of the levels, for help and completion.
    pub const NAMES: [&str; 5] = ["default", "off", "low", "medium", "high"];
}

impl fmt::Display for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspecified => f.write_str("default"),
            Self::Off => f.write_str("off"),
            Self::Low => f.write_str("low"),
            Self::Medium => f.write_str("medium"),
            Self::High => f.write_str("high"),
            Self::Budget(tokens) => write!(f, "{tokens}"),
        }
    }
}

impl FromStr for Thinking {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "default" => Self::Unspecified,
            "off" => Self::Off,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            number => match number.parse() {
                Ok(0) => Self::Off,
                Ok(tokens) => Self::Budget(tokens),
                Err(_) => {
                    let message = format!(
                        "invalid thinking level {text:?}: use off, low, medium, high, default or a number of tokens"
                    );
                    return Err(Error::usage(message));
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_parsed_as_it_is_printed() {
        for amount in [
            Thinking::Unspecified,
            Thinking::Off,
            Thinking::Low,
            Thinking::Medium,
            Thinking::High,
            Thinking::Budget(1),
            Thinking::Budget(u32::MAX),
        ] {
            assert_eq!(amount.to_string().parse(), Ok(amount));
        }
        assert_eq!("0".parse(), Ok(Thinking::Off));
        for wrong in ["", "-1", "4294967296", "HIGH", "1e3", " low"] {
            assert!(wrong.parse::<Thinking>().is_err(), "{wrong}");
        }
    }
}
