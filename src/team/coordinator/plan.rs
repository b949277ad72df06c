//! The plan of a run: task, members and settings. A client sends it to the server that carries it out.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::member::{self, Member};
use super::settings::Settings;
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
    use crate::team::coordinator::settings::{Aggregation, Strategy};

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
