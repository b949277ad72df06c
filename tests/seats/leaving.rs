//! The ways out of an attached terminal end nothing, and what ends a chat in its own terminal still does.

use polylogue::agent::State;
use polylogue::repl::{SeatWish, Turn};

use crate::support::harness::Plan;
use crate::support::scene::{assert_shows, house_of};
use crate::support::sitter::{ATTACHED, Sitter, WATCHING};

#[test]
fn every_way_out_of_an_attached_terminal_detaches_it_at_once_and_all_goes_on() {
    let ways: [&[u8]; 5] = [b"\x03", b"\x04", b"/exit\r", b"/quit\r", b"/detach\r"];
    for manners in [ATTACHED, WATCHING] {
        for way in ways {
            let mut house = house_of(2, Plan::default());
            house.say(0, "!hang");
            house.turn();
            let mut other = Sitter::new(&mut house, (80, 24), 0, manners);
            other.drawn(&mut house);
            let turn = other.type_bytes(&mut house, way);
            let what = String::from_utf8_lossy(way);
            assert_eq!((turn, house.state(0)), (Turn::Continue, State::WaitingForLlm), "{what:?}");
            assert_eq!(other.seat(&mut house).take_wishes(), [SeatWish::Detach], "{what:?}");
            assert_eq!(other.seat(&mut house).take_wishes(), [], "each wish is told once");
            house.repl.stand_up(other.at);
            assert_eq!(house.repl.seat_ids().len(), 1);
            house.type_bytes(b"\x1b2");
            assert_eq!(house.focus(), 1, "the other terminal goes on");
        }
    }
}

#[test]
fn a_terminal_that_is_let_go_is_neither_read_nor_drawn_any_more() {
    let mut house = house_of(1, Plan::default());
    let mut other = Sitter::new(&mut house, (80, 24), 0, ATTACHED);
    other.type_bytes(&mut house, b"\x03and more\r");
    other.drawn(&mut house);
    house.say(0, "hello");
    house.turn_until_idle();
    assert_eq!((house.replies(0), other.drawn(&mut house)), (vec!["hello".into()], 0));
    other.remote(&mut house).input.extend_from_slice(b"late");
    assert_eq!(house.timeout().after, None);
}

#[test]
fn ctrl_c_at_the_terminal_of_the_chat_still_warns_and_then_leaves() {
    let mut house = house_of(1, Plan::default());
    Sitter::new(&mut house, (80, 24), 0, ATTACHED);
    house.say(0, "!hang");
    house.turn();
    assert_eq!(house.type_bytes(b"\x03"), Turn::Continue);
    assert_shows(&mut house, "press again within 2 s");
    assert_eq!(house.type_bytes(b"\x03"), Turn::Exit);
}

#[test]
fn detach_is_refused_where_the_chat_would_end_and_names_the_way() {
    let mut house = house_of(1, Plan::default());
    assert_eq!(house.enter("/detach"), Turn::Continue);
    assert_shows(&mut house, "polylogue attach");
    assert_eq!(house.agent(0).view.draft.text(), "/detach");
}

#[test]
fn ctrl_z_at_an_attached_terminal_asks_its_owner_and_redraw_draws_it_whole() {
    let mut house = house_of(1, Plan::default());
    let mut other = Sitter::new(&mut house, (80, 24), 0, ATTACHED);
    let whole = other.drawn(&mut house);
    other.type_bytes(&mut house, b"\x1a");
    assert_eq!(other.seat(&mut house).take_wishes(), [SeatWish::Suspend]);
    assert_eq!(other.drawn(&mut house), 0);
    other.seat(&mut house).redraw();
    house.turn();
    assert!(other.drawn(&mut house) >= whole / 2, "the whole frame is drawn again");
    other.type_bytes(&mut house, b"x");
    assert_eq!(house.agent(0).view.draft.text(), "x");
}

#[test]
fn what_was_typed_is_kept_when_the_terminal_goes_even_if_the_program_dies_then() {
    let mut house = house_of(2, Plan::default());
    let other = Sitter::new(&mut house, (80, 24), 1, ATTACHED);
    other.type_bytes(&mut house, b"half a thou");
    house.repl.stand_up(other.at);
    let mut house = house.crash_and_restart();
    house.switch(1);
    assert_shows(&mut house, "> half a thou");
}

#[test]
fn a_hundred_terminals_come_and_go_and_leave_nothing_behind() {
    let mut house = house_of(2, Plan::default());
    house.say(0, "!repeat 200\nwords");
    house.turn_until_idle();
    let before = format!("{:?}", house.agent(0).view.scrollback).len();
    for n in 0..100 {
        let sitter = Sitter::new(&mut house, (20 + n, 5 + n / 2), 0, if n % 2 == 0 { ATTACHED } else { WATCHING });
        sitter.type_bytes(&mut house, b"\x1b[5~\x1b[5~");
        sitter.type_bytes(&mut house, b"\x1b[1;5F");
        sitter.type_bytes(&mut house, b"\x1b[5~");
        house.repl.stand_up(sitter.at);
    }
    house.type_bytes(b"\x1b[1;5F");
    assert_eq!(house.repl.seat_ids().len(), 1);
    let after = format!("{:?}", house.agent(0).view.scrollback).len();
    assert!(after < before + 4096, "{before} characters of places and rows became {after}");
}
