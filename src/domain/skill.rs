//! Skills: folders with instructions for certain tasks, as <https://agentskills.io> defines them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::text;

/// Bytes of the list of skills in the system prompt.
const MAX_LIST: usize = 16 << 10;
/// The most bytes of the names of skills that are left out.
const MAX_LEFT_OUT: usize = 1 << 10;
const BEGINNING: &str = "\n\nSkills are instructions for certain tasks. When a task matches one of these descriptions, \
    call the tool skill with its name before you begin:";

/// The author of something that agents obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Author {
    /// The person: it lies in a directory of theirs.
    Person,
    /// A project that the person trusts.
    Project,
}

impl Author {
    /// In lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Person => "yours",
            Self::Project => "project",
        }
    }
}

/// One skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name.
    pub name: String,
    /// What it does and when it is used, in one line.
    pub description: String,
    /// The arguments that it expects, for people.
    pub argument_hint: String,
    /// Its folder, canonical.
    pub directory: PathBuf,
    /// Whose it is.
    pub author: Author,
    /// Models may use it without being told.
    pub is_for_models: bool,
    /// A person may use it by name.
    pub is_for_people: bool,
    /// The text of its `SKILL.md` after the header.
    pub body: Arc<str>,
    /// SHA-256 of its `SKILL.md`, in hexadecimal.
    pub digest: String,
}

impl Skill {
    /// The file that defines it.
    pub fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// The text for a model, with the arguments in it.
    pub fn text(&self, arguments: &str) -> String {
        with_arguments(&self.body, arguments, &self.directory.to_string_lossy())
    }

    /// The message of a person who uses it.
    pub fn message(&self, arguments: &str) -> String {
        let (colon, directory) = (if arguments.is_empty() { "" } else { ": " }, self.directory.display());
        format!(
            "Use the skill {}{colon}{arguments}\n\nIts files are in {directory}; relative paths begin there.\n\n{}",
            self.name,
            self.text(arguments)
        )
    }
}

/// The file of a skill in its folder.
pub const FILE: &str = "SKILL.md";

/// Replaces the placeholders that other agents know.
fn with_arguments(body: &str, arguments: &str, directory: &str) -> String {
    let body = body.replace("${CLAUDE_SKILL_DIR}", directory);
    if body.contains("$ARGUMENTS") {
        return body.replace("$ARGUMENTS", arguments);
    }
    if arguments.is_empty() { body } else { format!("{body}\n\nArguments: {arguments}") }
}

/// The skills of one directory, sorted by name, and what is wrong with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillList {
    /// Each name once.
    pub skills: Vec<Skill>,
    /// Files that are ignored and why, and files that others hide, one line each.
    pub problems: Vec<String>,
}

impl SkillList {
    /// The skill of this name.
    pub fn find(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }

    /// The skills that a model may use.
    pub fn for_models(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|skill| skill.is_for_models)
    }

    /// The skills that a person may use.
    pub fn for_people(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|skill| skill.is_for_people)
    }

    /// The part of the system prompt about them, and the names that it leaves out.
    pub fn prompt(&self) -> (String, Vec<&str>) {
        let (mut text, mut left_out) = (String::new(), Vec::new());
        for skill in self.for_models() {
            let line = format!("\n- {}: {}", skill.name, skill.description);
            if text.len() + line.len() > MAX_LIST || !left_out.is_empty() {
                left_out.push(skill.name.as_str());
            } else {
                text.push_str(&line);
            }
        }
        if !text.is_empty() {
            text.insert_str(0, BEGINNING);
        }
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            let names = text::truncate(&names, MAX_LEFT_OUT);
            let count = text::counted(left_out.len(), "skill is", "skills are");
            // Writing into a `String` cannot fail.
            let _ = write!(text, "\n[{count} listed without description: {names}]");
        }
        (text, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, body: &str) -> Skill {
        Skill {
            name: name.into(),
            description: "Does it.".into(),
            argument_hint: String::new(),
            directory: format!("/skills/{name}").into(),
            author: Author::Person,
            is_for_models: true,
            is_for_people: true,
            body: body.into(),
            digest: String::new(),
        }
    }

    #[test]
    fn the_prompt_lists_what_models_may_use_and_names_what_it_leaves_out() {
        let mut list = SkillList { skills: vec![skill("one", ""), skill("two", "")], problems: Vec::new() };
        list.skills[1].is_for_models = false;
        let (text, left_out) = list.prompt();
        assert!(text.ends_with("\n- one: Does it.") && left_out.is_empty(), "{text}");
        list.skills = (0..40).map(|n| Skill { description: "x".repeat(1000), ..skill(&format!("s{n}"), "") }).collect();
        let (text, left_out) = list.prompt();
        assert!(text.len() < MAX_LIST + BEGINNING.len() + MAX_LEFT_OUT + 100, "{}", text.len());
        assert_eq!((left_out.len(), left_out.last()), (24, Some(&"s39")));
        assert!(text.contains("\n[24 skills are listed without description: s16, ") && text.ends_with("s39]"));
        assert_eq!(SkillList::default().prompt(), (String::new(), Vec::new()));
    }

    #[test]
    fn arguments_replace_their_placeholder_or_follow_the_text() {
        for (body, arguments, expected) in [
            ("Do $ARGUMENTS now.", "a b", "Do a b now."),
            ("Do $ARGUMENTS now.", "", "Do  now."),
            ("Do it.", "a b", "Do it.\n\nArguments: a b"),
            ("Run ${CLAUDE_SKILL_DIR}/run.", "", "Run /skills/x/run."),
        ] {
            assert_eq!(skill("x", body).text(arguments), expected);
        }
        let message = skill("x", "Do it.").message("this file");
        assert!(message.starts_with("Use the skill x: this file\n\nIts files are in /skills/x; "), "{message}");
    }
}
