//! Every setting that is one value: one row each, from which files, variables, the command line, `config show` and the
//! nearest name for a misspelled key all come.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::source::Value;
use crate::cli::arguments::Arguments;
use crate::domain::config::Config;
use crate::domain::thinking::Thinking;
use crate::team::coordinator::settings::{Aggregation, Strategy};

/// What the settings are written into.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// `provider/model`, if somebody named one.
    pub model: Option<String>,
    /// Nothing is kept.
    pub ephemeral: bool,
    /// Everything else.
    pub config: Config,
}

/// One setting.
pub struct Setting {
    /// Where it stands in a file, the table before the dot.
    pub key: &'static str,
    /// What it is, in half a line.
    pub about: &'static str,
    /// The option of the command line, if there is one, and what was said with it.
    pub flag: Option<(&'static str, Said)>,
    /// Which files may set it.
    pub files: Files,
    /// Its form, and the place where it goes.
    pub slot: Slot,
}

/// What the command line says of a setting.
pub type Said = fn(&Arguments) -> Option<OsString>;

/// Which files may set something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// The person's own, and a project's that is trusted.
    All,
    /// Only the person's own: a project must not decide what is written where.
    Own,
    /// None: it is meant for one start.
    None,
}

/// A setting's form, and the place where it goes. Numbers come with the least and the most that is taken.
pub enum Slot {
    /// `provider/model`.
    Model,
    /// Keep nothing.
    Ephemeral,
    /// An amount of thinking.
    Thinking(fn(&mut Config) -> &mut Thinking),
    /// A file or directory.
    Path(fn(&mut Config) -> &mut Option<PathBuf>),
    /// True or false.
    Truth(fn(&mut Config) -> &mut bool),
    /// A whole number.
    Count(fn(&mut Config) -> &mut u32, u32),
    /// A whole number, of things in memory.
    Size(fn(&mut Config) -> &mut usize, usize),
    /// Seconds, in a file as a number.
    Seconds(fn(&mut Config) -> &mut Duration, f64),
    /// One of a few names.
    Name(fn(&mut Config) -> &mut &'static str, fn() -> Vec<&'static str>),
    /// A part of a whole.
    Share(fn(&mut Config) -> &mut f64),
}

/// More than this is no limit any more, and below it no sum overflows: a year.
const MOST_SECONDS: f64 = 365.0 * 86_400.0;
/// The most that is counted.
const MOST_COUNT: u32 = 1_000_000_000;

/// All settings, as `config show` lists them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "model",
        about: "Which model new agents talk to",
        flag: Some(("--model", |said| said.model.clone().map(Into::into))),
        files: Files::All,
        slot: Slot::Model,
    },
    Setting {
        key: "thinking",
        about: "How much new agents think",
        flag: None,
        files: Files::All,
        slot: Slot::Thinking(|config| &mut config.thinking),
    },
    Setting {
        key: "data_dir",
        about: "Where conversations are kept",
        flag: Some(("--data-dir", |said| said.data_dir.clone().map(Into::into))),
        files: Files::Own,
        slot: Slot::Path(|config| &mut config.data_directory),
    },
    Setting {
        key: "ephemeral",
        about: "Whether nothing is kept",
        flag: Some(("--ephemeral", |said| said.ephemeral.then(|| "true".into()))),
        files: Files::None,
        slot: Slot::Ephemeral,
    },
    Setting {
        key: "trace",
        about: "Where every turn of the loop is written down",
        flag: Some(("--trace", |said| said.trace.clone().map(Into::into))),
        files: Files::Own,
        slot: Slot::Path(|config| &mut config.trace),
    },
    Setting {
        key: "trace_stable",
        about: "Whether the trace of two runs can be compared",
        flag: Some(("--trace-stable", |said| said.trace_stable.then(|| "true".into()))),
        files: Files::Own,
        slot: Slot::Truth(|config| &mut config.trace_stable),
    },
    Setting {
        key: "working_limit",
        about: "How many agents may work at once, 0 for all",
        flag: Some(("--working-limit", |said| said.working_limit.clone().map(Into::into))),
        files: Files::All,
        slot: Slot::Size(|config| &mut config.working_limit, 0),
    },
    Setting {
        key: "follow_forks",
        about: "Whether a child that is forked is shown at once",
        flag: Some(("--stay", |said| said.stay.then(|| "false".into()))),
        files: Files::All,
        slot: Slot::Truth(|config| &mut config.follows_forks),
    },
    limit(
        "limits.stall_timeout",
        "A reply of which no byte came for so long is given up",
        Slot::Seconds(|config| &mut config.settings.stall_timeout, 1.0),
    ),
    limit(
        "limits.tool_iterations",
        "Rounds of tools for one message",
        Slot::Count(|config| &mut config.settings.tool_iterations, 0),
    ),
    limit(
        "limits.bash_timeout",
        "How long a command of a model may run, if it does not say",
        Slot::Seconds(|config| &mut config.settings.bash_timeout, 1.0),
    ),
    limit(
        "limits.key_timeout",
        "How long a command that prints a key may run",
        Slot::Seconds(|config| &mut config.settings.key_timeout, 1.0),
    ),
    limit(
        "limits.output_cap",
        "Bytes of a tool's output that a model is shown",
        Slot::Size(|config| &mut config.settings.output_cap, 1024),
    ),
    limit(
        "limits.retries",
        "How often a failed request is sent again",
        Slot::Count(|config| &mut config.settings.retry.retries, 0),
    ),
    limit(
        "limits.retry_base",
        "The first wait before that; each further one is twice as long",
        Slot::Seconds(|config| &mut config.settings.retry.base, 0.0),
    ),
    limit("limits.retry_cap", "The longest such wait", Slot::Seconds(|config| &mut config.settings.retry.cap, 0.0)),
    limit(
        "limits.retry_jitter",
        "The largest share of a wait that is added at random",
        Slot::Share(|config| &mut config.settings.retry.jitter),
    ),
    limit(
        "limits.checkpoint_every",
        "The most often that a streaming reply is stored",
        Slot::Seconds(|config| &mut config.settings.checkpoint_every, 0.0),
    ),
    limit(
        "limits.bytes_per_turn",
        "Bytes of one reply that are read in one turn of the loop",
        Slot::Size(|config| &mut config.settings.bytes_per_turn, 1024),
    ),
    limit(
        "limits.exit_patience",
        "How long tools may take to end when the program is left",
        Slot::Seconds(|config| &mut config.settings.exit_patience, 0.0),
    ),
    limit(
        "team.strategy",
        "In which order several agents work on one task",
        Slot::Name(|config| &mut config.team.strategy, || Strategy::ALL.map(Strategy::name).to_vec()),
    ),
    limit(
        "team.aggregation",
        "How their answers become one",
        Slot::Name(|config| &mut config.team.aggregation, || Aggregation::ALL.map(Aggregation::name).to_vec()),
    ),
    limit(
        "team.agent_timeout",
        "How long each of them may take",
        Slot::Seconds(|config| &mut config.team.agent_timeout, 0.001),
    ),
    limit(
        "team.agent_retries",
        "How often what has failed is tried again",
        Slot::Count(|config| &mut config.team.retries, 0),
    ),
];

const fn limit(key: &'static str, about: &'static str, slot: Slot) -> Setting {
    Setting { key, about, flag: None, files: Files::All, slot }
}

impl Setting {
    /// The variable that sets it: `limits.retry_cap` is `POLYLOGUE_RETRY_CAP`.
    pub fn variable(&self) -> String {
        let name = self.key.rsplit('.').next().unwrap_or(self.key);
        format!("POLYLOGUE_{}", name.to_ascii_uppercase())
    }

    /// Writes the value into its place, or says what is expected there instead.
    pub fn set(&self, wanted: &mut Wanted, value: &Value, home: Option<&Path>) -> Result<(), String> {
        let expected = || self.slot.expected();
        let config = &mut wanted.config;
        match &self.slot {
            Slot::Model => wanted.model = Some(model(value).ok_or_else(expected)?),
            Slot::Ephemeral => wanted.ephemeral = value.truth().ok_or_else(expected)?,
            Slot::Thinking(place) => *place(config) = thinking(value).ok_or_else(expected)?,
            Slot::Path(place) => *place(config) = Some(value.path(home).ok_or_else(expected)?),
            Slot::Truth(place) => *place(config) = value.truth().ok_or_else(expected)?,
            Slot::Count(place, least) => *place(config) = whole(value, *least).ok_or_else(expected)?,
            Slot::Size(place, least) => {
                let least = u32::try_from(*least).unwrap_or(MOST_COUNT);
                *place(config) = whole(value, least).ok_or_else(expected)? as usize;
            }
            Slot::Seconds(place, least) => {
                let seconds = value.number().filter(|seconds| (*least..=MOST_SECONDS).contains(seconds));
                *place(config) = Duration::from_secs_f64(seconds.ok_or_else(expected)?);
            }
            Slot::Name(place, names) => *place(config) = name(value, &names()).ok_or_else(expected)?,
            Slot::Share(place) => {
                *place(config) = value.number().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(expected)?;
            }
        }
        Ok(())
    }

    /// The value as a file would have it; none where nothing is set.
    pub fn shown(&self, wanted: &Wanted) -> Option<String> {
        let mut copy = wanted.config.clone();
        let config = &mut copy;
        Some(match &self.slot {
            Slot::Model => format!("{:?}", wanted.model.as_ref()?),
            Slot::Ephemeral => wanted.ephemeral.to_string(),
            Slot::Thinking(place) => format!("{:?}", place(config).to_string()),
            Slot::Path(place) => format!("{:?}", place(config).as_ref()?),
            Slot::Truth(place) => place(config).to_string(),
            Slot::Count(place, _) => place(config).to_string(),
            Slot::Size(place, _) => place(config).to_string(),
            Slot::Seconds(place, _) => place(config).as_secs_f64().to_string(),
            Slot::Name(place, _) => format!("{:?}", place(config)),
            Slot::Share(place) => place(config).to_string(),
        })
    }
}

impl Slot {
    /// What a value must be, behind "expected".
    pub fn expected(&self) -> String {
        match self {
            Self::Model => "\"provider/model\"".into(),
            Self::Thinking(_) => "off, low, medium, high, default or a number of tokens".into(),
            Self::Path(_) => "a path in quotes that begins with / or ~/".into(),
            Self::Truth(_) | Self::Ephemeral => "true or false".into(),
            Self::Count(_, least) => format!("a whole number from {least} to {MOST_COUNT}"),
            Self::Size(_, least) => format!("a whole number from {least} to {MOST_COUNT}"),
            Self::Seconds(_, least) => format!("a number of seconds from {least} to {MOST_SECONDS}"),
            Self::Name(_, names) => names().join(" or "),
            Self::Share(_) => "a number from 0 to 1".into(),
        }
    }
}

fn model(value: &Value) -> Option<String> {
    value.text().filter(|text| !text.chars().any(|c| c.is_control() || c.is_whitespace())).map(str::to_owned)
}

fn thinking(value: &Value) -> Option<Thinking> {
    match value {
        Value::Number(_) => whole(value, 0).and_then(|tokens| tokens.to_string().parse().ok()),
        other => other.text()?.parse().ok(),
    }
}

/// A hyphen does for an underscore, as on the command line.
fn name(value: &Value, names: &[&'static str]) -> Option<&'static str> {
    let typed = value.text()?.replace('-', "_");
    names.iter().copied().find(|name| *name == typed)
}

fn whole(value: &Value, least: u32) -> Option<u32> {
    let number = value.number().filter(|number| number.fract() == 0.0)?;
    (f64::from(least)..=f64::from(MOST_COUNT)).contains(&number).then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_and_no_variable_stands_twice() {
        for (place, setting) in SETTINGS.iter().enumerate() {
            let first = |same: &dyn Fn(&Setting) -> bool| SETTINGS.iter().position(same);
            assert_eq!(first(&|other| other.key == setting.key), Some(place), "{}", setting.key);
            assert_eq!(first(&|other| other.variable() == setting.variable()), Some(place), "{}", setting.key);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let wrong = [
            Value::Other,
            Value::Number(-1.0),
            Value::Number(f64::NAN),
            Value::Number(1e12),
            Value::Words("a b".into()),
            Value::Text(String::new()),
        ];
        for setting in SETTINGS.iter().filter(|setting| !matches!(setting.slot, Slot::Path(_))) {
            for value in &wrong {
                let mut wanted = Wanted::default();
                assert!(setting.set(&mut wanted, value, None).is_err(), "{} takes {value:?}", setting.key);
                assert_eq!(setting.shown(&wanted), setting.shown(&Wanted::default()), "{}", setting.key);
            }
        }
    }
}
