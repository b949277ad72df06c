//! How much a model thinks before it answers.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::base::error::Error;
use crate::base::text;

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
    /// Another effort that the server has, such as `minimal` or `xhigh`, sent as it is.
    Effort(Effort),
    /// At most this many tokens.
    Budget(u32),
}

/// The name of an effort: at most 16 lower-case letters, digits, `_` and `-`, the first one a letter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    bytes: [u8; Self::LONGEST],
    length: u8,
}

impl Effort {
    const LONGEST: usize = 16;

    /// The effort with this name, if it can be one.
    pub fn new(name: &str) -> Option<Self> {
        let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.bytes().all(is_fine);
        let length = u8::try_from(name.len()).ok().filter(|length| usize::from(*length) <= Self::LONGEST && is_name)?;
        let mut bytes = [0; Self::LONGEST];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Self { bytes, length })
    }

    /// The name.
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("a name is ASCII")
    }
}

impl Serialize for Effort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Debug for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.name(), f)
    }
}

/// Efforts that a server lists for a model, at most as many as fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Efforts([Option<Effort>; 8]);

impl Efforts {
    /// The names among these that are efforts.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut efforts = Self::default();
        efforts.0.iter_mut().zip(names.filter_map(Effort::new)).for_each(|(place, effort)| *place = Some(effort));
        efforts
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(Effort::name)
    }
}

/// Efforts of some servers besides the levels.
const OTHER_EFFORTS: [&str; 4] = ["none", "minimal", "xhigh", "max"];

impl Thinking {
    /// Refuses an effort that is neither usual nor listed by the server of the model.
    pub fn check_effort(&self, listed: &Efforts) -> Result<(), Error> {
        let Self::Effort(effort) = self else { return Ok(()) };
        let name = effort.name();
        let known = || OTHER_EFFORTS.into_iter().chain(listed.names());
        if known().any(|known| known == name) {
            return Ok(());
        }
        let hint = match text::nearest(name, Self::NAMES.into_iter().chain(known())) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("use {}", Self::EXPECTED),
        };
        Err(Error::usage(format!("unknown thinking level {name:?}: {hint}")))
    }

    /// The names of the levels, for help and completion.
    pub const NAMES: [&str; 5] = ["default", "off", "low", "medium", "high"];

    /// Its values, to follow "expected".
    pub const EXPECTED: &str = "off, low, medium, high, another effort (minimal, xhigh, max or one that the server lists), \
                                default or a number of tokens";

    /// The name of the effort, if it is one.
    pub fn effort(&self) -> Option<&str> {
        match self {
            Self::Low => Some("low"),
            Self::Medium => Some("medium"),
            Self::High => Some("high"),
            Self::Effort(effort) => Some(effort.name()),
            Self::Unspecified | Self::Off | Self::Budget(_) => None,
        }
    }
}

impl fmt::Display for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspecified => f.write_str("default"),
            Self::Off => f.write_str("off"),
            Self::Low => f.write_str("low"),
            Self::Medium => f.write_str("medium"),
            Self::High => f.write_str("high"),
            Self::Effort(effort) => f.write_str(effort.name()),
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
                Err(_) => Effort::new(text)
                    .map(Self::Effort)
                    .ok_or_else(|| Error::usage(format!("invalid thinking level {text:?}: use {}", Self::EXPECTED)))?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_is_usual_or_listed_or_refused_with_the_nearest() {
        let check = |name: &str, listed: &[&str]| {
            name.parse::<Thinking>().unwrap().check_effort(&Efforts::of(listed.iter().copied()))
        };
        for usual in ["high", "off", "200", "xhigh", "minimal"] {
            assert_eq!(check(usual, &[]), Ok(()));
        }
        assert!(check("hihg", &[]).unwrap_err().message.ends_with("did you mean high?"));
        assert!(check("ultra", &[]).unwrap_err().message.contains("use off, low"));
        assert_eq!(check("ultra", &["low", "ultra"]), Ok(()));
        assert!(check("ultr", &["ultra"]).unwrap_err().message.ends_with("did you mean ultra?"));
    }

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
            Thinking::Effort(Effort::new("xhigh").unwrap()),
            Thinking::Effort(Effort::new("a-name-of-16-abc").unwrap()),
        ] {
            assert_eq!(amount.to_string().parse(), Ok(amount));
        }
        assert_eq!("0".parse(), Ok(Thinking::Off));
        for wrong in ["", "-1", "4294967296", "HIGH", "1e3", " low", "a-name-of-17-abcd", "very high"] {
            assert!(wrong.parse::<Thinking>().is_err(), "{wrong}");
        }
    }
}
