//! Texts for a question instead of a message: the reason of a refusal, the call, or the rules of "always".

use crate::base::id::{AgentId, TerminalId};
use crate::base::text;
use crate::domain::change::{Change, Decision};
use crate::domain::draft::Draft;
use crate::domain::rule::Rule;
use crate::repl::core::Core;
use crate::repl::terminals::question::Entry;
use crate::repl::terminals::{Act, Terminals};

impl Terminals {
    /// Makes the input the place for this, with the text to change. A draft becomes the reason.
    pub(super) fn begin_entry(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, entry: Entry) {
        let Some((_, text)) = self.entry_text(core, id, agent, entry) else { return };
        if entry != Entry::Reason {
            self.edit(core, id, |draft| draft.set(&text));
        }
        self.with_question(id, |question| question.set_entry(Some(entry)));
    }

    /// The number of the question of an agent, and its text to change.
    pub(super) fn entry_text(
        &self,
        core: &Core,
        id: TerminalId,
        agent: AgentId,
        entry: Entry,
    ) -> Option<(u64, String)> {
        let pending = core.agent(agent)?.question()?;
        let text = match entry {
            Entry::Reason => String::new(),
            Entry::Call => pending.editable.clone().unwrap_or_default(),
            Entry::Rules => lines_of(self.edited_rules(id).as_ref().unwrap_or(&pending.question.ways.rules)),
        };
        Some((pending.number, text))
    }

    /// Makes the input a message again. A reason stays in it; the changed text is in the history of inputs.
    pub(super) fn end_entry(&mut self, core: &mut Core, id: TerminalId, entry: Entry) {
        if entry != Entry::Reason {
            self.clear(core, id);
        }
        self.with_question(id, |question| question.set_entry(None));
    }

    /// Takes what was typed at the question.
    pub(super) fn enter_entry(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, entry: Entry) -> Option<Act> {
        let question = core.agent(agent)?.question()?.number;
        let typed = self.draft_at(core, id)?.expanded();
        let decision = match entry {
            Entry::Reason => Decision::Deny(Some(typed.trim().to_owned()).filter(|reason| !reason.is_empty())),
            Entry::Call => Decision::Edit(typed.clone()),
            Entry::Rules => {
                if self.enter_rules(core, id, &typed) {
                    self.edit(core, id, Draft::take);
                }
                return None;
            }
        };
        self.take_line(core, id, agent);
        self.on_line_done(core, id, agent);
        self.with_question(id, |question| question.set_entry(None));
        Some(Act::Answer { typed, change: Change::Answer { question, decision } })
    }

    /// Shows the rules that were typed, or says what is wrong with them and returns false.
    pub(super) fn enter_rules(&mut self, core: &Core, id: TerminalId, typed: &str) -> bool {
        let lines = typed.lines().map(str::trim).filter(|line| !line.is_empty());
        let rules = lines.map(str::parse).collect::<Result<Vec<Rule>, _>>();
        let is_valid = rules.is_ok();
        match rules {
            Ok(rules) => self.with_question(id, |question| question.set_rules(rules, core.now())),
            Err(error) => self.notify(id, error.message),
        }
        is_valid
    }

    /// The rules that the person has written at this terminal in place of those of the question.
    pub(super) fn edited_rules(&self, id: TerminalId) -> Option<Vec<Rule>> {
        self.get(id)?.display.question.as_ref()?.rules().map(<[Rule]>::to_vec)
    }

    /// The question of an agent as a text.
    pub(super) fn whole_question(&self, core: &Core, agent: AgentId) -> Option<String> {
        let question = &core.agent(agent)?.question()?.question;
        let title = format!("{}{}", question.answers.ask, question.title);
        let lines = std::iter::once(&title).chain(&question.detail);
        Some(lines.map(|line| format!("{}\n", text::sanitise(&text::expand_tabs(line)))).collect())
    }
}

fn lines_of(rules: &[Rule]) -> String {
    rules.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
