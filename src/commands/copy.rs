//! `/copy`: a reply, or a code block of one, to the clipboard.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, usage_error};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;
use crate::domain::message::Body;

pub const COPY: CommandSpec = CommandSpec {
    arguments: "[N | code]",
    define: |command| command.arg(positional("which", "N")),
    complete: Some(|_, _| vec!["code".into()]),
    ..CommandSpec::new("copy", "copy the last or Nth last reply, or its code", run)
};

/// Messages read from the store at a time.
const PAGE: usize = 100;

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let (text, what) = match value_of(given, "which").unwrap_or_default() {
        "code" => (find(context, last_code)?, "code block"),
        "" => (nth_reply(context, 1)?, "reply"),
        number => match number.parse() {
            Ok(n @ 1..) => (nth_reply(context, n)?, "such reply"),
            _ => return Err(usage_error(format!("/copy takes a number from 1 or `code` (got {number:?})"))),
        },
    };
    let text = text.ok_or_else(|| usage_error(format!("no {what} to copy")))?;
    let count = text::counted(text.chars().count(), "character", "characters");
    let note = format!("copied {count}, if the terminal supports OSC 52");
    Ok(InputResult::NewState(Change::Copy(text), Some(note)))
}

fn nth_reply(context: &CommandContext, n: usize) -> Result<Option<String>> {
    let mut left = n;
    find(context, |reply| {
        left -= 1;
        (left == 0).then(|| reply.to_owned())
    })
}

/// The first match among the texts of replies, newest first.
fn find(context: &CommandContext, mut matching: impl FnMut(&str) -> Option<String>) -> Result<Option<String>> {
    let mut before = None;
    loop {
        let page = context.store.tail(context.current, before, PAGE)?;
        for message in page.iter().rev() {
            if let Body::Assistant(reply) = &message.body
                && !reply.text.is_empty()
                && let Some(found) = matching(&reply.text)
            {
                return Ok(Some(found));
            }
        }
        before = match page.first() {
            Some(first) if page.len() == PAGE => Some(first.id),
            _ => return Ok(None),
        };
    }
}

/// The content of the last fenced code block (CommonMark 0.31, section 4.5); an unclosed block ends with the text.
fn last_code(text: &str) -> Option<String> {
    let mut open: Option<(&str, Vec<&str>)> = None;
    let mut last = None;
    for line in text.lines() {
        let fence = fence_of(line);
        match (&mut open, fence) {
            (None, Some(fence)) => open = Some((fence, Vec::new())),
            (Some((opening, code)), Some(fence)) if fence.starts_with(*opening) && line.trim() == fence => {
                last = Some(code.join("\n"));
                open = None;
            }
            (Some((_, code)), _) => code.push(line),
            (None, None) => {}
        }
    }
    open.map(|(_, code)| code.join("\n")).or(last)
}

/// The fence that opens the line: three or more backticks or tildes.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let marker = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(marker).len();
    (length >= 3).then(|| &line[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_of_code_is_found_whatever_its_fence() {
        for (text, code) in [
            ("none here", None),
            ("a\n```rust\nfn a() {}\n```\nb", Some("fn a() {}")),
            ("```\none\n```\n~~~~\ntwo\n```\n~~~\n~~~~\n", Some("two\n```\n~~~")),
            ("```\nnot closed\n  indented", Some("not closed\n  indented")),
            ("````md\n```\nin\n```\n````", Some("```\nin\n```")),
        ] {
            assert_eq!(last_code(text).as_deref(), code, "{text}");
        }
    }
}
