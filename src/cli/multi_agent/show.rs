//! `list`, `show` and `status`: what there is to run, what stands in it, and what was run.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::files::{Shelf, is_path};
use crate::base::error::{Error, Result};
use crate::base::text::{sanitise, truncate};
use crate::cli::code;
use crate::cli::config::Loaded;
use crate::cli::config::show::{complain_of, print};
use crate::store::{RunRow, Store};
use crate::team::coordinator::member::Member;
use crate::team::coordinator::settings::unknown;
use crate::team::coordinator::template::Template;
use crate::team::coordinator::workflow::Workflow;

/// Runs that are listed.
const NEWEST: usize = 20;

/// Lists templates and workflows; what is wrong with files goes to the standard error.
pub fn list(shelf: &Shelf) -> u8 {
    let mut out = String::from("templates (polylogue multi-agent run --template NAME TASK)\n");
    for one in &shelf.templates {
        let members: Vec<&str> = one.members.iter().map(|member| member.name.as_str()).collect();
        let how = [one.strategy.map(|how| how.name()), one.aggregation.map(|how| how.name())];
        let how = how.into_iter().flatten().collect::<Vec<_>>().join(", ");
        row(&mut out, &one.name, &one.description, &[&members.join(", "), &how], shelf.source_of_template(&one.name));
    }
    out.push_str("\nworkflows (polylogue multi-agent run-workflow NAME TASK)\n");
    for one in &shelf.workflows {
        row(&mut out, &one.name, &one.description, &[&layers(one)], shelf.source_of_workflow(&one.name));
    }
    if shelf.workflows.is_empty() {
        out.push_str("  none: workflows/NAME.toml beside your configuration is one\n");
    }
    print(&out);
    if complain_of(shelf.faults().map(|fault| fault.message.as_str())) { code::USAGE } else { code::DONE }
}

fn row(out: &mut String, name: &str, about: &str, more: &[&str], source: Option<&Path>) {
    // A string takes everything.
    let _ = writeln!(out, "  {name:<16} {}", truncate(about, 60));
    let source = source.map(|path| path.display().to_string());
    for line in more.iter().copied().chain(source.as_deref()).filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "  {:<16} {line}", "");
    }
}

/// Which steps work at once, and in which order.
fn layers(workflow: &Workflow) -> String {
    let name = |at: usize| workflow.steps[at].member.name.as_str();
    let layer = |layer: Vec<usize>| layer.into_iter().map(name).collect::<Vec<_>>().join(", ");
    workflow.layers().into_iter().map(layer).collect::<Vec<_>>().join(" -> ")
}

/// Prints a template or a workflow as a file would have it.
pub fn show(name: &str, shelf: &Shelf) -> Result<u8> {
    if let Some(template) = shelf.templates.iter().find(|one| one.name == name) {
        print(&template_file(template, shelf.source_of_template(name)));
    } else if is_path(name) || shelf.workflows.iter().any(|one| one.name == name) {
        print(&workflow_file(&shelf.workflow(name)?, shelf.source_of_workflow(name)));
    } else {
        return Err(neither(name, shelf));
    }
    Ok(code::DONE)
}

fn neither(name: &str, shelf: &Shelf) -> Error {
    let names = shelf.templates.iter().map(|one| one.name.as_str());
    let names = names.chain(shelf.workflows.iter().map(|one| one.name.as_str()));
    shelf.explained(name, unknown("template or workflow", name, name, names))
}

/// Lists the newest runs that are kept, also while another polylogue holds the store.
pub fn status(loaded: Loaded, is_json: bool) -> Result<u8> {
    let directory = loaded.into_config()?.data_directory;
    let runs = match directory.filter(|directory| Store::exists(directory)) {
        Some(directory) => Store::open_read_only(&directory)?.runs(NEWEST)?,
        None => Vec::new(),
    };
    if is_json {
        let lines: String = runs.iter().map(|run| run_object(run).to_string() + "\n").collect();
        // As it is: what reads this is no terminal. Whoever closed the pipe has read enough.
        let _ = std::io::stdout().write_all(lines.as_bytes());
    } else if runs.is_empty() {
        print("no runs are kept\n");
    } else {
        print(&runs.iter().map(run_line).collect::<String>());
    }
    Ok(code::DONE)
}

fn run_line(run: &RunRow) -> String {
    let members = run.outcome.as_ref().and_then(|outcome| outcome["results"].as_array());
    let members = members.map_or_else(String::new, |all| {
        let answered = all.iter().filter(|one| one["success"] == true).count();
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
        entries_of(&mut out, member, "role");
    }
    out
}

fn workflow_file(workflow: &Workflow, source: Option<&Path>) -> String {
    let mut out = format!("# {}\n", layers(workflow)) + &head(&workflow.name, &workflow.description, source);
    entry(&mut out, "aggregation", workflow.aggregation.map(|how| how.name()));
    for step in &workflow.steps {
        out.push_str("\n[[steps]]\n");
        entries_of(&mut out, &step.member, "prompt");
        if !step.depends_on.is_empty() {
            let names: Vec<String> =
                step.depends_on.iter().map(|at| quoted(&workflow.steps[*at].member.name)).collect();
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

fn entries_of(out: &mut String, member: &Member, role: &str) {
    entry(out, "name", Some(&member.name));
    entry(out, "model", member.model.as_deref());
    entry(out, role, member.role.as_deref());
}

fn entry(out: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = writeln!(out, "{key} = {}", quoted(value));
    }
}

/// A text as TOML has it: what JSON escapes, TOML does likewise.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::coordinator::template::built_in;

    #[test]
    fn what_is_shown_of_a_template_reads_back_as_the_same() {
        for template in built_in() {
            let file = template_file(&template, None);
            assert_eq!(Template::parse("x.toml", "x", &file), Ok(template), "{file}");
        }
    }

    #[test]
    fn what_is_shown_of_a_workflow_reads_back_as_the_same() {
        let text = "description = \"both \\\"ways\\\"\"\naggregation = \"merge\"\n\
            [[steps]]\nname = \"a\"\nagent = \"testing/validator\"\nprompt = \"line\\nline\"\ncritical = true\n\
            [[steps]]\nname = \"b\"\nmodel = \"echo\"\n\
            [[steps]]\nname = \"c\"\ndepends_on = [\"a\", \"b\"]\n";
        let workflow = Workflow::parse("w.toml", "w", text, &built_in()).expect("it is one");
        let file = workflow_file(&workflow, Some(Path::new("w.toml")));
        assert!(file.starts_with("# a, b -> c\n# w.toml\n"), "{file}");
        assert_eq!(Workflow::parse("x.toml", "x", &file, &[]), Ok(workflow), "{file}");
    }
}
