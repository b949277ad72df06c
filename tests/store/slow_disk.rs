//! While the disk does not answer, the loop goes on; only what promises that something is stored waits.

use std::time::Duration;

use polylogue::config::Settings;
use serde_json::json;

use crate::support::client::{Client, open_to_clients, refusal};
use crate::support::disk::Disk;
use crate::support::harness::{Harness, Plan};

fn on(disk: &Disk) -> Harness {
    let mut app = Harness::new(Plan { disk: Some(disk.clone()), ..Plan::default() });
    open_to_clients(&mut app);
    app
}

/// An app of which a sync is under way that does not end.
fn held(disk: &Disk) -> Harness {
    let mut app = on(disk);
    disk.hold();
    app.say(0, "first");
    app.turn_until_idle();
    disk.wait_until_busy();
    app
}

#[test]
fn the_loop_replies_draws_and_answers_questions_and_only_a_promise_waits() {
    let disk = Disk::default();
    let mut app = held(&disk);
    let before = disk.syncs();
    let (mut teller, mut reader) = (Client::connect(&app), Client::connect(&app));
    teller.ask("send", json!({"agent": "0", "text": "second"}));
    app.turn_until("the reply", |app| app.screen_text().contains("second"));
    app.turn_until_idle();
    app.type_bytes(b"typed");
    app.turn_until("the key on the screen", |app| app.screen_text().contains("typed"));
    reader.is_served(&mut app);
    assert_eq!(teller.try_read(), None, "nothing is promised");
    assert_eq!(disk.syncs(), before);
    disk.release();
    assert_eq!(teller.read(&mut app), json!({"ok": {"text": null, "data": {"queued": 0}}}));
    assert!(disk.syncs() > before + 1, "the sync that was under way has begun before the message");
    teller.is_served(&mut app);
}

#[test]
fn the_turn_of_a_client_streams_at_once_and_ends_when_it_is_stored() {
    let disk = Disk::default();
    let mut app = held(&disk);
    let mut client = Client::connect(&app);
    client.ask("turn", json!({"agent": "0", "text": "words"}));
    let mut last = json!(null);
    while last["status"] != "idle" {
        last = client.read(&mut app);
        assert!(last.get("ok").is_none(), "{last}");
    }
    app.turn_until_idle();
    assert_eq!(client.try_read(), None);
    disk.release();
    let mut last = client.read(&mut app);
    while last.get("ok").is_none() {
        last = client.read(&mut app);
    }
}

#[test]
fn leaving_waits_for_the_disk() {
    let disk = Disk::default();
    let mut app = held(&disk);
    let syncs = disk.syncs();
    let releaser = disk.clone();
    let thread = std::thread::spawn(move || releaser.release());
    app.repl.leave().expect("it leaves");
    assert!(disk.syncs() > syncs, "it has left before the disk had all");
    thread.join().expect("no panic");
}

#[test]
fn leaving_waits_no_longer_than_its_patience() {
    let disk = Disk::default();
    let settings = Settings { exit_patience: Duration::from_millis(1), ..Settings::default() };
    let mut app = Harness::new(Plan { disk: Some(disk.clone()), settings, ..Plan::default() });
    disk.hold();
    app.say(0, "first");
    app.turn_until_idle();
    app.repl.leave().expect("it leaves");
    let loss = app.repl.loss().expect("it says so");
    assert!(loss.contains("disk has not answered"), "{loss}");
    disk.release();
}

#[test]
fn a_failed_sync_is_said_once_and_every_promise_after_it_fails() {
    let disk = Disk::default();
    let mut app = on(&disk);
    let mut client = Client::connect(&app);
    disk.fail(true);
    client.ask("send", json!({"agent": "0", "text": "first"}));
    let (kind, message) = refusal(&client.read(&mut app));
    assert_eq!(kind, "store");
    assert!(message.contains("the disk did not store the last changes") && message.contains("full"), "{message}");
    app.turn_until_idle();
    // The kernel reports a failure once; what was written before is lost all the same.
    disk.fail(false);
    let (kind, _) = client.refused(&mut app, "send", json!({"agent": "0", "text": "second"}));
    assert_eq!(kind, "store");
    app.turn_until_idle();
    let screen = app.screen_text().replace('\n', " ");
    assert_eq!(screen.matches("the disk did not store").count(), 1, "{screen}");
    app.repl.leave().expect("it leaves");
    assert!(app.repl.loss().expect("it says so").contains("the disk did not store"));
}
