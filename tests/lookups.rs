//! A host's name is looked up once for all agents that start at the same time, and not in a thread for each.

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::{NO_HOST, Peer};

/// What threads are called that the loop's thread has started without a name of their own (comm, proc(5)): like itself.
const LOOP: &str = "loop of lookups";

/// How many threads of this process are called that.
fn threads_called(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|comm| comm.trim_end() == name).count()
}

#[test]
fn three_hundred_agents_on_one_host_share_a_lookup() {
    // Not localhost: libcurl does not look that name up.
    let driving = std::thread::Builder::new().name(LOOP.into()).spawn(|| {
        let mut app = Harness::new(Plan::peer(&format!("http://{NO_HOST}/v1")));
        for _ in 1..300 {
            app.fork(0);
        }
        (0..300).for_each(|n| app.say(n, "hello"));
        let mut most = 0;
        app.turn_until("all agents have the error", |app| {
            most = most.max(threads_called(LOOP));
            (0..300).all(|n| app.state(n) == State::Idle)
        });
        most
    });
    // The loop's own, and one that was started for the lookup and has not yet taken its name.
    let most = driving.expect("a thread").join().expect("it ends");
    assert!(most <= 2, "{most}");
}

#[test]
fn a_resolved_name_is_connected_to() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&format!("http://localhost:{}/v1", peer.address().port())));
    app.fork(0);
    (0..2).for_each(|n| app.say(n, "hello"));
    for _ in 0..2 {
        app.accept(&peer).stream().text("fine").finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!((app.replies(0), app.replies(1)), (vec!["fine".to_owned()], vec!["fine".to_owned()]));
}

#[test]
fn a_name_without_addresses_fails_all_waiting_agents_and_is_looked_up_again() {
    let mut app = Harness::new(Plan::peer(&format!("http://{NO_HOST}/v1")));
    app.fork(0);
    (0..2).for_each(|n| app.say(n, "hello"));
    app.turn_until_idle();
    assert!((0..2).all(|n| app.last_error(n).contains(NO_HOST)));
    app.advance(std::time::Duration::from_secs(2));
    app.say(0, "again");
    app.turn_until_idle();
    assert_eq!(app.kinds(0).iter().filter(|kind| **kind == "error").count(), 2);
}

#[test]
fn an_agent_that_waits_for_a_lookup_can_be_interrupted() {
    // The look-up may end before the key comes; then the agent waits for the server.
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&format!("http://localhost:{}/v1", peer.address().port())));
    app.enter("hello");
    app.escape();
    app.turn_until_idle();
    assert_eq!(app.kinds(0).last(), Some(&"interrupted"));
}
