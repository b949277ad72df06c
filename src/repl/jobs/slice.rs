//! `/slice`: a child whose conversation is made of parts of its parent's.
//!
//! A slice with summaries waits until models have written them; its agent can continue in the meantime. Each summary is
//! written by a summary agent, which is neither listed nor stored, and otherwise an agent like any other: it waits for
//! a slot and its request is retried.

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::base::text;
use crate::domain::flow::{AgentOutcome, Origin};
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::domain::slice::{Cut, SUMMARY_SYSTEM, SliceSpec};
use crate::domain::stream::Usage;
use crate::repl::core::drafts::{return_line, return_refused};
use crate::repl::core::spawn::{Inherit, Spawn, StagedChild, add_unlisted};
use crate::repl::core::unsaved::Write;
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;
use crate::team::AgentFactory;

/// A cut that waits for its summaries.
pub(super) struct SliceJob {
    pub(super) agent: AgentId,
    origin: Origin,
    line: String,
    cut: Cut,
    /// In the order of the cut.
    summaries: Vec<Summary>,
    /// The usage of the summaries so far.
    pub(super) costs: Vec<Usage>,
}

struct Summary {
    writer: AgentId,
    text: Option<String>,
}

/// A slice whose child is stored, or one that needs summaries first.
pub(in crate::repl) enum StagedSlice {
    Child(Box<StagedChild>, String),
    Summaries { origin: Origin, line: String, cut: Box<Cut>, requests: Vec<String> },
}

impl StagedSlice {
    /// Cuts the conversation of an idle agent.
    pub(in crate::repl) fn stage(core: &mut Core, origin: Origin, agent: AgentId, spec: &SliceSpec) -> Result<Self> {
        core.require_idle(agent)?;
        core.load(agent)?;
        let agent_ref = core.agent(agent).ok_or_else(agent_gone)?;
        let history = agent_ref.inputs.history.as_ref().ok_or_else(agent_gone)?;
        let mut cut = spec.cut(&history.conversation())?;
        let requests = cut.take_requests();
        if requests.is_empty() {
            let (child, message) = stage_cut(core, origin, agent, cut, Vec::new(), &[])?;
            return Ok(Self::Child(Box::new(child), message));
        }
        if agent_ref.summaries() > 0 {
            return Err(Error::usage("another slice is waiting for its summaries: Esc cancels it"));
        }
        let line = format!("/slice {}", spec.source());
        Ok(Self::Summaries { origin, line, cut: Box::new(cut), requests })
    }
}

impl SliceJob {
    fn summary_by(&mut self, writer: AgentId) -> Option<&mut Summary> {
        self.summaries.iter_mut().find(|summary| summary.writer == writer)
    }

    fn unwritten_summaries(&self) -> impl Iterator<Item = &Summary> {
        self.summaries.iter().filter(|summary| summary.text.is_none())
    }
}

impl Jobs {
    pub(in crate::repl) fn install_slice(&mut self, core: &mut Core, agent: AgentId, slice: StagedSlice) -> Result<()> {
        match slice {
            StagedSlice::Child(child, message) => {
                let id = core.install_child(*child)?;
                core.note(id, LineKind::Note, &message);
            }
            StagedSlice::Summaries { origin, line, cut, requests } => {
                let count = text::counted(requests.len(), "summary", "summaries");
                let message = format!("the slice is waiting for {count} (Esc cancels it)");
                core.note(agent, LineKind::Note, &message);
                let summaries: Vec<Summary> = requests
                    .into_iter()
                    .filter_map(|request| spawn_summary(core, agent, request))
                    .map(|writer| Summary { writer, text: None })
                    .collect();
                self.slices.push(SliceJob { agent, origin, line, cut: *cut, summaries, costs: Vec::new() });
                self.publish_progress(core, agent);
            }
        }
        Ok(())
    }

    /// Shows at an agent how many summaries are being written for it, and by which agent.
    fn publish_progress(&self, core: &mut Core, agent: AgentId) {
        let slice = self.slices.iter().find(|slice| slice.agent == agent);
        let missing = slice.map_or(0, |slice| slice.unwritten_summaries().count());
        let writer = slice.and_then(|slice| slice.unwritten_summaries().next()).map(|summary| summary.writer);
        core.edit(agent, |agent| {
            agent.set_summaries(missing);
            agent.helper = writer;
        });
    }

    /// Takes the output of a summary agent. A reply that was cut off is not a summary.
    pub(super) fn on_summary_text(&mut self, writer: AgentId, bodies: Vec<Body>) {
        let Some(slice) = self.slices.iter_mut().find(|slice| slice.summaries.iter().any(|s| s.writer == writer))
        else {
            return;
        };
        for body in bodies {
            match (body, slice.summary_by(writer)) {
                (Body::Assistant(reply), Some(summary)) if !reply.is_partial && !reply.text.trim().is_empty() => {
                    summary.text = Some(reply.text);
                }
                (Body::Usage(usage), _) => slice.costs.push(usage),
                _ => {}
            }
        }
    }

    pub(super) fn on_summary_ended(&mut self, core: &mut Core, writer: AgentId, outcome: AgentOutcome) {
        let is_its = |slice: &SliceJob| slice.summaries.iter().any(|summary| summary.writer == writer);
        let Some(index) = self.slices.iter().position(is_its) else { return };
        let agent = self.slices[index].agent;
        let is_written = self.slices[index].summary_by(writer).is_some_and(|summary| summary.text.is_some());
        match outcome {
            AgentOutcome::Completed if is_written => {}
            AgentOutcome::Error(error) => return self.abort_slice(core, agent, LineKind::Error, &error.message),
            _ => {
                let reason = "a summary is empty or was cut at the length limit";
                return self.abort_slice(core, agent, LineKind::Error, reason);
            }
        }
        core.remove(writer, None);
        self.publish_progress(core, agent);
        if self.slices[index].unwritten_summaries().next().is_none() {
            let slice = self.slices.remove(index);
            finish(core, slice);
        }
    }

    /// Ends a slice without a child, and returns its line to the draft.
    fn abort_slice(&mut self, core: &mut Core, agent: AgentId, kind: LineKind, reason: &str) {
        let Some(SliceJob { line, origin, costs, .. }) = self.drop_slice(core, agent) else { return };
        core.note(agent, kind, &format!("no slice was made: {reason}"));
        if kind == LineKind::Error {
            return_refused(core, agent, origin, &line);
        } else {
            return_line(core, agent, origin, &line);
        }
        if !costs.is_empty() {
            // These tokens have to be paid anyway.
            count_usage(core, agent, &costs);
            core.record(agent, costs.into_iter().map(Body::Usage).collect(), Write::Append);
        }
    }

    pub(in crate::repl) fn cancel_slice(&mut self, core: &mut Core, agent: AgentId) {
        self.abort_slice(core, agent, LineKind::Mark, "cancelled");
    }

    /// Removes a waiting slice and its summary agents.
    pub(super) fn drop_slice(&mut self, core: &mut Core, agent: AgentId) -> Option<SliceJob> {
        let index = self.slices.iter().position(|slice| slice.agent == agent)?;
        let mut slice = self.slices.remove(index);
        for summary in &slice.summaries {
            let writer = core.remove(summary.writer, None);
            slice.costs.extend(writer.and_then(|writer| writer.usage_so_far()));
        }
        self.publish_progress(core, agent);
        Some(slice)
    }
}

fn finish(core: &mut Core, slice: SliceJob) {
    let SliceJob { agent, origin, line, cut, summaries, costs } = slice;
    let texts = summaries.into_iter().filter_map(|summary| summary.text).collect();
    let outcome = stage_cut(core, origin, agent, cut, texts, &costs).and_then(|(child, message)| {
        let id = core.install_child(child)?;
        count_usage(core, id, &costs);
        core.note(id, LineKind::Note, &message);
        Ok(())
    });
    if let Err(error) = outcome {
        core.note(agent, LineKind::Error, &error.message);
        return_refused(core, agent, origin, &line);
    }
}

/// Adds an agent that writes a summary for `agent`: in no list and no store. Returns its id.
pub(super) fn spawn_summary(core: &mut Core, agent: AgentId, request: String) -> Option<AgentId> {
    let summary = AgentFactory::summary_agent(core.agent(agent)?, "summary", SUMMARY_SYSTEM);
    let (id, created_at) = (summary.id(), core.clock().unix_ms());
    add_unlisted(core, summary);
    let message = Message { id: MessageId(1), body: Body::User(request), created_at };
    core.with_agent(id, |summary, context| summary.begin(message, context));
    Some(id)
}

/// Adds tokens to an agent's usage that summary agents used for it.
pub(super) fn count_usage(core: &mut Core, agent: AgentId, costs: &[Usage]) {
    core.edit(agent, |agent| costs.iter().for_each(|cost| agent.used.add(cost)));
}

/// Stores the tokens that summary agents used for an agent that was removed.
pub(super) fn count_usage_of_removed(core: &mut Core, agent: AgentId, costs: Vec<Usage>) {
    let Err(error) = core.store().add_usage(agent, costs, core.clock().unix_ms()) else { return };
    if let Some(root) = core.roster().nth(0) {
        core.note(root, LineKind::Error, &format!("the cost of a summary was not saved: {error}"));
    }
}

/// Stores the child. Returns it with the note that it gets.
fn stage_cut(
    core: &mut Core,
    origin: Origin,
    agent: AgentId,
    cut: Cut,
    summaries: Vec<String>,
    costs: &[Usage],
) -> Result<(StagedChild, String)> {
    let label = core.agent(agent).ok_or_else(agent_gone)?.identity.label();
    let widened = describe_widened(&cut);
    let rows = cut.into_messages(summaries);
    let message = format!("{} from {label}{widened}", text::counted(rows.len(), "message", "messages"));
    let rows = costs.iter().cloned().map(Body::Usage).chain(rows).collect();
    let child = core.stage_child(Spawn { rows, is_announced: true, ..Spawn::new(agent, origin, Inherit::Nothing) })?;
    Ok((child, message))
}

fn describe_widened(cut: &Cut) -> String {
    let describe = |(was, is): &(std::ops::Range<usize>, std::ops::Range<usize>)| {
        format!("{}:{} became {}:{}", was.start, was.end, is.start, is.end)
    };
    match cut.widened.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more ranges", rest.len()) };
            format!("; {}{more} to keep calls and results together", describe(first))
        }
    }
}
