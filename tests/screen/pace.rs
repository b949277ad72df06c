//! Streamed text is shown in a limited number of frames; everything else is shown at once.

use std::time::Duration;

use polylogue::config::DisplaySettings;
use polylogue::testing::WakeReason;

use crate::support::harness::{Harness, Plan};

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
