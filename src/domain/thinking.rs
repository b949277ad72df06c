//! How much a model is to think before it answers.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, ErrorKind};

/// How much a model is to think. What a level means on the wire is the provider's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// Nothing is said about it: the model does as it always does.
    #[default]
    Unspecified,
    /// Not at all, as far as the model lets itself be told.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// Much.
    High,
    /// At most so many tokens.
    Budget(u32),
}

impl Thinking {
    /// What a person can write, for help and completion.
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
                    let words = format!("{text:?} is no amount of thinking: say off, low, medium, high, default or N");
                    return Err(Error::new(ErrorKind::Usage, words));
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_amount_is_read_as_it_is_written() {
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
