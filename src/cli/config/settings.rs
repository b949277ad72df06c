//! Every setting that is a single value, one row each. Configuration files, variables, options, `config show`, the help
//! topics and suggestions for misspelled keys are all derived from this table.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::parse::{self, MAX_COUNT, NO_LIMIT, provider_of, whole};
use super::source::Value;
use crate::cli::arguments::Arguments;
use crate::domain::approval::Policy;
use crate::domain::config::{Config, EDITING, RetryPolicy, TeamSettings};
use crate::domain::display::{EXIT_PRINTS, StatusField};
use crate::domain::endpoint::HOSTS;
use crate::domain::frame::Color;
use crate::domain::limits::LimitName;
use crate::domain::sandbox::Network;
use crate::domain::theme::ThemeSettings;
use crate::domain::thinking::Thinking;

#[derive(Debug, Clone)]
pub struct Values {
    /// `provider/model`, before it is looked up in the catalog.
    pub model: Option<String>,
    pub ephemeral: bool,
    pub config: Config,
}

impl Default for Values {
    /// A person at a terminal can be asked.
    fn default() -> Self {
        let config = Config { policy: Policy::Ask, looks_up_models: true, ..Config::default() };
        Self { model: None, ephemeral: false, config }
    }
}

pub struct Setting {
    /// Key in a file, with its table: `limits.retries`.
    pub key: &'static str,
    pub about: &'static str,
    pub flag: Option<(&'static str, FlagValue)>,
    pub files: Files,
    pub kind: Kind,
}

/// The value that the command line gives to a setting.
pub type FlagValue = fn(&Arguments) -> Option<OsString>;

/// Which files may contain a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// The user's file, and the file of a trusted project unless [`Setting::objection`] objects to its value.
    All,
    /// Only the user's file: a project must not decide where something is written.
    User,
    /// The user's file; a project may only set this value, which is stricter than all others.
    Stricter(&'static str),
    /// None: it applies to one run.
    None,
}

/// The type of a setting and the field that holds it. Numbers have a minimum.
pub enum Kind {
    Model,
    /// A model for another purpose than that of the agents.
    OtherModel(fn(&mut Config) -> &mut Option<String>),
    Ephemeral,
    Thinking(fn(&mut Config) -> &mut Thinking),
    Policy(fn(&mut Config) -> &mut Policy),
    Path(fn(&mut Config) -> &mut Option<PathBuf>),
    Bool(fn(&mut Config) -> &mut bool),
    Count(fn(&mut Config) -> &mut u32, u32),
    /// A count from 0 on; unset, it is this number or more.
    OptionalCount(fn(&mut Config) -> &mut Option<u32>, u32),
    Size(fn(&mut Config) -> &mut usize, u32),
    /// 0 is no limit.
    SizeOrUnlimited(fn(&mut Config) -> &mut usize),
    /// Seconds, fractions included.
    Seconds(fn(&mut Config) -> &mut Duration, f64),
    Name(fn(&mut Config) -> &mut &'static str, fn() -> Vec<&'static str>),
    Network(fn(&mut Config) -> &mut Network),
    /// A whole number from 0 to 100.
    Percent(fn(&mut Config) -> &mut u32),
    /// A number from 0 to 1.
    Fraction(fn(&mut Config) -> &mut f64),
    /// The limit of a tree of agents; "none" is no limit.
    Limit(LimitName),
    /// The fields of the status line.
    Fields(fn(&mut Config) -> &mut Vec<StatusField>),
    /// A list of words, such as a program and its arguments.
    Words(fn(&mut Config) -> &mut Vec<String>),
    /// A colour of the theme.
    Color(Color),
}

/// A year: below it no sum of durations overflows.
const MAX_SECONDS: f64 = 365.0 * 86_400.0;

/// All settings, in the order of `config show`.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "model",
        about: "Model of new agents",
        flag: Some(("--model", |arguments| arguments.model.clone().map(Into::into))),
        files: Files::All,
        kind: Kind::Model,
    },
    Setting {
        key: "title_model",
        about: "Model that writes titles of conversations; by default, the first words are the title",
        flag: None,
        files: Files::User,
        kind: Kind::OtherModel(|config| &mut config.title_model),
    },
    Setting {
        key: "thinking",
        about: "Thinking level of new agents",
        flag: None,
        files: Files::All,
        kind: Kind::Thinking(|config| &mut config.thinking),
    },
    Setting {
        key: "data_dir",
        about: "Directory of the stored conversations",
        flag: Some(("--data-dir", |arguments| arguments.data_dir.clone().map(Into::into))),
        files: Files::User,
        kind: Kind::Path(|config| &mut config.data_directory),
    },
    Setting {
        key: "ephemeral",
        about: "Store nothing",
        flag: Some(("--ephemeral", |arguments| arguments.ephemeral.then(|| "true".into()))),
        files: Files::None,
        kind: Kind::Ephemeral,
    },
    Setting {
        key: "trace",
        about: "File for a line of JSON about everything that happens in the event loop",
        flag: Some(("--trace", |arguments| arguments.trace.clone().map(Into::into))),
        files: Files::User,
        kind: Kind::Path(|config| &mut config.trace),
    },
    Setting {
        key: "trace_stable",
        about: "Leave out of the trace everything that differs between runs",
        flag: Some(("--trace-stable", |arguments| arguments.trace_stable.then(|| "true".into()))),
        files: Files::User,
        kind: Kind::Bool(|config| &mut config.trace_stable),
    },
    Setting {
        key: "working_limit",
        about: "Maximum number of agents that work at the same time; 0 for no limit",
        flag: Some(("--working-limit", |arguments| arguments.working_limit.clone().map(Into::into))),
        files: Files::All,
        kind: Kind::SizeOrUnlimited(|config| &mut config.working_limit),
    },
    Setting {
        key: "follow_forks",
        about: "Switch to a child when it is forked",
        flag: Some(("--stay", |arguments| arguments.stay.then(|| "false".into()))),
        files: Files::All,
        kind: Kind::Bool(|config| &mut config.follows_forks),
    },
    Setting {
        key: "editing",
        about: "Keys for editing the input: emacs or vi",
        flag: None,
        files: Files::User,
        kind: Kind::Name(|config| &mut config.editing, || EDITING.to_vec()),
    },
    Setting {
        key: "approval",
        about: "What new agents may do without a question; a project can only set less than you",
        flag: Some(("--approval", |arguments| arguments.approval.clone().map(Into::into))),
        files: Files::All,
        kind: Kind::Policy(|config| &mut config.policy),
    },
    Setting {
        key: "look_up_models",
        about: "Ask a server for its list of models when the context length of a model is unknown",
        flag: None,
        files: Files::All,
        kind: Kind::Bool(|config| &mut config.looks_up_models),
    },
    Setting {
        key: "history.keep_days",
        about: "Delete agents that were not used for this many days, with their conversations; 0: never",
        flag: None,
        files: Files::User,
        kind: Kind::Count(|config| &mut config.keep_days, 0),
    },
    Setting {
        key: "tools.enabled",
        about: "Offer tools to models",
        flag: Some(("--no-tools", |arguments| arguments.no_tools.then(|| "false".into()))),
        files: Files::Stricter("false"),
        kind: Kind::Bool(|config| &mut config.settings.has_tools),
    },
    Setting {
        key: "sandbox.enabled",
        about: "Run commands of tools in a sandbox",
        flag: Some(("--dangerously-no-sandbox", |arguments| arguments.dangerously_no_sandbox.then(|| "false".into()))),
        files: Files::Stricter("true"),
        kind: Kind::Bool(|config| &mut config.sandbox.is_enabled),
    },
    Setting {
        key: "sandbox.network",
        about: "Network that commands in the sandbox reach: nothing, these hosts by HTTP and HTTPS, or everything",
        flag: None,
        files: Files::Stricter("off"),
        kind: Kind::Network(|config| &mut config.sandbox.network),
    },
    setting(
        "done.command",
        "Program that says whether an agent that has changed files is done, run in its directory and in the sandbox",
        Kind::Words(|config| &mut config.done.command),
    ),
    display(
        "done.attempts",
        "How often its failure goes back to the agent, before you are asked",
        Kind::Count(|config| &mut config.done.attempts, 0),
    ),
    setting(
        "worktree.setup",
        "Program that is run once in a new worktree, in the sandbox, before its agent begins",
        Kind::Words(|config| &mut config.worktree.extras.setup),
    ),
    display(
        "worktree.copy",
        "Untracked files of the repository that a new worktree gets, such as .env",
        Kind::Words(|config| &mut config.worktree.extras.copy),
    ),
    display(
        "worktree.trailers",
        "Lines that end the messages of commits made by landing, with {agent} and {model} filled in",
        Kind::Words(|config| &mut config.worktree.trailers),
    ),
    display(
        "worktree.tell_conflicts",
        "Tell models with what the changes in their worktree conflict",
        Kind::Bool(|config| &mut config.worktree.tells_conflicts),
    ),
    setting(
        "limits.stall_timeout",
        "Abort a reply after this long without data",
        Kind::Seconds(|config| &mut config.settings.stall_timeout, 1.0),
    ),
    setting(
        "limits.reply_timeout",
        "Abort a reply that is not complete after this long",
        Kind::Seconds(|config| &mut config.settings.reply_timeout, 1.0),
    ),
    setting(
        "limits.tool_iterations",
        "Maximum number of rounds of tool calls for one message",
        Kind::Count(|config| &mut config.settings.tool_iterations, 0),
    ),
    Setting {
        key: "limits.compact_at",
        about: "Summarise the older messages when the context is this full, in percent; 0: never",
        flag: Some(("--compact-at", |arguments| arguments.compact_at.clone().map(Into::into))),
        files: Files::All,
        kind: Kind::Percent(|config| &mut config.settings.compact_at),
    },
    setting(
        "limits.bash_timeout",
        "Time limit of a bash command, if the model sets none",
        Kind::Seconds(|config| &mut config.settings.bash_timeout, 1.0),
    ),
    setting(
        "limits.key_timeout",
        "Time limit of an api_key_command",
        Kind::Seconds(|config| &mut config.settings.key_timeout, 1.0),
    ),
    setting(
        "limits.output_cap",
        "Maximum number of bytes of a tool's output that a model gets",
        Kind::Size(|config| &mut config.settings.output_cap, 1024),
    ),
    setting(
        "limits.retries",
        "Number of retries of a failed request; unset, 5, or ten minutes of them where no person watches",
        Kind::OptionalCount(|config| &mut config.settings.retry.retries, RetryPolicy::RETRIES),
    ),
    setting(
        "limits.retry_base",
        "Delay before the first retry; it doubles with each further one",
        Kind::Seconds(|config| &mut config.settings.retry.base, 0.0),
    ),
    setting(
        "limits.retry_cap",
        "Maximum delay before a retry",
        Kind::Seconds(|config| &mut config.settings.retry.cap, 0.0),
    ),
    setting(
        "limits.retry_jitter",
        "Maximum fraction of a delay that is added at random",
        Kind::Fraction(|config| &mut config.settings.retry.jitter),
    ),
    setting(
        "limits.checkpoint_every",
        "Minimum interval between two writes of a streaming reply to the store",
        Kind::Seconds(|config| &mut config.settings.checkpoint_every, 0.0),
    ),
    setting(
        "limits.bytes_per_turn",
        "Maximum number of bytes read from one reply in a turn of the event loop",
        Kind::Size(|config| &mut config.settings.bytes_per_turn, 1024),
    ),
    setting(
        "limits.exit_patience",
        "Time for running tools to finish when the program exits",
        Kind::Seconds(|config| &mut config.settings.exit_patience, 0.0),
    ),
    limit(
        LimitName::Agents,
        "Maximum number of living agents that models made below one of a person",
        Some(MAX_AGENTS),
    ),
    limit(LimitName::Depth, "Maximum number of generations of agents that models made", None),
    limit(LimitName::Creations, "Maximum number of agents that models make in a minute", None),
    limit(LimitName::Requests, "Maximum number of requests of an agent and those that models made below it", None),
    limit(LimitName::Tokens, "Maximum number of tokens of an agent and those that models made below it", None),
    limit(
        LimitName::Usd,
        "Maximum US dollars that an agent and those that models made below it may spend",
        Some(MAX_USD),
    ),
    limit(LimitName::Seconds, "Maximum seconds that an agent and those that models made below it may work", None),
    display(
        "display.status",
        "Fields of the status line, from the left; on a narrow terminal the last ones are left out",
        Kind::Fields(|config| &mut config.display.status),
    ),
    display("display.title", "Set the title of the window", Kind::Bool(|config| &mut config.display.title)),
    display(
        "display.bell",
        "Ring the bell when an agent finishes or asks while you look elsewhere",
        Kind::Bool(|config| &mut config.display.bell),
    ),
    display(
        "display.notify",
        "Show a notification then, by the terminal",
        Kind::Bool(|config| &mut config.display.notify),
    ),
    display(
        "display.progress",
        "Show on the window what the agents do: progress, and OSC 7501",
        Kind::Bool(|config| &mut config.display.progress),
    ),
    display(
        "display.notify_command",
        "Program that is run then; the text is its last argument",
        Kind::Words(|config| &mut config.display.notify_command),
    ),
    display("display.mouse", "Scroll and select with the mouse", Kind::Bool(|config| &mut config.display.mouse)),
    Setting {
        flag: Some(("--plain", |arguments| arguments.plain.then(|| "true".into()))),
        ..display(
            "display.plain",
            "Line mode: print each line once, without control sequences; also where TERM is dumb",
            Kind::Bool(|config| &mut config.display.plain),
        )
    },
    Setting {
        flag: Some(("--inline", |arguments| arguments.inline.then(|| "true".into()))),
        ..display(
            "display.inline",
            "Print finished lines into the terminal's own scrollback, without the alternate screen",
            Kind::Bool(|config| &mut config.display.inline),
        )
    },
    display(
        "display.exit_print",
        "How much of the conversation stays on the screen of the shell",
        Kind::Name(|config| &mut config.display.exit_print, || EXIT_PRINTS.to_vec()),
    ),
    display(
        "theme.name",
        "Colors; auto is dark or light, as the terminal is",
        Kind::Name(|config| &mut config.display.theme.name, || ThemeSettings::NAMES.to_vec()),
    ),
    color(0),
    color(1),
    color(2),
    color(3),
    color(4),
    color(5),
    color(6),
    color(7),
    color(8),
    color(9),
    color(10),
    color(11),
    color(12),
    color(13),
    color(14),
    color(15),
    color(16),
    color(17),
    color(18),
    color(19),
    setting(
        "team.strategy",
        "Order in which several agents work on one task",
        Kind::Name(|config| &mut config.team.strategy, || TeamSettings::STRATEGIES.to_vec()),
    ),
    setting(
        "team.aggregation",
        "How the answers of several agents are combined; auto is last for a pipeline, else concatenate",
        Kind::Name(
            |config| &mut config.team.aggregation,
            || [TeamSettings::AUTO].into_iter().chain(TeamSettings::AGGREGATIONS).collect(),
        ),
    ),
    setting(
        "team.agent_timeout",
        "Time limit of each of several agents, retries included",
        Kind::Seconds(|config| &mut config.team.agent_timeout, 0.001),
    ),
    setting(
        "team.agent_retries",
        "Number of retries after a failed attempt",
        Kind::Count(|config| &mut config.team.retries, 0),
    ),
];

const fn setting(key: &'static str, about: &'static str, kind: Kind) -> Setting {
    Setting { key, about, flag: None, files: Files::All, kind }
}

/// Settings of the screen, which only the person's own file can change.
const fn display(key: &'static str, about: &'static str, kind: Kind) -> Setting {
    Setting { files: Files::User, ..setting(key, about, kind) }
}

const fn color(index: usize) -> Setting {
    let (color, key, about) = Color::ALL[index];
    display(key, about, Kind::Color(color))
}

const MAX_AGENTS: (&str, FlagValue) = ("--max-agents", |arguments| arguments.max_agents.clone().map(Into::into));
const MAX_USD: (&str, FlagValue) = ("--max-usd", |arguments| arguments.max_usd.clone().map(Into::into));

const fn limit(name: LimitName, about: &'static str, flag: Option<(&'static str, FlagValue)>) -> Setting {
    Setting { key: name.setting(), about, flag, files: Files::All, kind: Kind::Limit(name) }
}

impl Setting {
    /// The variable that sets it: `POLYLOGUE_RETRY_CAP` for `limits.retry_cap`, `POLYLOGUE_SANDBOX_NETWORK` for
    /// `sandbox.network`.
    pub fn variable(&self) -> String {
        let name = ["limits.", "team."].iter().find_map(|table| self.key.strip_prefix(table)).unwrap_or(self.key);
        format!("POLYLOGUE_{}", name.replace('.', "_").to_ascii_uppercase())
    }

    /// Whether a project may set this value.
    pub fn is_open_to_projects(&self, value: &Value) -> bool {
        match self.files {
            Files::All => true,
            Files::User | Files::None => false,
            Files::Stricter(strictest) => match value {
                Value::Bool(value) => value.to_string() == strictest,
                other => other.text() == Some(strictest),
            },
        }
    }

    pub fn set(&self, values: &mut Values, value: &Value, home: Option<&Path>) -> Result<(), String> {
        self.try_set(values, value, home).ok_or_else(|| self.kind.expected())
    }

    fn try_set(&self, values: &mut Values, value: &Value, home: Option<&Path>) -> Option<()> {
        let config = &mut values.config;
        match &self.kind {
            Kind::Model => values.model = Some(parse::model(value)?),
            Kind::OtherModel(field) => *field(config) = Some(parse::model(value)?),
            Kind::Ephemeral => values.ephemeral = value.boolean()?,
            Kind::Thinking(field) => *field(config) = parse::thinking(value)?,
            Kind::Policy(field) => *field(config) = value.text()?.parse().ok()?,
            Kind::Path(field) => *field(config) = Some(value.path(home)?),
            Kind::Bool(field) => *field(config) = value.boolean()?,
            Kind::Count(field, min) => *field(config) = whole(value, *min)?,
            Kind::OptionalCount(field, _) => *field(config) = Some(whole(value, 0)?),
            Kind::Percent(field) => *field(config) = whole(value, 0).filter(|percent| *percent <= 100)?,
            Kind::Size(field, min) => *field(config) = whole(value, *min)? as usize,
            Kind::SizeOrUnlimited(field) => *field(config) = whole(value, 0)? as usize,
            Kind::Seconds(field, min) => {
                let seconds = value.number().filter(|seconds| (*min..=MAX_SECONDS).contains(seconds))?;
                *field(config) = Duration::from_secs_f64(seconds);
            }
            Kind::Name(field, names) => *field(config) = parse::name(value, &names())?,
            Kind::Network(field) => *field(config) = parse::network(value)?,
            Kind::Limit(name) => config.tree_limits[*name] = parse::most(value, *name)?,
            Kind::Fields(field) => *field(config) = parse::fields(value)?,
            Kind::Words(field) => *field(config) = parse::words(value)?,
            Kind::Color(color) => config.display.theme.set(*color, parse::paint(value)?),
            Kind::Fraction(field) => {
                *field(config) = value.number().filter(|number| (0.0..=1.0).contains(number))?;
            }
        }
        Some(())
    }

    /// Why a project's value is ignored; `None` if it is not. `values` are those of the user, who would use `provider`
    /// if no model were set.
    pub fn objection(&self, values: &Values, value: &Value, provider: &str) -> Option<String> {
        let mut wanted = values.clone();
        // An invalid value is an error, reported where it is stored.
        self.try_set(&mut wanted, value, None)?;
        let (allowed, policy) = (values.config.policy, wanted.config.policy);
        match self.kind {
            Kind::Model => {
                let provider = values.model.as_deref().map_or(provider, provider_of);
                // Each host is another program, which uses another provider.
                let is_host = |model: &str| provider_of(model) == HOSTS;
                let is_other = wanted.model.as_deref().is_some_and(|model| {
                    provider_of(model) != provider || is_host(model) && values.model.as_deref() != Some(model)
                });
                is_other.then(|| format!("ignored: a project cannot choose another provider than yours ({provider})"))
            }
            Kind::Policy(_) if policy > allowed => {
                Some(format!("{policy} ignored: a project cannot allow more than you"))
            }
            _ if self.width(wanted) > self.width(values.clone()) => {
                Some("ignored: a project may only lower a limit".into())
            }
            _ => None,
        }
    }

    /// How much a limit allows; `None` for a setting that is no limit. Only for comparison with another value of it.
    fn width(&self, mut values: Values) -> Option<u128> {
        const UNLIMITED: u128 = u128::MAX;
        let config = &mut values.config;
        Some(match &self.kind {
            Kind::Count(field, _) => u128::from(*field(config)),
            Kind::OptionalCount(field, usual) => u128::from(field(config).unwrap_or(*usual)),
            Kind::Size(field, _) => *field(config) as u128,
            Kind::SizeOrUnlimited(field) => {
                Some(*field(config)).filter(|most| *most > 0).map_or(UNLIMITED, |n| n as u128)
            }
            Kind::Seconds(field, _) => field(config).as_nanos(),
            Kind::Limit(name) => config.tree_limits[*name].map_or(UNLIMITED, u128::from),
            _ => return None,
        })
    }

    /// The value as a file contains it; `None` if it is not set.
    pub fn display_value(&self, values: &Values) -> Option<String> {
        let mut copy = values.config.clone();
        let config = &mut copy;
        Some(match &self.kind {
            Kind::Model => format!("{:?}", values.model.as_ref()?),
            Kind::OtherModel(field) => format!("{:?}", field(config).as_ref()?),
            Kind::Ephemeral => values.ephemeral.to_string(),
            Kind::Thinking(field) => format!("{:?}", field(config).to_string()),
            Kind::Policy(field) => format!("{:?}", field(config).name()),
            Kind::Path(field) => format!("{:?}", field(config).as_ref()?),
            Kind::Bool(field) => field(config).to_string(),
            Kind::Count(field, _) | Kind::Percent(field) => field(config).to_string(),
            Kind::OptionalCount(field, _) => field(config).as_ref()?.to_string(),
            Kind::Size(field, _) | Kind::SizeOrUnlimited(field) => field(config).to_string(),
            Kind::Seconds(field, _) => field(config).as_secs_f64().to_string(),
            Kind::Name(field, _) => format!("{:?}", field(config)),
            Kind::Network(field) => field(config).to_toml(),
            Kind::Fraction(field) => field(config).to_string(),
            Kind::Words(field) => format!("{:?}", Some(field(config)).filter(|words| !words.is_empty())?),
            Kind::Color(color) => format!("{:?}", config.display.theme.get(*color)?.to_string()),
            Kind::Fields(field) => {
                let names: Vec<String> = field(config).iter().map(|field| format!("{:?}", field.name())).collect();
                format!("[{}]", names.join(", "))
            }
            Kind::Limit(name) => {
                config.tree_limits[*name].map_or_else(|| format!("{NO_LIMIT:?}"), |most| name.display_value(most))
            }
        })
    }
}

impl Kind {
    /// A description of valid values, to follow "expected".
    pub fn expected(&self) -> String {
        match self {
            Self::Model | Self::OtherModel(_) => "\"provider/model\"".into(),
            Self::Thinking(_) => Thinking::EXPECTED.into(),
            Self::Policy(_) => "ask, auto, plan, never or yolo".into(),
            Self::Path(_) => "a path in quotes that begins with / or ~/".into(),
            Self::Bool(_) | Self::Ephemeral => "true or false".into(),
            Self::Count(_, min) | Self::Size(_, min) => format!("a whole number from {min} to {MAX_COUNT}"),
            Self::OptionalCount(..) | Self::SizeOrUnlimited(_) => format!("a whole number from 0 to {MAX_COUNT}"),
            Self::Seconds(_, min) => format!("a number of seconds from {min} to {MAX_SECONDS}"),
            Self::Name(_, names) => format!("one of {}", names().join(", ")),
            Self::Network(_) => "off, host or a list of hosts".into(),
            Self::Percent(_) => "a whole number from 0 to 100".into(),
            Self::Fraction(_) => "a number from 0 to 1".into(),
            Self::Limit(_) => format!("a number from 0, or {NO_LIMIT:?}"),
            Self::Words(_) => "a word, or a list of words, such as a program and its arguments".into(),
            Self::Color(_) => {
                "default, black, red, green, yellow, blue, magenta, cyan, white, bright- and one of them, a number up to 255, \
                 or \"#rrggbb\""
                    .into()
            }
            Self::Fields(_) => {
                let names = StatusField::ALL.map(|(_, name, _)| name);
                format!("a list of {}", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests;
