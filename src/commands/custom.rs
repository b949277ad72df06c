//! Commands that a person wrote: their text, with the arguments put in, becomes a message. What comes out is never read
//! as a command again.

use super::{CommandContext, usage};
use crate::base::error::Result;
use crate::domain::custom::CustomCommand;
use crate::domain::flow::InputResult;

/// The custom command of this name.
pub(super) fn find<'a>(context: &CommandContext<'a>, name: &str) -> Option<&'a CustomCommand> {
    context.config.commands.iter().find(|command| command.name == name)
}

/// Puts the arguments in.
///
/// # Errors
/// There are arguments and no place for them, or nothing comes out.
pub(super) fn run(command: &CustomCommand, arguments: &str) -> Result<InputResult> {
    let (text, has_places) = expand(&command.body, arguments);
    if !has_places && !arguments.is_empty() {
        let words = format!("/{} takes nothing behind it, but {arguments:?} stands there", command.name);
        return Err(usage(&words));
    }
    if text.trim().is_empty() {
        return Err(usage(&format!("nothing comes of /{} like this: see {}", command.name, command.source.display())));
    }
    Ok(InputResult::Message(text))
}

/// `$1` .. `$9` become words, `$@` all that was typed, `$$` a dollar; any other dollar stays. Whether there was a place
/// for arguments.
fn expand(body: &str, arguments: &str) -> (String, bool) {
    let words = split(arguments);
    let mut text = String::with_capacity(body.len() + arguments.len());
    let mut has_places = false;
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let sign = rest[at + 1..].chars().next();
        match sign {
            Some('$') => text.push('$'),
            Some('@') => text.push_str(arguments),
            Some(digit @ '1'..='9') => {
                text.push_str(words.get(digit as usize - '1' as usize).map_or("", String::as_str));
            }
            _ => text.push('$'),
        }
        has_places |= matches!(sign, Some('@' | '1'..='9'));
        let is_taken = matches!(sign, Some('$' | '@' | '1'..='9'));
        rest = &rest[at + 1 + usize::from(is_taken)..];
    }
    text.push_str(rest);
    (text, has_places)
}

/// Words as a shell splits them: spaces part them, quotes hold them together, a backslash takes the meaning of what
/// follows it (POSIX.1-2024, Shell Command Language, 2.2). A quote that is not closed is an apostrophe.
fn split(arguments: &str) -> Vec<String> {
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
    fn words_are_split_as_by_a_shell() {
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
    fn arguments_stand_where_the_text_wants_them_and_missing_ones_are_empty() {
        for (body, arguments, text) in [
            ("review $1 for $2.", "'a b' bugs", "review a b for bugs."),
            ("review $1 for $2.", "a", "review a for ."),
            ("all: $@!", "don't  'a b'", "all: don't  'a b'!"),
            ("cost: $$5, $HOME, $0 and $", "", "cost: $5, $HOME, $0 and $"),
            ("é$1é", "ü", "éüé"),
            ("$1", "$2 $@", "$2"),
        ] {
            assert_eq!(expand(body, arguments).0, text, "{body}");
        }
    }

    #[test]
    fn words_that_have_no_place_are_refused_and_so_is_nothing() {
        let command = |body: &str| CustomCommand { name: "x".into(), body: body.into(), ..CustomCommand::default() };
        assert!(run(&command("plain"), "words").unwrap_err().message.contains("takes nothing behind it"));
        assert!(run(&command("$1"), "").is_err());
        assert_eq!(run(&command("/clear"), ""), Ok(InputResult::Message("/clear".into())));
    }
}
