//! Templates: sets of members with roles. Four are built in; users write their own as files:
//!
//! ```toml
//! description = "Pros and cons"
//! strategy = "parallel"
//! aggregation = "merge"
//!
//! [[members]]
//! name = "pro"
//! role = "You argue for the proposal."
//! model = "provider/model"
//! ```
//! The caller reads the file.

mod roles;

use super::document::{Document, Table};
use super::member::{self, Member, NAME_RULE, is_name};
use super::settings::{Aggregation, Strategy, unknown};
use crate::base::error::Result;

/// A team of members with roles, for tasks and for the steps of a [`Workflow`](super::workflow::Workflow).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The name on the command line.
    pub name: String,
    /// Its purpose in one line.
    pub description: String,
    /// Used unless the command line names another.
    pub strategy: Option<Strategy>,
    /// Used unless the command line names another.
    pub aggregation: Option<Aggregation>,
    /// In the order of the file.
    pub members: Vec<Member>,
}

impl Template {
    /// Parses a template file. `file` is used in errors, `name` if the file gives no name.
    ///
    /// # Errors
    /// The template is invalid; the message names the position.
    pub fn parse(file: &str, name: &str, text: &str) -> Result<Self> {
        let document = Document::parse(file, text)?;
        let table = document.table();
        table.only(&["name", "description", "strategy", "aggregation", "members"])?;
        let name = name_of(&table, name)?;
        let description = table.text("description")?.unwrap_or_default().to_owned();
        let (strategy, aggregation) = (table.parsed("strategy")?, table.parsed("aggregation")?);
        let members = table.tables("members")?.iter().map(member).collect::<Result<Vec<_>>>()?;
        if members.is_empty() {
            return Err(table.error("members", "a template needs at least one member: [[members]]"));
        }
        member::check(&members).map_err(|error| table.error("members", &error.message))?;
        Ok(Self { name, description, strategy, aggregation, members })
    }
}

fn member(table: &Table<'_>) -> Result<Member> {
    table.only(&["name", "role", "model", "agent"])?;
    let name = table.text("name")?.ok_or_else(|| table.error("name", "a member needs a name"))?;
    let text = |key| table.text(key).map(|text| text.map(str::to_owned));
    Ok(Member { name: name.to_owned(), model: text("model")?, role: text("role")?, agent: text("agent")? })
}

/// The name that a document gives, otherwise that of its file.
pub(super) fn name_of(table: &Table<'_>, file: &str) -> Result<String> {
    let name = table.text("name")?.unwrap_or(file);
    if is_name(name) {
        Ok(name.to_owned())
    } else {
        Err(table.error("name", &format!("invalid name {name:?}: {NAME_RULE}")))
    }
}

/// Finds a template by name.
pub fn find<'t>(templates: &'t [Template], name: &str) -> Result<&'t Template> {
    let names = templates.iter().map(|template| template.name.as_str());
    let found = templates.iter().find(|template| template.name == name);
    found.ok_or_else(|| unknown("template", name, name, names))
}

pub fn built_in() -> Vec<Template> {
    let template = |(name, description, strategy, aggregation, members): &roles::Row| Template {
        name: (*name).into(),
        description: (*description).into(),
        strategy: Some(*strategy),
        aggregation: Some(*aggregation),
        members: members
            .iter()
            .map(|(name, role)| Member { role: Some((*role).into()), ..Member::new(*name) })
            .collect(),
    };
    roles::ROWS.iter().map(template).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_templates_have_members_with_distinct_roles() {
        let found: Vec<(String, String)> = built_in()
            .iter()
            .map(|template| {
                (template.name.clone(), template.members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(" "))
            })
            .collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, members)| (name.as_str(), members.as_str())).collect();
        assert_eq!(
            found,
            [
                ("code-review", "reviewer security performance"),
                ("refactor", "analyzer planner implementer"),
                ("documentation", "analyzer writer reviewer"),
                ("testing", "analyzer test-writer validator"),
            ]
        );
        let mut roles: Vec<String> =
            built_in().into_iter().flat_map(|template| template.members).filter_map(|m| m.role).collect();
        assert!(roles.iter().all(|role| role.len() > 200 && !role.contains("  ") && !role.contains('\n')));
        roles.sort();
        roles.dedup();
        assert_eq!(roles.len(), 12);
    }

    #[test]
    fn a_template_file_is_parsed() {
        let text = "strategy = \"pipeline\"\naggregation = \"select-best\"\n[[members]]\nname = \"a\"\nrole = \"r\"\n[[members]]\nname = \"b\"\nmodel = \"x/y\"\n";
        let template = Template::parse("t.toml", "mine", text).expect("valid");
        assert_eq!((template.name.as_str(), template.description.as_str()), ("mine", ""));
        assert_eq!(
            (template.strategy, template.aggregation),
            (Some(Strategy::Pipeline), Some(Aggregation::SelectBest))
        );
        assert_eq!(template.members[0], Member { role: Some("r".into()), ..Member::new("a") });
        assert_eq!(template.members[1].model.as_deref(), Some("x/y"));
    }

    #[test]
    fn invalid_templates_are_errors_with_a_position() {
        for (text, expected) in [
            ("", "t.toml:1: members: a template needs"),
            ("[[members]]\nrole = \"r\"", "t.toml:1: members[1].name: a member needs a name"),
            ("[[members]]\nname = \"a\"\n[[members]]\nname = \"a\"", "duplicate member name \"a\""),
            ("\nstrategy = \"serial\"", "t.toml:2: strategy: unknown strategy \"serial\""),
            ("[[member]]", "did you mean members?"),
            ("name = \"a b\"\n[[members]]\nname = \"a\"", "t.toml:1: name: invalid name \"a b\""),
        ] {
            let message = Template::parse("t.toml", "mine", text).unwrap_err().message;
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn an_unknown_template_is_an_error_with_the_nearest() {
        let text = find(&built_in(), "code-reviev").unwrap_err().message;
        assert!(text.contains("did you mean code-review?") && text.contains("testing"), "{text}");
    }
}
