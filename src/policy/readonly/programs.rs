//! The programs other than git that only read, with the options that take them off the list.

use super::options::{Reason, operands, paths, refuse, refuse_open_patterns, refuse_patterns};
use super::{Extent, Read};
use crate::policy::shell::Word;

struct Program {
    names: &'static [&'static str],
    /// Letters of options that write, run or read without naming what.
    letters: &'static str,
    /// The long names of such options.
    long: &'static [&'static str],
    operands: Operands,
}

enum Operands {
    /// Not paths.
    Texts,
    /// Paths.
    Files,
    /// Files, or directories that are searched whole; without one, the working directory.
    Trees,
    /// The same; the first operand is a pattern, unless an option gives it.
    PatternAndTrees,
    Own(fn(&[Word]) -> Result<Vec<Read>, Reason>),
}

const fn program(names: &'static [&'static str], operands: Operands) -> Program {
    Program { names, letters: "", long: &[], operands }
}

const PROGRAMS: &[Program] = &[
    program(
        &[
            "echo", "true", "false", "seq", "sleep", "basename", "dirname", "expr", "tr", "pwd", "type", "which", "id",
            "whoami", "groups", "uname", "nproc", "free", "uptime", "factor", "numfmt", "getconf", "locale", "cal",
        ],
        Operands::Texts,
    ),
    Program { letters: "s", long: &["sysroot"], ..program(&["lscpu"], Operands::Texts) },
    Program { letters: "F", long: &["pidfile"], ..program(&["pgrep"], Operands::Texts) },
    program(&["ls", "stat", "df", "realpath", "readlink"], Operands::Files),
    Program {
        letters: "LX",
        long: &["files0-from", "dereference", "exclude-from"],
        ..program(&["du"], Operands::Files)
    },
    program(
        &[
            "cat", "head", "tail", "tac", "nl", "cut", "paste", "rev", "cmp", "comm", "join", "fold", "fmt", "expand",
            "od",
        ],
        Operands::Files,
    ),
    program(&["column"], Operands::Files),
    Program { long: &["files0-from"], ..program(&["wc"], Operands::Files) },
    Program { letters: "f", long: &["format-file"], ..program(&["hexdump"], Operands::Files) },
    Program {
        letters: "c",
        long: &["check"],
        ..program(&["cksum", "md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum"], Operands::Files)
    },
    Program {
        letters: "oTS",
        long: &["output", "compress-program", "temporary-directory", "files0-from", "random-source"],
        ..program(&["sort"], Operands::Files)
    },
    Program { letters: "o", long: &["output"], ..program(&["base64", "iconv"], Operands::Files) },
    Program {
        letters: "CmfzZs",
        long: &["compile", "magic-file", "files-from", "uncompress", "uncompress-noreport", "special-files"],
        ..program(&["file"], Operands::Files)
    },
    Program { letters: "oRl", long: &["fromfile", "fromtabfile", "output"], ..program(&["tree"], Operands::Trees) },
    Program {
        letters: "xXLlC",
        long: &["exec", "exec-batch", "follow", "list-details"],
        ..program(&["fd"], Operands::Trees)
    },
    Program { letters: "R", long: &["dereference-recursive"], ..program(&["grep"], Operands::PatternAndTrees) },
    Program {
        letters: "zL",
        long: &["pre", "pre-glob", "hostname-bin", "search-zip", "follow"],
        ..program(&["rg"], Operands::PatternAndTrees)
    },
    Program { letters: "rlX", long: &["recursive", "paginate"], ..program(&["diff"], Operands::Own(diff)) },
    program(&["strings"], Operands::Own(strings)),
    Program { letters: "fL", long: &["from-file", "library-path"], ..program(&["jq"], Operands::Own(jq)) },
    program(&["yq"], Operands::Own(yq)),
    program(&["printf"], Operands::Own(printf)),
    program(&["test", "["], Operands::Own(test)),
    program(&["find"], Operands::Own(find)),
    program(&["sed"], Operands::Own(sed)),
    program(&["uniq"], Operands::Own(uniq)),
    program(&["xxd"], Operands::Own(xxd)),
    Program { letters: "sf", long: &["set", "file"], ..program(&["date"], Operands::Own(date)) },
    program(&["hostname"], Operands::Own(hostname)),
    program(&["arch"], Operands::Own(|words| if words.is_empty() { Ok(Vec::new()) } else { Err("arguments") })),
    program(&["ps"], Operands::Own(ps)),
    program(&["command"], Operands::Own(command)),
    program(&["cd"], Operands::Own(cd)),
];

/// What a program reads that is called with these arguments.
pub fn reads(name: &str, arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    let program = PROGRAMS.iter().find(|program| program.names.contains(&name)).ok_or("may change something")?;
    refuse(arguments, program.letters, program.long)?;
    if !program.letters.is_empty() || !program.long.is_empty() {
        refuse_open_patterns(arguments)?;
    }
    match program.operands {
        Operands::Texts => Ok(patterns(arguments)),
        Operands::Files => paths(arguments, Extent::One),
        Operands::Trees => trees(arguments),
        Operands::PatternAndTrees => pattern_and_trees(arguments),
        Operands::Own(own) => own(arguments),
    }
}

/// A program that searches directories looks through the working directory, if no operand names another.
///
/// A pattern may match a symbolic link, which is followed where an operand names it.
fn trees(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_patterns(arguments)?;
    let mut reads = paths(arguments, Extent::Tree)?;
    reads.push(Read { path: ".".into(), extent: Extent::Tree });
    Ok(reads)
}

/// Patterns print names, even if the arguments are not paths.
fn patterns(arguments: &[Word]) -> Vec<Read> {
    let read = |word: &Word| Read { path: word.text.clone(), extent: Extent::Pattern };
    arguments.iter().filter(|word| word.is_glob).map(read).collect()
}

/// The arguments without the first operand, which is not a path.
fn without_first_operand(arguments: &[Word]) -> Vec<Word> {
    let first = arguments.iter().position(|word| !word.text.starts_with('-') && !word.text.is_empty());
    let rest = arguments.iter().enumerate().filter(|(at, _)| Some(*at) != first);
    rest.map(|(_, word)| word.clone()).collect()
}

fn pattern_and_trees(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    // With these options, the first operand may be a file.
    const FILE_OPTIONS: &[&str] = &["re", "fi", "exclude-f", "ignore-fi"];
    // It may become more than one word: the pattern to search for, and files.
    refuse_patterns(arguments)?;
    // `-fFILE`, also after other letters.
    let names_file = |word: &Word| {
        let group = word.text.strip_prefix('-').filter(|group| !group.starts_with('-'));
        group.and_then(|group| group.split_once('f')).is_some_and(|(_, file)| !file.is_empty())
    };
    if arguments.iter().any(names_file) {
        return Err("a path within an option");
    }
    let gives_pattern = |word: &Word| match word.text.strip_prefix("--") {
        Some(name) => FILE_OPTIONS.iter().any(|option| name.starts_with(option)),
        None => word.text.starts_with('-') && word.text.contains(['e', 'f']),
    };
    if arguments.iter().any(gives_pattern) { trees(arguments) } else { trees(&without_first_operand(arguments)) }
}

/// Compares the files in two directories.
fn diff(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    paths(arguments, Extent::Entries)
}

/// `@FILE` reads options from a file.
fn strings(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    let is_list = |word: &Word| word.text.starts_with('@') || (word.is_glob && word.text.starts_with(['*', '?', '[']));
    if arguments.iter().any(is_list) { Err("options from a file") } else { paths(arguments, Extent::One) }
}

/// Filters can print variables and load modules.
fn jq(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    let reads_more = |word: &Word| ["env", "ENV", "import", "include"].iter().any(|name| word.text.contains(name));
    if arguments.iter().any(reads_more) {
        return Err("a filter that reads more");
    }
    // The filter may become more than one word: the filter, and files.
    refuse_patterns(arguments)?;
    paths(&without_first_operand(arguments), Extent::One)
}

/// Two programs have this name, with different options.
fn yq(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_patterns(arguments)?;
    let has_option = |word: &Word| word.text.starts_with('-') && !matches!(word.text.as_str(), "-r" | "-P" | "-e");
    let reads_more =
        |word: &Word| ["env", "load", "system", "import", "include"].iter().any(|it| word.text.contains(it));
    if arguments.iter().any(|word| has_option(word) || reads_more(word)) {
        return Err("a filter or option that may change something");
    }
    paths(arguments, Extent::One)
}

/// An index of an array variable is evaluated, substitutions included.
fn refuse_indices(arguments: &[Word]) -> Result<(), Reason> {
    let is_index = |word: &Word| word.text.contains('[') && (word.text.contains("$(") || word.text.contains('`'));
    if arguments.iter().any(is_index) { Err("an index that may be evaluated") } else { Ok(()) }
}

fn printf(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_indices(arguments)?;
    refuse_patterns(arguments)?;
    if arguments.iter().any(|word| word.text.starts_with("-v")) { Err("-v sets a variable") } else { Ok(Vec::new()) }
}

fn test(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_indices(arguments)?;
    refuse_patterns(arguments)?;
    if arguments.iter().any(|word| matches!(word.text.as_str(), "-v" | "-R")) {
        return Err("a test of a variable");
    }
    paths(arguments, Extent::One)
}

fn find(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    const ACTIONS: &[&str] = &["-exec", "-ok", "-delete", "-fls", "-fprint", "-files0-from", "-follow", "-L"];
    refuse_patterns(arguments)?;
    let is_action = |word: &Word| ACTIONS.iter().any(|action| word.text.starts_with(action));
    if arguments.iter().any(is_action) {
        return Err("an action that may change something");
    }
    let is_path = |word: &&Word| !word.text.starts_with('-');
    let words: Vec<Word> = arguments.iter().filter(is_path).cloned().collect();
    trees(&words)
}

/// Only `-n` with one script that prints lines.
fn sed(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_patterns(arguments)?;
    let is_option = |word: &&Word| matches!(word.text.as_str(), "-n" | "-E" | "-r" | "-nE" | "-nr" | "-En");
    let options = arguments.iter().take_while(is_option).count();
    let is_quiet = arguments[..options].iter().any(|word| word.text.contains('n'));
    match arguments[options..].split_first() {
        Some((script, files)) if is_quiet && prints_lines(&script.text) => {
            if files.iter().any(|word| word.text.starts_with('-')) {
                Err("an option")
            } else {
                paths(files, Extent::One)
            }
        }
        _ => Err("a script that is not known to only print lines"),
    }
}

/// `5p`, `5,10p`, `$p`, `/text/p`, `/from/,/to/p`.
fn prints_lines(script: &str) -> bool {
    let Some(rest) = address(script) else { return false };
    let rest = match rest.strip_prefix(',') {
        None => Some(rest),
        Some(second) => address(second.strip_prefix('+').unwrap_or(second)),
    };
    rest == Some("p")
}

/// The part after an address.
fn address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix('/') {
        let (pattern, rest) = rest.split_once('/')?;
        return (!pattern.contains(['\\', '[', '\n'])).then_some(rest);
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// A second operand would be written.
fn uniq(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_patterns(arguments)?;
    let files = operands(arguments, &["-f", "-s", "-w"]);
    if files.len() > 1 || arguments.iter().any(|word| word.text == "--") {
        return Err("a second operand is written");
    }
    paths(arguments, Extent::One)
}

/// Each word after the first operand is an operand, also with `-`: the second is written.
fn xxd(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_patterns(arguments)?;
    let mut words = arguments.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        match word {
            "-p" | "-ps" | "-i" | "-b" | "-u" | "-e" | "-a" => {}
            "-l" | "-s" | "-c" | "-g" | "-o" => drop(words.next()),
            _ if word.starts_with('-') && word != "-" => return Err("an option that may change something"),
            _ if words.next().is_some() => return Err("a second operand is written"),
            _ => return Ok(vec![Read { path: word.to_owned(), extent: Extent::One }]),
        }
    }
    Ok(Vec::new())
}

/// An operand without `+` sets the clock.
fn date(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    refuse_patterns(arguments)?;
    let operands = operands(arguments, &["-d", "--date", "-r", "--reference"]);
    if operands.iter().any(|operand| !operand.starts_with('+')) {
        return Err("an operand sets the clock");
    }
    let words: Vec<Word> = arguments.iter().filter(|word| !word.text.starts_with('+')).cloned().collect();
    paths(&words, Extent::One)
}

fn hostname(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    let is_query = |word: &Word| matches!(word.text.as_str(), "-f" | "-s" | "-i" | "-I" | "-d" | "-A");
    if arguments.iter().all(is_query) { Ok(Vec::new()) } else { Err("an operand sets the name") }
}

/// Some options print the variables of other processes.
fn ps(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    const FORMS: &[&str] = &["aux", "ax", "-e", "-f", "-ef", "-A", "-a", "-p", "-o", "-eo", "-u", "-C", "--no-headers"];
    let mut previous = "";
    for word in arguments {
        let text = word.text.as_str();
        let is_value = match previous {
            "-p" => text.chars().all(|c| c.is_ascii_digit() || c == ','),
            "-o" | "-eo" => {
                !text.contains("env") && text.chars().all(|c| c.is_ascii_alphanumeric() || ",=%".contains(c))
            }
            "-u" | "-C" => !text.starts_with('-'),
            _ => false,
        };
        if word.is_glob || !(is_value || FORMS.contains(&text)) {
            return Err("an option that is not known");
        }
        previous = if is_value { "" } else { text };
    }
    Ok(Vec::new())
}

/// `command -v` looks a program up.
fn command(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    match arguments.split_first() {
        Some((option, names)) if matches!(option.text.as_str(), "-v" | "-V") => {
            if names.iter().any(|word| word.is_glob || word.text.starts_with('-')) {
                Err("an option")
            } else {
                Ok(Vec::new())
            }
        }
        _ => Err("it runs a program"),
    }
}

/// `..` is not followed: bash takes it from the text of the path, and the system from the directory.
fn cd(arguments: &[Word]) -> Result<Vec<Read>, Reason> {
    match arguments {
        [directory]
            if !directory.is_glob
                && !directory.text.is_empty()
                && !directory.text.starts_with('-')
                && !directory.text.split('/').any(|name| name == "..") =>
        {
            paths(arguments, Extent::One)
        }
        _ => Err("not a plain directory"),
    }
}
