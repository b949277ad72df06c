//! Pauses of a provider: when it asks one agent to slow down, all agents that talk to it wait, and no others. At the
//! end of the wait one request goes alone, that of the agent on the screen first.

use std::collections::BTreeSet;
use std::time::Duration;

use polylogue::{Change, Fork};

use crate::support::attached::{ATTACHED, AttachedTerminal};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Moment, Probe, State, TraceLine, Wait, WakeReason};
use crate::support::limited::{Crowd, Headers, LimitedServer, Outcome};
use crate::support::peer::Peer;
use crate::support::scene::{answer, app_with_agents, assert_shows, is_in_send_queue, origin, turn_a_while};

const fn s(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Sends a message of this agent, which the server answers with 429 and so many seconds.
fn limit(app: &mut Harness, peer: &Peer, n: usize, retry_after: &str) {
    app.say(n, &format!("from {n}"));
    let exchange = app.accept(peer);
    exchange.head(429, &[("retry-after", retry_after), ("content-length", "0")]);
    app.turn_until("a retry", |app| matches!(app.agent(n).wait(), Wait::Retry { .. }));
}

/// `count` agents; the server has asked the last one to wait 30 s, and these are in the send queue.
fn paused(peer: &Peer, count: usize, queued: &[usize]) -> Harness {
    let mut app = app_with_agents(count, Plan::peer(&peer.url()));
    limit(&mut app, peer, count - 1, "30");
    for n in queued {
        app.say(*n, &format!("from {n}"));
    }
    turn_a_while(&mut app);
    assert!(queued.iter().all(|n| is_in_send_queue(&app, *n)) && peer.try_accept().is_none());
    app
}

#[test]
fn when_one_of_twenty_is_limited_all_pause_and_the_shown_one_probes() {
    let peer = Peer::start();
    let mut app = app_with_agents(20, Plan::peer(&peer.url()));
    app.say(3, "from 3");
    let running = app.accept(&peer);
    running.stream().text("half ");
    app.turn_until("the half", |app| app.agent(3).partial_text() == "half ");
    limit(&mut app, &peer, 7, "30");
    for n in (0..20).filter(|n| !matches!(n, 3 | 7)).rev() {
        app.say(n, &format!("from {n}"));
        app.advance(Duration::from_millis(1));
    }
    running.text("and half").finish("stop").done();
    app.turn_until("the stream goes on", |app| app.state(3) == State::Idle);
    assert_eq!(app.replies(3), ["half and half"]);

    assert_shows(&mut app, "openai is paused, retrying in 30 s (Enter retries, Esc cancels): rate limit");
    app.advance(s(1));
    assert_shows(&mut app, "retrying in 29 s");
    app.advance(s(29) - Duration::from_millis(19));
    assert!((0..20).filter(|n| !matches!(n, 3 | 7)).all(|n| is_in_send_queue(&app, n)));
    app.advance(Duration::from_millis(1));
    let first = app.accept(&peer);
    assert_eq!(origin(&first), "from 0");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none(), "one request goes alone until it is answered");
    app.switch(1);
    assert_shows(&mut app, "waiting for the answers to other agents");
    answer(&first);
    let mut others: Vec<String> = (0..18)
        .map(|_| app.accept(&peer))
        .map(|one| {
            answer(&one);
            origin(&one)
        })
        .collect();
    others.sort();
    app.turn_until_idle();
    let mut expected: Vec<String> = (1..20).filter(|n| *n != 3).map(|n| format!("from {n}")).collect();
    expected.sort();
    assert_eq!(others, expected);
    assert!((0..20).all(|n| app.replies(n).len() == 1 && app.last_error(n).is_empty()));
}

#[test]
fn after_a_pause_requests_go_in_their_original_order() {
    let peer = Peer::start();
    let mut app = app_with_agents(5, Plan { working_limit: 1, ..Plan::peer(&peer.url()) });
    limit(&mut app, &peer, 4, "30");
    for n in [2, 0, 3, 1] {
        app.advance(Duration::from_millis(1));
        app.say(n, &format!("from {n}"));
    }
    app.advance(s(30));
    for expected in ["from 0", "from 4", "from 2", "from 3", "from 1"] {
        let next = app.accept(&peer);
        assert_eq!(origin(&next), expected);
        answer(&next);
    }
    app.turn_until_idle();
}

#[test]
fn agents_of_another_provider_do_not_wait_even_with_a_single_slot() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, Plan { working_limit: 1, ..Plan::peer(&peer.url()) });
    limit(&mut app, &peer, 1, "30");
    app.say(2, "from 2");
    app.ask(0, Change::Fork(Fork { model: Some("echo/echo".into()), ..Fork::default() }));
    app.say(3, "not concerned");
    app.turn_until("it is answered", |app| app.state(3) == State::Idle);
    assert_eq!(app.replies(3), ["not concerned"]);
    assert!(is_in_send_queue(&app, 2));
}

#[test]
fn a_pause_off_the_screen_wakes_the_loop_once_at_its_end() {
    let peer = Peer::start();
    let mut app = paused(&peer, 4, &[1, 2]);
    let timeout = app.timeout();
    assert_eq!((timeout.after, timeout.why), (Some(s(30)), WakeReason::Agent(app.id(3), "retry")));
    app.ask(3, Change::Interrupt);
    turn_a_while(&mut app);
    let timeout = app.timeout();
    assert_eq!((timeout.after, timeout.why), (Some(s(30)), WakeReason::Pause));
    app.switch(1);
    assert_eq!((app.timeout().after, app.timeout().why), (Some(s(1)), WakeReason::Countdown));
}

#[test]
fn esc_cancels_only_its_own_wait() {
    let peer = Peer::start();
    let mut app = paused(&peer, 4, &[0, 1, 2]);
    app.escape();
    assert_eq!((app.state(0), app.kinds(0).last()), (State::Idle, Some(&"interrupted")));
    assert!(
        is_in_send_queue(&app, 1) && is_in_send_queue(&app, 2) && matches!(app.agent(3).wait(), Wait::Retry { .. })
    );
    app.switch(3);
    app.escape();
    assert_eq!(app.state(3), State::Idle);
    assert!(is_in_send_queue(&app, 1) && is_in_send_queue(&app, 2), "the pause is the provider's, not that agent's");
    app.advance(s(30));
    let first = app.accept(&peer);
    assert_eq!(origin(&first), "from 1");
    answer(&first);
    answer(&app.accept(&peer));
    app.turn_until_idle();
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_probe_that_is_limited_again_renews_the_pause_for_all() {
    let peer = Peer::start();
    let mut app = paused(&peer, 4, &[0, 1, 2]);
    app.advance(s(30));
    let first = app.accept(&peer);
    assert_eq!(origin(&first), "from 0");
    first.head(429, &[("retry-after", "50"), ("content-length", "0")]);
    app.turn_until("a retry", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    assert_shows(&mut app, "retrying in 50 s, attempt 2");
    app.advance(s(50) - Duration::from_micros(1));
    turn_a_while(&mut app);
    assert!(is_in_send_queue(&app, 1) && is_in_send_queue(&app, 2) && peer.try_accept().is_none());
    assert_eq!((app.agent(1).retries(), app.agent(2).retries()), (0, 0));
    app.advance(Duration::from_micros(1));
    let again = app.accept(&peer);
    assert_eq!(origin(&again), "from 0");
    answer(&again);
    (0..3).for_each(|_| answer(&app.accept(&peer)));
    app.turn_until_idle();
}

#[test]
fn killing_or_interrupting_the_probe_starts_the_next_one_at_once() {
    let peer = Peer::start();
    let mut app = paused(&peer, 5, &[1, 2, 3]);
    let [killed, cut] = [app.id(1), app.id(2)];
    app.advance(s(30));
    assert_eq!(origin(&app.accept(&peer)), "from 1");
    app.ask(0, Change::Kill { agent_id: killed, cascade: false });
    let second = app.accept(&peer);
    assert_eq!(origin(&second), "from 2");
    let n = app.repl.roster().ids().iter().position(|id| *id == cut).expect("it lives");
    app.ask(n, Change::Interrupt);
    let third = app.accept(&peer);
    assert_eq!(origin(&third), "from 3");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none(), "it is tried alone");
    answer(&third);
    answer(&app.accept(&peer));
    app.turn_until_idle();
}

#[test]
fn killing_the_limited_agent_does_not_affect_the_others() {
    let peer = Peer::start();
    let mut app = paused(&peer, 3, &[0, 1]);
    let limited = app.id(2);
    app.ask(0, Change::Kill { agent_id: limited, cascade: false });
    app.advance(s(30) - Duration::from_micros(1));
    turn_a_while(&mut app);
    assert!(is_in_send_queue(&app, 0) && is_in_send_queue(&app, 1) && peer.try_accept().is_none());
    app.advance(Duration::from_micros(1));
    answer(&app.accept(&peer));
    answer(&app.accept(&peer));
    app.turn_until_idle();
}

#[test]
fn a_switch_before_the_end_of_the_pause_changes_who_goes_first() {
    let peer = Peer::start();
    let mut app = paused(&peer, 4, &[0, 1, 2]);
    app.switch(2);
    assert_shows(&mut app, "openai is paused, retrying in 30 s");
    app.enter("/agents");
    assert_shows(&mut app, "openai is paused, retrying in 30 s: rate limit");
    app.advance(s(30));
    assert_eq!(origin(&app.accept(&peer)), "from 2");
}

#[test]
fn the_trace_names_what_an_agent_waits_for_and_until_when() {
    let peer = Peer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace");
    let plan = Plan { trace: Some(trace.clone()), is_trace_stable: false, ..Plan::peer(&peer.url()) };
    let mut app = app_with_agents(2, plan);
    limit(&mut app, &peer, 1, "30");
    app.say(0, "from 0");
    turn_a_while(&mut app);
    let names = [0, 1].map(|n| app.id(n).to_string());
    let lines = std::fs::read_to_string(&trace).expect("a trace");
    let waits = lines.lines().map(|line| TraceLine::parse(line).expect("a line")).filter(|line| line.event == "waits");
    let of = |line: TraceLine| (line.agent.expect("an agent"), line.why.expect("why"), line.timeout_us);
    let expected = [(&names[1], "another try after rate_limited"), (&names[0], "the rate limit of openai")];
    let expected = expected.map(|(agent, why)| (agent.clone().into(), why.into(), Some(30_000_000)));
    assert_eq!(waits.map(of).filter(|(_, why, _)| why != "a slot").collect::<Vec<_>>(), expected);
}

#[test]
fn agents_shown_on_a_terminal_are_served_first() {
    let peer = Peer::start();
    let mut app = paused(&peer, 4, &[1, 2]);
    let attached = AttachedTerminal::new(&mut app, (40, 12), 2, ATTACHED);
    assert_eq!(attached.focus(&mut app), 2);
    app.advance(s(30));
    assert_eq!(origin(&app.accept(&peer)), "from 2");
}

#[test]
fn a_request_without_response_counts_as_accepted_after_ten_seconds() {
    let peer = Peer::start();
    let mut app = paused(&peer, 5, &[0, 1, 2, 3]);
    app.advance(s(30));
    app.accept(&peer);
    app.advance(s(10) - Duration::from_micros(1));
    assert!(is_in_send_queue(&app, 1));
    app.advance(Duration::from_micros(1));
    (0..2).for_each(|_| drop(app.accept(&peer)));
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none(), "two are without a response");
    app.advance(s(10));
    (0..2).for_each(|_| drop(app.accept(&peer)));
}

#[test]
fn an_overloaded_server_pauses_all_agents_only_with_retry_after() {
    for (headers, is_paused) in
        [(&[("content-length", "0")][..], false), (&[("content-length", "0"), ("retry-after", "30")], true)]
    {
        let peer = Peer::start();
        let mut app = app_with_agents(2, Plan::peer(&peer.url()));
        app.say(1, "from 1");
        app.accept(&peer).head(503, headers);
        app.turn_until("a retry", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
        app.say(0, "from 0");
        assert_eq!(is_in_send_queue(&app, 0), is_paused);
    }
}

#[test]
fn a_limit_in_the_middle_of_a_reply_pauses_the_others_too() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.say(1, "from 1");
    let exchange = app.accept(&peer);
    app.switch(1);
    exchange.stream().text("half").event(&crate::support::openai::error("rate_limit_exceeded", "slow down")).end();
    app.turn_until("it has failed", |app| app.state(1) == State::Idle);
    assert_eq!(app.partial_replies(1), ["half"]);
    app.say(0, "from 0");
    assert!(is_in_send_queue(&app, 0));
}

#[test]
fn a_wait_of_hours_is_shown_as_such_and_one_of_years_is_a_day() {
    for (asked, shown) in [("7380", "retrying in 2 h 3 min"), ("99999999999", "retrying in 24 h 0 min")] {
        let peer = Peer::start();
        let mut app = app_with_agents(2, Plan::peer(&peer.url()));
        limit(&mut app, &peer, 1, asked);
        app.say(0, "from 0");
        app.turn();
        assert_shows(&mut app, shown);
        app.switch(1);
        assert_shows(&mut app, shown);
    }
}

#[test]
fn enter_on_an_empty_draft_retries_now_while_the_others_wait() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, Plan::peer(&peer.url()));
    limit(&mut app, &peer, 2, "99999999999");
    app.say(0, "from 0");
    app.say(1, "from 1");
    assert_shows(&mut app, "retrying in 24 h 0 min (Enter retries, Esc cancels)");
    app.enter("");
    let first = app.accept(&peer);
    assert_eq!(origin(&first), "from 0");
    turn_a_while(&mut app);
    assert!(is_in_send_queue(&app, 1) && peer.try_accept().is_none(), "one request is tried for all");
    first.head(429, &[("retry-after", "7200"), ("content-length", "0")]);
    app.turn_until("a retry", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    assert_shows(&mut app, "retrying in 2 h 0 min, attempt 2 (Enter retries, Esc cancels)");
    app.enter("");
    let second = app.accept(&peer);
    assert_eq!(origin(&second), "from 0");
    turn_a_while(&mut app);
    assert!(is_in_send_queue(&app, 1) && peer.try_accept().is_none());
    answer(&second);
    let other = app.accept(&peer);
    assert_eq!(origin(&other), "from 1");
    answer(&other);
    app.turn_until("both are answered", |app| [0, 1].iter().all(|n| app.state(*n) == State::Idle));
    app.switch(2);
    app.enter("");
    answer(&app.accept(&peer));
    app.turn_until_idle();
}

#[test]
fn a_missing_or_invalid_retry_after_uses_the_backoff() {
    for asked in ["0", "-5", "soon", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let peer = Peer::start();
        let mut app = app_with_agents(2, Plan::peer(&peer.url()));
        limit(&mut app, &peer, 1, asked);
        app.advance(s(1) - Duration::from_micros(1));
        assert!(matches!(app.agent(1).wait(), Wait::Retry { .. }), "{asked}");
        app.advance(Duration::from_micros(250_001));
        assert!(matches!(app.agent(1).wait(), Wait::Transfer), "{asked}");
    }
}

#[test]
fn a_restart_forgets_the_pause_and_loses_nothing() {
    let peer = Peer::start();
    let mut app = paused(&peer, 3, &[0, 1]).crash_and_restart();
    assert!(app.repl.roster().busy().is_empty());
    app.say(0, "and now?");
    let exchange = app.accept(&peer);
    assert_eq!(origin(&exchange).lines().last(), Some("and now?"));
    answer(&exchange);
    app.turn_until_idle();
}

/// The server takes 20 requests a minute and says how long it refuses others.
#[test]
fn forty_agents_at_a_server_of_twenty_requests_a_minute_are_all_answered() {
    let peer = Peer::start();
    let mut app = app_with_agents(40, Plan::peer(&peer.url()));
    (0..40).for_each(|n| app.say(n, &format!("from {n}")));
    let (mut taken, mut answered, mut refused, mut seconds) = (0, 0, 0, 0);
    for second in 0..180_u64 {
        seconds = second;
        if second % 60 == 0 {
            taken = 0;
        }
        let mut is_quiet = false;
        while !is_quiet {
            turn_a_while(&mut app);
            is_quiet = true;
            while let Some(exchange) = peer.try_accept() {
                is_quiet = false;
                if taken < 20 {
                    (taken, answered) = (taken + 1, answered + 1);
                    answer(&exchange);
                } else {
                    refused += 1;
                    let wait = (60 - second % 60).to_string();
                    exchange.head(429, &[("retry-after", wait.as_str()), ("content-length", "0")]);
                }
            }
        }
        if answered == 40 {
            break;
        }
        app.advance(s(1));
    }
    app.turn_until_idle();
    assert!((0..40).all(|n| app.replies(n).len() == 1 && app.last_error(n).is_empty()), "{answered} {refused}");
    assert!(seconds < 70, "the second twenty follow a minute later: {seconds} s, {refused} refused");
}

/// The server takes 20 requests a minute and 3 at once, and all agents want more of it.
#[test]
fn a_hundred_agents_use_the_rate_of_a_limited_server_and_none_fails() {
    for headers in [Headers::None, Headers::OpenAi] {
        let crowd = Crowd::new(LimitedServer::start(headers, 20, 3), 100);
        let outcome = three_minutes(crowd);
        println!("{headers:?}: {outcome:?}");
        assert_eq!(outcome.failed, 0, "{headers:?}: {outcome:?}");
        // The benchmark `limited` has the figure; here the clock of the server may lag behind on a busy machine.
        assert!(outcome.rate >= 0.8, "{headers:?}: {outcome:?}");
        assert!(outcome.on_screen.1 < outcome.others.0, "{headers:?}: {outcome:?}");
    }
}

/// The server has no limit and refuses one of twenty requests by chance.
#[test]
fn agents_are_at_full_speed_soon_after_refusals_by_chance_and_meanwhile_at_half_of_it() {
    let mut crowd = Crowd::new(LimitedServer::start(Headers::None, 1_000_000, 1000), 22);
    let mut app = app_with_agents(22, Plan::peer(&crowd.server.url()));
    let mut accepted_until = |crowd: &mut Crowd, seconds| {
        let before = crowd.server.accepted;
        run(&mut app, crowd, s(seconds));
        crowd.server.accepted - before
    };
    accepted_until(&mut crowd, 10);
    let full = accepted_until(&mut crowd, 70);
    crowd.server.refuses_one_in = 20;
    let meanwhile = accepted_until(&mut crowd, 190) / 2;
    let refused = crowd.server.refused;
    crowd.server.refuses_one_in = 0;
    let recovering = accepted_until(&mut crowd, 220) * 2;
    let after = accepted_until(&mut crowd, 280);
    let figures = format!("a minute: {full}, {meanwhile}, {recovering}, {after}; {refused} refused");
    println!("{figures}");
    assert!(refused > 10 && meanwhile >= full / 2, "{figures}");
    assert!(after * 100 >= full * 95, "{figures}");
    assert_eq!(crowd.outcome(s(280)).failed, 0, "{figures}");
}

/// What the provider asks for is the least that a process waits.
#[test]
fn processes_do_not_all_try_again_at_the_moment_that_the_server_names() {
    let mut ends = BTreeSet::new();
    for _ in 0..4 {
        let peer = Peer::start();
        let mut app = app_with_agents(2, Plan { spreads_waits: true, ..Plan::peer(&peer.url()) });
        limit(&mut app, &peer, 1, "16");
        app.say(0, "from 0");
        app.advance(s(16) - Duration::from_micros(1));
        turn_a_while(&mut app);
        assert!(is_in_send_queue(&app, 0) && matches!(app.agent(1).wait(), Wait::Retry { .. }));
        let left = app.timeout().after.expect("it waits");
        assert!(left <= s(4));
        ends.insert(left);
        app.advance(s(4));
        answer(&app.accept(&peer));
        answer(&app.accept(&peer));
        app.turn_until_idle();
    }
    assert!(ends.len() > 1, "{ends:?}");
}

fn three_minutes(mut crowd: Crowd) -> Outcome {
    let mut app = app_with_agents(100, Plan::peer(&crowd.server.url()));
    run(&mut app, &mut crowd, s(180));
    crowd.outcome(s(180))
}

/// Lets the agents ask until this time after the start of the program.
fn run(app: &mut Harness, crowd: &mut Crowd, end: Duration) {
    loop {
        let now = app.clock.now() - Moment::default();
        if now >= end {
            return;
        }
        app.turn_until("nothing is on its way", |app| {
            crowd.step(&mut app.repl, now);
            app.turn();
            crowd.step(&mut app.repl, now);
            crowd.is_quiet(&app.repl)
        });
        let next = app.timeout().after.into_iter().chain(crowd.due().map(|due| due - now)).min();
        app.advance(next.unwrap_or(end).clamp(Duration::from_millis(1), s(1)).min(end - now));
    }
}
