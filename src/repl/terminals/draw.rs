//! Draws frames: at most one per terminal and turn, and only if something visible has changed.
//!
//! ```text
//!   text of the conversation      scrolls
//!   ⠹ waiting for the model 3 s   while the agent works
//!   ── !web asks ─ agent 0 ────   separator
//!   queued, question, notice
//!   > what is typed
//!   directory   model             status line
//! ```

use std::collections::BTreeSet;

use crate::agent::{Agent, Role, State};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId, TerminalId};
use crate::base::text;
use crate::domain::display::Progress;
use crate::domain::flow::TurnEnd;
use crate::domain::frame::{Frame, Row};
use crate::domain::scrollback::{LineKind, Reader};
use crate::repl::core::log::count_context;
use crate::repl::core::{Core, activity, agent_gone, drafts, read_branch};
use crate::repl::terminals::painter::{Painted, Painter, ScreenInfo};
use crate::repl::terminals::question::{QuestionKeys, QuestionView};
use crate::repl::terminals::separator::{MOST_NAMES, Names, Separator};
use crate::repl::terminals::status::StatusLine;
use crate::repl::terminals::{Notice, Terminal, Terminals, leave_view, lines, overview, reports, unseen};
use crate::repl::timeout::SPINNER_STEP;
use crate::team::Gate;

/// Messages that are read from the store at a time.
const OLDER_MESSAGES: usize = 200;
/// Messages that are read to scroll to one of them.
const MOST_SCROLLED: usize = 5_000;
/// Queue entries that are shown above the input.
pub(in crate::repl) const QUEUE_ROWS: usize = 3;
/// The fewest rows on which a question can be shown and answered.
const ROWS_TO_ASK: u16 = 8;
/// The fewest columns on which a question can be shown and answered.
const COLUMNS_TO_ASK: u16 = 20;
/// Columns on the left for the sign of the kind of text.
pub(super) const GUTTER: u16 = 2;

/// Everything on which a frame depends: if it is unchanged, so is the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::repl) struct VisibleState {
    focus: AgentId,
    size: (u16, u16),
    revision: u64,
    /// How many of the revisions were pieces of streamed text.
    streamed: u64,
    /// The revision of what belongs to the terminal alone.
    terminal_revision: u64,
    spinner: u128,
    notice: Option<String>,
    /// The notes above replies that were seen.
    asides: u64,
    agents: usize,
    at_work: usize,
    /// Changes with what the children of the agent do.
    children: u64,
    asking: Vec<AgentId>,
    /// Changes with the agents that have finished unseen.
    unseen: u64,
    position: Option<usize>,
    gate: Option<Gate>,
    /// The agent whose question may be shown.
    asked: Option<AgentId>,
    question: Option<u64>,
    question_keys: QuestionKeys,
    /// Changes with the content of an open view.
    view: Option<u64>,
}

impl VisibleState {
    pub(in crate::repl) fn has_shown(&self, agent_id: AgentId, question: u64) -> bool {
        self.asked == Some(agent_id) && self.question == Some(question)
    }

    /// Whether this only shows more streamed text than `shown`, or newer contents of the same view.
    fn is_only_text(&self, shown: &Self) -> bool {
        if self.view.is_some() && shown.view.is_some() {
            return self.view != shown.view && self.terminal_revision == shown.terminal_revision;
        }
        let text = self.streamed.saturating_sub(shown.streamed);
        let (revision, streamed) = (shown.revision + text, self.streamed);
        text > 0 && *self == Self { revision, streamed, spinner: self.spinner, ..shown.clone() }
    }

    /// Whether it shows a view, and this is still the state of the terminal itself.
    fn is_of_view(&self, terminal_revision: u64, focus: AgentId, size: (u16, u16)) -> bool {
        self.view.is_some() && (self.terminal_revision, self.focus, self.size) == (terminal_revision, focus, size)
    }

    /// The meaning of keys in the frame, if it shows a question.
    pub(in crate::repl) fn question_keys(&self) -> Option<QuestionKeys> {
        self.question.map(|_| self.question_keys)
    }
}

/// Whether a question can be shown so that it could be answered.
pub(super) fn is_large_enough_to_ask((columns, rows): (u16, u16)) -> bool {
    columns >= COLUMNS_TO_ASK && rows >= ROWS_TO_ASK
}

/// The columns that text of the conversation has on a terminal of this width.
pub(in crate::repl) fn text_width(columns: u16) -> u16 {
    columns.saturating_sub(GUTTER).max(1)
}

/// The file in which a rule for the agent's directory would be saved, if it would.
pub(in crate::repl) fn rule_file(core: &Core, agent: &Agent) -> Option<String> {
    let environment = &agent.inputs.environment;
    let is_lasting = environment.worktree.is_none() && environment.remote.is_none();
    core.config().user_file.as_ref().filter(|_| is_lasting).map(|file| file.display().to_string())
}

impl Terminals {
    /// Draws the terminals whose visible state has changed. Returns them with the agents that they show.
    pub(in crate::repl) fn render(&mut self, core: &mut Core) -> Vec<(TerminalId, AgentId)> {
        let mut drawn = Vec::new();
        for at in self.ids() {
            self.report(core, at);
            if self.postpones_view(core, at) {
                continue;
            }
            self.update_view(core, at);
            self.search_typed(core, at);
            let frames = self.get(at).map(|terminal| terminal.display.frames);
            self.draw(core, at);
            let terminal = self.get(at).filter(|terminal| Some(terminal.display.frames) != frames);
            drawn.extend(terminal.map(|terminal| (at, terminal.focus)));
        }
        self.alert(core);
        drawn
    }

    /// Says at terminals without focus that agents have finished or ask.
    fn alert(&mut self, core: &Core) {
        let Some(message) = self.alerts.take() else { return };
        if self.iter().all(Terminal::is_away) {
            self.alerts.run(&core.config().display.notify_command, &text::sanitise(&message));
        }
        self.iter_mut().for_each(|terminal| terminal.alert(&message));
    }

    /// Tells a terminal that shows it what has changed in what the agents do.
    fn report(&mut self, core: &Core, at: TerminalId) {
        let Some(terminal) = self.get(at).filter(|terminal| terminal.takes_reports()) else { return };
        let Some(shown) = core.agent(terminal.focus) else { return };
        let reports = reports::reports(core, &self.unseen, shown);
        if let Some(terminal) = self.get_mut(at) {
            terminal.report(reports);
        }
    }

    fn draw(&mut self, core: &mut Core, at: TerminalId) {
        let Some(state) = self.changed_state(core, at) else { return };
        core.edit(state.focus, |agent| agent.view.scrollback.update());
        read_branch(core, state.focus);
        if self.get(at).is_some_and(|terminal| terminal.lines.is_some()) {
            return self.print_lines(core, at, state);
        }
        self.ask_for_colors(core, at);
        let painted = self.painter(core, at, &state).zip(core.agent(state.focus)).and_then(|(painter, agent)| {
            Some((self.paint(core, at, &painter, agent)?, painter.title(agent), painter.progress(agent)))
        });
        let (Some((painted, title, progress)), Some(terminal)) = (painted, self.get_mut(at)) else { return };
        let (focus, now) = (state.focus, core.now());
        let columns = terminal.size.0;
        terminal.input.view.iter_mut().for_each(|view| view.on_drawn(painted.page.as_ref(), columns, now));
        let asked = state.question.zip(painted.page).zip(state.asked);
        terminal.note_question(
            asked.map(|((number, page), asked)| (asked, number, page)),
            painted.has_whole_rules,
            now,
        );
        terminal.display.text_rows = painted.frame.scrolling_rows;
        terminal.display.shown = Some(state);
        terminal.display.frames += 1;
        terminal.display.drawn_at = now;
        terminal.display.text_at = None;
        self.show_painted(core, at, focus, &painted.frame, title, progress);
        self.settle_view(core, at, focus);
    }

    /// Whether the view at this terminal was just drawn, and no key has acted since. Its list is not read again before
    /// it may be drawn again: with many agents that costs more than the frames.
    fn postpones_view(&mut self, core: &Core, at: TerminalId) -> bool {
        let now = core.now();
        let Some(terminal) = self.get_mut(at) else { return false };
        // What was found is an answer to a key.
        terminal.input.revision += u64::from(terminal.input.view.as_ref().is_some_and(|view| view.has_found()));
        let next = terminal.display.drawn_at + core.config().display.frame_interval;
        let is_unchanged =
            |shown: &VisibleState| shown.is_of_view(terminal.input.revision, terminal.focus, terminal.size);
        let is_shown = terminal.input.view.is_some() && terminal.display.shown.as_ref().is_some_and(is_unchanged);
        let postpones = is_shown && now < next;
        if postpones {
            terminal.display.text_at = Some(next);
        }
        postpones
    }

    /// The conversation of an agent, or the view that replaces it.
    fn paint(&self, core: &Core, at: TerminalId, painter: &Painter, agent: &Agent) -> Option<Painted> {
        match &self.get(at)?.input.view {
            Some(view) => self.paint_view(core, painter, view, agent.id()),
            None => Some(painter.paint(agent)),
        }
    }

    fn show_painted(
        &mut self,
        core: &mut Core,
        at: TerminalId,
        focus: AgentId,
        frame: &Frame,
        title: String,
        progress: Progress,
    ) {
        let reader = self.reader(at);
        let (Some(terminal), Some(agent)) = (self.get_mut(at), core.agent(focus)) else { return };
        let overview = overview::rows(core, terminal, agent);
        let Some(inline) = &mut terminal.inline else { return terminal.show(frame, title, progress) };
        inline.retain(|agent| core.agent(agent).is_some());
        let is_overlaid = terminal.input.view.is_some()
            || terminal.input.popup.is_some()
            || agent.view.scrollback.has_position(reader);
        let step = (!is_overlaid).then(|| inline.step(agent, frame, overview, terminal.size.1));
        let printed = inline.printed_of(focus);
        terminal.show_inline(step, frame, title, progress);
        if let Some(printed) = printed {
            core.edit(focus, |agent| agent.view.scrollback.note_printed(printed));
        }
    }

    /// Prints new output, in line mode.
    fn print_lines(&mut self, core: &mut Core, at: TerminalId, state: VisibleState) {
        let Some(agent) = core.agent(state.focus) else { return };
        let end = self.painter(core, at, &state).map(|painter| painter.last_rows(agent, lines::LAST_ROWS));
        let end = end.unwrap_or_default().iter().map(Row::text).collect();
        let Some(terminal) = self.get_mut(at) else { return };
        let notice = terminal.input.notice.take().map(|notice| notice.text);
        // Only a frame would show the question.
        terminal.display.shown = Some(VisibleState { question: None, notice: None, ..state });
        terminal.display.frames += 1;
        let asked = terminal.input.view.as_mut().and_then(|view| view.take_lines());
        let Some(lines) = &mut terminal.lines else { return };
        let mut out = lines.show(agent, || end) + &lines.update(agent);
        out += &asked.map(|asked| lines::line("polylogue", &asked)).unwrap_or_default();
        out += &notice.map(|notice| lines::line("polylogue", &notice)).unwrap_or_default();
        terminal.print(&out);
    }

    /// Prints the end of the conversation on the screen of the shell, when the program ends.
    pub(in crate::repl) fn print_ends(&mut self, core: &mut Core) {
        for at in self.ids() {
            let Some(terminal) = self.get(at).filter(|terminal| terminal.prints_end() && !self.is_picking(at)) else {
                continue;
            };
            if terminal.inline.is_some() {
                self.print_rest(core, at);
                continue;
            }
            let rows = match core.config().display.exit_print {
                "none" => continue,
                "all" => u16::MAX,
                _ => terminal.size.1.saturating_mul(2),
            };
            let (focus, reader) = (terminal.focus, self.reader(at));
            core.edit(focus, |agent| {
                agent.view.scrollback.update();
                agent.view.scrollback.to_bottom(reader);
            });
            let has_conversation = core.store().tail(focus, None, 1).is_ok_and(|messages| !messages.is_empty());
            let (Some(agent), Some(state)) = (core.agent(focus), self.visible_state(core, at)) else { continue };
            let end = self.painter(core, at, &state).filter(|_| has_conversation);
            let end = end.map(|painter| painter.last_rows(agent, rows)).unwrap_or_default();
            if let Some(terminal) = self.get_mut(at) {
                terminal.print_end(&end);
            }
        }
    }

    /// Prints the remaining output of the agent that an inline terminal shows.
    fn print_rest(&mut self, core: &mut Core, at: TerminalId) {
        let Some(focus) = self.get(at).map(|terminal| terminal.focus) else { return };
        core.edit(focus, |agent| agent.view.scrollback.update());
        let (Some(agent), Some(terminal)) = (core.agent(focus), self.get_mut(at)) else { return };
        let columns = terminal.size.0;
        let rows = terminal.inline.as_mut().map(|inline| inline.take_rest(agent, columns)).unwrap_or_default();
        terminal.print_end(&rows);
    }

    /// Follows the end of the text as it grows, if all terminals of this reader show it.
    fn settle_view(&self, core: &mut Core, at: TerminalId, focus: AgentId) {
        let reader = self.reader(at);
        let is_same_reader = |id: &TerminalId| self.reader(*id) == reader;
        let terminals = self.showing(&[focus]);
        let screens = terminals.into_iter().filter(is_same_reader).filter_map(|id| self.get(id));
        let screens: Vec<(u16, u16)> =
            screens.map(|terminal| (text_width(terminal.size.0), terminal.display.text_rows)).collect();
        core.edit(focus, |agent| agent.view.scrollback.follow_if_at_end(reader, &screens));
    }

    fn painter<'a>(&'a self, core: &'a Core, at: TerminalId, state: &VisibleState) -> Option<Painter<'a>> {
        let terminal = self.get(at)?;
        Some(Painter {
            size: state.size,
            spinner: state.spinner,
            notice: terminal.input.notice.as_ref().map(|notice| notice.text.clone()),
            // An inline terminal prints them above what is live.
            asides: terminal.inline.is_none().then_some(terminal.input.asides),
            draft: self.shown_draft(core, at),
            reader: self.reader(at),
            overview: overview::rows(core, terminal, core.agent(terminal.focus)?),
            screen_info: self.screen_info(core, terminal)?,
            activity: activity::activity(core, state.focus, true),
            question: self.question_view(terminal, state),
            question_keys: state.question_keys,
            popup: terminal.input.popup.as_ref(),
            is_vi_normal: terminal.input.vi.is_normal(),
            selected: terminal.input.selected,
        })
    }

    /// The part of the question that this terminal has shown.
    fn question_view<'a>(&self, terminal: &'a Terminal, state: &VisibleState) -> Option<&'a QuestionView> {
        let number = state.question?;
        terminal.display.question_view(state.asked?, number, state.size.0)
    }

    /// The visible state of a terminal if it has changed, the terminal accepts output, and the last frame is not too recent.
    fn changed_state(&mut self, core: &Core, at: TerminalId) -> Option<VisibleState> {
        let state = self.visible_state(core, at)?;
        let now = core.now();
        let terminal = self.get_mut(at)?;
        let shown = terminal.display.shown.as_ref();
        let is_stale = shown != Some(&state);
        let next = terminal.display.drawn_at + core.config().display.frame_interval;
        let is_early = now < next && shown.is_some_and(|shown| state.is_only_text(shown));
        terminal.display.text_at = is_early.then_some(next);
        terminal.display.is_behind = is_stale && !terminal.is_ready();
        (is_stale && !is_early && !terminal.display.is_behind).then_some(state)
    }

    fn visible_state(&self, core: &Core, at: TerminalId) -> Option<VisibleState> {
        let terminal = self.get(at)?;
        let agent = core.agent(terminal.focus)?;
        let (now, worker) = (core.now(), activity::worker(core, terminal.focus));
        let gate = core.send_queue().gate_of(worker, now);
        let countdown = core.agent(worker).and_then(|worker| activity::countdown(worker, gate.as_ref()));
        let step = match countdown {
            _ if !agent.view.is_spinning() => 0,
            Some(at) => activity::seconds_left(at, now).into(),
            None => (now - agent.started()).as_millis() / SPINNER_STEP.as_millis(),
        };
        let revision = agent.view.revision();
        // While the text changes the spinner need not move: a frame with one changed row costs half of one with two.
        let is_moved =
            |state: &&VisibleState| countdown.is_none() && state.focus == terminal.focus && state.revision != revision;
        let moved = terminal.display.shown.as_ref().filter(is_moved);
        let asked = terminal.asked_agent().and_then(|id| core.agent(id));
        let question = asked.and_then(Agent::question).map(|asked| asked.number);
        let question = question.filter(|_| is_large_enough_to_ask(terminal.size));
        let asked = asked.map(Agent::id);
        let shown = asked.zip(question);
        let shown = shown.and_then(|(id, number)| terminal.display.question_view(id, number, terminal.size.0));
        Some(VisibleState {
            focus: terminal.focus,
            size: terminal.size,
            revision,
            streamed: agent.view.streamed(),
            terminal_revision: terminal.input.revision,
            spinner: moved.map_or(step, |state| state.spinner),
            notice: terminal.input.notice.as_ref().map(|notice| notice.text.clone()),
            asides: terminal.input.asides,
            agents: core.roster().len(),
            at_work: core.roster().at_work().len(),
            children: overview::hash_children(core, terminal.focus),
            asking: core
                .roster()
                .asking()
                .iter()
                .copied()
                .chain(core.trees().all_held().map(|(held, _)| held))
                .collect(),
            unseen: self.unseen.revision(),
            position: core.send_queue().position_of(worker),
            gate,
            asked,
            question,
            question_keys: shown.map(|view| view.keys(now)).unwrap_or_default(),
            view: terminal.input.view.as_ref().map(|view| view.stamp(core)),
        })
    }

    /// Shows an agent on a terminal. Its stored drafts and messages are read when it is first shown.
    pub(in crate::repl) fn show(&mut self, core: &mut Core, at: TerminalId, id: AgentId) {
        let reader = self.reader(at);
        let Some(terminal) = self.get_mut(at) else { return };
        let left = std::mem::replace(&mut terminal.focus, id);
        terminal.input.recalled = None;
        if left != id {
            terminal.input.popup = None;
            terminal.input.mentions = None;
            let is_elsewhere = |notice: &mut Notice| notice.about.is_some_and(|about| about != id);
            if let Some(Notice { text, about: Some(about) }) = terminal.input.notice.take_if(is_elsewhere) {
                core.note(about, LineKind::Error, &text);
            }
            leave_view(core, at, reader, left);
        }
        // Behind a list to choose from nothing is seen.
        if !self.is_picking(at) && self.unseen.remove(id) {
            unseen::store_seen(core, id);
        }
        self.keep_shown(core, at);
        if core.agent(id).is_some_and(|agent| !agent.view.was_shown()) {
            core.edit(id, |agent| agent.view.show_first());
            show_older(core, id);
            count_context(core, id);
        }
        self.note_asides(core, at);
        drafts::load(core, id);
        if let Some(slot) = drafts::slot_at(core, at) {
            drafts::take_over(core, id, slot);
        }
    }

    /// The notes above the reply of the agent at this terminal count as seen.
    pub(super) fn note_asides(&mut self, core: &Core, at: TerminalId) {
        let Some(terminal) = self.get_mut(at) else { return };
        terminal.input.asides = core.agent(terminal.focus).map_or(0, |agent| agent.view.asides_count());
    }

    /// The parts of the screen around the conversation.
    fn screen_info<'a>(&'a self, core: &'a Core, terminal: &Terminal) -> Option<ScreenInfo<'a>> {
        let agent = core.agent(terminal.focus)?;
        let status = StatusLine {
            settings: &core.config().display,
            branch: core.branches().get(&agent.inputs.environment.working_directory),
            money: core.trees().money(core.roster(), agent.id()),
            names_provider: core.config().catalog.needs_provider(&agent.inputs.endpoint),
            is_attached: terminal.mode.is_attached,
            is_read_only: terminal.mode.is_read_only || core.store().is_read_only(),
        };
        let asked = terminal.asked_agent().and_then(|id| core.agent(id));
        let rule_file = asked.and_then(|asked| rule_file(core, asked));
        Some(ScreenInfo { separator: self.separator(core, agent), status, rule_file })
    }

    fn separator(&self, core: &Core, agent: &Agent) -> Separator {
        let (id, roster) = (agent.id(), core.roster());
        let label = |agent: &Agent| agent.identity.label();
        let asking = roster.asking().iter().copied().chain(core.trees().all_held().map(|(held, _)| held));
        let asking = asking.filter(|other| *other != id).filter_map(|other| roster.get(other));
        let asking: Vec<&Agent> = asking.filter(|agent| agent.role != Role::Summary).collect();
        let others = |set: &BTreeSet<AgentId>| set.len() - usize::from(set.contains(&id));
        let ended = |how| {
            let newest = self.unseen.newest(how).filter_map(|id| roster.get(id)).take(MOST_NAMES);
            let mut newest: Vec<&Agent> = newest.collect();
            newest.sort_by_key(|agent| agent.identity.number());
            Names::of(newest.into_iter().map(label), self.unseen.newest(how).count())
        };
        Separator {
            asking: Names::of(asking.iter().copied().map(label), asking.len()),
            label: label(agent),
            parent: roster.shown_parent(id).and_then(|parent| roster.get(parent)).map(label),
            title: if roster.len() > 1 { agent.title.clone() } else { String::new() },
            at_work: others(roster.at_work()),
            mail: agent.unread,
            interrupted: ended(TurnEnd::Interrupted),
            failed: ended(TurnEnd::Failed),
            finished: ended(TurnEnd::Completed),
        }
    }
}

/// Reads the conversation again, with replies as they were written or drawn.
pub(in crate::repl) fn toggle_raw(core: &mut Core, id: AgentId) -> Result<()> {
    core.edit(id, |agent| agent.view.toggle_raw()).ok_or_else(agent_gone)?;
    show_older(core, id);
    Ok(())
}

/// Reads the conversation again after older messages have reappeared.
pub(in crate::repl) fn show_again(core: &mut Core, id: AgentId) {
    let was_shown = core.edit(id, |agent| {
        agent.view.forget_lines();
        agent.view.was_shown()
    });
    if was_shown == Some(true) {
        show_older(core, id);
    }
}

/// Scrolls to a message of the agent's own log, for which the conversation is read again from there. False if the agent
/// streams, which cannot be read again, or if the message is too far back.
pub(super) fn show_from(core: &mut Core, id: AgentId, reader: Reader, message: MessageId) -> Result<bool> {
    let count = core.store().count_from(id, message, MOST_SCROLLED)?;
    if count == MOST_SCROLLED || core.agent(id).is_none_or(|agent| agent.state() != State::Idle) {
        return Ok(false);
    }
    let messages = core.store().tail(id, None, count)?;
    core.edit(id, |agent| {
        agent.view.forget_lines();
        agent.show_older(&messages, count);
        agent.view.scrollback.to_top(reader);
    });
    show_older(core, id);
    Ok(true)
}

/// Reads this many of the newest messages, if none were read yet, and lays out new text.
pub(super) fn show_newest(core: &mut Core, id: AgentId, count: usize) {
    if core.agent(id).is_some_and(|agent| agent.view.load_before() == Some(None))
        && let Ok(newest) = core.store().tail(id, None, count)
    {
        core.edit(id, |agent| agent.show_older(&newest, count));
    }
    core.edit(id, |agent| agent.view.scrollback.update());
}

/// Reads the next older messages into the scrollback.
pub(super) fn show_older(core: &mut Core, id: AgentId) {
    let Some(before) = core.agent(id).and_then(|agent| agent.view.load_before()) else { return };
    match core.store().tail(id, before, OLDER_MESSAGES) {
        Ok(older) => core.edit(id, |agent| agent.show_older(&older, OLDER_MESSAGES)).unwrap_or_default(),
        Err(error) => core.note(id, LineKind::Error, &error.message),
    }
}
