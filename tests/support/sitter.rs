//! One more terminal in a house under test: bytes in for keys, and a screen of its own to read.

use polylogue::repl::{Device, Manners, RemoteTerminal, Seat, SeatId, Turn};

use super::harness::Harness;

/// A full terminal that came from elsewhere.
pub const ATTACHED: Manners = Manners { is_read_only: false, is_attached: true };
/// One that only watches.
pub const WATCHING: Manners = Manners { is_read_only: true, is_attached: true };

/// Who sits at one more terminal.
pub struct Sitter {
    /// Its name in the house.
    pub at: SeatId,
    screen: vt100::Parser,
}

impl Sitter {
    /// Sits down at a terminal of this size and looks at the `n`th agent.
    pub fn new(house: &mut Harness, (columns, rows): (u16, u16), n: usize, manners: Manners) -> Self {
        let device = Device::Remote(RemoteTerminal { size: (columns, rows), ..RemoteTerminal::default() });
        let at = house.repl.sit(device, house.id(n), manners);
        house.turn();
        Self { at, screen: vt100::Parser::new(rows, columns, 0) }
    }

    /// Its seat.
    pub fn seat<'a>(&self, house: &'a mut Harness) -> &'a mut Seat {
        house.repl.seat_at(self.at).expect("the terminal is there")
    }

    /// Its device.
    pub fn remote<'a>(&self, house: &'a mut Harness) -> &'a mut RemoteTerminal {
        self.seat(house).remote().expect("it is not here")
    }

    /// Types bytes, and turns until they were looked at.
    pub fn type_bytes(&self, house: &mut Harness, bytes: &[u8]) -> Turn {
        self.remote(house).input.extend_from_slice(bytes);
        let mut turn = house.turn();
        while turn == Turn::Continue && !self.remote(house).input.is_empty() {
            turn = house.turn();
        }
        turn
    }

    /// Types a line and Enter.
    pub fn enter(&self, house: &mut Harness, line: &str) -> Turn {
        self.type_bytes(house, format!("{line}\r").as_bytes())
    }

    /// A lone Esc.
    pub fn escape(&self, house: &mut Harness) {
        self.type_bytes(house, b"\x1b");
        house.advance(std::time::Duration::from_millis(30));
    }

    /// The terminal has another size from now on; what it showed is no guide to what it shows now.
    pub fn resize(&mut self, house: &mut Harness, (columns, rows): (u16, u16)) {
        self.text(house);
        self.remote(house).size = (columns, rows);
        self.screen.screen_mut().set_size(rows, columns);
        house.turn();
    }

    /// How many bytes were drawn since this was last asked.
    pub fn drawn(&mut self, house: &mut Harness) -> usize {
        let output = std::mem::take(&mut self.remote(house).output);
        self.screen.process(&output);
        output.len()
    }

    /// What the person sees.
    pub fn text(&mut self, house: &mut Harness) -> String {
        self.drawn(house);
        self.screen.screen().contents()
    }

    /// What they would see if everything were drawn anew.
    pub fn text_drawn_anew(&mut self, house: &mut Harness) -> String {
        self.drawn(house);
        self.seat(house).redraw();
        house.turn();
        let (rows, columns) = self.screen.screen().size();
        self.screen = vt100::Parser::new(rows, columns, 0);
        self.text(house)
    }

    /// Fails unless these words are on its screen.
    pub fn sees(&mut self, house: &mut Harness, words: &str) {
        let text = self.text(house);
        assert!(text.contains(words), "{words:?} is not on this screen:\n{text}");
    }

    /// Fails if these words are on its screen.
    pub fn sees_not(&mut self, house: &mut Harness, words: &str) {
        let text = self.text(house);
        assert!(!text.contains(words), "{words:?} is on this screen:\n{text}");
    }

    /// Whom it looks at, counted by birth.
    pub fn focus(&self, house: &mut Harness) -> usize {
        let focus = self.seat(house).focus;
        house.repl.roster().ids().iter().position(|id| *id == focus).expect("who is on a screen lives")
    }
}
