//! Workflows: steps that hang on one another, checked whole before anything runs.
//!
//! ```toml
//! description = "Plan, do, look"
//! aggregation = "concatenate"          # of the steps on which no other depends
//!
//! [[steps]]
//! name = "plan"
//! agent = "refactor/planner"           # the role of a template's member; a prompt stands behind it
//! critical = true                      # without its answer, those who depend on it are skipped
//!
//! [[steps]]
//! name = "do"
//! prompt = "Carry the plan out."
//! model = "provider/model"
//! depends_on = ["plan"]                # it is given their answers
//! ```
//! The same in JSON. Each step is a member of the run. Reading the file is not done here.

use super::document::{Document, Table};
use super::member::{Member, is_name};
use super::schedule::Link;
use super::settings::{Aggregation, MOST_MEMBERS, unknown};
use super::template::{self, Template};
use crate::base::error::{Error, Result};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowStep {
    /// Who does it: its name is the step's.
    pub member: Member,
    /// The steps whose answers it is given, by their place.
    pub depends_on: Vec<usize>,
    /// From 0: steps of one layer work at once, after all lower ones.
    pub layer: usize,
    /// Whether those who depend on it are skipped if it gives no answer.
    pub is_critical: bool,
}

/// Steps in an order that can be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    /// What people call it.
    pub name: String,
    /// What it is for, in half a line.
    pub description: String,
    /// How the answers of the last steps become one, where it says so.
    pub aggregation: Option<Aggregation>,
    /// In the order of the file.
    pub steps: Vec<WorkflowStep>,
}

impl Workflow {
    /// Reads a workflow. `file` is for errors, `name` for a file that says none; `templates` have the roles that steps
    /// name.
    ///
    /// # Errors
    /// It cannot be carried out; the words say where it goes wrong.
    pub fn parse(file: &str, name: &str, text: &str, templates: &[Template]) -> Result<Self> {
        let document = Document::parse(file, text)?;
        let table = document.table();
        table.only(&["name", "description", "aggregation", "steps"])?;
        let name = template::name_of(&table, name)?;
        let description = table.text("description")?.unwrap_or_default().to_owned();
        let aggregation = table.parsed("aggregation")?;
        let tables = table.tables("steps")?;
        match tables.len() {
            0 => return Err(table.refuse("steps", "a workflow needs at least one step: [[steps]]")),
            1..=MOST_MEMBERS => {}
            count => {
                return Err(table.refuse("steps", &format!("a workflow has at most {MOST_MEMBERS} steps, not {count}")));
            }
        }
        let mut steps = tables.iter().map(|table| step(table, templates)).collect::<Result<Vec<_>>>()?;
        connect(&mut steps, &tables)?;
        lay(&mut steps, &tables)?;
        Ok(Self { name, description, aggregation, steps })
    }

    /// Who works on it: one member for each step.
    pub fn members(&self) -> Vec<Member> {
        self.steps.iter().map(|step| step.member.clone()).collect()
    }

    /// The steps of each layer, by their place, in the order in which they work.
    pub fn layers(&self) -> Vec<Vec<usize>> {
        let count = self.steps.iter().map(|step| step.layer + 1).max().unwrap_or(0);
        let of = |layer| (0..self.steps.len()).filter(|at| self.steps[*at].layer == layer).collect();
        (0..count).map(of).collect()
    }

    pub(super) fn links(&self) -> Vec<Link> {
        let link = |step: &WorkflowStep| Link {
            layer: step.layer,
            depends_on: step.depends_on.clone(),
            is_critical: step.is_critical,
        };
        self.steps.iter().map(link).collect()
    }
}

/// A step by itself.
fn step(table: &Table<'_>, templates: &[Template]) -> Result<WorkflowStep> {
    table.only(&["name", "agent", "prompt", "model", "depends_on", "critical"])?;
    let name = table.text("name")?.ok_or_else(|| table.refuse("name", "a step needs a name"))?;
    if !is_name(name) {
        return Err(table.refuse("name", "take letters, digits, -, _ and . for a name, at most 64"));
    }
    let agent = table.text("agent")?.map(|agent| agent_of(table, agent, templates)).transpose()?;
    let prompt = table.text("prompt")?;
    let role = match (agent.and_then(|member| member.role.as_deref()), prompt) {
        (Some(role), Some(prompt)) => Some(format!("{role}\n\n{prompt}")),
        (role, prompt) => role.or(prompt).map(str::to_owned),
    };
    let model = table.text("model")?.map(str::to_owned).or_else(|| agent.and_then(|member| member.model.clone()));
    let member = Member { name: name.to_owned(), model, role };
    Ok(WorkflowStep { member, depends_on: Vec::new(), layer: 0, is_critical: table.truth("critical")? })
}

/// The member of a template that `template/member` names.
fn agent_of<'t>(table: &Table<'_>, agent: &str, templates: &'t [Template]) -> Result<&'t Member> {
    let refuse = |error: Error| table.refuse("agent", &error.message);
    let Some((template, member)) = agent.split_once('/') else {
        return Err(table.refuse("agent", "say which member of which template: TEMPLATE/MEMBER"));
    };
    let template = template::find(templates, template).map_err(refuse)?;
    let found = template.members.iter().find(|one| one.name == member);
    let names = template.members.iter().map(|one| one.name.as_str());
    found.ok_or_else(|| refuse(unknown(&format!("member of {}", template.name), member, member, names)))
}

/// Finds the steps on which each depends.
fn connect(steps: &mut [WorkflowStep], tables: &[Table<'_>]) -> Result<()> {
    let names: Vec<String> = steps.iter().map(|step| step.member.name.clone()).collect();
    for (at, table) in tables.iter().enumerate() {
        if let Some(first) = names[..at].iter().position(|name| *name == names[at]) {
            return Err(table.refuse("name", &format!("steps[{}] is called {:?}, too", first + 1, names[at])));
        }
        for wanted in table.texts("depends_on")? {
            let found = names.iter().position(|name| name == wanted).ok_or_else(|| {
                let words = unknown("step", wanted, wanted, names.iter().map(String::as_str)).message;
                table.refuse("depends_on", &words)
            })?;
            if found == at {
                return Err(table.refuse("depends_on", &format!("{wanted} cannot depend on itself")));
            }
            if !steps[at].depends_on.contains(&found) {
                steps[at].depends_on.push(found);
            }
        }
    }
    Ok(())
}

/// Puts each step into the lowest layer above all that it depends on (Kahn 1962, layer by layer).
fn lay(steps: &mut [WorkflowStep], tables: &[Table<'_>]) -> Result<()> {
    let mut is_laid = vec![false; steps.len()];
    for layer in 0..=steps.len() {
        let can_come = |at: &usize| !is_laid[*at] && steps[*at].depends_on.iter().all(|before| is_laid[*before]);
        let next: Vec<usize> = (0..steps.len()).filter(can_come).collect();
        for at in &next {
            (is_laid[*at], steps[*at].layer) = (true, layer);
        }
        if next.is_empty() {
            break;
        }
    }
    match is_laid.iter().position(|is_laid| !is_laid) {
        None => Ok(()),
        Some(stuck) => {
            let cycle = cycle(steps, &is_laid, stuck);
            let names: Vec<&str> = cycle.iter().map(|at| steps[*at].member.name.as_str()).collect();
            let words = format!("these steps wait for one another: {}", names.join(" -> "));
            Err(tables[cycle[0]].refuse("depends_on", &words))
        }
    }
}

/// The way round, from a step to itself. Whoever was not laid depends on another that was not.
fn cycle(steps: &[WorkflowStep], is_laid: &[bool], stuck: usize) -> Vec<usize> {
    let (mut way, mut at) = (Vec::new(), stuck);
    while !way.contains(&at) {
        way.push(at);
        at = steps[at].depends_on.iter().copied().find(|before| !is_laid[*before]).unwrap_or(at);
    }
    let start = way.iter().position(|one| *one == at).unwrap_or(0);
    way.push(at);
    way.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::coordinator::dice::Dice;

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
    fn layers_follow_the_longest_way() {
        let workflow = parse(&steps("end<left,right left<top right<left,top top alone")).expect("it can be done");
        assert_eq!(workflow.layers(), [vec![3, 4], vec![1], vec![2], vec![0]]);
        assert_eq!(workflow.steps[0].depends_on, [1, 2]);
    }

    #[test]
    fn all_that_a_step_can_say_is_read_in_toml_and_in_json() {
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
        let workflow = parse(toml).expect("it can be done");
        assert_eq!(parse(json).as_ref(), Ok(&workflow));
        assert_eq!((workflow.name.as_str(), workflow.aggregation), ("w", Some(Aggregation::Vote)));
        let [plan, act] = &workflow.steps[..] else { panic!("two steps") };
        let role = plan.member.role.as_deref().expect("it has a role");
        assert!(role.len() > 100 && role.ends_with("\n\nBe short.") && plan.is_critical && !act.is_critical);
        assert_eq!(
            act.member,
            Member { name: "do".into(), model: Some("work/big".into()), role: Some("Do it.".into()) }
        );
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused_with_its_place() {
        for (text, words) in [
            (String::new(), "w.toml:1: steps: a workflow needs at least one step: [[steps]]"),
            ("steps = []".into(), "w.toml:1: steps: a workflow needs"),
            (steps("a b<a c<bb"), "w.toml:9: steps[3].depends_on: there is no step \"bb\" - did you mean b?"),
            (steps("a a<b b"), "w.toml:5: steps[2].name: steps[1] is called \"a\", too"),
            (steps("a b<b"), "w.toml:6: steps[2].depends_on: b cannot depend on itself"),
            (steps("a<b b<a"), "w.toml:3: steps[1].depends_on: these steps wait for one another: a -> b -> a"),
            (
                steps("x<a a<b b<c c<a y"),
                "w.toml:6: steps[2].depends_on: these steps wait for one another: a -> b -> c -> a",
            ),
            ("[[steps]]\nprompt = \"p\"".into(), "w.toml:1: steps[1].name: a step needs a name"),
            (steps("a:b"), "w.toml:2: steps[1].name: take letters"),
            ("[[steps]]\nname = \"a\"\nagent = \"planner\"".into(), "w.toml:3: steps[1].agent: say which member"),
            ("[[steps]]\nname = \"a\"\nagent = \"refacto/planner\"".into(), "did you mean refactor?"),
            ("[[steps]]\nname = \"a\"\nagent = \"refactor/plane\"".into(), "did you mean planner?"),
            ("[[steps]]\nname = \"a\"\ndepend_on = []".into(), "did you mean depends_on?"),
            ("[[steps]]\nname = \"a\"\ncritical = 1".into(), "w.toml:3: steps[1].critical: expected true or false"),
            (
                "aggregation = \"votes\"\n".to_owned() + &steps("a"),
                "w.toml:1: aggregation: there is no aggregation \"votes\" - did you mean vote?",
            ),
            ("steps = [".into(), "w.toml:1: this is not TOML"),
        ] {
            let message = parse(&text).unwrap_err().message;
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn a_hundred_steps_in_a_row_are_taken_and_one_more_is_not() {
        let row = |count: usize| -> Vec<String> {
            (0..count).map(|n| if n == 0 { "s0".into() } else { format!("s{n}<s{}", n - 1) }).collect()
        };
        assert_eq!(parse(&steps(&row(100).join(" "))).expect("it can be done").layers().len(), 100);
        assert!(parse(&steps(&row(101).join(" "))).unwrap_err().message.contains("at most 100"));
    }

    #[test]
    fn whatever_depends_on_what_either_all_come_after_what_they_need_or_a_true_cycle_is_named() {
        for seed in 1..400 {
            let mut dice = Dice(seed);
            let count = 1 + dice.below(7);
            let list: Vec<String> = (0..count)
                .map(|at| {
                    let others = (0..count).filter(|other| *other != at && dice.below(5) == 0);
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
                    let (_, way) = error.message.rsplit_once(": ").expect("it ends with the way");
                    let way: Vec<&str> = way.split(" -> ").collect();
                    assert_eq!(way.first(), way.last(), "{list:?}: {error}");
                    for pair in way.windows(2) {
                        let at: usize = pair[0][1..].parse().expect("a number");
                        let before = list[at].split_once('<').expect("all have one").1;
                        assert!(before.split(',').any(|name| name == pair[1]), "{list:?}: {error}");
                    }
                }
            }
        }
    }
}
