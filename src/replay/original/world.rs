//! What happens beside the loop: the person types, the provider sends, and the threads of tools end.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::replay::provider::Provider;
use crate::replay::scenario::{Input, Scenario, Tool};

pub struct World {
    pub provider: Provider,
    /// The address of the provider.
    pub socket: PathBuf,
    start: Moment,
    inputs: VecDeque<Input>,
    unused_tools: Vec<Tool>,
    threads: Vec<ToolThread>,
}

/// A tool that runs, for the agent that started it.
pub struct ToolThread {
    pub agent: usize,
    pub result: String,
    due: Moment,
}

impl World {
    pub fn new(scenario: &Scenario, directory: &Path, start: Moment) -> Result<Self> {
        let socket = directory.join("provider");
        let provider = Provider::listen(&socket, scenario.replies.clone())?;
        let mut inputs = scenario.inputs.clone();
        inputs.sort_by_key(|input| input.at);
        let (inputs, unused_tools) = (inputs.into(), scenario.tools.clone());
        Ok(Self { provider, socket, start, inputs, unused_tools, threads: Vec::new() })
    }

    pub fn has_input(&self, now: Moment) -> bool {
        self.inputs.front().is_some_and(|input| self.moment_of(input) <= now)
    }

    pub fn take_input(&mut self, now: Moment) -> Vec<Input> {
        let count = self.inputs.iter().take_while(|input| self.moment_of(input) <= now).count();
        self.inputs.drain(..count).collect()
    }

    /// Starts the tool of the scenario that is meant for these arguments.
    pub fn start_tool(&mut self, agent: usize, arguments: &str, now: Moment) {
        let is_meant = |tool: &Tool| tool.with.as_ref().is_none_or(|with| arguments.contains(with.as_str()));
        let found = self.unused_tools.iter().position(is_meant).map(|found| self.unused_tools.remove(found));
        let (after, result) = found.map_or((0, String::new()), |tool| (tool.after, tool.result));
        self.threads.push(ToolThread { agent, result, due: now + Duration::from_millis(after) });
    }

    pub fn take_ended_threads(&mut self, now: Moment) -> Vec<ToolThread> {
        self.threads.extract_if(.., |thread| thread.due <= now).collect()
    }

    /// When the next of these things happens.
    pub fn next_moment(&self) -> Option<Moment> {
        let input = self.inputs.front().map(|input| self.moment_of(input));
        let threads = self.threads.iter().map(|thread| thread.due);
        input.into_iter().chain(threads).chain(self.provider.next_due()).min()
    }

    fn moment_of(&self, input: &Input) -> Moment {
        self.start + Duration::from_millis(input.at)
    }
}
