//! Which conversation a terminal shows first, in this process or for a client, and how to come back to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::base::text;
use crate::commands::agent_tree;
use crate::domain::change::{Change, Setting};
use crate::domain::choices::{Choices, Opening, Opens};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::domain::title::title;
use crate::repl::core::archive::called_or_archived;
use crate::repl::core::begin::{Beginning, begin};
use crate::repl::core::spawn::stored_place;
use crate::repl::core::{agent_gone, drafts, last_conversation};
use crate::repl::start::{GREETING, introduction};
use crate::repl::{Device, Repl, TerminalMode, steer};
use crate::store::input_line;

/// A conversation to show at a terminal.
pub(crate) struct Opened {
    pub(crate) agent: AgentId,
    /// The person chooses another conversation in a list; then these changes are applied to it.
    picks: Option<Vec<Change>>,
    prompt: Option<String>,
    /// The choices for conversations that begin at the terminal.
    choices: Choices,
    /// It was begun for the terminal.
    is_begun: bool,
    /// The panel that sets up a model is shown first.
    sets_up: bool,
}

/// How a person comes back to the conversation that a terminal has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// With these options, each with a space before it.
    Options(String),
    /// It has no messages, so it is not kept.
    Unwritten,
    /// The person has left the list of conversations.
    Unopened,
}

impl Repl {
    /// Finds the conversation for a terminal that was opened in this directory, or begins it, and makes the changes that the
    /// opening asks for.
    pub(crate) fn open_conversation(&mut self, opening: Opening, directory: Option<&Path>) -> Result<Opened> {
        let is_read_only = self.core.store().is_read_only();
        let place = self.place(directory);
        let found = match (&opening.agent, opening.opens) {
            (Some(agent), _) => Some(called_or_archived(&mut self.core, agent, false)?),
            (None, Opens::Last) => self.last_to_continue(place.as_deref())?,
            (None, Opens::New) if !is_read_only => None,
            (None, _) => Some(self.shown_last()?),
        };
        let is_begun = found.is_none() && !is_read_only;
        let picks = opening.agent.is_none() && opening.opens == Opens::Listed;
        let agent = match found {
            Some(agent) => agent,
            None if is_read_only => self.shown_last()?,
            None => self.begin_for_terminal(&opening, directory, place.as_deref())?,
        };
        if is_begun && opening.opens == Opens::Last {
            let note = "no conversation to continue here: this is a new one; polylogue -r lists all";
            self.core.note(agent, LineKind::Note, note);
        }
        if !is_begun {
            if !picks {
                self.choose(agent, &opening.options)?;
            }
            let notes = self.notes_at_start(&opening.notes, agent, directory.is_none());
            self.note_all(agent, &notes);
        }
        let picks = picks.then(|| {
            let options = opening
                .options
                .describe()
                .is_some()
                .then(|| Change::Setting(Setting::Choices(Box::new(opening.options))));
            options.into_iter().chain(opening.prompt.clone().map(Change::Submit)).collect()
        });
        let prompt = opening.prompt.filter(|_| picks.is_none());
        Ok(Opened { agent, picks, prompt, choices: opening.choices, is_begun, sets_up: opening.sets_up })
    }

    /// The first messages: the notes of the terminal, and those of this process unless they are already at the root.
    fn notes_at_start(&self, notes: &[String], agent: AgentId, is_local: bool) -> Vec<(LineKind, String)> {
        let is_root = self.core.roster().nth(0) == Some(agent);
        let welcome = self.process.welcome.iter().filter(|_| !is_root && is_local).cloned();
        welcome.chain(notes.iter().map(|note| (LineKind::Warning, note.clone()))).collect()
    }

    fn note_all(&mut self, agent: AgentId, notes: &[(LineKind, String)]) {
        notes.iter().for_each(|(kind, note)| self.core.note(agent, *kind, note));
    }

    /// Begins a conversation, and says there where and with which model, and which one was the last here.
    fn begin_for_terminal(
        &mut self,
        opening: &Opening,
        directory: Option<&Path>,
        place: Option<&str>,
    ) -> Result<AgentId> {
        let last = last_conversation(&self.core, place)?;
        let root = self.core.roster().nth(0).ok_or_else(agent_gone)?;
        let may_be_root = self.terminals.showing(&[root]).is_empty() && !self.terminals.has_begun(root);
        let choices = &opening.choices;
        let new = Beginning { id: None, name: None, directory, choices, is_print_run: false, may_be_root };
        let agent = begin(&mut self.core, new).map_err(|error| match directory {
            Some(_) => explain_stale_configuration(error).context("the process that runs the agents"),
            None => error,
        })?;
        let introduction = introduction(&self.core, agent);
        let mut notes = self.notes_at_start(&opening.notes, agent, directory.is_none());
        // A server has greeted at the root with its own model and directory.
        let has_greeted = agent == root && self.process.welcome.iter().any(|(_, said)| said.starts_with(GREETING));
        if has_greeted && !self.process.welcome.iter().any(|(_, said)| *said == introduction) {
            notes.insert(0, (LineKind::Note, introduction));
        }
        notes.extend(last.map(|last| self.describe_last(last)).transpose()?.map(|note| (LineKind::Note, note)));
        self.note_all(agent, &notes);
        Ok(agent)
    }

    /// Attaches the terminal of this process to a conversation that was opened for it.
    pub(crate) fn show_opened(&mut self, device: Device, opened: Opened) {
        self.attach_opened(device, TerminalMode::default(), opened);
        self.dispatch();
        self.render();
    }

    /// The same for any terminal. A prompt that cannot be sent becomes its draft, with the reason.
    pub(super) fn attach_opened(&mut self, device: Device, mode: TerminalMode, opened: Opened) -> TerminalId {
        let Opened { agent, picks, prompt, choices, is_begun, sets_up } = opened;
        let picks_in_list = picks.is_some();
        let terminal = match picks {
            None => self.terminals.attach(&mut self.core, device, agent, mode),
            Some(then) => self.terminals.attach_picker(&mut self.core, device, (agent, mode), then),
        };
        self.terminals.set_beginning(terminal, choices);
        if sets_up {
            self.terminals.offer_setup(&mut self.core, terminal, true);
        }
        if picks_in_list && !self.terminals.is_picking(terminal) {
            let agents = agent_tree(&self.core.command_context(agent, Vec::new()));
            let note = format!("to show an agent: /switch NAME, NUMBER or ID\n{agents}");
            self.core.note(agent, LineKind::Note, &note);
        }
        if is_begun {
            self.terminals.note_begun(&mut self.core, terminal, agent);
        }
        if let Some(prompt) = prompt {
            let origin = Origin::Terminal(terminal);
            if let Err(error) = self.carry_out(origin, agent, Change::Submit(prompt.clone())) {
                drafts::return_text(&mut self.core, agent, origin, &input_line(&prompt));
                self.terminals.show_result(&mut self.core, origin, agent, LineKind::Error, &error.message);
            }
            self.apply_effects();
        }
        terminal
    }

    /// Makes changes at a conversation that exists, and says which.
    pub(super) fn choose(&mut self, agent: AgentId, options: &Choices) -> Result<()> {
        let Some(said) = options.describe() else { return Ok(()) };
        steer::choose(&mut self.core, agent, options)?;
        self.core.note(agent, LineKind::Note, &format!("from the next request on: {said}"));
        Ok(())
    }

    /// The agent that a terminal showed last, wherever it was opened.
    fn shown_last(&self) -> Result<AgentId> {
        let newest = || self.terminals.ids().pop().and_then(|terminal| Some(self.terminals.get(terminal)?.focus));
        let earlier = || self.core.store().last_shown().ok().flatten();
        let is_there = |id: &AgentId| self.core.agent(*id).is_some();
        let shown = self.server.last_focus.filter(is_there).or_else(newest).or_else(earlier).filter(is_there);
        shown.or_else(|| self.core.roster().nth(0)).ok_or_else(agent_gone)
    }

    /// The directory of a terminal, or that in which the program was started, in stored form.
    fn place(&self, directory: Option<&Path>) -> Option<String> {
        stored_place(directory.unwrap_or(&self.core.config().working_directory))
    }

    /// The conversation that `-c` continues: the last one here, or one that has only a draft.
    fn last_to_continue(&self, place: Option<&str>) -> Result<Option<AgentId>> {
        if let Some(last) = last_conversation(&self.core, place)? {
            return Ok(Some(last));
        }
        let drafted = self.core.store().drafted_conversation(place)?;
        Ok(drafted.filter(|drafted| self.core.agent(*drafted).is_some()))
    }

    fn describe_last(&self, last: AgentId) -> Result<String> {
        let (said, at) = self.core.store().conversation(last)?;
        let age = u64::try_from(self.core.clock().unix_ms() - at).unwrap_or(0);
        let age = text::age(Duration::from_millis(age));
        let label = self.core.name_of(last);
        let said = if said.is_empty() { String::new() } else { format!(": {:?}", title(&said)) };
        Ok(format!("the last conversation here is {label}, {age} ago{said}; polylogue -c continues it"))
    }

    /// How to come back to the conversation that a terminal shows.
    pub(super) fn way_back(&self, terminal: TerminalId) -> WayBack {
        let Some(shown) = self.terminals.get(terminal).filter(|_| !self.terminals.is_picking(terminal)) else {
            return WayBack::Unopened;
        };
        let Some(agent) = self.core.agent(shown.focus) else { return WayBack::Unwritten };
        let is_root = self.core.roster().parent(shown.focus).is_none();
        if self.core.store().is_unwritten(shown.focus).unwrap_or(false)
            && (is_root || self.terminals.has_begun(shown.focus))
        {
            return WayBack::Unwritten;
        }
        let place = self.place(self.terminals.directory_of(terminal).as_deref());
        if self.last_to_continue(place.as_deref()).is_ok_and(|last| last == Some(shown.focus)) {
            return WayBack::Options(" -c".into());
        }
        let name = agent.identity.word();
        WayBack::Options(format!(" -r {name}"))
    }

    /// How to come back to the conversation that the terminal of this process has shown, after the end of the loop.
    pub(crate) fn take_way_back(&mut self) -> WayBack {
        self.process.way_back.take().unwrap_or(WayBack::Unopened)
    }

    /// `/new`: a conversation in the directory of the terminal, with what conversations begin with there.
    pub(super) fn begin_conversation(&mut self, origin: Origin, new: NewHere) -> Result<()> {
        let (directory, choices) = self.terminals.beginning_of(origin);
        let choices = match &new.model {
            Some(model) => choices.with_model(model),
            None => choices,
        };
        let directory: Option<PathBuf> = directory;
        let child = begin(
            &mut self.core,
            Beginning {
                id: None,
                name: new.name,
                directory: directory.as_deref(),
                choices: &choices,
                is_print_run: false,
                may_be_root: false,
            },
        )?;
        self.terminals.switch(&mut self.core, origin, child)?;
        if let Some(terminal) = origin.terminal() {
            self.terminals.note_begun(&mut self.core, terminal, child);
        }
        new.prompt.map_or(Ok(()), |prompt| self.submit(origin, child, prompt))
    }
}

/// An error about a model that a client names, with what to do if it was configured after the start of this process.
pub(super) fn explain_stale_configuration(error: Error) -> Error {
    // A provider without a key is unknown too, or the reason why a model is.
    if !(error.message.starts_with("unknown provider") || error.message.contains("there is no key")) {
        return error;
    }
    let process = std::process::id();
    let advice = format!(
        "process {process} runs the agents and read its configuration and variables at its start; if they have changed: \
         polylogue stop"
    );
    Error { message: format!("{}; {advice}", error.message), ..error }
}

/// The note of `/new` about the conversation.
pub(super) struct NewHere {
    pub prompt: Option<String>,
    pub name: Option<String>,
    pub model: Option<String>,
}
