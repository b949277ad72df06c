//! A terminal without the alternate screen: its own scrollback has everything once and in order, whatever happens to it.
//! Read with a terminal emulator that wraps its rows again at a new width, as most do.

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::Processor;
use polylogue::config::Abilities;

use crate::support::attached::ATTACHED;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Device, Probe, RemoteTerminal, TerminalId};
use crate::support::random::Random;
use crate::support::scene::app_with_agents;

struct InlineTerminal {
    at: TerminalId,
    term: Term<VoidListener>,
    parser: Processor,
}

impl InlineTerminal {
    fn new(app: &mut Harness, (columns, rows): (u16, u16)) -> Self {
        let abilities = Abilities { is_inline: true, reflows: true, ..Abilities::default() };
        let device = RemoteTerminal { size: (columns, rows), abilities, ..RemoteTerminal::default() };
        let at = app.repl.attach_device(Device::Remote(device), app.id(0), ATTACHED);
        let config = Config { scrolling_history: 100_000, ..Config::default() };
        let term = Term::new(config, &TermSize::new(columns.into(), rows.into()), VoidListener);
        let mut terminal = Self { at, term, parser: Processor::new() };
        terminal.draw(app);
        terminal
    }

    fn draw(&mut self, app: &mut Harness) {
        app.turn();
        let remote = app.repl.terminal_at(self.at).and_then(|terminal| terminal.remote()).expect("a terminal");
        let output = std::mem::take(&mut remote.output);
        self.parser.advance(&mut self.term, &output);
    }

    fn type_bytes(&mut self, app: &mut Harness, bytes: &[u8]) {
        let remote = app.repl.terminal_at(self.at).and_then(|terminal| terminal.remote()).expect("a terminal");
        remote.input.extend(bytes);
        self.draw(app);
    }

    /// The terminal has wrapped its rows again when the program hears of it.
    fn resize(&mut self, app: &mut Harness, (columns, rows): (u16, u16)) {
        self.draw(app);
        self.term.resize(TermSize::new(columns.into(), rows.into()));
        let remote = app.repl.terminal_at(self.at).and_then(|terminal| terminal.remote()).expect("a terminal");
        remote.size = (columns, rows);
        self.draw(app);
    }

    fn is_overlaid(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Scrollback and screen; rows that the terminal has wrapped are one line.
    fn text(&self) -> String {
        let grid = self.term.grid();
        let first = -i32::try_from(grid.history_size()).expect("so many");
        let last = i32::try_from(grid.screen_lines()).expect("so many");
        let mut text = String::new();
        for line in first..last {
            let row = &grid[Line(line)];
            let wraps = row[Column(grid.columns() - 1)].flags.contains(Flags::WRAPLINE);
            let cells: String = (0..grid.columns()).map(|column| row[Column(column)].c).collect();
            text += if wraps { &cells } else { cells.trim_end() };
            text += if wraps { "" } else { "\n" };
        }
        text
    }

    /// The numbered words in the order in which they are shown.
    fn words(&self) -> Vec<String> {
        let is_numbered = |word: &&str| word.len() == 5 && word.starts_with('w') && word[1..].parse::<u32>().is_ok();
        let text = self.text();
        // The separator has the title.
        let lines = text.lines().filter(|line| !line.starts_with("──"));
        lines
            .flat_map(|line| line.split(|c: char| !c.is_alphanumeric()))
            .filter(is_numbered)
            .map(str::to_owned)
            .collect()
    }

    fn status_lines(&self) -> usize {
        self.text().lines().filter(|line| line.starts_with('>')).count()
    }
}

/// A list of numbered words, which echo repeats, and what is to be seen of them: twice each.
fn list(next: &mut u32, count: u32) -> (String, Vec<String>) {
    let words: Vec<String> = (*next..*next + count).map(|number| format!("w{number:04}")).collect();
    *next += count;
    let text = words.iter().map(|word| format!("- {word}\n")).collect::<String>();
    (text, [words.clone(), words].concat())
}

#[test]
fn everything_is_in_the_scrollback_once_and_in_order_and_only_one_live_area() {
    let mut app = app_with_agents(1, Plan::default());
    let mut terminal = InlineTerminal::new(&mut app, (60, 16));
    let (mut next, mut expected) = (0, Vec::new());
    for count in [1, 3, 40, 7, 100] {
        let (text, words) = list(&mut next, count);
        app.say(0, &text);
        while !app.repl.roster().busy().is_empty() {
            terminal.draw(&mut app);
        }
        terminal.type_bytes(&mut app, b"x\x7f");
        expected.extend(words);
        assert_eq!(terminal.words(), expected);
        assert_eq!(terminal.status_lines(), 1, "{}", terminal.text());
    }
    assert!(!terminal.is_overlaid());
}

#[test]
fn a_table_is_printed_when_it_has_ended_with_columns_as_wide_as_its_widest_cell() {
    let mut app = app_with_agents(1, Plan::default());
    let mut terminal = InlineTerminal::new(&mut app, (100, 12));
    let rows = (0..60).map(|n| match n {
        50 => format!("| a cell that is wider | X{n} |\n"),
        _ => format!("| n{n} | X{n} |\n"),
    });
    app.say(0, &format!("| a | b |\n|---|---|\n{}\nafter it\n", rows.collect::<String>()));
    while !app.repl.roster().busy().is_empty() {
        terminal.draw(&mut app);
    }
    terminal.draw(&mut app);
    let text = terminal.text();
    // Echo repeats the message, which is shown as it was typed.
    let of_reply = text.lines().filter(|line| line.contains("│ X"));
    let places: Vec<usize> = of_reply.filter_map(|line| line.chars().position(|c| c == 'X')).collect();
    assert_eq!(places.len(), 60, "{text}");
    assert!(places.iter().all(|place| *place == places[0]), "{text}");
}

#[test]
fn nothing_is_lost_or_repeated_when_the_terminal_is_resized_while_a_reply_streams() {
    let mut app = app_with_agents(1, Plan::default());
    let mut terminal = InlineTerminal::new(&mut app, (100, 24));
    let (mut next, mut expected) = (0, Vec::new());
    let sizes = [(70, 24), (100, 24), (100, 16), (100, 30), (60, 20), (121, 40), (40, 12), (80, 24)];
    for size in sizes {
        let (text, words) = list(&mut next, 30);
        app.say(0, &text);
        terminal.draw(&mut app);
        terminal.resize(&mut app, size);
        app.turn_until_idle();
        terminal.draw(&mut app);
        expected.extend(words);
        assert_eq!(terminal.words(), expected, "{size:?}\n{}", terminal.text());
    }
}

#[test]
fn lists_and_older_text_are_shown_on_the_alternate_screen_and_what_comes_meanwhile_is_printed_afterwards() {
    let mut app = app_with_agents(1, Plan::default());
    let mut terminal = InlineTerminal::new(&mut app, (80, 24));
    let (mut next, mut expected) = (0, Vec::new());
    let overlays: [(&[u8], &[u8]); 2] = [(b"?", b"\x1b[27u"), (b"\x1b[5~", b"\x1b[1;5F")];
    for (open, close) in overlays {
        let (text, words) = list(&mut next, 40);
        app.say(0, &text);
        app.turn_until_idle();
        terminal.type_bytes(&mut app, open);
        assert!(terminal.is_overlaid());
        expected.extend(words);
        let (text, words) = list(&mut next, 40);
        app.say(0, &text);
        app.turn_until_idle();
        terminal.resize(&mut app, (70, 20));
        terminal.resize(&mut app, (90, 30));
        expected.extend(words);
        terminal.type_bytes(&mut app, close);
        terminal.draw(&mut app);
        assert!(!terminal.is_overlaid());
        assert_eq!(terminal.words(), expected, "{}", terminal.text());
    }
}

#[test]
fn after_a_switch_only_what_is_new_of_an_agent_is_printed_below_its_name() {
    let mut app = app_with_agents(2, Plan::default());
    let mut terminal = InlineTerminal::new(&mut app, (80, 24));
    let (mut next, mut expected) = (0, Vec::new());
    for round in 0..6 {
        let (text, words) = list(&mut next, 25);
        app.say(round % 2, &text);
        app.turn_until_idle();
        terminal.type_bytes(&mut app, if round % 2 == 0 { b"\x1b0" } else { b"\x1b1" });
        terminal.draw(&mut app);
        expected.extend(words);
        assert_eq!(terminal.words(), expected, "round {round}\n{}", terminal.text());
    }
}

#[test]
fn random_resizes_keys_switches_and_notes_lose_nothing() {
    for seed in 1..=12 {
        let mut random = Random(seed * 7919);
        let mut app = app_with_agents(2, Plan::default());
        let mut terminal = InlineTerminal::new(&mut app, (80, 24));
        let (mut next, mut expected) = (0, [Vec::new(), Vec::new()]);
        for _ in 0..40 {
            match random.below(8) {
                0 => terminal.resize(&mut app, (40 + random.below(100) as u16, 12 + random.below(40) as u16)),
                1 => terminal.type_bytes(&mut app, b"\x1b0"),
                2 => terminal.type_bytes(&mut app, b"\x1b1"),
                3 => terminal.type_bytes(&mut app, b"some words \x0a more"),
                4 => terminal.type_bytes(&mut app, b"\x15\x15?\x1b[27u"),
                5 => terminal.draw(&mut app),
                _ => {
                    let agent = random.below(2);
                    let (text, words) = list(&mut next, 1 + random.below(30) as u32);
                    app.say(agent, &text);
                    expected[agent].extend(words);
                    terminal.draw(&mut app);
                }
            }
        }
        app.turn_until_idle();
        for agent in [b"\x1b0", b"\x1b1", b"\x1b0"] {
            terminal.type_bytes(&mut app, agent);
            terminal.draw(&mut app);
        }
        let shown = terminal.words();
        for words in expected {
            let own: Vec<String> = shown.iter().filter(|word| words.contains(word)).cloned().collect();
            assert_eq!(own, words, "seed {seed}");
        }
    }
}

#[test]
fn ctrl_l_draws_the_live_area_again_over_what_was_written_there() {
    let mut app = app_with_agents(1, Plan::default());
    let mut terminal = InlineTerminal::new(&mut app, (60, 20));
    terminal.type_bytes(&mut app, b"half typed");
    terminal.parser.advance(&mut terminal.term, b"\r\x1b[Koverwritten");
    assert!(!terminal.text().contains("half typed"), "{}", terminal.text());
    terminal.type_bytes(&mut app, b"\x0c");
    let text = terminal.text();
    assert!(text.contains("> half typed") && !text.contains("overwritten"), "{text}");
    assert_eq!(text.matches("── agent 0").count(), 1, "{text}");
}
