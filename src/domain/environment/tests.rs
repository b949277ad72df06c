//! Parsing, printing and resolving environment specifications.

use super::*;

const TOOLS: &[&str] = &[
    "bash",
    "bash_output",
    "bash_kill",
    "read_file",
    "write_file",
    "edit_file",
    "multi_edit",
    "glob",
    "grep",
    "list_dir",
    "web_fetch",
    "todo",
    "skill",
    "fork",
    "kill",
    "send_mail",
    "check_mail",
    "read_mail",
    "wait",
    "agents",
];

fn entry(name: &str, tools: &[&str]) -> EnvironmentEntry {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    EnvironmentEntry { name: name.into(), tools, ..EnvironmentEntry::default() }
}

fn resolve(text: &str, entries: &[EnvironmentEntry]) -> Result<ResolvedSpec, String> {
    let names = EnvironmentNames { entries, tools: TOOLS };
    text.parse::<EnvironmentSpec>().and_then(|spec| names.resolve(&spec)).map_err(|error| error.message)
}

#[test]
fn valid_specs_are_printed_as_written() {
    for text in ["coding", "readonly+bash", "chat+grep@/a", "worktree@~/x y", "coding@../c++@home", "a-b+c_d"] {
        assert_eq!(text.parse::<EnvironmentSpec>().unwrap().to_string(), text);
    }
    assert_eq!("coding@../c++@home".parse::<EnvironmentSpec>().unwrap().directory.as_deref(), Some("../c++@home"));
}

#[test]
fn invalid_specs_are_refused_with_the_position() {
    for (text, at) in [
        ("", 1),
        ("+bash", 1),
        ("bash+", 6),
        ("chat++bash", 6),
        ("chat + bash", 5),
        ("chat,bash", 5),
        ("@/a", 1),
        ("coding@", 8),
        ("coding@ ", 8),
        ("coding@a\nb", 8),
        ("äö+?", 4),
    ] {
        let message = text.parse::<EnvironmentSpec>().unwrap_err().message;
        assert!(message.starts_with(&format!("character {at}: ")), "{text:?}: {message}");
    }
}

#[test]
fn built_in_environments_extend_each_other() {
    let count = |name: &str| resolve(name, &[]).unwrap().tools.len();
    assert_eq!(["none", "chat", "readonly", "coding", "worktree"].map(count), [0, 7, 12, 20, 20]);
    assert!(resolve("worktree", &[]).unwrap().has_worktree && !resolve("coding", &[]).unwrap().has_worktree);
    assert!(resolve("coding", &[]).unwrap().tools.iter().all(|tool| TOOLS.contains(&tool.as_str())));
}

#[test]
fn parts_are_combined() {
    assert_eq!(resolve("bash+grep", &[]).unwrap().tools, ["bash", "grep"]);
    assert_eq!(resolve("readonly+bash", &[]).unwrap().tools.len(), 13);
    assert_eq!(resolve("none+bash", &[]).unwrap().tools, ["bash"]);
}

#[test]
fn the_error_for_a_duplicate_tool_says_which_part_to_omit() {
    for (text, message) in [
        ("readonly+coding", "character 10: readonly and coding both provide fork: omit readonly"),
        ("coding+bash", "character 8: coding and bash both provide bash: omit bash"),
        ("grep+chat+readonly", "character 11: grep and readonly both provide grep: omit grep"),
        ("bash+bash", "character 6: bash is given twice"),
        ("none+none", "character 6: none is given twice"),
        ("coding+bsh", "character 8: unknown environment or tool \"bsh\": /env list shows all"),
    ] {
        assert_eq!(resolve(text, &[]).unwrap_err(), message);
    }
    let mine = [entry("left", &["bash", "grep"]), entry("right", &["bash", "glob"])];
    let message = resolve("left+right", &mine).unwrap_err();
    assert_eq!(message, "character 6: left and right both provide bash: omit one of them, or list tools one by one");
}

#[test]
fn configured_environments_can_be_composed() {
    let review = EnvironmentEntry {
        directory: Some("/src".into()),
        system: Some("You review.".into()),
        ..entry("review", &["looking", "bash"])
    };
    let mine = [entry("looking", &["readonly"]), review];
    let found = resolve("review", &mine).unwrap();
    assert_eq!(
        (found.tools.len(), found.directory, found.system),
        (13, Some("/src".into()), Some("You review.".into()))
    );
    assert!(resolve("review+edit_file", &mine).is_ok());
}

#[test]
fn invalid_environments_are_refused_with_the_reason() {
    let at = |name: &str, directory: &str| EnvironmentEntry { directory: Some(directory.into()), ..entry(name, &[]) };
    let prompted = |name: &str| EnvironmentEntry { system: Some("x".into()), ..entry(name, &[]) };
    let mine = [
        entry("a", &["b"]),
        entry("b", &["a"]),
        entry("odd", &["bsh"]),
        entry("twice", &["coding", "bash"]),
        at("here", "/a"),
        at("there", "/b"),
        prompted("one"),
        prompted("two"),
    ];
    for (text, message) in [
        ("a", "environment a contains itself"),
        ("odd", "in environment odd: unknown environment or tool \"bsh\""),
        ("twice", "in environment twice: coding and bash both provide bash"),
        ("here+there", "here and there both set the directory"),
        ("one+two", "one and two both set the system prompt"),
    ] {
        let error = resolve(text, &mine).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn the_list_shows_valid_and_invalid_environments() {
    let mine = [
        entry("review", &["readonly", "bash"]),
        entry("coding", &["bash"]),
        entry("odd", &["odd"]),
        entry("grep", &["bash"]),
    ];
    let list = EnvironmentNames { entries: &mine, tools: TOOLS }.list();
    let about = |name: &str| {
        list.iter().filter(|(other, _)| other == name).map(|(_, about)| about.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((about("review"), about("coding")), (vec!["readonly+bash"], vec!["bash"]));
    assert!(about("odd")[0].contains("contains itself"));
    assert!(about("grep")[0].contains("the name is already used"));
}

#[test]
fn an_environment_of_the_configuration_replaces_or_extends_the_built_in_one() {
    let tools = |text: &str, mine: &[EnvironmentEntry]| resolve(text, mine).unwrap().tools;
    let fewer = [entry("coding", &["readonly"])];
    assert_eq!((tools("coding", &fewer).len(), tools("coding+bash", &fewer).len()), (12, 13));
    let worktree = resolve("worktree", &fewer).unwrap();
    assert!(worktree.has_worktree && worktree.tools.len() == 12, "it follows coding");
    assert_eq!(tools("readonly", &fewer).len(), 12);
    let more = [entry("readonly", &["readonly", "bash"])];
    assert_eq!((tools("readonly", &more).len(), tools("coding", &more).len()), (13, 20));
    assert!(tools("coding", &[entry("coding", &[])]).is_empty());
    let own = [entry("worktree", &["worktree"]), entry("coding", &["bash"])];
    let found = resolve("worktree", &own).unwrap();
    assert!(found.has_worktree && found.tools == ["bash"]);
    let circle = [entry("coding", &["worktree"]), entry("worktree", &["coding"])];
    assert!(resolve("coding", &circle).is_err());
}

/// Without caching every layer would double the work: 2^60 steps.
#[test]
fn environments_contained_in_many_others_are_resolved_once() {
    let mut mine = vec![entry("a60", &[]), entry("b60", &[]), entry("top", &["a0", "bash"])];
    for n in 0..60 {
        let below = [format!("a{}", n + 1), format!("b{}", n + 1)];
        let below = below.each_ref().map(String::as_str);
        mine.extend(["a", "b"].map(|side| entry(&format!("{side}{n}"), &below)));
    }
    assert_eq!(resolve("top", &mine).unwrap().tools, ["bash"]);
    assert!(EnvironmentNames { entries: &mine, tools: TOOLS }.faults().is_empty());
}
