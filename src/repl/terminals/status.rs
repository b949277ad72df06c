//! The status line: the agent's directory, model and policy.

use std::path::Path;

use crate::agent::Agent;
use crate::base::text::{self, dollars};
use crate::domain::approval::Policy;
use crate::domain::display::{DisplaySettings, StatusField};
use crate::domain::environment::DEFAULT_ENVIRONMENT;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::thinking::Thinking;
use crate::team::Money;
use crate::tools::Environment;

/// Minimum columns for the directory; a longer one is cut off at its start.
const DIRECTORY_COLUMNS: usize = 12;
const ENVIRONMENT_COLUMNS: usize = 24;
const HELP: &str = "? keys ";

/// The content of the status line besides the agent.
#[derive(Debug)]
pub(super) struct StatusLine<'a> {
    pub settings: &'a DisplaySettings,
    pub branch: Option<&'a str>,
    pub money: Money,
    /// The name of the model alone does not say which provider has it.
    pub names_provider: bool,
    /// The agents run in a server.
    pub is_attached: bool,
    pub is_read_only: bool,
}

/// A text of the line.
struct Field {
    text: String,
    style: Style,
    /// It is shown even on a narrow terminal.
    stays: bool,
    /// It belongs to the text before.
    is_joined: bool,
}

impl StatusLine<'_> {
    /// The line in this many columns: the last fields are left out if there is no room.
    pub fn row(&self, agent: &Agent, columns: usize) -> Row {
        let mut fields: Vec<Field> = Vec::new();
        fields.extend(self.settings.status.iter().filter_map(|field| self.field(*field, agent, columns)));
        if self.is_read_only {
            fields.push(Field::staying("read-only".into(), Style::DIM));
        }
        while width_of(&fields) > columns
            && let Some(last) = fields.iter().rposition(|field| !field.stays)
        {
            fields.remove(last);
        }
        let mut row = Row::default();
        for (at, field) in fields.iter().enumerate() {
            row.push(gap(at, field), Style::DIM);
            row.push(field.text.as_str(), field.style);
        }
        let room = columns.saturating_sub(text::width(&row.text()) + HELP.len());
        if room > 0 {
            row.push(" ".repeat(room) + HELP, Style::DIM);
        }
        row
    }

    /// A field; `None` if there is nothing to show.
    fn field(&self, field: StatusField, agent: &Agent, columns: usize) -> Option<Field> {
        let inputs = &agent.inputs;
        let tokens = |count: u64| (count > 0).then(|| text::with_commas(count));
        let text = match field {
            StatusField::Directory => {
                let most = (columns / 3).max(DIRECTORY_COLUMNS);
                let named = inputs.environment.place_name();
                named.unwrap_or_else(|| directory(inputs.environment.place(), self.settings.home.as_deref(), most))
            }
            StatusField::Branch if inputs.environment.place_name().is_some() => return None,
            StatusField::Branch => self.branch?.to_owned(),
            StatusField::Approval => return Some(approval(agent)),
            StatusField::Model if self.names_provider => inputs.endpoint.shown_name(),
            StatusField::Model => inputs.endpoint.own_name(),
            StatusField::Thinking if inputs.thinking == Thinking::Unspecified => return None,
            StatusField::Thinking => inputs.thinking.to_string(),
            StatusField::Context => context(agent)?,
            StatusField::Cost => cost(self.money)?,
            StatusField::Environment => environment(&inputs.environment)?,
            StatusField::Tokens => format!("{} tokens", tokens(agent.used.tokens())?),
            StatusField::Connection if !self.is_attached => return None,
            StatusField::Connection => "server".to_owned(),
        };
        let is_joined = matches!(field, StatusField::Branch | StatusField::Thinking);
        let text = text::sanitise(&text).replace('\n', " ");
        Some(Field { text, style: Style::DIM, stays: false, is_joined }).filter(|field| !field.text.is_empty())
    }
}

/// The environment, if it is not the usual one; its directory has a field of its own.
fn environment(environment: &Environment) -> Option<String> {
    let is_own = |(_, directory): &(&str, &str)| Path::new(directory) == environment.working_directory;
    let name = environment.spec.split_once('@').filter(is_own).map_or(&*environment.spec, |(name, _)| name);
    (name != DEFAULT_ENVIRONMENT).then(|| text::shortened(name, ENVIRONMENT_COLUMNS).into_owned())
}

/// How full the context is, with a `~` if a part of it is an estimate.
fn context(agent: &Agent) -> Option<String> {
    let (tokens, is_estimate) = agent.context_tokens().filter(|(tokens, _)| *tokens > 0)?;
    let about = if is_estimate { "~" } else { "" };
    Some(match agent.context_percent() {
        Some(percent) => format!("ctx {about}{percent}%"),
        None => format!("ctx {about}{}", text::with_commas(tokens)),
    })
}

/// The spent amount, if it is known, and what is left of the budget.
fn cost(money: Money) -> Option<String> {
    let spent = Some(money.spent).filter(|spent| *spent > 0 || money.left.is_some()).map(dollars)?;
    let left = money.left.map(|left| format!(" (${} left)", dollars(left))).unwrap_or_default();
    Some(format!("${spent}{left}"))
}

impl Field {
    fn staying(text: String, style: Style) -> Self {
        Self { text, style, stays: true, is_joined: false }
    }
}

/// The policy of the agent: the more it allows, the more visible it is. All but the usual policy stay on a narrow
/// terminal.
fn approval(agent: &Agent) -> Field {
    if agent.is_unrestricted() {
        return Field::staying("everything allowed".into(), policy_style(Policy::Yolo));
    }
    let policy = agent.policy();
    Field { stays: policy != Policy::default(), ..Field::staying(policy.name().to_owned(), policy_style(policy)) }
}

fn policy_style(policy: Policy) -> Style {
    let bold = |color| Style { bold: true, ..Style::color(color) };
    match policy {
        Policy::Plan | Policy::Never => bold(Color::Activity),
        Policy::Ask => Style::DIM,
        Policy::Auto => bold(Color::Attention),
        Policy::Yolo => Style { reverse: true, ..bold(Color::Error) },
    }
}

fn gap(at: usize, field: &Field) -> &'static str {
    if at == 0 || field.is_joined { " " } else { "   " }
}

fn width_of(fields: &[Field]) -> usize {
    fields.iter().enumerate().map(|(at, field)| gap(at, field).len() + text::width(&field.text)).sum()
}

/// The end of the path in at most this many columns, with `~` for the home directory.
pub(in crate::repl) fn directory(path: &Path, home: Option<&Path>, columns: usize) -> String {
    let below = home.filter(|home| home.parent().is_some()).and_then(|home| path.strip_prefix(home).ok());
    let whole = match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    let ends = whole.match_indices('/').map(|(at, _)| format!("…{}", &whole[at..]));
    let mut shorter = std::iter::once(whole.clone()).chain(ends);
    let fitting = shorter.find(|text| text::width(text) <= columns);
    fitting.unwrap_or_else(|| {
        let name = whole.rsplit('/').next().unwrap_or_default();
        text::shortened(name, columns).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_shown_by_its_end() {
        let at = |path: &str, columns| directory(Path::new(path), Some(Path::new("/home/ann")), columns);
        assert_eq!(at("/home/ann", 20), "~");
        assert_eq!(at("/home/ann/shop", 20), "~/shop");
        assert_eq!(at("/home/anne/shop", 20), "/home/anne/shop");
        assert_eq!(at("/home/ann/projects/of/the/shop", 20), "…/of/the/shop");
        assert_eq!(at("/a-name-that-is-longer-than-its-place", 12), "a-name-that…");
        assert_eq!(directory(Path::new("/srv"), Some(Path::new("/")), 20), "/srv");
    }
}
