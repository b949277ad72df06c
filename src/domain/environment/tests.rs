//! Specifications of environments as people write them: what they mean, how they are printed, where they are wrong.

use super::*;

const TOOLS: &[&str] = &[
    "bash",
    "read_file",
    "write_file",
    "edit_file",
    "glob",
    "grep",
    "list_dir",
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

fn meaning(text: &str, entries: &[EnvironmentEntry]) -> Result<ResolvedSpec, String> {
    let names = EnvironmentNames { entries, tools: TOOLS };
    text.parse::<EnvironmentSpec>().and_then(|spec| names.resolve(&spec)).map_err(|error| error.message)
}

#[test]
fn what_can_be_read_is_printed_as_it_was_written() {
    for text in ["coding", "readonly+bash", "chat+grep@/a", "worktree@~/x y", "coding@../c++@home", "a-b+c_d"] {
        assert_eq!(text.parse::<EnvironmentSpec>().unwrap().to_string(), text);
    }
    assert_eq!("coding@../c++@home".parse::<EnvironmentSpec>().unwrap().directory.as_deref(), Some("../c++@home"));
}

#[test]
fn what_cannot_be_read_is_refused_at_its_character() {
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
        let words = text.parse::<EnvironmentSpec>().unwrap_err().message;
        assert!(words.starts_with(&format!("character {at}: ")), "{text:?}: {words}");
    }
}

#[test]
fn every_built_in_environment_has_the_tools_of_those_before_it_and_more() {
    let count = |name: &str| meaning(name, &[]).unwrap().tools.len();
    assert_eq!(["none", "chat", "readonly", "coding", "worktree"].map(count), [0, 7, 11, 14, 14]);
    assert!(meaning("worktree", &[]).unwrap().has_worktree && !meaning("coding", &[]).unwrap().has_worktree);
    assert!(meaning("coding", &[]).unwrap().tools.iter().all(|tool| TOOLS.contains(&tool.as_str())));
}

#[test]
fn parts_are_added_up() {
    assert_eq!(meaning("bash+grep", &[]).unwrap().tools, ["bash", "grep"]);
    assert_eq!(meaning("readonly+bash", &[]).unwrap().tools.len(), 12);
    assert_eq!(meaning("none+bash", &[]).unwrap().tools, ["bash"]);
}

#[test]
fn a_tool_that_is_provided_twice_names_both_parts_and_the_one_to_leave_out() {
    for (text, words) in [
        ("readonly+coding", "character 10: readonly and coding both provide fork: leave readonly out"),
        ("coding+bash", "character 8: coding and bash both provide bash: leave bash out"),
        ("grep+chat+readonly", "character 11: grep and readonly both provide grep: leave grep out"),
        ("bash+bash", "character 6: bash is named twice"),
        ("none+none", "character 6: none is named twice"),
        ("coding+bsh", "character 8: there is no environment or tool called \"bsh\": /env list shows them"),
    ] {
        assert_eq!(meaning(text, &[]).unwrap_err(), words);
    }
    let mine = [entry("left", &["bash", "grep"]), entry("right", &["bash", "glob"])];
    let words = meaning("left+right", &mine).unwrap_err();
    assert_eq!(words, "character 6: left and right both provide bash: leave one of them out, or name tools one by one");
}

#[test]
fn an_environment_of_the_persons_own_may_be_made_of_others() {
    let review = EnvironmentEntry {
        directory: Some("/src".into()),
        system: Some("You review.".into()),
        ..entry("review", &["looking", "bash"])
    };
    let mine = [entry("looking", &["readonly"]), review];
    let found = meaning("review", &mine).unwrap();
    assert_eq!(
        (found.tools.len(), found.directory, found.system),
        (12, Some("/src".into()), Some("You review.".into()))
    );
    assert!(meaning("review+edit_file", &mine).is_ok());
}

#[test]
fn environments_that_make_no_sense_are_refused_in_words() {
    let at = |name: &str, directory: &str| EnvironmentEntry { directory: Some(directory.into()), ..entry(name, &[]) };
    let told = |name: &str| EnvironmentEntry { system: Some("x".into()), ..entry(name, &[]) };
    let mine = [
        entry("a", &["b"]),
        entry("b", &["a"]),
        entry("odd", &["bsh"]),
        entry("twice", &["coding", "bash"]),
        at("here", "/a"),
        at("there", "/b"),
        told("one"),
        told("two"),
    ];
    for (text, words) in [
        ("a", "the environment a contains itself"),
        ("odd", "in the environment odd: there is no environment or tool called \"bsh\""),
        ("twice", "in the environment twice: coding and bash both provide bash"),
        ("here+there", "here and there both say where to work"),
        ("one+two", "one and two both say what the model is told"),
    ] {
        let told = meaning(text, &mine).unwrap_err();
        assert!(told.contains(words), "{text}: {told}");
    }
}

#[test]
fn the_list_shows_what_can_be_had_and_what_cannot() {
    let mine = [entry("review", &["readonly", "bash"]), entry("coding", &["bash"]), entry("odd", &["odd"])];
    let list = EnvironmentNames { entries: &mine, tools: TOOLS }.list();
    let about = |at: usize| list[BUILT_IN.len() + at].1.as_str();
    assert_eq!(about(0), "readonly+bash");
    assert!(about(1).contains("the name means something else"));
    assert!(about(2).contains("contains itself"));
}

/// Without a memory every layer doubles the work: nobody waits for 2^60 steps.
#[test]
fn environments_that_are_part_of_many_others_are_looked_into_once() {
    let mut mine = vec![entry("a60", &[]), entry("b60", &[]), entry("top", &["a0", "bash"])];
    for n in 0..60 {
        let below = [format!("a{}", n + 1), format!("b{}", n + 1)];
        let below = below.each_ref().map(String::as_str);
        mine.extend(["a", "b"].map(|side| entry(&format!("{side}{n}"), &below)));
    }
    assert_eq!(meaning("top", &mine).unwrap().tools, ["bash"]);
    assert!(EnvironmentNames { entries: &mine, tools: TOOLS }.faults().is_empty());
}
