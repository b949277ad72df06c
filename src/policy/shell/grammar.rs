//! The second reader: a bash grammar has to find the same simple commands, word by word.

use rable::{ListOperator, Node, NodeKind, PipeSep};

use super::lexer::Lexed;

const DISAGREE: &str = "something that cannot be read without doubt";

/// Checks that the grammar reads the command as the lexer did.
pub fn confirm(command: &str, lexed: &[Lexed]) -> Result<(), &'static str> {
    // Extended patterns are off in `bash -c`.
    let nodes = rable::parse(command, false).map_err(|_| "a syntax error")?;
    let mut commands = Vec::new();
    nodes.iter().try_for_each(|node| collect(node, &mut commands))?;
    let are_words = |nodes: &[Node], written: &[String]| {
        nodes.len() == written.len() && nodes.iter().zip(written).all(|(word, written)| is_word(word, written))
    };
    let is_same = |(found, lexed): (&Found<'_>, &Lexed)| {
        found.redirects == lexed.redirects
            && are_words(found.assignments, &lexed.assigned)
            && are_words(found.words, &lexed.written)
    };
    let agrees = commands.len() == lexed.len() && commands.iter().zip(lexed).all(is_same);
    if agrees { Ok(()) } else { Err(DISAGREE) }
}

/// A simple command as the grammar reads it.
struct Found<'n> {
    assignments: &'n [Node],
    words: &'n [Node],
    redirects: usize,
}

fn is_word(node: &Node, written: &str) -> bool {
    matches!(&node.kind, NodeKind::Word { value, .. } if value == written)
}

fn collect<'n>(node: &'n Node, commands: &mut Vec<Found<'n>>) -> Result<(), &'static str> {
    match &node.kind {
        NodeKind::Command { assignments, words, redirects } if !words.is_empty() => {
            commands.push(Found { assignments, words, redirects: redirects.len() });
            Ok(())
        }
        NodeKind::Pipeline { commands: parts, separators } if separators.iter().all(|it| *it == PipeSep::Pipe) => {
            parts.iter().try_for_each(|part| collect(part, commands))
        }
        NodeKind::List { items } => items.iter().try_for_each(|item| match item.operator {
            Some(ListOperator::Background) => Err(DISAGREE),
            _ => collect(&item.command, commands),
        }),
        _ => Err(DISAGREE),
    }
}
