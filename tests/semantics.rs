//! What one turn of the loop does, turn by turn: who is watched, what is served together, and when a frame is drawn.
//! Scenarios make it exact: what is due at one moment is there before the turn begins.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::TraceLine;
use crate::support::peer::Peer;
use crate::support::program::{Home, PROGRAM};
use crate::support::pty::Pty;

/// The turns of a trace, each with its lines.
type Turns = BTreeMap<u64, Vec<TraceLine>>;

fn turns_of(trace: &str) -> Turns {
    let mut turns = Turns::new();
    for line in trace.lines().map(|line| TraceLine::parse(line).expect(line)) {
        if let Some(turn) = line.turn {
            turns.entry(turn).or_default().push(line);
        }
    }
    turns
}

/// Plays a scenario, and returns its turns.
fn play(scenario: &str) -> Turns {
    let home = Home::new();
    std::fs::write(home.directory.path().join("it.toml"), scenario).expect("a file");
    let played = home.run(&["replay", "it.toml", "--trace", "trace", "--turns"]);
    assert_eq!(played.code, 0, "{played:?}");
    turns_of(&std::fs::read_to_string(home.directory.path().join("trace")).expect("a trace"))
}

fn count(lines: &[TraceLine], is_counted: impl Fn(&TraceLine) -> bool) -> usize {
    lines.iter().filter(|line| is_counted(line)).count()
}

fn callbacks(lines: &[TraceLine], name: &str) -> usize {
    count(lines, |line| line.callback.as_deref() == Some(name))
}

fn ready_sockets(lines: &[TraceLine]) -> usize {
    count(lines, |line| line.source.as_deref() == Some("socket") && line.read == Some(true))
}

/// Agents `a0`, `a1`, ..., each of which is told to answer at 0; their replies say `body` of the agent's number.
fn scenario_of(agents: usize, body: impl Fn(usize) -> String) -> String {
    let names: Vec<String> = (0..agents).map(|n| format!("\"a{n}\"")).collect();
    let mut text = format!("about = \"one turn\"\napproval = \"ask\"\nagents = [{}]\n", names.join(", "));
    for n in 0..agents {
        let at = n * 10;
        text += &format!("[[input]]\nat = {at}\nline = \"/tell a{n} go\"\n[[reply]]\nagent = \"a{n}\"\n{}\n", body(n));
    }
    text
}

/// All replies have their first word at 1,000 ms and their end at 2,000.
fn words(n: usize) -> String {
    let (first, last) = (1_000 - n * 10, 2_000 - n * 10);
    format!("steps = [{{ after = {first}, text = \"word {n}\" }}, {{ after = {last}, finish = \"stop\" }}]")
}

#[test]
fn the_descriptors_of_all_agents_are_watched_at_once_and_served_in_one_turn() {
    let turns = play(&scenario_of(5, words));
    let with_words: Vec<&Vec<TraceLine>> = turns.values().filter(|lines| callbacks(lines, "text") > 0).collect();
    assert_eq!(with_words.len(), 1, "all words in one turn");
    assert_eq!((ready_sockets(with_words[0]), callbacks(with_words[0], "text")), (5, 5));
    let with_ends: Vec<&Vec<TraceLine>> = turns.values().filter(|lines| callbacks(lines, "done") > 0).collect();
    assert_eq!(with_ends.len(), 1, "all ends in one turn");
    assert_eq!((ready_sockets(with_ends[0]), callbacks(with_ends[0], "done")), (5, 5));
    let settled = count(with_ends[0], |line| line.outcome.as_deref() == Some("completed"));
    assert_eq!(settled, 5, "and each of them is idle in the same turn");
}

/// A reply that calls a tool at once; its result is there at 1,000 ms.
fn tool_call(n: usize) -> String {
    let after = 1_000 - n * 10;
    format!(
        "steps = [{{ after = 0, call = {{ tool = \"read_file\", arguments = '{{\"file_path\": \"f{n}\"}}' }}, \
         finish = \"tool_calls\" }}]\n[[reply]]\nagent = \"a{n}\"\nsteps = [{{ after = 0, text = \"read\", finish = \
         \"stop\" }}]\n[[tool]]\ntool = \"read_file\"\nwith = \"f{n}\"\nafter = {after}\nresult = \"text\""
    )
}

#[test]
fn two_tools_that_are_done_are_collected_in_one_turn() {
    let turns = play(&scenario_of(3, tool_call));
    let collected: Vec<usize> =
        turns.values().map(|lines| callbacks(lines, "tool_result")).filter(|n| *n > 0).collect();
    assert_eq!(collected, [3], "all results in one turn");
}

#[test]
fn a_tool_that_is_done_and_a_reply_that_ends_are_served_in_one_turn() {
    let turns = play(&scenario_of(2, |n| if n == 0 { tool_call(0) } else { words(1) }));
    let together = turns.values().filter(|lines| callbacks(lines, "tool_result") == 1 && callbacks(lines, "text") == 1);
    assert_eq!(together.count(), 1);
}

/// As `setup_fd_sets` and `calculate_select_timeout_ms` of the original would have made it for all agents.
#[test]
fn a_turn_has_the_descriptors_and_all_time_limits_of_its_wait() {
    let turns = play(&scenario_of(2, |n| if n == 0 { tool_call(0) } else { words(1) }));
    let lines: Vec<&TraceLine> = turns.values().flatten().collect();
    let waits: Vec<&TraceLine> = lines.iter().copied().filter(|line| line.event == "turn").collect();
    let has = |line: &TraceLine, why: &str, ms: u64| {
        line.candidates.iter().any(|candidate| candidate.why == why && candidate.timeout_us == ms * 1_000)
    };
    let is_together = |line: &&TraceLine| has(line, "tools", 50) && has(line, "stall", 120_000);
    let together: Vec<&TraceLine> = waits.iter().copied().filter(is_together).collect();
    assert!(!together.is_empty(), "the tool of one agent, and the reply of the other: {waits:?}");
    assert!(together.iter().all(|line| line.timeout_us <= Some(50_000)), "the least of them: {together:?}");
    for line in &waits {
        let least = line.candidates.iter().map(|candidate| candidate.timeout_us).min();
        assert!(line.timeout_us == Some(0) || line.timeout_us == least, "{line:?}");
    }
    let sockets = |line: &&TraceLine| {
        let watched = line.watched.iter().flatten();
        watched.filter(|of| of.source == "socket" && of.agent.is_some() && of.fd.is_some() && of.read).count()
    };
    assert!(waits.iter().any(|line| sockets(line) == 2), "the sockets of both: {waits:?}");
    let unfinished = lines.iter().filter(|line| line.event == "unfinished").count();
    assert!(unfinished > 0, "a tool that was looked at and still runs");
}

#[test]
fn a_turn_draws_one_frame_at_most_after_all_that_happens_in_it() {
    for turns in [play(&scenario_of(5, words)), play(&scenario_of(3, tool_call))] {
        let mut frames = 0;
        for (number, lines) in &turns {
            let drawn: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].event == "render").collect();
            assert!(drawn.len() <= 1, "turn {number}: {lines:?}");
            let rest = drawn.first().map_or(&[][..], |at| &lines[at + 1..]);
            assert!(rest.iter().all(|line| line.event == "end"), "turn {number}: {rest:?}");
            frames += drawn.len();
        }
        assert!(frames > 3, "{frames} frames in {} turns", turns.len());
    }
}

#[test]
fn lines_that_arrive_at_once_are_entered_in_a_turn_each() {
    let input = |name: &str| format!("[[input]]\nat = 100\nline = \"/name {name}\"\n");
    let inputs: String = ["one", "two", "three"].iter().map(|name| input(name)).collect();
    let turns = play(&format!("about = \"three lines\"\nagents = [\"a\"]\n{inputs}"));
    let entered: Vec<usize> =
        turns.values().map(|lines| count(lines, |line| line.event == "keys")).filter(|n| *n > 0).collect();
    assert_eq!(entered, [1, 1, 1], "{turns:?}");
    let frames = turns.values().filter(|lines| lines.iter().any(|line| line.event == "keys"));
    assert!(frames.clone().all(|lines| count(lines, |line| line.event == "render") == 1), "each is seen");
}

/// A signal that comes during a wait ends it with EINTR; that is a turn in which nothing is ready, and no error.
#[test]
fn a_wait_that_a_signal_interrupts_is_an_empty_turn() {
    let home = Home::new();
    let trace = home.directory.path().join("trace");
    let (directory, path) = (home.directory.path().to_str().expect("UTF-8"), trace.to_str().expect("UTF-8"));
    let args = ["--ephemeral", "--trace", path, "%slow 40\n%repeat 2000\nword"];
    let mut pty = Pty::spawn(PROGRAM, &args, &[("HOME", directory), ("LANG", "C.UTF-8")], (80, 24));
    let read = || std::fs::read_to_string(&trace).unwrap_or_default();
    // A wait without anything ready that ended before it was due.
    let is_interrupted = |trace: &str| {
        let whole = &trace[..trace.rfind('\n').map_or(0, |end| end + 1)];
        let mut last_end = 0;
        turns_of(whole).values().any(|lines| {
            let is_empty = lines.iter().all(|line| line.event != "ready");
            let is_early = lines[0].timeout_us.is_none_or(|timeout| lines[0].at_us + 2_000 < last_end + timeout);
            last_end = lines.last().map_or(0, |line| line.at_us);
            is_empty && is_early
        })
    };
    pty.wait_until(
        |pty| {
            let pid = i32::try_from(pty.pid()).ok().and_then(Pid::from_raw).expect("the id of a process");
            kill_process(pid, Signal::WINCH).expect("it runs");
            is_interrupted(&read())
        },
        "a wait that was interrupted",
    );
    let before = pty.output_so_far();
    pty.wait_for_bytes(before + 100);
    pty.kill(Signal::TERM);
    pty.wait_exit();
}

/// What was delivered to agents, by turn, as numbers of agents.
fn served(trace: &str, app: &Harness) -> Vec<Vec<usize>> {
    let number = |id: &str| (0..).find(|n| app.id(*n).to_string() == id).expect("endless");
    let turns = turns_of(trace);
    let texts = |lines: &Vec<TraceLine>| {
        let of_text = lines.iter().filter(|line| line.callback.as_deref() == Some("text"));
        of_text.map(|line| number(line.agent.as_deref().expect("an agent"))).collect::<Vec<usize>>()
    };
    turns.values().map(texts).filter(|served| !served.is_empty()).collect()
}

/// As `agents[0..n]` in the original, not by their random ids.
#[test]
fn twenty_agents_of_one_turn_are_served_in_the_order_of_the_roster() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace");
    let mut app =
        Harness::new(Plan { trace: Some(trace.clone()), is_trace_stable: false, working_limit: 0, ..Plan::default() });
    for n in 1..20 {
        app.enter(&format!("/fork --name a{n}"));
        app.enter("/switch 0");
    }
    for n in (0..20).rev() {
        app.say(n, "%slow 1000\nword and word");
    }
    app.advance(Duration::from_secs(1));
    let read = |app: &Harness| served(&std::fs::read_to_string(&trace).expect("a trace"), app);
    assert_eq!(read(&app), [(0..20).collect::<Vec<usize>>()]);
}

#[test]
fn sockets_that_are_ready_together_are_served_in_the_order_of_the_roster() {
    let (directory, peer) = (tempfile::tempdir().expect("a directory"), Peer::start());
    let trace = directory.path().join("trace");
    let mut app = Harness::new(Plan {
        trace: Some(trace.clone()),
        is_trace_stable: false,
        working_limit: 0,
        ..Plan::peer(&peer.url())
    });
    let mut replies = Vec::new();
    for n in 0..20 {
        if n > 0 {
            app.enter(&format!("/fork --name a{n}"));
        }
        app.say(n, "go");
        replies.push(app.accept(&peer));
    }
    app.turn();
    // The last first: the poll reports them in this order.
    for reply in replies.iter_mut().rev() {
        reply.stream().text("word");
    }
    app.turn_until("all words", |app| (0..20).all(|n| app.agent(n).partial_text() == "word"));
    let turns = served(&std::fs::read_to_string(&trace).expect("a trace"), &app);
    assert!(turns.iter().all(|served| served.is_sorted()), "{turns:?}");
    assert!(turns.iter().any(|served| served.len() > 1), "several at once: {turns:?}");
}
