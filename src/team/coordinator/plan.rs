//! The plan of a run: task, members and settings. A client sends it to the server that carries it out.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::member::{self, Member};
use super::settings::{Aggregation, Settings, Strategy};
use super::template::Template;
use super::workflow::Workflow;
use crate::base::error::{Error, Result};
use crate::domain::config::{RetryPolicy, TeamSettings};
use crate::domain::endpoint::Catalog;

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub task: String,
    pub work: Work,
    pub settings: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Members that work in the order of the strategy.
    Members(Vec<Member>),
    Workflow(Workflow),
}

/// The default number of members: the fewest with which all strategies and aggregations differ.
pub const DEFAULT_MEMBERS: usize = 3;

/// The options of a run. What is missing comes from the template or workflow, else from the configuration.
#[derive(Debug, Default)]
pub struct PlanOptions {
    pub strategy: Option<Strategy>,
    pub aggregation: Option<Aggregation>,
    pub members: Option<Vec<Member>>,
    pub template: Option<Template>,
    pub workflow: Option<Workflow>,
    pub judge: Option<String>,
    pub timeout: Option<Duration>,
    pub retries: Option<u32>,
}

impl PlanOptions {
    pub fn into_plan(self, task: &str, configured: &TeamSettings) -> Result<Plan> {
        let sources = [self.members.is_some(), self.template.is_some(), self.workflow.is_some()];
        if sources.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err(Error::usage("use only one of --template, --workflow, --agents and --count"));
        }
        if let Some(strategy) = self.strategy.filter(|_| self.workflow.is_some()) {
            return Err(Error::usage(format!("a workflow has an order of its own: leave out {strategy}")));
        }
        let of_template = self.template.as_ref().map(|template| (template.strategy, template.aggregation));
        let of_workflow = self.workflow.as_ref().map(|workflow| (Some(Strategy::Sequential), workflow.aggregation));
        let (strategy, aggregation) = of_template.or(of_workflow).unwrap_or_default();
        let defaults = Settings::of(configured);
        let strategy = self.strategy.or(strategy).unwrap_or(defaults.strategy);
        let usual = Aggregation::of_settings(configured, strategy);
        let settings = Settings {
            strategy,
            aggregation: self.aggregation.or(aggregation).unwrap_or(usual),
            agent_timeout: self.timeout.unwrap_or(defaults.agent_timeout),
            retry: RetryPolicy { retries: self.retries.or(defaults.retry.retries), ..defaults.retry },
            judge: self.judge,
            ..defaults
        };
        let members = self.members.or(self.template.map(|template| template.members));
        let work = match (self.workflow, members) {
            (Some(workflow), _) => Work::Workflow(workflow),
            (None, Some(members)) => Work::Members(members),
            (None, None) => Work::Members(Member::numbered(DEFAULT_MEMBERS)?),
        };
        let plan = Plan { task: task.to_owned(), work, settings };
        plan.check().map(|()| plan)
    }
}

/// A plan as a request has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    task: String,
    strategy: String,
    aggregation: String,
    agent_timeout: Duration,
    retries: u32,
    judge: Option<String>,
    /// None if there is a workflow.
    members: Vec<Member>,
    /// As in a file.
    workflow: Option<Value>,
}

impl Plan {
    pub fn members(&self) -> Vec<Member> {
        match &self.work {
            Work::Members(members) => members.clone(),
            Work::Workflow(workflow) => workflow.members(),
        }
    }

    pub fn check(&self) -> Result<()> {
        self.settings.check()?;
        member::check(&self.members())
    }

    pub fn check_models(&self, catalog: &Catalog) -> Result<()> {
        let members = self.members();
        let of_members = members.iter().filter_map(|member| Some((member.name.as_str(), member.model.as_deref()?)));
        let of_judge = self.settings.judge.as_deref().map(|model| ("--judge", model));
        for (owner, model) in of_members.chain(of_judge) {
            catalog.find(model).map_err(|error| error.context(owner))?;
        }
        Ok(())
    }

    /// For a request.
    pub fn to_json(&self) -> Value {
        let Settings { strategy, aggregation, agent_timeout, retry, judge, .. } = &self.settings;
        let (members, workflow) = match &self.work {
            Work::Members(members) => (members.clone(), None),
            Work::Workflow(workflow) => (Vec::new(), Some(workflow.to_json())),
        };
        let fields = Fields {
            task: self.task.clone(),
            strategy: strategy.name().to_owned(),
            aggregation: aggregation.name().to_owned(),
            agent_timeout: *agent_timeout,
            retries: retry.number(),
            judge: judge.clone(),
            members,
            workflow,
        };
        serde_json::to_value(fields).expect("the fields have only string keys")
    }

    /// The plan in a request. What is missing is taken from the configuration.
    pub fn read(value: &Value, configured: &TeamSettings) -> Result<Self> {
        let refuse = |error: serde_json::Error| Error::usage(format!("bad plan: {error}"));
        let fields = Fields::deserialize(value).map_err(refuse)?;
        let defaults = Settings::of(configured);
        let settings = Settings {
            strategy: fields.strategy.parse()?,
            aggregation: fields.aggregation.parse()?,
            agent_timeout: fields.agent_timeout,
            retry: RetryPolicy { retries: Some(fields.retries), ..defaults.retry },
            judge: fields.judge,
            ..defaults
        };
        let work = match fields.workflow {
            Some(workflow) => Work::Workflow(Workflow::parse("workflow", "", &workflow.to_string(), &[])?),
            None => Work::Members(fields.members),
        };
        let plan = Self { task: fields.task, work, settings };
        plan.check().map(|()| plan)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plans() -> Vec<Plan> {
        let plain = Settings::default();
        let settings = Settings {
            strategy: Strategy::Pipeline,
            aggregation: Aggregation::SelectBest,
            agent_timeout: Duration::from_micros(1_500_001),
            retry: RetryPolicy { retries: Some(7), ..plain.retry },
            judge: Some("echo".into()),
            ..plain.clone()
        };
        let (role, agent) = (Some("a role\nof two lines".to_owned()), Some("reviewer".to_owned()));
        let members = vec![Member::new("a"), Member { name: "b".into(), model: Some("echo".into()), role, agent }];
        let of = |work| Plan { task: "do\nthis".into(), work, settings: plain.clone() };
        let steps = json!([
            {"name": "plan", "prompt": "Be short.", "critical": true},
            {"name": "do", "model": "echo", "depends_on": ["plan"]},
        ]);
        let workflow = json!({"name": "w", "aggregation": "last", "steps": steps}).to_string();
        let workflow = Workflow::parse("workflow", "", &workflow, &[]).unwrap();
        vec![Plan { task: "do".into(), work: Work::Members(members), settings }, of(Work::Workflow(workflow))]
    }

    #[test]
    fn a_plan_survives_a_request() {
        for plan in plans() {
            assert_eq!(Plan::read(&plan.to_json(), &TeamSettings::default()), Ok(plan));
        }
    }

    #[test]
    fn an_invalid_plan_is_refused() {
        let valid = plans().remove(0).to_json();
        let cycle =
            json!({"name": "w", "steps": [{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["a"]}]});
        let many: Vec<Value> = (0..101).map(|n| json!({"name": format!("m{n}")})).collect();
        for (key, value, expected) in [
            ("strategy", json!("paralel"), "did you mean parallel"),
            ("aggregation", json!("vote"), "a judge needs the aggregation select_best"),
            ("agent_timeout", json!({"secs": 0, "nanos": 0}), "more than 0 s"),
            ("agent_timeout", json!(-1), "bad plan"),
            ("retries", json!(-1), "bad plan"),
            ("members", json!([{"name": "a"}, {"name": "a"}]), "duplicate member name"),
            ("members", json!([{"name": "a", "tools": "all"}]), "unknown field `tools`"),
            ("members", Value::Array(many), "too many members"),
            ("workflow", cycle, "depends_on"),
            ("policy", json!("auto"), "unknown field `policy`"),
        ] {
            let mut plan = valid.clone();
            plan[key] = value;
            let error = Plan::read(&plan, &TeamSettings::default()).expect_err(key);
            assert!(error.message.contains(expected), "{key}: {error}");
        }
    }
}
