//! `list`, `show` and `status`: definitions, their contents, and past runs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::files::{is_path, workflow};
use crate::base::error::{Error, Result};
use crate::base::text::{escape_json, sanitise, truncate};
use crate::cli::code;
use crate::cli::config::Loaded;
use crate::cli::config::show::{print, print_errors};
use crate::store::{RunRow, Store};
use crate::team::coordinator::definitions::Definitions;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::settings::unknown;
use crate::team::coordinator::template::Template;
use crate::team::coordinator::workflow::Workflow;

/// How many runs `status` lists.
const MAX_RUNS: usize = 20;

/// Lists templates and workflows; errors of invalid files go to standard error.
pub fn list(definitions: &Definitions) -> u8 {
    let mut out = String::from("templates (polylogue multi-agent run --template NAME TASK)\n");
    for template in &definitions.templates {
        let members: Vec<&str> = template.members.iter().map(|member| member.name.as_str()).collect();
        let how = [template.strategy.map(|how| how.name()), template.aggregation.map(|how| how.name())];
        let how = how.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let file = definitions.file_of_template(&template.name);
        row(&mut out, &template.name, &template.description, &[&members.join(", "), &how], file);
    }
    out.push_str("\nworkflows (polylogue multi-agent run-workflow NAME TASK)\n");
    for workflow in &definitions.workflows {
        let file = definitions.file_of_workflow(&workflow.name);
        row(&mut out, &workflow.name, &workflow.description, &[&layers(workflow)], file);
    }
    if definitions.workflows.is_empty() {
        out.push_str("  none: to add one, write workflows/NAME.toml next to your configuration\n");
    }
    print(&out);
    if print_errors(definitions.errors().map(|error| error.message.as_str())) { code::USAGE } else { code::DONE }
}

fn row(out: &mut String, name: &str, about: &str, more: &[&str], source: Option<&Path>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "  {name:<16} {}", truncate(about, 60));
    let source = source.map(|path| path.display().to_string());
    for line in more.iter().copied().chain(source.as_deref()).filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "  {:<16} {line}", "");
    }
}

/// The order of the steps; those between commas run at the same time.
fn layers(workflow: &Workflow) -> String {
    let name = |at: usize| workflow.steps[at].member.name.as_str();
    let layer = |layer: Vec<usize>| layer.into_iter().map(name).collect::<Vec<_>>().join(", ");
    workflow.layers().into_iter().map(layer).collect::<Vec<_>>().join(" -> ")
}

/// Prints a template or a workflow as a file.
pub fn show(name: &str, definitions: &Definitions) -> Result<u8> {
    if let Some(template) = definitions.templates.iter().find(|template| template.name == name) {
        print(&template_file(template, definitions.file_of_template(name)));
    } else if is_path(name) || definitions.workflows.iter().any(|workflow| workflow.name == name) {
        print(&workflow_file(&workflow(definitions, name)?, definitions.file_of_workflow(name)));
    } else {
        return Err(not_found(name, definitions));
    }
    Ok(code::DONE)
}

fn not_found(name: &str, definitions: &Definitions) -> Error {
    let names = definitions.templates.iter().map(|template| template.name.as_str());
    let names = names.chain(definitions.workflows.iter().map(|workflow| workflow.name.as_str()));
    definitions.with_file_errors(name, unknown("template or workflow", name, name, names))
}

/// Lists the newest stored runs, even while another process holds the store.
pub fn status(loaded: Loaded, is_json: bool) -> Result<u8> {
    let directory = loaded.into_config()?.data_directory;
    let runs = match directory.filter(|directory| Store::exists(directory)) {
        Some(directory) => Store::open_read_only(&directory)?.runs(MAX_RUNS)?,
        None => Vec::new(),
    };
    if is_json {
        let lines: String =
            runs.iter().map(|run| escape_json(&run_object(run).to_string()).into_owned() + "\n").collect();
        // An error means that the reader has gone.
        let _ = std::io::stdout().write_all(lines.as_bytes());
    } else if runs.is_empty() {
        print("no stored runs\n");
    } else {
        print(&runs.iter().map(run_line).collect::<String>());
    }
    Ok(code::DONE)
}

fn run_line(run: &RunRow) -> String {
    let members = run.outcome.as_ref().and_then(|outcome| outcome["results"].as_array());
    let members = members.map_or_else(String::new, |all| {
        let answered = all.iter().filter(|member| member["success"] == true).count();
        format!("{answered} of {} answered", all.len())
    });
    let time = run.ended_at.map_or_else(String::new, |end| format!("{:.1} s", (end - run.started_at) as f64 / 1000.0));
    let how = format!("{} {}", run.strategy, run.aggregation);
    let task = sanitise(run.task.lines().next().unwrap_or_default()).into_owned();
    let task = truncate(&task, 40);
    format!("{:<8} {:<11} {how:<26} {members:<21} {time:>8}  {task}\n", run.run, run.state())
}

fn run_object(run: &RunRow) -> Value {
    json!({
        "run": run.run,
        "state": run.state(),
        "task": run.task,
        "strategy": run.strategy,
        "aggregation": run.aggregation,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "outcome": run.outcome,
    })
}

fn template_file(template: &Template, source: Option<&Path>) -> String {
    let mut out = head(&template.name, &template.description, source);
    let how = [
        ("strategy", template.strategy.map(|how| how.name())),
        ("aggregation", template.aggregation.map(|how| how.name())),
    ];
    how.into_iter().for_each(|(key, value)| entry(&mut out, key, value));
    for member in &template.members {
        out.push_str("\n[[members]]\n");
        entries_of(&mut out, member, ("agent", "role"));
    }
    out
}

fn workflow_file(workflow: &Workflow, source: Option<&Path>) -> String {
    let mut out = format!("# {}\n", layers(workflow)) + &head(&workflow.name, &workflow.description, source);
    entry(&mut out, "aggregation", workflow.aggregation.map(|how| how.name()));
    for step in &workflow.steps {
        out.push_str("\n[[steps]]\n");
        entries_of(&mut out, &step.member, ("as", "prompt"));
        if !step.depends_on.is_empty() {
            let names: Vec<String> =
                step.depends_on.iter().map(|at| toml_string(&workflow.steps[*at].member.name)).collect();
            let _ = writeln!(out, "depends_on = [{}]", names.join(", "));
        }
        if step.is_critical {
            out.push_str("critical = true\n");
        }
    }
    out
}

fn head(name: &str, description: &str, source: Option<&Path>) -> String {
    let mut out = source.map_or_else(String::new, |source| format!("# {}\n", source.display()));
    entry(&mut out, "name", Some(name));
    entry(&mut out, "description", Some(description).filter(|text| !text.is_empty()));
    out
}

fn entries_of(out: &mut String, member: &Member, (definition, role): (&str, &str)) {
    entry(out, "name", Some(&member.name));
    entry(out, definition, member.agent.as_deref());
    entry(out, "model", member.model.as_deref());
    entry(out, role, member.role.as_deref());
}

fn entry(out: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = writeln!(out, "{key} = {}", toml_string(value));
    }
}

/// A TOML string. Every JSON string is one.
fn toml_string(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::coordinator::template::built_in;

    #[test]
    fn a_template_survives_a_round_trip() {
        for template in built_in() {
            let file = template_file(&template, None);
            assert_eq!(Template::parse("x.toml", "x", &file), Ok(template), "{file}");
        }
    }

    #[test]
    fn a_workflow_survives_a_round_trip() {
        let text = "description = \"both \\\"ways\\\"\"\naggregation = \"merge\"\n\
            [[steps]]\nname = \"a\"\nagent = \"testing/validator\"\nprompt = \"line\\nline\"\ncritical = true\n\
            [[steps]]\nname = \"b\"\nmodel = \"echo\"\n\
            [[steps]]\nname = \"c\"\ndepends_on = [\"a\", \"b\"]\n";
        let workflow = Workflow::parse("w.toml", "w", text, &built_in()).expect("a valid workflow");
        let file = workflow_file(&workflow, Some(Path::new("w.toml")));
        assert!(file.starts_with("# a, b -> c\n# w.toml\n"), "{file}");
        assert_eq!(Workflow::parse("x.toml", "x", &file, &[]), Ok(workflow), "{file}");
    }
}
