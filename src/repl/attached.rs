//! Terminals of clients (`polylogue attach`): keys and frames pass between a client's connection and its terminal.

use std::path::PathBuf;

use crate::base::error::Result;
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::base::text;
use crate::domain::choices::Opening;
use crate::domain::display::Abilities;
use crate::domain::flow::Origin;
use crate::domain::wire::{Request, Response, TerminalFacts};
use crate::repl::core::Core;
use crate::repl::core::remove::is_killing;
use crate::repl::server::Server;
use crate::repl::terminals::Terminals;
use crate::repl::{Device, RemoteTerminal, Repl, Terminal, TerminalMode, TerminalRequest, WayBack};
use crate::terminal::screen::Palette;

/// Bytes of keys that are buffered for a terminal; more stay in its connection.
const MOST_KEYS: usize = 64 * 1024;
/// Columns and rows. On a larger terminal only the upper left part is used.
const LARGEST: (u16, u16) = (2_000, 1_000);

/// The parts of the loop between which keys and frames of attached terminals pass.
pub(super) struct Attached<'a> {
    core: &'a mut Core,
    server: &'a mut Server,
    terminals: &'a mut Terminals,
}

impl Repl {
    pub(super) fn attached(&mut self) -> Attached<'_> {
        Attached { core: &mut self.core, server: &mut self.server, terminals: &mut self.terminals }
    }
}

impl Repl {
    /// Attaches a terminal for a client, at the conversation that it opens.
    pub(super) fn attach_client(
        &mut self,
        id: ClientId,
        opening: Opening,
        is_read_only: bool,
        (facts, directory): (&TerminalFacts, Option<PathBuf>),
    ) -> Result<()> {
        let opened = self.open_conversation(opening, directory.as_deref())?;
        let TerminalFacts { columns, rows, color, attributes, unicode, is_in_tmux, abilities, .. } = *facts;
        let abilities = Abilities { is_in_tmux, ..abilities };
        let palette = Palette { color, attributes, unicode, links: abilities.has_links };
        let size = clamp_size((columns, rows));
        let device = RemoteTerminal { size, palette, abilities, directory, ..RemoteTerminal::default() };
        let mode = TerminalMode { is_read_only, is_attached: true, is_scripted: facts.is_scripted };
        let terminal = self.attach_opened(Device::Remote(device), mode, opened);
        self.server.attach(&mut self.core, id, terminal, facts);
        Ok(())
    }

    /// Tells clients whose terminals are about to be detached how to come back, and notes the same for the terminal of
    /// this process.
    pub(super) fn send_ways_back(&mut self) {
        for (id, terminal) in self.server.attached_terminals() {
            if let (WayBack::Options(back), Some(client)) = (self.way_back(terminal), self.server.get_mut(id)) {
                client.send(&Response::Back(back));
            }
        }
        let local = self.terminals.ids().into_iter().find(|id| self.terminals.get(*id).is_some_and(Terminal::is_local));
        self.process.way_back = local.map(|terminal| self.way_back(terminal));
    }

    /// The same for terminals that were detached in this turn, whose clients also get the reason.
    pub(super) fn end_detached(&mut self) {
        for (id, terminal) in self.server.attached_terminals() {
            if self.terminals.get(terminal).is_some_and(|terminal| !terminal.is_detached()) {
                continue;
            }
            let is_gone = self.terminals.get(terminal).is_none();
            let way = self.way_back(terminal);
            let agents = text::counted(self.core.roster().len(), "agent keeps", "agents keep");
            let reason = match &way {
                WayBack::Unopened if !is_gone => String::new(),
                WayBack::Unopened => format!("detached: {agents} running"),
                WayBack::Unwritten => {
                    format!("nothing was written, so this conversation is not kept; {agents} running")
                }
                WayBack::Options(back) => {
                    let back = Response::Back(back.clone());
                    self.server.get_mut(id).into_iter().for_each(|client| client.send(&back));
                    format!("detached: {agents} running")
                }
            };
            self.server.end_attachment(&mut self.core, id, &Response::End(reason));
        }
    }

    /// Detaches the terminals at which nothing more will be typed, if all agents are idle. A question that nobody will answer
    /// stays open.
    pub(super) fn leave_when_idle(&mut self) {
        if !self.terminals.has_scripted() {
            return;
        }
        for id in self.terminals.ids() {
            self.terminals.hold_texts(&self.core, id);
            if self.terminals.get(id).is_some_and(Terminal::is_through) && self.is_at_rest(id) {
                self.terminals.leave(Origin::Terminal(id));
            }
        }
    }

    /// Whether all agents are idle; in a process that serves others, those that this terminal has shown, and their descendants.
    fn is_at_rest(&mut self, id: TerminalId) -> bool {
        let is_shared = self.server.is_listening();
        let shown = self.terminals.get(id).map(|terminal| &terminal.shown);
        let roster = self.core.roster();
        let is_meant = |agent: AgentId| {
            let is_below = |top: &AgentId| *top == agent || roster.is_ancestor(*top, agent);
            !is_shared || shown.is_some_and(|shown| shown.iter().any(is_below))
        };
        let is_busy = roster.busy().iter().any(|agent| !roster.asking().contains(agent) && is_meant(*agent))
            || roster.iter().any(|agent| agent.view.has_command && is_meant(agent.id()));
        !is_busy && !is_killing(&self.core) && (is_shared || !self.split().1.any(|component| component.has_to_end()))
    }
}

impl Attached<'_> {
    /// Sends clients what happened in this turn.
    pub(super) fn publish(&mut self) {
        self.send_frames();
        self.server.publish(self.core);
        self.detach_released();
    }

    /// Takes the requests of attached terminals, while they are not too far ahead.
    pub(super) fn read(&mut self) {
        for (id, terminal) in self.server.attached_terminals() {
            while let Some(remote) = self.terminals.get_mut(terminal).and_then(Terminal::remote)
                && remote.input.len() < MOST_KEYS
                && let Some(request) = self.server.next_request_of(self.core, id)
            {
                match request {
                    Request::Keys { keys, is_last } => {
                        remote.input.extend(keys);
                        self.terminals.get_mut(terminal).filter(|_| is_last).into_iter().for_each(Terminal::end_input);
                    }
                    Request::Size { columns, rows } => remote.size = clamp_size((columns, rows)),
                    Request::Edited { text, error } => {
                        let ended = error.map_or(Ok(text), Err);
                        self.terminals.on_edited(self.core, terminal, ended);
                    }
                    Request::Pasted { image, error } => {
                        self.terminals.on_pasted(self.core, terminal, error.map_or(Ok(image), Err));
                    }
                    _ => self.terminals.get_mut(terminal).into_iter().for_each(Terminal::redraw),
                }
            }
        }
    }

    /// Whether an attached terminal would take a frame, and there is one.
    pub(super) fn has_frames(&self) -> bool {
        self.server.attached_terminals().into_iter().any(|(id, terminal)| {
            let is_ready = self.server.get(id).is_some_and(|client| client.connection.is_ready());
            is_ready && self.terminals.get(terminal).is_none_or(Terminal::has_output)
        })
    }

    /// Sends what was drawn, and detaches the terminals that are done.
    fn send_frames(&mut self) {
        for (id, terminal) in self.server.attached_terminals() {
            self.send_frame(id, terminal);
        }
    }

    /// No frame is drawn before the client has taken the last one.
    fn send_frame(&mut self, id: ClientId, terminal: TerminalId) {
        let Some(client) = self.server.get_mut(id) else { return };
        let Some(terminal) = self.terminals.get_mut(terminal).filter(|terminal| !terminal.is_detached()) else {
            return;
        };
        if let Some(remote) = terminal.remote() {
            if client.connection.is_ready() && !remote.output.is_empty() {
                // Frames are taken whole, so no character is split.
                let frame = String::from_utf8_lossy(&std::mem::take(&mut remote.output)).into_owned();
                client.send(&Response::Frame(frame));
            }
            remote.takes_more = client.connection.is_ready();
        }
        // Only after the frame was taken.
        if client.connection.is_ready() && terminal.take_requests().contains(&TerminalRequest::Suspend) {
            client.send(&Response::Suspend {});
        }
        let is_full = terminal.remote().is_some_and(|remote| remote.input.len() >= MOST_KEYS);
        client.set_key_bytes(terminal.buffered_bytes(), is_full);
        if client.has_left() && (terminal.is_held() || !terminal.has_keys()) {
            self.server.remove(self.core, id);
        }
    }

    /// Detaches the terminals whose client has left, and remembers which agent the last of them showed.
    pub(super) fn detach_released(&mut self) {
        for id in self.server.take_released_terminals() {
            if let Some(terminal) = self.terminals.get(id).filter(|_| !self.terminals.is_picking(id)) {
                self.server.last_focus = Some(terminal.focus);
            }
            self.terminals.detach(self.core, id);
        }
    }
}

fn clamp_size((columns, rows): (u16, u16)) -> (u16, u16) {
    (columns.min(LARGEST.0), rows.min(LARGEST.1))
}
