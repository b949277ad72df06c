//! The list below the input: when it opens, its items, and the effect of a choice.

use crate::base::clock::Moment;
use crate::base::id::{AgentId, TerminalId};
use crate::commands;
use crate::domain::draft::Draft;
use crate::domain::key::{Key, KeyCode};
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::repl::terminals::Terminals;
use crate::repl::terminals::history::project;
use crate::repl::terminals::mentions::{Files, Mentions, mention_in};
use crate::repl::terminals::popup::{EnterTakes, Item, Popup, PopupAct, PopupKind};

impl Terminals {
    /// Gives a key to the open list. False if there is none, or if the key is for the draft.
    pub(super) fn press_in_popup(&mut self, core: &mut Core, id: TerminalId, key: &Key) -> bool {
        // The draft as it is: Enter sends it.
        let mentioned = self.draft_at(core, id).and_then(|draft| mention_in(draft.text(), draft.cursor()));
        let mentioned = mentioned.map(|(_, name)| name.to_owned());
        let Some(terminal) = self.get_mut(id) else { return false };
        let Some(popup) = &mut terminal.input.popup else { return false };
        if matches!(key, Key::Press(KeyCode::Enter, _)) && mentioned.is_some_and(|name| popup.has_whole(&name)) {
            return false;
        }
        let (kind, act) = (popup.kind, popup.on_key(key));
        terminal.input.revision += 1;
        match act {
            PopupAct::Done => {}
            PopupAct::Pass => return false,
            PopupAct::Close => self.close_popup(id),
            PopupAct::Accept(item) => {
                self.close_popup(id);
                self.accept(core, id, kind, item);
            }
        }
        true
    }

    pub(super) fn close_popup(&mut self, id: TerminalId) {
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.popup = None;
            terminal.input.mentions = None;
            terminal.input.revision += 1;
        }
    }

    fn open_popup(&mut self, id: TerminalId, kind: PopupKind, items: Vec<Item>) {
        if self.is_line_mode(id) {
            // In line mode nothing is drawn; the candidates are printed.
            let texts: Vec<String> = items.into_iter().take(20).map(|item| item.text).collect();
            return self.notify(id, texts.join("  "));
        }
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.popup = Some(Popup::new(kind, items));
            terminal.input.revision += 1;
        }
    }

    fn accept(&mut self, core: &mut Core, id: TerminalId, kind: PopupKind, item: Item) {
        let whole = item.input.and_then(|input| core.store().whole_input(input).ok().flatten());
        let value = whole.unwrap_or(item.value);
        match kind {
            PopupKind::Commands | PopupKind::History => drop(self.edit(core, id, |draft| draft.set(&value))),
            PopupKind::Mentions(at) => drop(self.edit(core, id, |draft| draft.replace_before_cursor(at, &value))),
            PopupKind::Help if value.is_empty() => {}
            PopupKind::Help => drop(self.edit(core, id, |draft| {
                if draft.is_empty() {
                    draft.set(&value)
                }
            })),
        }
    }

    /// Tab: completes what is certain, and opens a list of the alternatives.
    pub(super) fn complete(&mut self, core: &mut Core, at: TerminalId, agent: AgentId) {
        let Some(draft) = self.draft_at(core, at) else { return };
        if let Some((start, _)) = mention_in(draft.text(), draft.cursor()) {
            return self.open_mentions(core, at, agent, start);
        }
        let typed = draft.expanded();
        if commands::names_model(&typed) {
            core.emit(Event::ModelsWanted);
        }
        let found = commands::complete(&typed, &core.command_context(agent, self.infos(at)));
        let is_certain = found.iter().all(|found| found.line.starts_with(&typed));
        let shared = common_prefix(found.iter().map(|found| found.line.as_str()));
        if is_certain && shared.len() > typed.len() {
            self.edit(core, at, |draft| draft.set(shared));
        }
        if found.len() > 1 || !found.is_empty() && !is_certain {
            let items = found.iter().map(command_item).collect();
            self.open_popup(at, PopupKind::Commands, items);
        }
    }

    /// Updates the list after a key has changed the draft.
    pub(super) fn follow_draft(&mut self, core: &mut Core, at: TerminalId, agent: AgentId, key: &Key) {
        let kind = self.get(at).and_then(|terminal| terminal.input.popup.as_ref()).map(|popup| popup.kind);
        match kind {
            None if matches!(key, Key::Press(KeyCode::Char('@'), _)) => {
                let draft = self.draft_at(core, at);
                if let Some((start, "")) = draft.and_then(|draft| mention_in(draft.text(), draft.cursor())) {
                    self.open_mentions(core, at, agent, start);
                }
            }
            None if matches!(key, Key::Press(KeyCode::Char('/'), _)) => self.offer_commands(core, at, agent),
            Some(PopupKind::Commands) => self.follow_command(core, at, agent),
            Some(PopupKind::Mentions(start)) => self.follow_mention(core, at, agent, start),
            None | Some(PopupKind::History | PopupKind::Help) => {}
        }
    }

    /// A `/` at the beginning of the draft opens the list of commands, which further typing filters.
    fn offer_commands(&mut self, core: &Core, at: TerminalId, agent: AgentId) {
        let is_first = self.draft_at(core, at).is_some_and(|draft| draft.text() == "/");
        if is_first && !self.is_line_mode(at) {
            self.open_popup(at, PopupKind::Commands, Vec::new());
            if let Some(popup) = self.get_mut(at).and_then(|terminal| terminal.input.popup.as_mut()) {
                popup.offered = Some(EnterTakes(false));
            }
            self.follow_command(core, at, agent);
        }
    }

    fn follow_command(&mut self, core: &Core, at: TerminalId, agent: AgentId) {
        let typed = self.draft_at(core, at).map(Draft::expanded).unwrap_or_default();
        let found = commands::complete(&typed, &core.command_context(agent, self.infos(at)));
        let items: Vec<Item> = found.iter().map(command_item).collect();
        let is_name = !typed.contains(char::is_whitespace);
        match self.get_mut(at).and_then(|terminal| terminal.input.popup.as_mut()) {
            // Arguments are offered when they are asked for.
            Some(popup) if !items.is_empty() && (is_name || popup.offered.is_none()) => {
                popup.replace(items);
                if popup.offered.is_some() {
                    popup.offered = Some(EnterTakes(is_part_of_name(&typed, &found)));
                }
            }
            _ => self.close_popup(at),
        }
    }

    fn open_mentions(&mut self, core: &mut Core, at: TerminalId, agent: AgentId, start: usize) {
        if self.files.as_ref().is_none_or(|files| !files.is_fresh(core, agent)) {
            match Files::start(core, agent) {
                Some(Ok(files)) => self.files = Some(files),
                Some(Err(error)) => return self.notify(at, error.message),
                None => return,
            }
        }
        self.open_popup(at, PopupKind::Mentions(start), Vec::new());
        self.follow_mention(core, at, agent, start);
    }

    fn follow_mention(&mut self, core: &Core, at: TerminalId, agent: AgentId, start: usize) {
        let query = self.draft_at(core, at).and_then(|draft| mention_in(draft.text(), draft.cursor()));
        let Some(query) = query.filter(|(at, _)| *at == start).map(|(_, query)| query.to_owned()) else {
            return self.close_popup(at);
        };
        let Self { terminals, files: Some(files), .. } = self else { return };
        files.note_use(core.now());
        let Some(terminal) = terminals.get_mut(&at) else { return };
        let mentions = match terminal.input.mentions.take() {
            Some(mentions) => mentions.refine(&query, files),
            None => Mentions::new(&query),
        };
        terminal.input.mentions = Some(mentions);
        self.search_files(core, at, agent);
    }

    /// Compares some more files with what follows the `@` at this terminal.
    fn search_files(&mut self, core: &Core, at: TerminalId, agent: AgentId) {
        let Self { terminals, files: Some(files), .. } = self else { return };
        let Some(input) = terminals.get_mut(&at).map(|terminal| &mut terminal.input) else { return };
        if let (Some(mentions), Some(popup)) = (&mut input.mentions, &mut input.popup) {
            mentions.advance(files);
            popup.replace(mentions.items(files, core, agent));
            popup.is_incomplete = mentions.has_more(files);
            input.revision += 1;
        }
    }

    /// The terminals whose search for files is not complete.
    pub(super) fn searching(&self) -> Vec<(TerminalId, AgentId)> {
        let Some(files) = &self.files else { return Vec::new() };
        let searching = self.terminals.iter().filter(|(_, terminal)| {
            !terminal.is_detached() && terminal.input.mentions.as_ref().is_some_and(|mentions| mentions.has_more(files))
        });
        searching.map(|(id, terminal)| (*id, terminal.focus)).collect()
    }

    /// When the list of files is dropped: some time after its last use, if no terminal shows it.
    pub(super) fn files_expire(&self) -> Option<Moment> {
        let is_shown = self.iter().any(|terminal| terminal.input.mentions.is_some());
        self.files.as_ref().filter(|_| !is_shown).map(Files::expires)
    }

    pub(super) fn step_searches(&mut self, core: &Core) {
        if self.files_expire().is_some_and(|at| at <= core.now()) {
            self.files = None;
        }
        for (id, agent) in self.searching() {
            self.search_files(core, id, agent);
        }
    }

    pub(super) fn search_history(&mut self, core: &Core, at: TerminalId) {
        let inputs = core.store().inputs(&project(core)).unwrap_or_default();
        let item = |row: crate::store::InputRow| Item { text: row.excerpt, input: Some(row.id), ..Item::default() };
        let items: Vec<Item> = inputs.into_iter().map(item).collect();
        if items.is_empty() {
            return self.notify(at, "no earlier input".into());
        }
        self.open_popup(at, PopupKind::History, items);
    }

    /// Whether nothing is drawn at this terminal.
    pub(in crate::repl) fn is_line_mode(&self, id: TerminalId) -> bool {
        self.get(id).is_some_and(|terminal| terminal.lines.is_some())
    }

    /// Shows all commands and keys, the keys first if they were asked for.
    pub(in crate::repl) fn show_help(&mut self, core: &Core, at: TerminalId, keys_first: bool) {
        let Some(terminal) = self.get(at) else { return };
        let rows = commands::help_rows(&core.command_context(terminal.focus, Vec::new()), keys_first);
        let item = |row: commands::HelpRow| Item {
            text: row.term,
            about: row.about,
            group: row.group,
            value: row.line,
            ..Item::default()
        };
        self.open_popup(at, PopupKind::Help, rows.into_iter().map(item).collect());
    }
}

/// Whether the typed text is not yet a command, but the beginning of the first one that was found.
fn is_part_of_name(typed: &str, found: &[commands::Completion]) -> bool {
    let is_command = commands::find(&typed[1..]).is_some() || found.iter().any(|found| found.line.trim_end() == typed);
    typed.len() > 1 && !is_command && found.first().is_some_and(|first| first.line.starts_with(typed))
}

fn command_item(found: &commands::Completion) -> Item {
    let line = found.line.trim_end();
    let text = line.rsplit(' ').next().unwrap_or(line).to_owned();
    Item { text, about: found.about.clone(), value: found.line.clone(), ..Item::default() }
}

fn common_prefix<'a>(mut texts: impl Iterator<Item = &'a str>) -> &'a str {
    let Some(first) = texts.next() else { return "" };
    texts.fold(first, |shared, text| {
        let same = shared.char_indices().zip(text.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        &shared[..same.unwrap_or_else(|| shared.len().min(text.len()))]
    })
}
