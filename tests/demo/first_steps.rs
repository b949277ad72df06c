//! The first hour: a fork, a question, agents beside each other, a team, and a server that goes on without a terminal.

use crate::tour::{Place, Tour};

pub fn play(tour: &mut Tour, place: &Place) {
    tour.until("many agents in one terminal");
    tour.line("Hello, many!");
    tour.look();
    have_many(tour);
    set_several_on_one_task(tour);
    tour.line("/exit");
    tour.see_it_end();
    close_the_laptop(tour, place);
}

fn have_many(tour: &mut Tour) {
    tour.line("/fork --name scout");
    tour.line("%slow 60\n%repeat 30\n## North\n- **tests**: `cargo test` passes\n- *docs*: 2 links are broken\n\n```rust\n/// In cents.\nfn total(cart: &Cart) -> u32 {\n    cart.items.iter().map(|item| item.price * 2).sum()\n}\n```\n\n| file | lines |\n|---|---|\n| cart.rs | 80 |\n\n");
    tour.look();
    tour.line("/switch 0");
    tour.line("/fork --name builder");
    tour.line("%tool bash {\"command\":\"printf 'roof\\\\nwalls\\\\n' | sort > plan.txt\"}\n%next\nThe build passes.");
    tour.until("y to run it");
    tour.look();
    tour.picture("approval");
    tour.keys("y");
    tour.until("The build passes");
    tour.look();
    tour.line("/switch 0");
    tour.line("Meanwhile the first agent is still here to talk to.");
    tour.line("/agents");
    tour.look();
    tour.picture("agents");
    tour.line("/switch scout");
    tour.look();
    tour.picture("streaming");
    tour.keys("\x1b");
    tour.until("interrupted");
    tour.look();
}

fn set_several_on_one_task(tour: &mut Tour) {
    tour.line("/switch 0");
    tour.line(
        "/team parallel vote --agents ada,grace,mary \"%slow 60\n%repeat 12\nStone lasts, wood is quick: stone it is. \"",
    );
    tour.look();
    tour.line("/agents");
    tour.look();
    tour.until("3 of 3");
    tour.look();
}

/// What goes on at a server while no terminal is there is on the screen of the next one.
fn close_the_laptop(tour: &mut Tour, place: &Place) {
    tour.open(&place.home, &["serve", "--background"]);
    tour.see_it_end();
    tour.open(&place.home, &["attach", "builder"]);
    tour.until("The build passes");
    tour.line("%slow 60\n%repeat 60\nThe builder keeps running detached. ");
    tour.look();
    tour.line("/detach");
    tour.see_it_end();
    let _other = place.start(&place.home, &["attach", "scout", "--read-only"]);
    tour.open(&place.home, &["attach", "builder"]);
    tour.until("keeps running detached");
    tour.line("/sessions");
    tour.look();
    tour.picture("attached");
    tour.line("/detach");
    tour.see_it_end();
    tour.open(&place.home, &["stop"]);
    tour.see_it_end();
}
