//! The corpus of commands, and the comparison with what bash really runs.

#[cfg(feature = "shell-grammar")]
mod oracle;

#[cfg(feature = "shell-grammar")]
mod day;
mod verdicts;

use super::*;

/// The commands of the corpus with their verdicts.
fn corpus() -> Vec<(&'static str, String)> {
    let lines = include_str!("../../fixtures/policy/commands.txt").lines();
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &'static str| {
        let (verdict, command) = line.split_once(' ').expect("a verdict and a command");
        (verdict, unmarked(command.trim_start_matches(' ')))
    };
    rows.map(row).collect()
}

fn unmarked(text: &str) -> String {
    const MARKS: [(&str, &str); 7] = [
        ("<NL>", "\n"),
        ("<TAB>", "\t"),
        ("<CR>", "\r"),
        ("<ESC>", "\x1b"),
        ("<NUL>", "\0"),
        ("<SOH>", "\x01"),
        ("<DEL>", "\x7f"),
    ];
    MARKS.iter().fold(text.to_owned(), |text, (mark, c)| text.replace(mark, c))
}

fn verdict(command: &str) -> &'static str {
    let is_free = |sandboxed| {
        shell::parse(command).is_ok_and(|commands| readonly::reads(&commands, None, sandboxed, &|_| false).is_ok())
    };
    match (is_free(false), is_free(true)) {
        (true, true) => "free",
        (false, true) => "sandbox",
        _ => "ask",
    }
}

#[cfg(feature = "shell-grammar")]
#[test]
fn every_command_of_the_corpus_is_judged_as_written_there() {
    let corpus = corpus();
    assert!(corpus.len() >= 300, "{} commands", corpus.len());
    let wrong: Vec<String> = corpus
        .iter()
        .filter(|(expected, command)| verdict(command) != *expected)
        .map(|(expected, command)| {
            format!("{expected}, not {}: {command:?} {:?}", verdict(command), shell::parse(command))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[cfg(not(feature = "shell-grammar"))]
#[test]
fn without_the_grammar_every_command_asks() {
    for (_, command) in corpus() {
        assert_eq!(verdict(&command), "ask", "{command:?}");
    }
}

/// Judges a command in every way that there is.
fn judge_in_every_way(command: &str) {
    let rules = |patterns: &[&str]| patterns.iter().map(|pattern| Rule::new(Subject::Bash, pattern).unwrap()).collect();
    let rules = Rules { allow: rules(&["a*", "* x"]), ask: rules(&["b *"]), deny: rules(&["rm *", "*q*z*"]) };
    for policy in [Policy::Ask, Policy::Yolo] {
        let request = CommandRequest {
            text: command,
            directory: None,
            distrust: None,
            resolve: &|read| (PathBuf::from(&read.path), Place::Free),
        };
        let permissions =
            Permissions { policy, rules: &rules, sandboxed: false, workspace: Path::new("/w"), home: None };
        decide(&permissions, &Request::Command(request));
    }
    suggest_rules(command, false);
}

#[test]
fn no_command_panics_or_hangs() {
    let openers = [
        "$(",
        "${",
        "$((",
        "`",
        "(",
        "((",
        "{ ",
        "[[ ",
        "<(",
        "if ",
        "while ",
        "case x in ",
        "! ",
        "time ",
        "a|",
        "a;",
    ];
    let more = [
        "a&&", "a\n", "\"$(", "<<E ", "<<<", "'", "\"", "\\", "f(){ ", "coproc ", "a=(", "a ", ">", "&", "ü", "\r",
        "\0",
    ];
    for opener in openers.iter().chain(&more) {
        for count in [17, 400, shell::MAX_LENGTH / opener.len()] {
            judge_in_every_way(&opener.repeat(count));
            judge_in_every_way(&format!("ls {}", opener.repeat(count)));
        }
    }
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..2000 {
        let text: String = (0..rng.usize(..40)).map(|_| openers[rng.usize(..openers.len())]).collect();
        judge_in_every_way(&text);
    }
}
