//! Every width while a reply streams.

use crate::support::attached::{ATTACHED, AttachedTerminal};
use crate::support::harness::Plan;
use crate::support::internals::Probe;
use crate::support::peer::Peer;
use crate::support::scene::app_with_agents;

#[test]
fn at_every_width_the_screen_is_as_if_drawn_afresh_and_no_word_is_lost() {
    let peer = Peer::start();
    let mut app = app_with_agents(1, Plan::peer(&peer.url()));
    let mut terminal = AttachedTerminal::new(&mut app, (80, 400), 0, ATTACHED);
    app.say(0, "go");
    let exchange = app.accept(&peer);
    exchange.stream();
    let mut words = Vec::new();
    for width in 20..=200_u16 {
        let word = format!("w{width}");
        exchange.text(&format!("{word} 日本 "));
        words.push(word);
        let count = words.len();
        app.turn_until("the word", |app| app.agent(0).partial_text().matches('w').count() == count);
        let columns = if width % 2 == 0 { width } else { 220 - width };
        terminal.resize(&mut app, (columns, 400));
        let shown = terminal.text(&mut app);
        assert_eq!(shown, terminal.text_drawn_anew(&mut app), "{columns}");
        let mut fresh = AttachedTerminal::new(&mut app, (columns, 400), 0, ATTACHED);
        assert_eq!(shown, fresh.text(&mut app), "{columns}");
        app.repl.detach_device(fresh.at);
        let found: Vec<&str> =
            shown.split_whitespace().filter(|word| word.starts_with('w') && word[1..].parse::<u16>().is_ok()).collect();
        assert_eq!(found, words, "{columns}: {shown}");
    }
    exchange.finish("stop").done();
    app.turn_until_idle();
}
