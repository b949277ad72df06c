//! Options and operands of a command, read so that doubt means "not free".

use super::{Extent, Read};
use crate::policy::shell::Word;

/// Why a command is not free.
pub type Reason = &'static str;

/// Directories of programs that only an administrator can write.
const SYSTEM_DIRECTORIES: &[&str] = &["/bin/", "/usr/bin/"];

/// The name that a program is judged by.
pub fn program_name(word: &str) -> Result<&str, Reason> {
    let name = SYSTEM_DIRECTORIES.iter().find_map(|directory| word.strip_prefix(directory)).unwrap_or(word);
    if name.contains('/') { Err("a program outside the system directories") } else { Ok(name) }
}

/// Refuses options that write or run something: single letters, also in a group (`-rno`), and long names, also
/// shortened.
pub fn refuse(arguments: &[Word], letters: &str, names: &[&str]) -> Result<(), Reason> {
    for word in arguments {
        let is_bad = match word.text.strip_prefix("--") {
            Some("") => false,
            Some(long) => {
                let name = long.split('=').next().unwrap_or(long);
                names.iter().any(|bad| bad.starts_with(name))
            }
            None => word.text.strip_prefix('-').is_some_and(|group| group.contains(|c| letters.contains(c))),
        };
        if is_bad {
            return Err("an option that may change something");
        }
    }
    Ok(())
}

/// Refuses patterns that may expand to options, because they begin with `*`, `?` or `[`.
pub fn refuse_open_patterns(arguments: &[Word]) -> Result<(), Reason> {
    let options_end = arguments.iter().position(|word| word.text == "--").unwrap_or(arguments.len());
    let is_open = |word: &Word| word.is_glob && word.text.starts_with(['*', '?', '[', '-']);
    if arguments[..options_end].iter().any(is_open) { Err("a pattern that may expand to options") } else { Ok(()) }
}

pub fn refuse_patterns(arguments: &[Word]) -> Result<(), Reason> {
    if arguments.iter().any(|word| word.is_glob) { Err("a pattern") } else { Ok(()) }
}

/// Every argument that may be a path: what is not an option, and the values of options. A pattern may match many paths.
///
/// # Errors
/// An option may contain a path in a way that is not followed, or more than one file may be read at each path that a pattern matches.
pub fn paths(arguments: &[Word], extent: Extent) -> Result<Vec<Read>, Reason> {
    let mut reads = Vec::new();
    let mut has_options_end = false;
    for word in arguments {
        let text = word.text.as_str();
        let path = match text {
            // `--` may be the value of the option before it.
            _ if has_options_end && text.starts_with('-') && text.contains(['/', '=']) => {
                return Err("a path within an option");
            }
            _ if has_options_end => text,
            "--" => {
                has_options_end = true;
                continue;
            }
            "" | "-" => continue,
            _ if text.starts_with("--") => match text.split_once('=') {
                Some((_, value)) => value,
                None => continue,
            },
            _ if text.starts_with('-') => {
                // `-d/` is a separator.
                if text.contains('/') && !(text.len() == 3 && text.ends_with('/')) {
                    return Err("a path within an option");
                }
                continue;
            }
            _ => text,
        };
        let extent = match extent {
            Extent::One if word.is_glob => Extent::Pattern,
            _ if word.is_glob => return Err("a pattern"),
            extent => extent,
        };
        reads.push(Read { path: path.to_owned(), extent });
    }
    Ok(reads)
}

/// The arguments without options and without the value behind each of these options.
pub fn operands<'w>(arguments: &'w [Word], with_value: &[&str]) -> Vec<&'w str> {
    let mut operands = Vec::new();
    let mut words = arguments.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        if with_value.contains(&word) {
            words.next();
        } else if !word.starts_with('-') || word == "-" {
            operands.push(word);
        }
    }
    operands
}
