//! Workflows: steps that depend on one another, checked completely before anything runs.
//!
//! ```toml
//! description = "Plan, do, check"
//! aggregation = "concatenate"          # of the steps on which no other step depends
//!
//! [[steps]]
//! name = "plan"
//! agent = "refactor/planner"           # the role of a template's member; a prompt is appended to it
//! as = "critic"                        # a definition: its prompt, tools, model and policy
//! critical = true                      # without its answer, dependent steps are skipped
//!
//! [[steps]]
//! name = "do"
//! prompt = "Carry out the plan."
//! model = "provider/model"
//! depends_on = ["plan"]                # is given their answers
//! ```
//! JSON of the same structure is accepted, too. Each step is a member of the run. The caller reads the file.

use serde_json::{Value, json};

use super::document::{Document, Table};
use super::member::{Member, NAME_RULE, is_name};
use super::schedule::StepNode;
use super::settings::{Aggregation, MAX_MEMBERS, unknown};
use super::template::{self, Template};
use crate::base::error::{Error, Result};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowStep {
    /// The member that does it, with the name of the step.
    pub member: Member,
    /// The indices of the steps whose answers it gets.
    pub depends_on: Vec<usize>,
    /// From 0: the steps of a layer run in parallel after all lower layers.
    pub layer: usize,
    /// Whether dependent steps are skipped if it gives no answer.
    pub is_critical: bool,
}

/// Steps without cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    /// The name on the command line.
    pub name: String,
    /// Its purpose, in one line.
    pub description: String,
    /// How the answers of the last steps are combined, if the file says so.
    pub aggregation: Option<Aggregation>,
    /// In the order of the file.
    pub steps: Vec<WorkflowStep>,
}

impl Workflow {
    /// Parses a workflow. `file` is used in errors, `name` if the file gives no name; `templates` contain the roles
    /// that steps refer to.
    ///
    /// # Errors
    /// The workflow is invalid; the message names the position.
    pub fn parse(file: &str, name: &str, text: &str, templates: &[Template]) -> Result<Self> {
        let document = Document::parse(file, text)?;
        let table = document.table();
        table.only(&["name", "description", "aggregation", "steps"])?;
        let name = template::name_of(&table, name)?;
        let description = table.text("description")?.unwrap_or_default().to_owned();
        let aggregation = table.parsed("aggregation")?;
        let tables = table.tables("steps")?;
        match tables.len() {
            0 => return Err(table.error("steps", "a workflow needs at least one step: [[steps]]")),
            1..=MAX_MEMBERS => {}
            count => {
                let message = format!("too many steps: a workflow has at most {MAX_MEMBERS}, not {count}");
                return Err(table.error("steps", &message));
            }
        }
        let mut steps = tables.iter().map(|table| step(table, templates)).collect::<Result<Vec<_>>>()?;
        connect(&mut steps, &tables)?;
        assign_layers(&mut steps, &tables)?;
        Ok(Self { name, description, aggregation, steps })
    }

    /// The default task: the purpose of the workflow.
    pub fn default_task(&self) -> &str {
        if self.description.is_empty() { &self.name } else { &self.description }
    }

    /// One member for each step.
    pub fn members(&self) -> Vec<Member> {
        self.steps.iter().map(|step| step.member.clone()).collect()
    }

    /// The indices of the steps of each layer, in the order in which the layers run.
    pub fn layers(&self) -> Vec<Vec<usize>> {
        let count = self.steps.iter().map(|step| step.layer + 1).max().unwrap_or(0);
        let of = |layer| (0..self.steps.len()).filter(|at| self.steps[*at].layer == layer).collect();
        (0..count).map(of).collect()
    }

    /// The workflow as a file would have it, in JSON.
    pub fn to_json(&self) -> Value {
        let step = |step: &WorkflowStep| {
            let Member { name, model, role, agent } = &step.member;
            let needed: Vec<&str> = step.depends_on.iter().map(|at| self.steps[*at].member.name.as_str()).collect();
            without_null(json!({
                "name": name, "as": agent, "prompt": role, "model": model, "depends_on": needed, "critical": step.is_critical,
            }))
        };
        let description = Some(&self.description).filter(|description| !description.is_empty());
        without_null(json!({
            "name": self.name,
            "description": description,
            "aggregation": self.aggregation.map(Aggregation::name),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        }))
    }

    pub(super) fn nodes(&self) -> Vec<StepNode> {
        let node = |step: &WorkflowStep| StepNode {
            layer: step.layer,
            depends_on: step.depends_on.clone(),
            is_critical: step.is_critical,
        };
        self.steps.iter().map(node).collect()
    }
}

/// A key without a value is left out of a file.
fn without_null(mut value: Value) -> Value {
    value.as_object_mut().into_iter().for_each(|table| table.retain(|_, value| !value.is_null()));
    value
}

/// Reads one step without its dependencies.
fn step(table: &Table<'_>, templates: &[Template]) -> Result<WorkflowStep> {
    table.only(&["name", "agent", "as", "prompt", "model", "depends_on", "critical"])?;
    let name = table.text("name")?.ok_or_else(|| table.error("name", "a step needs a name"))?;
    if !is_name(name) {
        return Err(table.error("name", &format!("invalid name {name:?}: {NAME_RULE}")));
    }
    let agent = table.text("agent")?.map(|agent| template_member(table, agent, templates)).transpose()?;
    let prompt = table.text("prompt")?;
    let role = match (agent.and_then(|member| member.role.as_deref()), prompt) {
        (Some(role), Some(prompt)) => Some(format!("{role}\n\n{prompt}")),
        (role, prompt) => role.or(prompt).map(str::to_owned),
    };
    let model = table.text("model")?.map(str::to_owned).or_else(|| agent.and_then(|member| member.model.clone()));
    let definition = table.text("as")?.map(str::to_owned).or_else(|| agent.and_then(|member| member.agent.clone()));
    let member = Member { name: name.to_owned(), model, role, agent: definition };
    Ok(WorkflowStep { member, depends_on: Vec::new(), layer: 0, is_critical: table.boolean("critical")? })
}

/// Finds `template/member`.
fn template_member<'t>(table: &Table<'_>, agent: &str, templates: &'t [Template]) -> Result<&'t Member> {
    let in_table = |error: Error| table.error("agent", &error.message);
    let Some((template, member)) = agent.split_once('/') else {
        return Err(table.error("agent", &format!("expected TEMPLATE/MEMBER (got {agent:?})")));
    };
    let template = template::find(templates, template).map_err(in_table)?;
    let found = template.members.iter().find(|candidate| candidate.name == member);
    let names = template.members.iter().map(|candidate| candidate.name.as_str());
    found.ok_or_else(|| in_table(unknown(&format!("member of {}", template.name), member, member, names)))
}

/// Resolves `depends_on`.
fn connect(steps: &mut [WorkflowStep], tables: &[Table<'_>]) -> Result<()> {
    let names: Vec<String> = steps.iter().map(|step| step.member.name.clone()).collect();
    for (at, table) in tables.iter().enumerate() {
        if let Some(first) = names[..at].iter().position(|name| *name == names[at]) {
            return Err(table.error("name", &format!("duplicate name {:?}: see steps[{}]", names[at], first + 1)));
        }
        for wanted in table.texts("depends_on")? {
            let found = names.iter().position(|name| name == wanted).ok_or_else(|| {
                let message = unknown("step", wanted, wanted, names.iter().map(String::as_str)).message;
                table.error("depends_on", &message)
            })?;
            if found == at {
                return Err(table.error("depends_on", &format!("{wanted} cannot depend on itself")));
            }
            if !steps[at].depends_on.contains(&found) {
                steps[at].depends_on.push(found);
            }
        }
    }
    Ok(())
}

/// Puts each step into the lowest layer above all of its dependencies (Kahn 1962, layer by layer).
fn assign_layers(steps: &mut [WorkflowStep], tables: &[Table<'_>]) -> Result<()> {
    let mut is_assigned = vec![false; steps.len()];
    for layer in 0..=steps.len() {
        let is_ready =
            |at: &usize| !is_assigned[*at] && steps[*at].depends_on.iter().all(|before| is_assigned[*before]);
        let next: Vec<usize> = (0..steps.len()).filter(is_ready).collect();
        for at in &next {
            (is_assigned[*at], steps[*at].layer) = (true, layer);
        }
        if next.is_empty() {
            break;
        }
    }
    match is_assigned.iter().position(|is_assigned| !is_assigned) {
        None => Ok(()),
        Some(start) => {
            let cycle = cycle(steps, &is_assigned, start);
            let names: Vec<&str> = cycle.iter().map(|at| steps[*at].member.name.as_str()).collect();
            let message = format!("dependency cycle: {}", names.join(" -> "));
            Err(tables[cycle[0]].error("depends_on", &message))
        }
    }
}

/// A cycle that is reached from `start`, from a step to itself. Every step without a layer depends on another one without.
fn cycle(steps: &[WorkflowStep], is_assigned: &[bool], start: usize) -> Vec<usize> {
    let (mut path, mut at) = (Vec::new(), start);
    while !path.contains(&at) {
        path.push(at);
        at = steps[at].depends_on.iter().copied().find(|before| !is_assigned[*before]).unwrap_or(at);
    }
    let first = path.iter().position(|step| *step == at).unwrap_or(0);
    path.push(at);
    path.split_off(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Workflow> {
        Workflow::parse("w.toml", "w", text, &template::built_in())
    }

    /// `a<b,c` is a step `a` that depends on `b` and `c`.
    fn steps(list: &str) -> String {
        let step = |step: &str| {
            let (name, before) = step.split_once('<').unwrap_or((step, ""));
            let before: Vec<String> =
                before.split(',').filter(|name| !name.is_empty()).map(|name| format!("{name:?}")).collect();
            format!("[[steps]]\nname = {name:?}\ndepends_on = [{}]\n", before.join(", "))
        };
        list.split(' ').map(step).collect()
    }

    #[test]
    fn layers_follow_the_longest_path() {
        let workflow = parse(&steps("end<left,right left<top right<left,top top alone")).expect("valid");
        assert_eq!(workflow.layers(), [vec![3, 4], vec![1], vec![2], vec![0]]);
        assert_eq!(workflow.steps[0].depends_on, [1, 2]);
    }

    #[test]
    fn all_keys_are_parsed_from_toml_and_json() {
        let toml = r#"
            description = "d"
            aggregation = "vote"
            [[steps]]
            name = "plan"
            agent = "refactor/planner"
            prompt = "Be short."
            critical = true
            [[steps]]
            name = "do"
            prompt = "Do it."
            model = "work/big"
            depends_on = ["plan", "plan"]
        "#;
        let json = r#"{"description":"d","aggregation":"vote","steps":[
            {"name":"plan","agent":"refactor/planner","prompt":"Be short.","critical":true},
            {"name":"do","prompt":"Do it.","model":"work/big","depends_on":["plan"]}]}"#;
        let workflow = parse(toml).expect("valid");
        assert_eq!(parse(json).as_ref(), Ok(&workflow));
        assert_eq!((workflow.name.as_str(), workflow.aggregation), ("w", Some(Aggregation::Vote)));
        let [plan, act] = &workflow.steps[..] else { panic!("two steps") };
        let role = plan.member.role.as_deref().expect("it has a role");
        assert!(role.len() > 100 && role.ends_with("\n\nBe short.") && plan.is_critical && !act.is_critical);
        assert_eq!(
            act.member,
            Member { name: "do".into(), model: Some("work/big".into()), role: Some("Do it.".into()), agent: None }
        );
    }

    #[test]
    fn invalid_workflows_are_errors_with_a_position() {
        for (text, expected) in [
            (String::new(), "w.toml:1: steps: a workflow needs at least one step: [[steps]]"),
            ("steps = []".into(), "w.toml:1: steps: a workflow needs"),
            (steps("a b<a c<bb"), "w.toml:9: steps[3].depends_on: unknown step \"bb\": did you mean b?"),
            (steps("a a<b b"), "w.toml:5: steps[2].name: duplicate name \"a\": see steps[1]"),
            (steps("a b<b"), "w.toml:6: steps[2].depends_on: b cannot depend on itself"),
            (steps("a<b b<a"), "w.toml:3: steps[1].depends_on: dependency cycle: a -> b -> a"),
            (steps("x<a a<b b<c c<a y"), "w.toml:6: steps[2].depends_on: dependency cycle: a -> b -> c -> a"),
            ("[[steps]]\nprompt = \"p\"".into(), "w.toml:1: steps[1].name: a step needs a name"),
            (steps("a:b"), "w.toml:2: steps[1].name: invalid name"),
            (
                "[[steps]]\nname = \"a\"\nagent = \"planner\"".into(),
                "w.toml:3: steps[1].agent: expected TEMPLATE/MEMBER",
            ),
            ("[[steps]]\nname = \"a\"\nagent = \"refacto/planner\"".into(), "did you mean refactor?"),
            ("[[steps]]\nname = \"a\"\nagent = \"refactor/plane\"".into(), "did you mean planner?"),
            ("[[steps]]\nname = \"a\"\ndepend_on = []".into(), "did you mean depends_on?"),
            ("[[steps]]\nname = \"a\"\ncritical = 1".into(), "w.toml:3: steps[1].critical: expected true or false"),
            (
                "aggregation = \"votes\"\n".to_owned() + &steps("a"),
                "w.toml:1: aggregation: unknown aggregation \"votes\": did you mean vote?",
            ),
            ("steps = [".into(), "w.toml:1: invalid TOML"),
        ] {
            let message = parse(&text).unwrap_err().message;
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn at_most_100_steps() {
        let row = |count: usize| -> Vec<String> {
            (0..count).map(|n| if n == 0 { "s0".into() } else { format!("s{n}<s{}", n - 1) }).collect()
        };
        assert_eq!(parse(&steps(&row(100).join(" "))).expect("valid").layers().len(), 100);
        assert!(parse(&steps(&row(101).join(" "))).unwrap_err().message.contains("at most 100"));
    }

    #[test]
    fn random_graphs_are_layered_or_a_true_cycle_is_named() {
        for seed in 1..400 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let count = 1 + rng.usize(..7);
            let list: Vec<String> = (0..count)
                .map(|at| {
                    let others = (0..count).filter(|other| *other != at && rng.usize(..5) == 0);
                    let before: Vec<String> = others.map(|other| format!("s{other}")).collect();
                    format!("s{at}<{}", before.join(","))
                })
                .collect();
            match parse(&steps(&list.join(" "))) {
                Ok(workflow) => {
                    for step in &workflow.steps {
                        let highest = step.depends_on.iter().map(|before| workflow.steps[*before].layer + 1).max();
                        assert_eq!(step.layer, highest.unwrap_or(0), "{list:?}");
                    }
                }
                Err(error) => {
                    let (_, path) = error.message.rsplit_once(": ").expect("it ends with the path");
                    let path: Vec<&str> = path.split(" -> ").collect();
                    assert_eq!(path.first(), path.last(), "{list:?}: {error}");
                    for pair in path.windows(2) {
                        let at: usize = pair[0][1..].parse().expect("a number");
                        let before = list[at].split_once('<').expect("all have one").1;
                        assert!(before.split(',').any(|name| name == pair[1]), "{list:?}: {error}");
                    }
                }
            }
        }
    }
}
