//! Templates and workflows in files of the user, and of a trusted project.

use std::fs;

use serde_json::Value;

use super::{run, split};
use crate::support::peer::Peer;
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
fn a_template_file_replaces_the_built_in_one() {
    let home = Home::new();
    write(&home, ".config/polylogue/templates/testing.toml", &template(&["ann", "bob"]));
    write(&home, ".config/polylogue/templates/duo.json", r#"{"members": [{"name": "eve"}], "strategy": "parallel"}"#);
    let output = run(&home, "run hello --template testing");
    assert_eq!((output.code, &*output.out), (0, "hello\n---\nhello\n"), "{output:?}");
    assert!(output.err.contains("ann answered") && output.err.contains("bob answered"), "{output:?}");
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
fn a_built_in_template_can_be_printed_and_used_as_a_file() {
    let home = Home::new();
    let shown = run(&home, "show code-review").out.replace("name = \"security\"", "name = \"safety\"");
    write(&home, ".config/polylogue/templates/code-review.toml", &shown);
    let output = run(&home, "run hello --template code-review");
    assert_eq!((output.code, &*output.out), (0, "hello\n"), "{output:?}");
    assert!(output.err.contains("safety answered"), "{output:?}");
}

#[test]
fn files_of_a_project_are_used_only_while_trusted_and_unchanged() {
    let home = Home::new();
    write(&home, ".git/HEAD", "");
    write(&home, ".config/polylogue/templates/duo.toml", &template(&["ann"]));
    write(&home, ".polylogue/templates/duo.toml", &template(&["bob"]));
    write(&home, ".polylogue/workflows/flow.toml", "[[steps]]\nname = \"one\"\n");
    let answers = |agent_id: &str| run(&home, "run hello --template duo").err.contains(&format!("{agent_id} answered"));
    assert!(answers("ann"));
    assert_eq!(run(&home, "run-workflow flow hello").code, 2);
    let trusted = home.run(&["config", "trust", "--yes"]);
    assert!(trusted.out.contains("templates/duo.toml") && trusted.out.contains("workflows/flow.toml"), "{trusted:?}");
    assert!(answers("bob"));
    assert_eq!(run(&home, "run-workflow flow hello").out, "hello\n");
    write(&home, ".polylogue/workflows/flow.toml", "[[steps]]\nname = \"two\"\n");
    assert!(answers("ann"), "what has changed is not trusted any more");
}

#[test]
fn an_invalid_file_is_an_error_only_for_its_own_name() {
    let home = Home::new();
    write(&home, ".config/polylogue/templates/bad.toml", "description = 3\n");
    write(&home, ".config/polylogue/workflows/flow.toml", "[[steps]]\nname = \"one\"\n");
    assert_eq!(run(&home, "run-workflow flow hello").code, 0);
    let output = run(&home, "run hello --template bad");
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("bad.toml:1: description: expected a string"), "{output:?}");
    let list = run(&home, "list");
    assert_eq!(list.code, 2, "{list:?}");
    assert!(list.out.contains("flow") && list.err.contains("bad.toml:1"), "{list:?}");
}

#[test]
fn steps_get_the_answers_they_depend_on_and_the_description_is_the_default_task() {
    let home = Home::new();
    let flow = "description = \"Count to two\"\naggregation = \"concatenate\"\n\
        [[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\ndepends_on = [\"one\"]\n";
    write(&home, ".config/polylogue/workflows/count.toml", flow);
    let output = run(&home, "run-workflow count");
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.out.matches("Count to two").count(), 2, "the task, and the answer of one: {output:?}");
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
fn settings_without_an_option_come_from_the_configuration() {
    let home = Home::new();
    let team =
        "[team]\nstrategy = \"pipeline\"\naggregation = \"first-success\"\nagent_timeout = 4\nagent_retries = 0\n";
    write(&home, ".config/polylogue/config.toml", team);
    assert_eq!(run(&home, "run hello").out, "hello\n");
    assert!(run(&home, "status").out.contains("pipeline first_success"));
    assert_eq!(run(&home, "run hello --aggregation concatenate --count 2").out, "hello\n---\nhello\n");
    assert_eq!(run(&home, "run hello --template code-review").code, 0);
    assert!(run(&home, "status").out.lines().next().is_some_and(|line| line.contains("parallel merge")));
    let output = run(&home, "run %hang --count 1");
    assert!(output.code == 4 && output.err.contains("timed out after 4 s"), "{output:?}");
    write(&home, ".config/polylogue/config.toml", "[team]\nstrategy = \"paralel\"\n");
    let output = run(&home, "run hello");
    assert!(
        output.code != 0 && output.err.contains("team.strategy: expected one of sequential, parallel"),
        "{output:?}"
    );
}

#[test]
fn a_step_works_as_a_definition_says() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    write(
        &home,
        ".config/polylogue/agents/critic.md",
        "---\ndescription: x\ntools: [read_file]\npolicy: plan\n---\nYou are the critic.\n",
    );
    write(&home, "flow.toml", "[[steps]]\nname = \"look\"\nas = \"critic\"\nprompt = \"Look at names.\"\n");
    let program = home.start(&split("run-workflow ./flow.toml do"));
    let exchange = peer.accept();
    let request: Value = exchange.request().json();
    let system = request["messages"][0]["content"].as_str().expect("a system prompt");
    assert!(system.starts_with("You are the critic.\n\nLook at names.\n\n"), "{system}");
    let tools: Vec<&Value> =
        request["tools"].as_array().expect("tools").iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(tools, ["read_file"]);
    exchange.stream().text("fine").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, &*output.out), (0, "fine\n"), "{output:?}");
    assert!(run(&home, "show ./flow.toml").out.contains("as = \"critic\""));
    write(&home, "flow.toml", "[[steps]]\nname = \"look\"\nas = \"critc\"\n");
    let output = run(&home, "run-workflow ./flow.toml do");
    assert!(output.code == 2 && output.err.contains("did you mean critic?"), "{output:?}");
}
