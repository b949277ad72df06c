//! Terminals at the other end of a connection: keys in, frames out. The program on their screen is the same one.

use super::client::{Client, ClientState};
use super::requests::usage;
use crate::base::error::Result;
use crate::base::id::TerminalId;
use crate::base::text;
use crate::commands;
use crate::domain::wire::{Request, Response, TerminalFacts};
use crate::repl::{Device, RemoteTerminal, Repl, Terminal, TerminalMode, TerminalRequest};
use crate::terminal::screen::Palette;

/// Keys that a terminal may be ahead of the house, in bytes: more are not looked at before these are.
const KEYS_AHEAD: usize = 64 * 1024;
/// The largest terminal that is drawn, in columns and rows: a larger one shows this much in its corner.
const LARGEST: (u16, u16) = (2_000, 1_000);

impl Repl {
    /// Where this client sits, if it is a terminal.
    pub(super) fn terminal_of(&self, number: u64) -> Option<TerminalId> {
        let client = self.serving.clients.get(&number)?;
        if let ClientState::Terminal(at) = client.state { Some(at) } else { None }
    }

    /// A terminal sits down: at whom it names, else where the last one sat.
    pub(super) fn attach_terminal(
        &mut self,
        agent_id: Option<&str>,
        is_read_only: bool,
        terminal: &TerminalFacts,
    ) -> Result<TerminalId> {
        let named = agent_id.map(|agent_id| commands::agent_called(&self.core.roster, agent_id)).transpose()?;
        let newest = || self.terminals.ids().pop().and_then(|at| Some(self.terminals.get(at)?.focus));
        let last = named.or(self.serving.last_focus).or_else(newest).or(self.core.roster.nth(0));
        let focus = last.expect("there is at least agent 0");
        let TerminalFacts { columns, rows, color, attributes, unicode, is_in_tmux } = *terminal;
        let palette = Palette { color, attributes, unicode };
        let device =
            RemoteTerminal { size: bounded((columns, rows)), palette, is_in_tmux, ..RemoteTerminal::default() };
        Ok(self.attach_device(Device::Remote(device), focus, TerminalMode { is_read_only, is_attached: true }))
    }

    /// What an attached terminal says.
    pub(super) fn on_terminal_line(&mut self, at: TerminalId, ask: Request) -> Result<()> {
        let Some(terminal) = self.terminal_at(at) else { return Ok(()) };
        match ask {
            Request::Keys { keys } => terminal.remote().map(|remote| remote.input.extend(keys)),
            Request::Size { columns, rows } => terminal.remote().map(|remote| remote.size = bounded((columns, rows))),
            Request::Redraw => {
                terminal.redraw();
                None
            }
            _ => return Err(usage("a terminal is attached here: ask for other things on another connection")),
        };
        Ok(())
    }

    /// Whether so many keys of this terminal were not looked at that more have to wait.
    pub(super) fn is_ahead(&mut self, number: u64) -> bool {
        let terminal = self.terminal_of(number).and_then(|at| self.terminal_at(at));
        terminal.and_then(|terminal| terminal.remote()).is_some_and(|remote| remote.input.len() >= KEYS_AHEAD)
    }

    /// Whether this terminal has typed what is still to be carried out, although it may have gone meanwhile.
    pub(super) fn has_typed_more(&self, number: u64) -> bool {
        self.terminal_of(number).and_then(|at| self.terminals.get(at)).is_some_and(Terminal::has_keys)
    }

    /// Whether there is something for this terminal that it would take.
    pub(super) fn has_frame(&self, client: &Client, at: TerminalId) -> bool {
        let is_drawn = self.terminals.get(at).is_none_or(|terminal| terminal.has_output());
        client.connection.is_ready() && is_drawn
    }

    /// Sends what was drawn, and does what the terminal's seat wishes. While the client has not taken what was sent before,
    /// nothing is drawn.
    pub(super) fn tell_frames(&mut self, number: u64) {
        let Some(at) = self.terminal_of(number) else { return };
        // Whoever hosts the loop may have taken the seat away.
        let Some(terminal) = self.terminals.get_mut(at) else { return self.detach_client(number) };
        let Some(client) = self.serving.clients.get_mut(&number) else { return };
        if terminal.is_detached() {
            return self.detach_client(number);
        }
        if let Some(remote) = terminal.remote() {
            if client.connection.is_ready() && !remote.output.is_empty() {
                // All that was drawn, and so never a part of a character.
                let frame = String::from_utf8_lossy(&std::mem::take(&mut remote.output)).into_owned();
                client.tell(&Response::Frame(frame));
            }
            remote.takes_more = client.connection.is_ready();
        }
        // Behind the frame; where that was not taken, when it is.
        if client.connection.is_ready() && terminal.take_wishes().contains(&TerminalRequest::Suspend) {
            client.tell(&Response::Suspend {});
        }
    }

    fn detach_client(&mut self, number: u64) {
        let agents = text::counted(self.core.roster.len(), "agent goes on", "agents go on");
        let last = Response::End(format!("detached: {agents}"));
        self.end_what_is_under_way(number);
        if let Some(client) = self.serving.clients.get_mut(&number) {
            client.dismiss(&last);
        }
    }

    /// The seat is free; the next terminal comes to the agent that this one looked at.
    pub(super) fn let_terminal_go(&mut self, at: TerminalId) {
        self.serving.last_focus = self.terminals.get(at).map(|terminal| terminal.focus).or(self.serving.last_focus);
        self.detach_device(at);
    }
}

fn bounded((columns, rows): (u16, u16)) -> (u16, u16) {
    (columns.min(LARGEST.0), rows.min(LARGEST.1))
}
