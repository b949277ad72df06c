//! Draft and screen after keys at random.

use crate::support::random::Random;
use crate::support::typist::Typist;

#[test]
fn the_draft_and_the_screen_agree_with_a_plain_model_of_the_text() {
    let (mut random, mut typist, mut pressed) = (Random(20_261_123), Typist::default(), 0);
    while pressed < 50_000 {
        pressed += typist.burst(&mut random);
    }
    assert!(!typist.has_sent());
}
