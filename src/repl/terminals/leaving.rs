//! Leaving: what Ctrl+C, `/exit`, `/detach` and Ctrl+Z mean at a terminal.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::base::text;
use crate::domain::flow::Origin;
use crate::domain::keymap::KeyAction;
use crate::domain::scrollback::LineKind;
use crate::reactor::Source;
use crate::repl::component::Turn;
use crate::repl::core::{Core, files};
use crate::repl::terminals::terminal::Repeat;
use crate::repl::terminals::{Terminal, Terminals};

/// Within this time a second Ctrl+C leaves although agents are busy.
const SECOND_PRESS: Duration = Duration::from_secs(2);
/// How often it is looked at whether the shell has given the terminal back.
const SHELL_POLL: Duration = Duration::from_secs(1);
/// Within this time a line that is entered again is carried out.
const REPEAT: Duration = Duration::from_secs(30);
/// Enter again within this time is a held key, which does not confirm.
const HELD: Duration = Duration::from_millis(300);
/// Names of busy agents in the warning; more are counted.
const MOST_NAMES: usize = 4;

/// The activities of these agents, with their names; `None` if there are no agents.
fn said_of(core: &Core, agents: &[AgentId], (one, many): (&str, &str)) -> Option<String> {
    let names = || agents.iter().map(|agent| core.roster().label_of(*agent)).collect::<Vec<_>>().join(", ");
    match agents.len() {
        0 => None,
        1 => Some(format!("{} {one}", names())),
        count if count > MOST_NAMES => Some(format!("{count} agents {many}")),
        _ => Some(format!("{} {many}", names())),
    }
}

/// Takes a terminal again. That it fails is said where a person may read it.
fn resume(core: &mut Core, terminal: &mut Terminal) {
    if let Err(error) = terminal.resume() {
        core.note(terminal.focus, LineKind::Error, &error.message);
    }
}

/// How many commands run in the background, in words; none if there are none.
fn background_commands(core: &Core) -> Option<String> {
    let agents = core.roster().with_background().iter().filter_map(|id| core.agent(*id));
    let count = agents.map(|agent| agent.background_commands()).sum();
    let counted = text::counted(count, "command runs in the background", "commands run in the background");
    (count > 0).then_some(counted)
}

/// The work that would end with the chat, in words: busy agents, agents that ask, commands in the background.
fn at_work(core: &Core) -> Vec<String> {
    let asking = core.roster().asking();
    let (asking, busy): (Vec<AgentId>, Vec<AgentId>) =
        core.roster().busy().iter().partition(|agent| asking.contains(agent));
    let agents = [said_of(core, &busy, ("is busy", "are busy")), said_of(core, &asking, ("asks", "ask"))];
    agents.into_iter().flatten().chain(background_commands(core)).collect()
}

/// The key or command that lets the chat continue without its terminal.
fn background_key(core: &Core) -> String {
    let keys = core.config().keymap.keys_of(KeyAction::Background);
    keys.into_iter().next().unwrap_or_else(|| "/background".to_owned())
}

impl Terminals {
    /// Leaves, unless agents are busy: then says which, and leaves at a second press. An attached terminal only detaches.
    /// `can_go_on`: the chat can go on without the terminal of this process.
    pub(in crate::repl) fn leave_or_warn(&mut self, core: &Core, id: TerminalId, can_go_on: bool) -> Turn {
        let now = core.now();
        let others = self.others();
        let there = if others.is_some() { "; leaving ends the chat there too" } else { "" };
        let parts: Vec<String> = at_work(core).into_iter().chain(others).collect();
        let Some(terminal) = self.get_mut(id) else { return Turn::Continue };
        let is_second = terminal.input.leaves_until.is_some_and(|until| now <= until);
        if terminal.mode.is_attached || parts.is_empty() || is_second {
            return self.leave(Origin::Terminal(id));
        }
        terminal.input.leaves_until = Some(now + SECOND_PRESS);
        let offer = can_go_on.then(|| format!("; {} goes on in the background", background_key(core)));
        let offer = offer.unwrap_or_default();
        self.notify(id, format!("{}: press again within 2 s to leave{offer}{there}", parts.join(", ")));
        Turn::Continue
    }

    /// The number of other attached terminals, in words; `None` if there are no others.
    fn others(&self) -> Option<String> {
        let others = self.terminals.len().saturating_sub(1);
        (others > 0).then(|| text::counted(others, "other terminal is attached", "other terminals are attached"))
    }

    /// Why `/exit` has to be entered twice: it would end the work of agents, or the chat at other terminals too.
    pub(in crate::repl) fn warning_before_exit(&self, core: &Core, id: TerminalId, can_go_on: bool) -> Option<String> {
        self.get(id).filter(|terminal| !terminal.mode.is_attached)?;
        let (mut parts, others) = (at_work(core), self.others());
        let end = match (parts.is_empty(), &others) {
            (true, None) => return None,
            (true, Some(_)) => "exit there too",
            (false, None) => "exit and end this",
            (false, Some(_)) => "end all of this",
        };
        parts.extend(others);
        let offer =
            if can_go_on { format!("; {} goes on in the background", background_key(core)) } else { String::new() };
        Some(format!("{}: press Enter again to {end}{offer}", parts.join(", ")))
    }

    /// Whether the person was asked to enter this line again, and has done so in time.
    pub(in crate::repl) fn is_repeated(&mut self, core: &Core, id: TerminalId, line: &str) -> bool {
        let asked = self.get_mut(id).and_then(|terminal| terminal.input.repeats.take());
        asked.is_some_and(|asked| asked.line == line && (asked.from..=asked.until).contains(&core.now()))
    }

    /// Keeps the line in the draft, and says that entering it again carries it out.
    pub(in crate::repl) fn ask_to_repeat(
        &mut self,
        core: &mut Core,
        id: TerminalId,
        agent: AgentId,
        line: &str,
        warning: &str,
    ) {
        let now = core.now();
        let is_in_line_mode = self.get(id).is_some_and(|terminal| terminal.lines.is_some());
        let warning =
            if is_in_line_mode { warning.replace("press Enter", "enter this line") } else { warning.to_owned() };
        self.on_line_failed(core, id, agent, line, Error::usage(warning));
        if let Some(terminal) = self.get_mut(id) {
            // In line mode the whole line has to be typed again, which no held key does.
            let from = if is_in_line_mode { now } else { now + HELD };
            terminal.input.repeats = Some(Repeat { line: line.to_owned(), from, until: now + REPEAT });
        }
    }

    /// Leaves at this terminal: an attached one is detached and the program continues, otherwise it ends.
    pub(in crate::repl) fn leave(&mut self, origin: Origin) -> Turn {
        match self.attached_terminal(origin) {
            Some(terminal) => {
                terminal.detach();
                Turn::Continue
            }
            None => Turn::Exit,
        }
    }

    /// Detaches the terminal of a client, and the program continues. Returns whether this is one.
    pub(in crate::repl) fn detach_attached(&mut self, origin: Origin) -> bool {
        self.attached_terminal(origin).map(Terminal::detach).is_some()
    }

    /// Has the process of an attached terminal stopped. Returns whether this is one.
    pub(in crate::repl) fn suspend_remote(&mut self, id: TerminalId) -> bool {
        self.attached_terminal(Origin::Terminal(id)).map(Terminal::request_suspend).is_some()
    }

    /// Leaves the terminal to an editor of the draft: it is neither read nor drawn.
    pub(in crate::repl) fn hand_over(&mut self, core: &mut Core, id: TerminalId) {
        let Some(terminal) = self.get_mut(id) else { return };
        terminal.suspend();
        terminal.edited = Some(terminal.focus);
        if terminal.is_local() {
            core.reactor().unwatch(Source::Terminal);
        }
    }

    /// Takes a terminal back from an editor. Returns the agent whose draft it was.
    pub(in crate::repl) fn take_back(&mut self, core: &mut Core, id: TerminalId) -> Option<AgentId> {
        let terminal = self.get_mut(id)?;
        let agent = terminal.edited.take()?;
        resume(core, terminal);
        Some(agent)
    }

    /// The editor at this terminal has ended, or a pager, without a text. A text for an agent that was removed in the
    /// meantime goes to the one that is shown.
    pub(in crate::repl) fn on_edited(
        &mut self,
        core: &mut Core,
        id: TerminalId,
        ended: std::result::Result<Option<String>, String>,
    ) {
        let Some(agent) = self.take_back(core, id) else { return };
        match ended {
            Ok(Some(text)) => self.set_draft(core, id, agent, &text),
            Ok(None) => {}
            Err(error) => self.notify(id, error),
        }
    }

    /// The image in the clipboard was read for this terminal, or there is none: attaches it to the draft.
    pub(in crate::repl) fn on_pasted(
        &mut self,
        core: &mut Core,
        id: TerminalId,
        image: std::result::Result<Vec<u8>, String>,
    ) {
        let Some(agent) = self.get(id).map(|terminal| terminal.focus).filter(|_| !self.is_read_only(id)) else {
            return;
        };
        match image.map_err(Error::usage).and_then(|bytes| files::attach_image(core, agent, &bytes)) {
            Ok(marker) => {
                self.edit(core, id, |draft| draft.attach(&marker));
                self.get_mut(id).into_iter().for_each(|terminal| terminal.input.notice = None);
            }
            Err(error) => self.notify(id, error.message),
        }
    }

    /// Leaves every terminal of this process as it was found.
    pub(in crate::repl) fn suspend_all(&mut self) {
        self.iter_mut().for_each(Terminal::suspend);
    }

    /// Leaves the terminals of this process, which were suspended, to the shell.
    pub(in crate::repl) fn leave_to_shell(&mut self, core: &mut Core) {
        for terminal in self.iter_mut().filter(|terminal| terminal.is_local()) {
            terminal.is_at_shell = true;
            core.reactor().unwatch(Source::Terminal);
        }
    }

    /// Whether the shell has the terminal of this process, which goes on for others.
    pub(in crate::repl) fn is_at_shell(&self) -> bool {
        self.iter().any(|terminal| terminal.is_at_shell)
    }

    /// When to look whether the shell has given the terminal back, if no signal tells that.
    pub(super) fn shell_deadline(&self, now: Moment) -> Option<Moment> {
        self.iter().any(|terminal| terminal.may_come_back).then(|| now + SHELL_POLL)
    }

    /// Takes the terminal of this process again if the shell has given it back.
    pub(super) fn check_shell(&mut self, core: &mut Core) {
        for terminal in self.iter_mut().filter(|terminal| terminal.may_come_back && terminal.is_in_foreground()) {
            resume(core, terminal);
        }
    }

    /// Takes the terminals of this process again.
    pub(in crate::repl) fn resume_all(&mut self) -> Result<()> {
        self.iter_mut().try_for_each(Terminal::resume)
    }

    fn attached_terminal(&mut self, origin: Origin) -> Option<&mut Terminal> {
        self.get_mut(origin.terminal()?).filter(|terminal| terminal.mode.is_attached)
    }
}
