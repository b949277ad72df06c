//! Custom commands: the text of a file, with arguments substituted, becomes a message. The result is never parsed as a
//! command again.

use super::{CommandContext, usage_error};
use crate::base::error::Result;
use crate::domain::custom::CustomCommand;
use crate::domain::flow::InputResult;

/// The placeholder of other agents' commands for all arguments.
const ALL_ARGUMENTS: &str = "ARGUMENTS";

pub(super) fn find<'a>(context: &CommandContext<'a>, name: &str) -> Option<&'a CustomCommand> {
    context.config.commands.iter().find(|command| command.name == name)
}

/// The message for a line such as `/review src`; `None` if it names no custom command.
pub fn message_of(commands: &[CustomCommand], line: &str) -> Option<Result<String>> {
    let line = line.trim().strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = commands.iter().find(|command| command.name == name)?;
    Some(run(command, arguments.trim()).map(|result| match result {
        InputResult::Message(text) => text,
        _ => String::new(),
    }))
}

/// Whether the text of a command has placeholders for arguments.
pub fn takes_arguments(command: &CustomCommand) -> bool {
    expand(&command.body, "").1
}

/// Substitutes the arguments.
pub(super) fn run(command: &CustomCommand, arguments: &str) -> Result<InputResult> {
    let (text, has_placeholders) = expand(&command.body, arguments);
    if !has_placeholders && !arguments.is_empty() {
        return Err(usage_error(format!("/{} takes no arguments (got {arguments:?})", command.name)));
    }
    if text.trim().is_empty() {
        return Err(usage_error(format!(
            "/{} produces an empty message with these arguments; see {}",
            command.name,
            command.source.display()
        )));
    }
    Ok(InputResult::Message(text))
}

/// Replaces `$1` .. `$9` with the arguments, `$@` and `$ARGUMENTS` with all of them as typed and `$$` with a dollar sign; any other dollar
/// sign stays. The flag tells whether there was a placeholder.
fn expand(body: &str, arguments: &str) -> (String, bool) {
    let words = split(arguments);
    let mut text = String::with_capacity(body.len() + arguments.len());
    let mut has_placeholders = false;
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let next = rest.chars().next();
        let length = match next {
            Some('$' | '@' | '1'..='9') => 1,
            _ if begins_with_word(rest, ALL_ARGUMENTS) => ALL_ARGUMENTS.len(),
            _ => 0,
        };
        match next {
            Some('$') | None => text.push('$'),
            Some(digit @ '1'..='9') => {
                text.push_str(words.get(digit as usize - '1' as usize).map_or("", String::as_str));
            }
            Some(_) => text.push_str(if length > 0 { arguments } else { "$" }),
        }
        has_placeholders |= length > 0 && next != Some('$');
        rest = &rest[length..];
    }
    text.push_str(rest);
    (text, has_placeholders)
}

fn begins_with_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_part))
}

/// Splits into words as a shell does (POSIX.1-2024, Shell Command Language, 2.2), except that an unclosed quote is an
/// apostrophe.
pub(super) fn split(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = arguments.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(rest.next()),
            '\'' | '"' if rest.as_str().contains(c) => {
                let word = word.get_or_insert_default();
                rest.by_ref().take_while(|inner| *inner != c).for_each(|inner| word.push(inner));
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_by_a_shell() {
        for (typed, words) in [
            ("", &[] as &[&str]),
            ("  a  b\tc\n", &["a", "b", "c"]),
            ("'a b' \"c 'd\" e'f'g ''", &["a b", "c 'd", "efg", ""]),
            (r#"a\ b \"c"#, &["a b", "\"c"]),
            ("don't break", &["don't", "break"]),
            ("\\", &[""]),
        ] {
            assert_eq!(split(typed), words, "{typed}");
        }
    }

    #[test]
    fn placeholders_are_replaced_and_missing_arguments_are_empty() {
        for (body, arguments, text) in [
            ("review $1 for $2.", "'a b' bugs", "review a b for bugs."),
            ("review $1 for $2.", "a", "review a for ."),
            ("all: $@!", "don't  'a b'", "all: don't  'a b'!"),
            ("cost: $$5, $HOME, $0 and $", "", "cost: $5, $HOME, $0 and $"),
            ("é$1é", "ü", "éüé"),
            ("$1", "$2 $@", "$2"),
            ("fix $ARGUMENTS.", "#12  'now'", "fix #12  'now'."),
            ("$ARGUMENTS_ and $ARGUMENT", "x", "$ARGUMENTS_ and $ARGUMENT"),
        ] {
            assert_eq!(expand(body, arguments).0, text, "{body}");
        }
    }

    #[test]
    fn arguments_without_placeholder_and_empty_results_are_refused() {
        let command = |body: &str| CustomCommand { name: "x".into(), body: body.into(), ..CustomCommand::default() };
        assert!(run(&command("plain"), "words").unwrap_err().message.contains("takes no arguments"));
        assert!(run(&command("$1"), "").is_err());
        assert_eq!(run(&command("/clear"), ""), Ok(InputResult::Message("/clear".into())));
    }
}
