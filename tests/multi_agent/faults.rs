//! Invalid arguments and files: a message, the nearest name, exit code 2, and no side effects.

use std::fs;

use super::{run, words};
use crate::support::program::Home;

#[test]
fn invalid_arguments_are_refused_before_anything_runs() {
    for (line, told) in [
        ("run", "no task: "),
        ("run --task", "a value is required for '--task"),
        ("run --task a b", "cannot be used with"),
        ("run -", "no task: "),
        ("run a --template testin", "unknown template \"testin\": did you mean testing?"),
        ("run a --strategy paralel", "did you mean parallel?"),
        ("run a --strategy", "a value is required for '--strategy"),
        ("run a --aggregation first-succes", "did you mean first_success?"),
        ("run a --template testing --count 2", "cannot be used with"),
        ("run a --agents x --count 2", "cannot be used with"),
        ("run a --count 101", "too many members: a task has at most 100, not 101"),
        ("run a --count -1", "--count"),
        ("run a --agents x,x", "duplicate member name \"x\""),
        ("run a --agents x:nowhere/big", "x: unknown provider \"nowhere\""),
        ("run a --aggregation select_best --judge nowhere/big", "--judge: unknown provider \"nowhere\""),
        ("run a --judge echo", "a judge needs the aggregation select_best"),
        ("run a --timeout 0", "a number of seconds greater than 0"),
        ("run a --timeut 3", "--timeout"),
        ("run a --model nowhere/big", "nowhere"),
        ("run-workflow", "WORKFLOW"),
        ("run-workflow nothing", "unknown workflow \"nothing\""),
        ("list more", "unexpected argument 'more'"),
        ("show", "NAME"),
        ("show testin", "did you mean testing?"),
        ("status more", "unexpected argument 'more'"),
        ("stat", "unrecognized subcommand 'stat'"),
    ] {
        let home = Home::new();
        let found = run(&home, line);
        assert_eq!((found.code, &*found.out), (2, ""), "{line}: {found:?}");
        assert!(found.err.contains(told), "{line}: {found:?}");
        assert!(!home.data().exists(), "{line} has left something behind");
    }
}

#[test]
fn an_invalid_workflow_is_refused_with_the_position_of_the_error() {
    let step = |name: &str, more: &str| format!("[[steps]]\nname = \"{name}\"\n{more}\n");
    for (file, text, told) in [
        (
            "w.toml",
            step("a", "depends_on = [\"b\"]") + &step("b", "depends_on = [\"a\"]"),
            "w.toml:3: steps[1].depends_on: dependency cycle: a -> b -> a",
        ),
        (
            "w.toml",
            step("a", "") + &step("b", "depends_on = [\"aa\"]"),
            "w.toml:6: steps[2].depends_on: unknown step \"aa\": did you mean a?",
        ),
        ("w.toml", step("a", "") + &step("a", ""), "w.toml:5: steps[2].name: duplicate name \"a\": see steps[1]"),
        ("w.toml", step("a", "depends_on = [\"a\"]"), "w.toml:3: steps[1].depends_on: a cannot depend on itself"),
        ("w.toml", step("a", "agent = \"testing/validater\""), "did you mean validator?"),
        ("w.toml", step("a", "propmt = \"x\""), "w.toml:3: steps[1]: unknown key \"propmt\": did you mean prompt?"),
        ("w.toml", step("a", "model = \"nowhere/big\""), "a: unknown provider \"nowhere\""),
        ("w.toml", "name = \"w\"\n[[steps\n".into(), "w.toml:2: invalid TOML"),
        ("w.toml", String::new(), "a workflow needs at least one step"),
        ("w.json", "{\"steps\": [\n{\"name\": \"a\",}]}".into(), "w.json:2:14: invalid JSON"),
        (
            "w.json",
            "{\"steps\": [{\"name\": \"a\", \"depends_on\": [\"a\"]}]}".into(),
            "w.json: steps[1].depends_on: a cannot depend on itself",
        ),
    ] {
        let home = Home::new();
        fs::write(home.directory.path().join(file), &text).expect("a file");
        let found = home.run(&words(&format!("run-workflow ./{file} do")));
        assert_eq!((found.code, &*found.out), (2, ""), "{text}: {found:?}");
        assert!(found.err.contains(told), "{text}: {found:?}");
        assert!(!home.data().exists(), "{text} has left something behind");
    }
    let found = run(&Home::new(), "run-workflow missing.toml do");
    assert_eq!(found.code, 2, "{found:?}");
    assert!(found.err.contains("missing.toml: no such file"), "{found:?}");
}
