//! Colours for the code blocks on screens: lines without colours go to the thread, and their colours come back to the
//! blocks.

use std::collections::HashMap;
use std::rc::{Rc, Weak};

use crate::base::id::{AgentId, TerminalId};
use crate::domain::diff::DiffColors;
use crate::domain::scrollback::{Code, CodeLines};
use crate::repl::core::Core;
use crate::repl::terminals::draw::text_width;
use crate::repl::terminals::{Terminal, Terminals};
use crate::syntax::{Highlighter, Job, Outcome};

/// The code blocks that were on a screen.
#[derive(Default)]
pub(super) struct Highlights {
    highlighter: Highlighter,
    blocks: HashMap<u64, (AgentId, Weak<Code>)>,
    /// The blocks so far.
    count: u64,
}

impl Highlights {
    fn send(&mut self, core: &Core, agent: AgentId, CodeLines { code, first, lines }: CodeLines) {
        let block = code.id.get().unwrap_or_else(|| {
            self.count += 1;
            code.id.set(Some(self.count));
            self.count
        });
        self.blocks.insert(block, (agent, Rc::downgrade(&code)));
        let job = Job { block, language: code.language.to_string(), first, lines };
        self.highlighter.send(job, &core.waker());
    }

    /// Gives the colours that were computed to their blocks. Returns the agents whose text has changed.
    fn take(&mut self) -> Vec<AgentId> {
        let results = self.highlighter.take();
        if !results.is_empty() {
            self.blocks.retain(|_, (_, code)| code.strong_count() > 0);
        }
        let mut changed = Vec::new();
        for result in results {
            let known = self.blocks.get(&result.block).and_then(|(agent, code)| Some((*agent, code.upgrade()?)));
            let Some((agent, code)) = known else { continue };
            match result.outcome {
                Outcome::Lines(lines) => code.set_colors(result.first, &lines),
                Outcome::Forgotten => code.start_again(),
                Outcome::Unknown => code.give_up(),
            }
            changed.push(agent);
        }
        changed
    }
}

impl Terminals {
    /// Sends the code on this screen that has no colours.
    pub(super) fn ask_for_colors(&mut self, core: &Core, at: TerminalId) {
        let reader = self.reader(at);
        // Lines are printed permanently before their colours could come.
        let shows = |terminal: &&mut Terminal| terminal.shows_colors() && terminal.inline.is_none();
        let Some(terminal) = self.get_mut(at).filter(shows) else { return };
        let (agent, (columns, rows)) = (terminal.focus, terminal.size);
        let uncoloured = match (&mut terminal.input.view, core.agent(agent)) {
            (Some(view), _) => view.take_uncoloured(),
            (None, Some(shown)) => {
                let mut lines = shown.view.scrollback.take_uncoloured(reader, text_width(columns), rows);
                lines.extend(
                    shown.question().iter().flat_map(|pending| &pending.colors).flat_map(DiffColors::take_uncoloured),
                );
                lines
            }
            (None, None) => Vec::new(),
        };
        for lines in uncoloured {
            self.highlights.send(core, agent, lines);
        }
    }

    /// Whether colours are being computed.
    pub(in crate::repl) fn is_coloring(&self) -> bool {
        self.highlights.highlighter.is_busy()
    }

    /// Shows the colours that were computed.
    pub(super) fn take_colors(&mut self, core: &mut Core) {
        for agent in self.highlights.take() {
            core.edit(agent, |agent| agent.on_colors());
        }
    }
}
