//! Templates: members with roles that belong together. Four are built in; a person's own are files:
//!
//! ```toml
//! description = "Two who argue"
//! strategy = "parallel"
//! aggregation = "merge"
//!
//! [[members]]
//! name = "for"
//! role = "You argue for it."
//! model = "provider/model"
//! ```
//! Reading the files is not done here.

mod roles;

use super::document::{Document, Table};
use super::member::{self, Member, is_name};
use super::settings::{Aggregation, Strategy, unknown};
use crate::base::error::Result;

/// Members that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// What people call it.
    pub name: String,
    /// What it is for, in half a line.
    pub description: String,
    /// How they work, unless somebody says otherwise.
    pub strategy: Option<Strategy>,
    /// How their answers become one, unless somebody says otherwise.
    pub aggregation: Option<Aggregation>,
    /// Who they are, in order.
    pub members: Vec<Member>,
}

impl Template {
    /// Reads a person's own template. `file` is for errors, `name` for a file that says none.
    ///
    /// # Errors
    /// It is none; the words say where it goes wrong.
    pub fn parse(file: &str, name: &str, text: &str) -> Result<Self> {
        let document = Document::parse(file, text)?;
        let table = document.table();
        table.only(&["name", "description", "strategy", "aggregation", "members"])?;
        let name = name_of(&table, name)?;
        let description = table.text("description")?.unwrap_or_default().to_owned();
        let (strategy, aggregation) = (table.parsed("strategy")?, table.parsed("aggregation")?);
        let members = table.tables("members")?.iter().map(member).collect::<Result<Vec<_>>>()?;
        if members.is_empty() {
            return Err(table.refuse("members", "a template needs at least one member: [[members]]"));
        }
        member::check(&members).map_err(|error| table.refuse("members", &error.message))?;
        Ok(Self { name, description, strategy, aggregation, members })
    }
}

fn member(table: &Table<'_>) -> Result<Member> {
    table.only(&["name", "role", "model"])?;
    let name = table.text("name")?.ok_or_else(|| table.refuse("name", "a member needs a name"))?;
    let own = |key| table.text(key).map(|text| text.map(str::to_owned));
    Ok(Member { name: name.to_owned(), model: own("model")?, role: own("role")? })
}

/// The name that a document says it has, else the one that its file has.
pub(super) fn name_of(table: &Table<'_>, file: &str) -> Result<String> {
    let name = table.text("name")?.unwrap_or(file);
    let is_fit = is_name(name);
    is_fit
        .then(|| name.to_owned())
        .ok_or_else(|| table.refuse("name", "take letters, digits, -, _ and . for a name, at most 64"))
}

/// The template of this name.
///
/// # Errors
/// There is none; the words name the nearest and all others.
pub fn find<'t>(templates: &'t [Template], name: &str) -> Result<&'t Template> {
    let names = templates.iter().map(|template| template.name.as_str());
    let found = templates.iter().find(|template| template.name == name);
    found.ok_or_else(|| unknown("template", name, name, names))
}

/// Those that everybody has.
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
    fn the_built_in_templates_have_these_members_and_each_has_a_role_of_its_own() {
        let told: Vec<(String, String)> = built_in()
            .iter()
            .map(|one| (one.name.clone(), one.members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(" ")))
            .collect();
        let told: Vec<(&str, &str)> = told.iter().map(|(name, members)| (name.as_str(), members.as_str())).collect();
        assert_eq!(
            told,
            [
                ("code-review", "reviewer security performance"),
                ("refactor", "analyzer planner implementer"),
                ("documentation", "analyzer writer reviewer"),
                ("testing", "analyzer test-writer validator"),
            ]
        );
        let mut roles: Vec<String> =
            built_in().into_iter().flat_map(|one| one.members).filter_map(|m| m.role).collect();
        assert!(roles.iter().all(|role| role.len() > 200 && !role.contains("  ") && !role.contains('\n')));
        roles.sort();
        roles.dedup();
        assert_eq!(roles.len(), 12);
    }

    #[test]
    fn a_person_s_own_template_is_read() {
        let text = "strategy = \"pipeline\"\naggregation = \"select-best\"\n[[members]]\nname = \"a\"\nrole = \"r\"\n[[members]]\nname = \"b\"\nmodel = \"x/y\"\n";
        let template = Template::parse("t.toml", "mine", text).expect("it is one");
        assert_eq!((template.name.as_str(), template.description.as_str()), ("mine", ""));
        assert_eq!(
            (template.strategy, template.aggregation),
            (Some(Strategy::Pipeline), Some(Aggregation::SelectBest))
        );
        assert_eq!(template.members[0], Member { role: Some("r".into()), ..Member::new("a") });
        assert_eq!(template.members[1].model.as_deref(), Some("x/y"));
    }

    #[test]
    fn what_is_no_template_is_refused_with_its_place() {
        for (text, words) in [
            ("", "t.toml:1: members: a template needs"),
            ("[[members]]\nrole = \"r\"", "t.toml:1: members[1].name: a member needs a name"),
            ("[[members]]\nname = \"a\"\n[[members]]\nname = \"a\"", "two members \"a\""),
            ("\nstrategy = \"serial\"", "t.toml:2: strategy: there is no strategy \"serial\""),
            ("[[member]]", "did you mean members?"),
            ("name = \"a b\"\n[[members]]\nname = \"a\"", "t.toml:1: name: take letters"),
        ] {
            let message = Template::parse("t.toml", "mine", text).unwrap_err().message;
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn an_unknown_template_is_refused_with_the_nearest() {
        let words = find(&built_in(), "code-reviev").unwrap_err().message;
        assert!(words.contains("did you mean code-review?") && words.contains("testing"), "{words}");
    }
}
