//! Parses the arguments of commands with clap, from a line of the chat or from words of a shell or another client.

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{CommandSpec, Rest, usage_error};
use crate::base::error::{Error, Result};
use crate::base::text;
use crate::domain::called::split_called;

/// The id of the argument that names an agent.
pub const AGENT: &str = "agent";

/// An optional argument that names an agent, with this role.
pub fn agent_arg(role: &str) -> Arg {
    let help = format!("{role}: a name, a number or the beginning of an id");
    Arg::new(AGENT).value_name("AGENT").help(help)
}

/// The same for any number of agents.
pub fn agents_arg(role: &str) -> Arg {
    agent_arg(role).num_args(0..).action(ArgAction::Append)
}

/// A positional argument.
pub fn positional(id: &'static str, name: &'static str) -> Arg {
    Arg::new(id).value_name(name)
}

/// An option without a value.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// An option with a value.
pub fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help).value_parser(NonEmptyStringValueParser::new())
}

/// What the value of an argument is called; a flag has none.
pub(super) fn value_name(arg: &Arg) -> Option<&str> {
    arg.get_value_names()?.first().map(|name| name.as_str())
}

/// The value of an argument, if it is given.
pub fn value_of<'a>(given: &'a ArgMatches, id: &str) -> Option<&'a str> {
    given.get_one::<String>(id).map(String::as_str)
}

/// Parses what follows the name of a command in a line of the chat.
pub(super) fn parse_line(spec: &CommandSpec, line: &str) -> Result<ArgMatches> {
    let parser = spec.chat_parser();
    let words = words_of_line(&parser, spec.rest, line);
    parse(spec, parser, words)
}

/// Parses the words that follow the name of a command. As in a shell, `--` precedes a value that begins with a hyphen, if the
/// command has options.
pub(super) fn parse_words(spec: &CommandSpec, words: &[String]) -> Result<ArgMatches> {
    let parser = spec.chat_parser();
    let begins = !has_options(&parser) && words.first().is_none_or(|first| first != "--");
    let words = begins.then(|| "--".to_owned()).into_iter().chain(words.iter().cloned()).collect();
    parse(spec, parser, words)
}

fn parse(spec: &CommandSpec, parser: Command, words: Vec<String>) -> Result<ArgMatches> {
    parser.try_get_matches_from(words).map_err(|error| in_one_line(spec, &error))
}

fn has_options(parser: &Command) -> bool {
    parser.get_arguments().any(|arg| arg.get_long().is_some())
}

/// Splits a line into words for clap: options, then `--` and the positional arguments, so that no option is read in these.
/// `agent 7` and a text in double quotes are one word, and so is all that the last argument takes. If the command has no options,
/// nothing is one.
fn words_of_line(parser: &Command, rest: Option<Rest>, line: &str) -> Vec<String> {
    let (mut options, mut values) = (Vec::new(), Vec::new());
    let mut may_be_option = has_options(parser);
    let mut left = line.trim();
    while !left.is_empty() {
        if may_be_option && (left.starts_with("--") || option_called(parser, option_name(left)).is_some()) {
            let after = left.strip_prefix("-- ").map(str::trim_start).or((left == "--").then_some(""));
            may_be_option = after.is_none();
            left = after.unwrap_or_else(|| take_option(&mut options, parser, rest, left));
            if left.is_empty() && !may_be_option {
                values.push(String::new());
            }
            continue;
        }
        let next = positional_at(parser, values.len());
        if next.is_some_and(|arg| takes_rest(rest, arg)) {
            values.push(rest_of_line(rest, left));
            break;
        }
        let (word, after) = split_word(left, next);
        values.push(word.to_owned());
        left = after;
    }
    options.into_iter().chain(["--".to_owned()]).chain(values).collect()
}

/// The first word of a line, without a value behind `=`.
fn option_name(line: &str) -> &str {
    split_word(line, None).0.split('=').next().unwrap_or_default()
}

/// The option with this name, such as `--model` or `-m`.
fn option_called<'a>(parser: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_it = |arg: &&Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            arg.get_short().is_some_and(|short| name.strip_prefix('-').is_some_and(|rest| rest.chars().eq([short])))
        }
    };
    parser.get_arguments().find(is_it)
}

/// Adds the option that the line begins with, and its value. Returns what follows. clap reports a missing value.
fn take_option<'a>(options: &mut Vec<String>, parser: &Command, rest: Option<Rest>, line: &'a str) -> &'a str {
    let ((word, after), name) = (split_word(line, None), option_name(line));
    let Some(option) = option_called(parser, name).filter(|arg| arg.get_action().takes_values()) else {
        options.push(word.to_owned());
        return after;
    };
    let (value, after) = match line[name.len()..].strip_prefix('=') {
        Some(value) if takes_rest(rest, option) => (rest_of_line(rest, value), ""),
        Some(value) => {
            let (value, after) = split_word(value, Some(option));
            (value.to_owned(), after)
        }
        None if takes_rest(rest, option) => (rest_of_line(rest, after), ""),
        None if after.starts_with("--") => (String::new(), after),
        None => {
            let (value, after) = split_word(after, Some(option));
            (value.to_owned(), after)
        }
    };
    options.push(format!("{name}={value}"));
    after
}

/// The argument of the value at this position, counted from 0.
pub(super) fn positional_at(parser: &Command, at: usize) -> Option<&Arg> {
    let takes_more = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
    parser.get_positionals().nth(at).or_else(|| parser.get_positionals().last().filter(takes_more))
}

/// Whether this argument takes the rest of the line.
pub(super) fn takes_rest(rest: Option<Rest>, arg: &Arg) -> bool {
    rest.is_some_and(|rest| arg.get_id() == rest.id())
}

fn rest_of_line(rest: Option<Rest>, text: &str) -> String {
    match rest {
        Some(Rest::Unquoted(_)) => unquoted(text).to_owned(),
        _ => text.to_owned(),
    }
}

/// Splits off the first word: what is in quotes, or, for an argument that names an agent, perhaps `agent 7`.
pub(super) fn split_word<'a>(line: &'a str, argument: Option<&Arg>) -> (&'a str, &'a str) {
    let quoted = line.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    match quoted.filter(|(_, rest)| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
        Some((inner, rest)) => (inner, rest.trim_start()),
        None if argument.and_then(value_name) == Some("AGENT") => split_called(line),
        None => line.split_once(char::is_whitespace).map_or((line, ""), |(word, rest)| (word, rest.trim_start())),
    }
}

/// The text without the quotes around it, unless there are quotes inside as well.
pub(super) fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner_of = |quote: char| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner).filter(|inner| !inner.contains(quote))
    };
    inner_of('"').or_else(|| inner_of('\'')).unwrap_or(text)
}

/// What is wrong with the arguments, as one line for a note.
fn in_one_line(spec: &CommandSpec, error: &clap::Error) -> Error {
    let (name, usage) = (spec.name, spec.arguments);
    // `--commit <MESSAGE>` without its value.
    let bare = |text: &String| text.split(" <").next().unwrap_or_default().to_owned();
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => bare(text),
        Some(ContextValue::Strings(texts)) => texts.iter().map(bare).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    let argument = named(ContextKind::InvalidArg);
    usage_error(match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with("--") => return unknown_option(spec, &argument),
        ErrorKind::UnknownArgument if usage.is_empty() => format!("/{name} takes no arguments (got {argument:?})"),
        ErrorKind::UnknownArgument => format!("unexpected argument {argument:?}: /{name} {usage}"),
        ErrorKind::MissingRequiredArgument => format!("missing {argument}: /help {name} describes the options"),
        ErrorKind::ArgumentConflict => {
            format!("{argument} and {} cannot be used together", named(ContextKind::PriorArg))
        }
        ErrorKind::InvalidValue => format!("{argument} needs a value"),
        ErrorKind::TooManyValues => format!("{argument} takes no value"),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    })
}

/// An error about an option that the command does not have; it names the nearest.
fn unknown_option(spec: &CommandSpec, option: &str) -> Error {
    let parser = spec.chat_parser();
    let options: Vec<String> =
        parser.get_arguments().filter_map(Arg::get_long).map(|name| format!("--{name}")).collect();
    let hint = match text::nearest(option, options.iter().map(String::as_str)) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("it has {}", options.join(", ")),
    };
    let quote = if spec.rest.is_some() { " (quote a text that begins with --)" } else { "" };
    usage_error(format!("unknown option {option} of /{}: {hint}{quote}", spec.name))
}

/// These arguments as words again: the options, then `--` and the positional arguments.
pub fn argv_of(parser: &Command, given: &ArgMatches) -> Vec<String> {
    let (mut argv, mut positionals) = (Vec::new(), Vec::new());
    let is_given = |arg: &&Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    for arg in parser.get_arguments().filter(is_given) {
        let raw = given.get_raw(arg.get_id().as_str()).into_iter().flatten();
        let values = raw.map(|value| value.to_string_lossy().into_owned());
        match arg.get_long() {
            None => positionals.extend(values),
            Some(name) if arg.get_action().takes_values() => {
                let mut values = values.map(|value| format!("--{name}={value}")).peekable();
                // An option with an optional value can stand alone.
                argv.extend(values.peek().is_none().then(|| format!("--{name}")));
                argv.extend(values);
            }
            Some(name) => argv.push(format!("--{name}")),
        }
    }
    if !positionals.is_empty() {
        argv.push("--".into());
        argv.extend(positionals);
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{all, find, shell_commands};

    fn parsed(line: &str) -> Result<ArgMatches> {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        parse_line(find(name).expect("a command"), rest)
    }

    #[test]
    fn every_definition_is_valid_and_its_shell_words_parse_again() {
        for spec in all() {
            spec.chat_parser().debug_assert();
            if let Some(rest) = spec.rest {
                assert!(spec.chat_parser().get_arguments().any(|arg| takes_rest(Some(rest), arg)), "{}", spec.name);
            }
        }
        for (spec, shell) in shell_commands() {
            let parser = spec.shell_parser(shell);
            let words: Vec<&str> =
                [spec.name, "--"].into_iter().chain(parser.get_positionals().map(|_| "-x")).collect();
            let given = parser.clone().try_get_matches_from(words).expect(spec.name);
            let argv = argv_of(&parser, &given);
            let parsed = parse_words(spec, &argv).unwrap_or_else(|error| panic!("{}: {argv:?}: {error}", spec.name));
            for arg in parser.get_positionals() {
                assert_eq!(value_of(&parsed, arg.get_id().as_str()), Some("-x"), "{argv:?}");
            }
        }
    }

    #[test]
    fn the_words_of_a_shell_mean_what_was_typed_there() {
        let (spec, shell) = shell_commands().find(|(spec, _)| spec.name == "land").expect("a subcommand");
        let parser = spec.shell_parser(shell);
        let typed = ["land", "--commit", "\"quoted\" --verify", "--rebase", "--", "-x"];
        let argv = argv_of(&parser, &parser.clone().try_get_matches_from(typed).expect("valid"));
        let given = parse_words(spec, &argv).expect("valid");
        assert_eq!(value_of(&given, "commit"), Some("\"quoted\" --verify"));
        assert_eq!(
            (value_of(&given, AGENT), given.get_flag("rebase"), given.get_flag("verify")),
            (Some("-x"), true, false)
        );
        let words = ["frequency_penalty", "-0.5"].map(str::to_owned);
        let given = parse_words(find("set").expect("a command"), &words).expect("valid");
        assert_eq!((value_of(&given, "name"), value_of(&given, "value")), (Some("frequency_penalty"), Some("-0.5")));
    }

    #[test]
    fn the_rest_of_a_line_is_one_argument() {
        for (line, id, expected) in [
            ("land agent 7 --rebase --commit fix it --verify", "commit", Some("fix it --verify")),
            ("land --commit \"fix it\"", "commit", Some("fix it")),
            ("land --commit 'fix it'", "commit", Some("fix it")),
            ("land --commit=fix it", "commit", Some("fix it")),
            ("tell scout \"hello there\"", "text", Some("hello there")),
            ("tell \"agent 7\" say \"hello\" to --all", "text", Some("say \"hello\" to --all")),
            ("search \"exact words\" who:scout", "words", Some("\"exact words\" who:scout")),
            ("compact --keep the names", "goal", Some("--keep the names")),
            ("land --commit - fix --this", "commit", Some("- fix --this")),
            ("filter-mail --from -abc", "from", Some("-abc")),
            ("filter-mail --from agent 7", "from", Some("agent 7")),
            ("skill agent 7 things", "text", Some("7 things")),
            ("kill -abc --cascade", AGENT, Some("-abc")),
            ("land scout agent 7 --commit fix", AGENT, Some("scout")),
            ("kill --", AGENT, Some("")),
            ("fork -- --model is a word", "prompt", Some("--model is a word")),
            ("system --- a rule", "text", Some("--- a rule")),
            ("system", "text", None),
        ] {
            assert_eq!(value_of(&parsed(line).expect(line), id), expected, "{line}");
        }
        assert_eq!(value_of(&parsed("kill agent 7 --cascade").expect("valid"), AGENT), Some("agent 7"));
        let several = parsed("land scout agent 7 --rebase").expect("valid");
        assert_eq!(several.get_many::<String>(AGENT).expect("agents").collect::<Vec<_>>(), ["scout", "agent 7"]);
    }

    #[test]
    fn errors_are_one_line_that_names_the_fix() {
        for (line, expected) in [
            ("raw x", "/raw takes no arguments (got \"x\")"),
            ("kill a b", "unexpected argument \"b\": /kill [AGENT] [--cascade | --descendants]"),
            ("kill --casacde", "unknown option --casacde of /kill: did you mean --cascade?"),
            ("kill --cascade --descendants", "--cascade and --descendants cannot be used together"),
            ("land --commit", "--commit needs a value"),
            ("land --verify", "missing --commit: /help land describes the options"),
            ("land --rebase=yes", "--rebase takes no value"),
            (
                "fork --frobnicate",
                "unknown option --frobnicate of /fork: it has --name, --model, --host, --as, --worktree, \
              --stay, --include-current (quote a text that begins with --)",
            ),
        ] {
            assert_eq!(parsed(line).expect_err(line).message, expected);
        }
    }
}
