//! The git commands that neither write nor run what a repository configures. Only the listed options are free: git takes
//! shortened options, and many of them write (`--output`) or run programs (`--ext-diff`, `--upload-pack`).
//!
//! Commands that look at the working tree run programs of the repository's configuration (`core.fsmonitor`, filters,
//! `diff.external`); they are free in a sandbox only. Measured with git 2.47.

use super::options::{Reason, paths, refuse_patterns};
use super::{Extent, Read};
use crate::policy::shell::Word;

struct Subcommand {
    name: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
    operands: Operands,
}

enum Operands {
    /// Revisions and paths within the repository.
    Any,
    None,
    /// Only with an option that makes the command a list; otherwise an operand is created.
    InList,
    /// At least one, and the first is one of these words.
    First(&'static [&'static str]),
    /// `REVISION:PATH` only, unless nothing but the header is printed.
    Blobs,
    /// One key to look up, or a list of all.
    Key,
    /// Paths of the working tree: in a sandbox only.
    WorkingTree,
}

const LOG: &[&str] = &[
    "oneline",
    "graph",
    "stat",
    "shortstat",
    "numstat",
    "name-only",
    "name-status",
    "decorate",
    "no-decorate",
    "all",
    "branches",
    "tags",
    "remotes",
    "max-count",
    "skip",
    "since",
    "until",
    "after",
    "before",
    "author",
    "committer",
    "grep",
    "pretty",
    "format",
    "date",
    "reverse",
    "merges",
    "no-merges",
    "first-parent",
    "abbrev-commit",
    "abbrev",
    "no-color",
    "follow",
    "left-right",
    "topo-order",
    "date-order",
    "diff-filter",
    "no-patch",
    "summary",
    "count",
    "parents",
];

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { name: "log", letters: "nsiEF0123456789", long: LOG, operands: Operands::Any },
    Subcommand { name: "rev-list", letters: "n0123456789", long: LOG, operands: Operands::Any },
    Subcommand {
        name: "shortlog",
        letters: "sne0123456789",
        long: &["summary", "numbered", "email", "all", "no-merges", "since", "until"],
        operands: Operands::Any,
    },
    Subcommand {
        name: "show",
        letters: "s",
        long: &["no-patch", "oneline", "format", "pretty", "date"],
        operands: Operands::Blobs,
    },
    Subcommand {
        name: "rev-parse",
        letters: "q",
        long: &[
            "show-toplevel",
            "abbrev-ref",
            "short",
            "verify",
            "git-dir",
            "absolute-git-dir",
            "git-common-dir",
            "show-prefix",
            "show-cdup",
            "is-inside-work-tree",
            "is-bare-repository",
            "symbolic-full-name",
            "quiet",
            "all",
            "branches",
            "tags",
        ],
        operands: Operands::Any,
    },
    Subcommand {
        name: "describe",
        letters: "",
        long: &["tags", "always", "long", "abbrev", "all", "contains", "exact-match", "match"],
        operands: Operands::Any,
    },
    Subcommand { name: "name-rev", letters: "", long: &["name-only", "tags", "always"], operands: Operands::Any },
    Subcommand {
        name: "merge-base",
        letters: "a",
        long: &["all", "is-ancestor", "octopus", "fork-point", "independent"],
        operands: Operands::Any,
    },
    Subcommand {
        name: "ls-tree",
        letters: "rldtz",
        long: &["name-only", "name-status", "long", "full-tree", "full-name", "abbrev"],
        operands: Operands::Any,
    },
    Subcommand { name: "cat-file", letters: "ptse", long: &[], operands: Operands::Any },
    Subcommand {
        name: "show-ref",
        letters: "dsq",
        long: &["heads", "tags", "verify", "hash", "abbrev", "dereference", "quiet"],
        operands: Operands::Any,
    },
    Subcommand {
        name: "for-each-ref",
        letters: "",
        long: &["format", "sort", "count", "points-at", "merged", "no-merged", "contains"],
        operands: Operands::Any,
    },
    Subcommand {
        name: "branch",
        letters: "arvl",
        long: &[
            "all",
            "remotes",
            "verbose",
            "list",
            "show-current",
            "contains",
            "merged",
            "no-merged",
            "points-at",
            "sort",
            "format",
            "no-color",
        ],
        operands: Operands::InList,
    },
    Subcommand {
        name: "tag",
        letters: "l",
        long: &["list", "contains", "merged", "no-merged", "points-at", "sort", "format"],
        operands: Operands::InList,
    },
    Subcommand { name: "remote", letters: "v", long: &["verbose"], operands: Operands::None },
    Subcommand { name: "reflog", letters: "n0123456789", long: LOG, operands: Operands::None },
    Subcommand { name: "stash", letters: "n0123456789", long: LOG, operands: Operands::First(&["list"]) },
    Subcommand {
        name: "worktree",
        letters: "vz",
        long: &["porcelain", "verbose"],
        operands: Operands::First(&["list"]),
    },
    Subcommand {
        name: "config",
        letters: "lz",
        long: &[
            "list",
            "get",
            "get-all",
            "get-regexp",
            "local",
            "global",
            "system",
            "name-only",
            "show-origin",
            "show-scope",
            "null",
        ],
        operands: Operands::Key,
    },
    Subcommand {
        name: "status",
        letters: "sbuz",
        long: &["short", "branch", "porcelain", "untracked-files", "ignored", "long"],
        operands: Operands::WorkingTree,
    },
    Subcommand {
        name: "diff",
        letters: "wbUMR0123456789",
        long: &[
            "stat",
            "cached",
            "staged",
            "name-only",
            "name-status",
            "numstat",
            "shortstat",
            "unified",
            "word-diff",
            "no-color",
            "ignore-all-space",
            "summary",
            "check",
            "quiet",
            "exit-code",
        ],
        operands: Operands::WorkingTree,
    },
    Subcommand {
        name: "ls-files",
        letters: "ocmdsz",
        long: &["others", "cached", "modified", "deleted", "stage", "exclude-standard", "error-unmatch"],
        operands: Operands::WorkingTree,
    },
    Subcommand {
        name: "blame",
        letters: "wLsel0123456789",
        long: &["porcelain", "date"],
        operands: Operands::WorkingTree,
    },
    Subcommand {
        name: "grep",
        letters: "nilwcEFeIqhH0123456789ABC",
        long: &["count", "line-number", "ignore-case", "word-regexp", "name-only", "cached", "heading", "break"],
        operands: Operands::WorkingTree,
    },
    Subcommand {
        name: "check-ignore",
        letters: "vq",
        long: &["verbose", "quiet", "non-matching"],
        operands: Operands::WorkingTree,
    },
];

/// What git reads outside the repository: nothing, unless the command takes any path.
pub fn reads(arguments: &[Word], sandboxed: bool) -> Result<Vec<Read>, Reason> {
    refuse_patterns(arguments)?;
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first.text == "--no-pager" => rest,
        _ => arguments,
    };
    let (name, arguments) = arguments.split_first().ok_or("no subcommand")?;
    let known = SUBCOMMANDS.iter().find(|known| known.name == name.text).ok_or("may change something")?;
    let operands = known.operands_of(arguments)?;
    // Formats that verify signatures run `gpg.program`.
    if arguments.iter().any(|word| word.text.contains("%G") || word.text.contains("(signature")) {
        return Err("a format that runs a program");
    }
    match known.operands {
        Operands::WorkingTree if sandboxed => return paths(arguments, Extent::Tree),
        Operands::WorkingTree => return Err("the repository may run programs"),
        Operands::Any => {}
        Operands::None => refuse_if(!operands.is_empty())?,
        Operands::InList => refuse_if(!operands.is_empty() && !is_list(known.name, arguments))?,
        Operands::First(words) => refuse_if(operands.len() != 1 || !words.contains(&operands[0]))?,
        Operands::Blobs => refuse_if(!is_header(arguments) && !is_blobs(&operands))?,
        Operands::Key => refuse_if(!is_look_up(arguments, &operands))?,
    }
    Ok(Vec::new())
}

fn refuse_if(is_refused: bool) -> Result<(), Reason> {
    if is_refused { Err("an operand that may change something") } else { Ok(()) }
}

impl Subcommand {
    /// The arguments that are not options.
    fn operands_of<'w>(&self, arguments: &'w [Word]) -> Result<Vec<&'w str>, Reason> {
        let mut operands = Vec::new();
        for (at, word) in arguments.iter().enumerate() {
            match word.text.as_str() {
                "--" => {
                    let rest = arguments[at + 1..].iter().map(|word| word.text.as_str());
                    // `--` may be the value of the option before it.
                    if rest.clone().any(|text| text.starts_with('-')) {
                        return Err("an option that may change something");
                    }
                    operands.extend(rest);
                    break;
                }
                text if text.starts_with("--") => self.check_long(&text[2..])?,
                text if text.starts_with('-') => {
                    let is_known = text[1..].chars().all(|letter| self.letters.contains(letter));
                    is_known.then_some(()).ok_or("an option that may change something")?;
                }
                text => operands.push(text),
            }
        }
        Ok(operands)
    }

    fn check_long(&self, option: &str) -> Result<(), Reason> {
        let name = option.split('=').next().unwrap_or(option);
        if self.long.contains(&name) { Ok(()) } else { Err("an option that may change something") }
    }
}

fn has(arguments: &[Word], options: &[&str]) -> bool {
    arguments.iter().any(|word| options.contains(&word.text.split('=').next().unwrap_or_default()))
}

/// `git branch` and `git tag` list with these options, and create something with operands otherwise.
fn is_list(name: &str, arguments: &[Word]) -> bool {
    // Before git 2.19, `-l` of `git branch` was another option.
    (name == "tag" && has(arguments, &["-l"]))
        || has(arguments, &["--list", "--contains", "--merged", "--no-merged", "--points-at"])
}

fn is_header(arguments: &[Word]) -> bool {
    has(arguments, &["-s", "--no-patch"])
}

fn is_blobs(operands: &[&str]) -> bool {
    !operands.is_empty()
        && operands.iter().all(|operand| operand.split_once(':').is_some_and(|(_, path)| !path.is_empty()))
}

/// `git config KEY VALUE` sets, `git config KEY` gets.
fn is_look_up(arguments: &[Word], operands: &[&str]) -> bool {
    if has(arguments, &["--list", "-l"]) {
        return operands.is_empty();
    }
    let is_key = operands.len() == 1 && operands[0].contains('.');
    is_key || (has(arguments, &["--get", "--get-all", "--get-regexp"]) && operands.len() == 1)
}
