//! Processes of one data directory at a server that limits requests: they share its pace through a file.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Home;
use crate::support::limited::{Headers, LimitedServer};
use crate::support::peer::Peer;

struct Outcome {
    home: Home,
    refused: usize,
    /// Requests that the server could have accepted by the time of the last one.
    allowed: f64,
    took: Duration,
}

/// Starts so many processes at once, which are all answered.
fn run(processes: usize, mut server: LimitedServer, options: &[&str]) -> Outcome {
    let home = Home::with_server(&server.url());
    let is_over = AtomicBool::new(false);
    let took = thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve_until(&is_over));
        let prompts = (0..processes).map(|number| format!("from {number}"));
        let runs: Vec<_> = prompts.map(|prompt| home.start(&[&["-p"], options, &[&*prompt]].concat())).collect();
        let ended: Vec<_> = runs.into_iter().map(|run| run.ends()).collect();
        is_over.store(true, Ordering::Relaxed);
        for response in ended {
            assert_eq!((response.code, response.out.as_str()), (0, "fine\n"), "{response:?}");
        }
        serving.join().expect("the server serves")
    });
    assert_eq!(server.accepted, processes);
    Outcome { home, refused: server.refused, allowed: server.allowed(took), took }
}

#[test]
fn processes_that_store_nothing_share_the_pace_of_a_provider_that_limits_them() {
    let mut server = LimitedServer::start(Headers::RetryAfter, 120, 12).with_burst(2);
    server.holds_first = 12;
    let outcome = run(12, server, &["--ephemeral"]);
    println!("{} refused in {:?}, {:.1} allowed", outcome.refused, outcome.took, outcome.allowed);
    // All twelve at the start; of those that try again together two succeed each second: 12 + 10 + 8 + 6 + 4 + 2.
    assert!(outcome.refused <= 24, "{} refused", outcome.refused);
    let files: Vec<_> = std::fs::read_dir(outcome.home.data()).expect("a directory").flatten().collect();
    let names: Vec<String> = files.iter().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert!(matches!(&names[..], [name] if name.starts_with("pace-")), "{names:?}");
    assert_eq!(files[0].metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(files[0].path()).expect("text");
    let words = text.strip_prefix("pace1 ").expect("its mark");
    assert!(words.split_whitespace().all(|word| word.parse::<i64>().is_ok()), "{text}");
}

#[test]
fn a_run_that_stores_nothing_and_meets_no_limit_makes_no_file() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let run = home.start(&["-p", "--ephemeral", "hello"]);
    peer.accept().stream().text("fine").finish("stop").done();
    assert_eq!(run.ends().code, 0);
    assert!(!home.data().exists());
}

/// Two minutes of real time: `POLYLOGUE_TEST_CHAOS=1`.
#[test]
fn forty_processes_use_nine_tenths_of_twenty_requests_a_minute() {
    if std::env::var_os("POLYLOGUE_TEST_CHAOS").is_none() {
        return;
    }
    for burst in [3, 20] {
        let server = LimitedServer::start(Headers::RetryAfter, 20, 40).with_burst(burst);
        let Outcome { refused, allowed, took, .. } = run(40, server, &["--ephemeral"]);
        let used = 40.0 / allowed * 100.0;
        println!(
            "40 processes, 20 requests a minute, a bucket of {burst}: {took:.1?}, {used:.0} % used, {refused} refused"
        );
        assert!(used >= 90.0, "{used:.0} % used");
    }
}
