//! Templates and workflows in files: the person's own, and a project's once it is trusted.

use std::fs;

use super::run;
use crate::support::program::Home;

fn write(home: &Home, below: &str, text: &str) {
    let path = home.directory.path().join(below);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, text).expect("a file");
}

fn template(members: &[&str]) -> String {
    let member = |name: &&str| format!("[[members]]\nname = \"{name}\"\nrole = \"You are {name}.\"\n");
    "description = \"mine\"\n".to_owned() + &members.iter().map(member).collect::<String>()
}

#[test]
fn a_template_in_a_file_stands_in_for_the_built_in_one_and_can_be_shown_and_listed() {
    let home = Home::new();
    write(&home, ".config/polylogue/templates/testing.toml", &template(&["ann", "bob"]));
    write(&home, ".config/polylogue/templates/duo.json", r#"{"members": [{"name": "eve"}], "strategy": "parallel"}"#);
    let told = run(&home, "run hello --template testing");
    assert_eq!((told.code, &*told.out), (0, "hello\n---\nhello\n"), "{told:?}");
    assert!(told.err.contains("ann has answered") && told.err.contains("bob has answered"), "{told:?}");
    assert_eq!(run(&home, "run hello --template duo").out, "hello\n");
    let list = run(&home, "list");
    assert_eq!(list.code, 0, "{list:?}");
    for part in ["code-review", "ann, bob", "templates/testing.toml", "duo", "parallel", "workflows (", "none:"] {
        assert!(list.out.contains(part), "{part}: {list:?}");
    }
    assert!(!list.out.contains("test-writer"), "{list:?}");
    let shown = run(&home, "show testing");
    assert!(shown.out.contains("role = \"You are bob.\"") && shown.out.starts_with("# "), "{shown:?}");
}

#[test]
fn what_is_shown_of_a_built_in_template_is_a_file_that_can_be_used() {
    let home = Home::new();
    let shown = run(&home, "show code-review").out.replace("name = \"security\"", "name = \"safety\"");
    write(&home, ".config/polylogue/templates/code-review.toml", &shown);
    let told = run(&home, "run hello --template code-review");
    assert_eq!((told.code, &*told.out), (0, "hello\n"), "{told:?}");
    assert!(told.err.contains("safety has answered"), "{told:?}");
}

#[test]
fn the_projects_files_are_used_once_they_are_trusted_and_not_when_one_has_changed() {
    let home = Home::new();
    write(&home, ".git/HEAD", "");
    write(&home, ".config/polylogue/templates/duo.toml", &template(&["ann"]));
    write(&home, ".polylogue/templates/duo.toml", &template(&["bob"]));
    write(&home, ".polylogue/workflows/flow.toml", "[[steps]]\nname = \"one\"\n");
    let answers =
        |agent_id: &str| run(&home, "run hello --template duo").err.contains(&format!("{agent_id} has answered"));
    assert!(answers("ann"));
    assert_eq!(run(&home, "run-workflow flow hello").code, 2);
    let trusted = home.run(&["config", "trust"]);
    assert!(trusted.out.contains("templates/duo.toml") && trusted.out.contains("workflows/flow.toml"), "{trusted:?}");
    assert!(answers("bob"));
    assert_eq!(run(&home, "run-workflow flow hello").out, "hello\n");
    write(&home, ".polylogue/workflows/flow.toml", "[[steps]]\nname = \"two\"\n");
    assert!(answers("ann"), "what has changed is not trusted any more");
}

#[test]
fn a_faulty_file_is_told_where_it_is_wanted_and_does_not_stop_others() {
    let home = Home::new();
    write(&home, ".config/polylogue/templates/bad.toml", "description = 3\n");
    write(&home, ".config/polylogue/workflows/flow.toml", "[[steps]]\nname = \"one\"\n");
    assert_eq!(run(&home, "run-workflow flow hello").code, 0);
    let told = run(&home, "run hello --template bad");
    assert_eq!(told.code, 2, "{told:?}");
    assert!(told.err.contains("bad.toml:1: description: expected a string"), "{told:?}");
    let list = run(&home, "list");
    assert_eq!(list.code, 2, "{list:?}");
    assert!(list.out.contains("flow") && list.err.contains("bad.toml:1"), "{list:?}");
}

#[test]
fn steps_of_a_workflow_are_given_the_answers_on_which_they_depend_and_its_description_is_the_usual_task() {
    let home = Home::new();
    let flow = "description = \"Count to two\"\naggregation = \"concatenate\"\n\
        [[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\ndepends_on = [\"one\"]\n";
    write(&home, ".config/polylogue/workflows/count.toml", flow);
    let told = run(&home, "run-workflow count");
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(told.out.matches("Count to two").count(), 2, "the task, and the answer of one: {told:?}");
    let shown = run(&home, "show count");
    assert!(shown.out.starts_with("# one -> two\n") && shown.out.contains("depends_on = [\"one\"]"), "{shown:?}");
    let list = run(&home, "list").out;
    assert!(list.contains("Count to two") && list.contains("one -> two"), "{list}");
}

#[test]
fn the_example_in_the_help_is_a_workflow() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_polylogue")).args(["help", "workflows"]).output();
    let help = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
    let verbatim = help.lines().skip_while(|line| !line.contains("aggregation = "));
    let verbatim = verbatim.take_while(|line| line.is_empty() || line.starts_with("    "));
    let example = verbatim.map(|line| format!("{}\n", line.trim_start())).collect::<String>();
    let home = Home::new();
    write(&home, "flow.toml", &example);
    assert!(run(&home, "show ./flow.toml").out.starts_with("# plan -> make\n"));
    assert_eq!(run(&home, "run-workflow ./flow.toml do").code, 0);
}

#[test]
fn what_the_command_line_and_the_template_do_not_say_is_as_it_is_configured() {
    let home = Home::new();
    let team =
        "[team]\nstrategy = \"pipeline\"\naggregation = \"first-success\"\nagent_timeout = 0.2\nagent_retries = 0\n";
    write(&home, ".config/polylogue/config.toml", team);
    assert_eq!(run(&home, "run hello").out, "hello\n");
    assert!(run(&home, "status").out.contains("pipeline first_success"));
    assert_eq!(run(&home, "run hello --aggregation concatenate --count 2").out, "hello\n---\nhello\n");
    assert_eq!(run(&home, "run hello --template code-review").code, 0);
    assert!(run(&home, "status").out.lines().next().is_some_and(|line| line.contains("parallel merge")));
    let told = run(&home, "run !hang --count 1");
    assert!(told.code == 4 && told.err.contains("timed out after 0.2 s"), "{told:?}");
    write(&home, ".config/polylogue/config.toml", "[team]\nstrategy = \"paralel\"\n");
    let told = run(&home, "run hello");
    assert!(told.code != 0 && told.err.contains("team.strategy: expected one of sequential, parallel"), "{told:?}");
}
