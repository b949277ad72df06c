//! Streamed text is shown in a limited number of frames; everything else is shown at once.

use std::time::Duration;

use polylogue::config::DisplaySettings;
use polylogue::testing::WakeReason;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::scene::app_with_agents;

const INTERVAL: Duration = Duration::from_millis(33);

/// An agent whose reply comes in words, one every 10 ms, of which the first is on the screen.
fn streaming() -> Harness {
    let display = DisplaySettings { frame_interval: INTERVAL, ..DisplaySettings::default() };
    let mut app = Harness::new(Plan { display, ..Plan::default() });
    app.say(0, "one\n%slow 10\ntwo\nthree\nfour\nfive\nsix\n%hang");
    app.advance(INTERVAL);
    app.screen_text();
    app.sent.clear();
    app
}

fn frames(app: &mut Harness) -> usize {
    app.screen_text();
    let frames = app.sent.windows(8).filter(|bytes| bytes == b"\x1b[?2026h").count();
    app.sent.clear();
    frames
}

#[test]
fn pieces_of_text_within_an_interval_share_a_frame() {
    let mut app = streaming();
    for _ in 0..3 {
        app.advance(Duration::from_millis(10));
    }
    assert_eq!(frames(&mut app), 0);
    let timeout = app.timeout();
    assert_eq!((timeout.after, timeout.why), (Some(Duration::from_millis(3)), WakeReason::Text));
    app.advance(Duration::from_millis(3));
    assert_eq!(frames(&mut app), 1);
    assert!(app.screen_text().contains("four"), "{}", app.screen_text());
}

#[test]
fn a_key_is_shown_at_once_with_the_text_that_came_before_it() {
    let mut app = streaming();
    app.advance(Duration::from_millis(10));
    assert_eq!(frames(&mut app), 0);
    app.type_bytes(b"k");
    let screen = app.screen_text();
    assert!(screen.contains("> k") && screen.contains("two"), "{screen}");
}

#[test]
fn the_end_of_a_turn_is_shown_at_once() {
    let mut app = streaming();
    app.advance(Duration::from_millis(10));
    app.escape();
    assert!(frames(&mut app) > 0);
}

/// A wall with five agents, of which the first two stream a word every 10 ms, on a screen that shows all.
fn wall() -> Harness {
    let display = DisplaySettings { frame_interval: INTERVAL, ..DisplaySettings::default() };
    let mut app = app_with_agents(5, Plan { display, size: Some((180, 40)), ..Plan::default() });
    let words: String = (0..40).map(|number| format!("word{number}\n")).collect();
    for n in [1, 2] {
        app.say(n, &format!("one\n%slow 10\n{words}%hang"));
    }
    app.type_bytes(b"\x1bw");
    app.advance(INTERVAL);
    app.screen_text();
    app.sent.clear();
    app
}

#[test]
fn tiles_are_drawn_once_in_an_interval_and_laid_out_only_where_text_has_come() {
    let mut app = wall();
    let before = app.repl.tiles_laid_out();
    for _ in 0..33 {
        app.advance(Duration::from_millis(10));
    }
    let (frames, laid_out) = (frames(&mut app), app.repl.tiles_laid_out() - before);
    assert!((5..=11).contains(&frames), "330 ms have room for ten frames: {frames}");
    assert!((frames..=2 * frames).contains(&laid_out), "two of five tiles change: {laid_out} in {frames} frames");
}

#[test]
fn a_key_at_the_wall_is_shown_at_once_and_lays_no_other_tile_out() {
    let mut app = wall();
    app.advance(Duration::from_millis(1));
    assert_eq!(frames(&mut app), 0);
    let before = app.repl.tiles_laid_out();
    app.type_bytes(b"4");
    assert_eq!(frames(&mut app), 1);
    assert!(app.repl.tiles_laid_out() - before <= 2, "the mark is not a part of the text");
    app.advance(Duration::from_millis(10));
    assert_eq!(frames(&mut app), 0);
    app.advance(INTERVAL);
    assert_eq!(frames(&mut app), 1);
}
