//! One more terminal at a [`Harness`]: bytes in for keys, and a screen of its own to read.

use polylogue::Turn;
use polylogue::config::Abilities;

use super::harness::Harness;
use crate::support::internals::{Device, Probe, RemoteTerminal, Terminal, TerminalId, TerminalMode};

pub const ATTACHED: TerminalMode = TerminalMode { is_read_only: false, is_attached: true, is_scripted: false };
pub const WATCHING: TerminalMode = TerminalMode { is_read_only: true, ..ATTACHED };

pub struct AttachedTerminal {
    pub at: TerminalId,
    screen: vt100::Parser,
}

impl AttachedTerminal {
    /// Attaches a terminal of this size at the `n`th agent.
    pub fn new(app: &mut Harness, (columns, rows): (u16, u16), n: usize, mode: TerminalMode) -> Self {
        let device = Device::Remote(RemoteTerminal { size: (columns, rows), ..RemoteTerminal::default() });
        let at = app.repl.attach_device(device, app.id(n), mode);
        app.turn();
        Self { at, screen: vt100::Parser::new(rows, columns, 0) }
    }

    /// Attaches a terminal of this size that shows all conversations, to choose one, which gets this prompt.
    pub fn picker(app: &mut Harness, (columns, rows): (u16, u16), prompt: Option<&str>) -> Self {
        let device = Device::Remote(RemoteTerminal { size: (columns, rows), ..RemoteTerminal::default() });
        let at = app.repl.attach_picker(device, app.id(0), ATTACHED, prompt);
        app.turn();
        Self { at, screen: vt100::Parser::new(rows, columns, 0) }
    }

    /// The same, with 80 columns and these abilities.
    pub fn with(app: &mut Harness, abilities: Abilities, n: usize, mode: TerminalMode) -> Self {
        let device = Device::Remote(RemoteTerminal { abilities, ..RemoteTerminal::default() });
        let at = app.repl.attach_device(device, app.id(n), mode);
        app.turn();
        Self { at, screen: vt100::Parser::new(24, 80, 0) }
    }

    pub fn terminal<'a>(&self, app: &'a mut Harness) -> &'a mut Terminal {
        app.repl.terminal_at(self.at).expect("the terminal is there")
    }

    pub fn remote<'a>(&self, app: &'a mut Harness) -> &'a mut RemoteTerminal {
        self.terminal(app).remote().expect("it is not here")
    }

    /// Types bytes, and turns until they were handled.
    pub fn type_bytes(&self, app: &mut Harness, bytes: &[u8]) -> Turn {
        self.remote(app).input.extend_from_slice(bytes);
        let mut turn = app.turn();
        while turn == Turn::Continue && !self.remote(app).input.is_empty() {
            turn = app.turn();
        }
        turn
    }

    /// Types a line and Enter.
    pub fn enter(&self, app: &mut Harness, line: &str) -> Turn {
        self.type_bytes(app, format!("{line}\r").as_bytes())
    }

    /// A lone Esc, and the wait that makes it a key.
    pub fn escape(&self, app: &mut Harness) {
        self.type_bytes(app, b"\x1b");
        app.advance(std::time::Duration::from_millis(30));
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, app: &mut Harness, (columns, rows): (u16, u16)) {
        self.text(app);
        self.remote(app).size = (columns, rows);
        self.screen.screen_mut().set_size(rows, columns);
        app.turn();
    }

    /// The number of bytes that were drawn since the last call.
    pub fn drawn(&mut self, app: &mut Harness) -> usize {
        let output = std::mem::take(&mut self.remote(app).output);
        self.screen.process(&output);
        output.len()
    }

    /// What is on the screen.
    pub fn screen(&mut self, app: &mut Harness) -> &vt100::Screen {
        self.drawn(app);
        self.screen.screen()
    }

    /// What the person sees.
    pub fn text(&mut self, app: &mut Harness) -> String {
        self.drawn(app);
        self.screen.screen().contents()
    }

    /// What the person would see if everything were drawn again.
    pub fn text_drawn_anew(&mut self, app: &mut Harness) -> String {
        self.drawn(app);
        self.terminal(app).redraw();
        app.turn();
        let (rows, columns) = self.screen.screen().size();
        self.screen = vt100::Parser::new(rows, columns, 0);
        self.text(app)
    }

    pub fn assert_sees(&mut self, app: &mut Harness, expected: &str) {
        let text = self.text(app);
        assert!(text.contains(expected), "{expected:?} is not on this screen:\n{text}");
    }

    pub fn assert_does_not_see(&mut self, app: &mut Harness, expected: &str) {
        let text = self.text(app);
        assert!(!text.contains(expected), "{expected:?} is on this screen:\n{text}");
    }

    /// What was typed here.
    pub fn draft(&mut self, app: &mut Harness) -> String {
        app.repl.draft_at(self.at)
    }

    /// The number of the agent that it shows.
    pub fn focus(&self, app: &mut Harness) -> usize {
        let focus = self.terminal(app).focus;
        app.repl.roster().ids().iter().position(|id| *id == focus).expect("the agent on the screen exists")
    }
}
