//! Kill: in each state, from each agent that may ask for it. A killed agent runs, receives and sends nothing, and does not
//! come back after a restart.

use std::sync::atomic::Ordering;
use std::time::Duration;

use polylogue::config::{Policy, RetryPolicy, Settings};
use polylogue::{AgentId, ArchiveAct, Change, Config, Fork, Setting};
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Branches, Probe, State, commands};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{
    answer_next, app, bash, converse, is_running, mark, reply_with_calls, results_then, texts_in, turn_a_while,
    with_children,
};

/// The state of the victim when it is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Activity {
    Nothing,
    Streaming,
    Retrying,
    WaitingForSlot,
    AwaitingApproval,
    RunningTool,
    ForkParked,
    WaitingForMail,
}

/// A kill, and what is expected of it. The tree is
///
/// ```text
///   agent 0 -- boss -+- victim -- child
///                    +- sister
/// ```
struct KillCase {
    from: &'static str,
    line: &'static str,
    /// The agent on the screen afterwards; `root` is agent 0, which has no name.
    then: &'static str,
    killed: &'static [&'static str],
}

const KILL_CASES: [KillCase; 6] = [
    KillCase { from: "victim", line: "/kill", then: "boss", killed: &["victim"] },
    KillCase { from: "boss", line: "/kill victim", then: "boss", killed: &["victim"] },
    KillCase { from: "child", line: "/kill victim", then: "child", killed: &["victim"] },
    KillCase { from: "sister", line: "/kill victim", then: "sister", killed: &["victim"] },
    KillCase { from: "child", line: "/kill victim --cascade", then: "boss", killed: &["victim", "child"] },
    KillCase {
        from: "sister",
        line: "/kill boss --cascade",
        then: "root",
        killed: &["boss", "victim", "child", "sister"],
    },
];

/// One kill, from before it to after a restart.
struct Scene {
    app: Harness,
    peer: Peer,
    /// The requests of the victim, whose connections stay open.
    open: Vec<Exchange>,
    /// In the command lines of the victim's processes and no others.
    mark: String,
}

impl Scene {
    /// A tree whose victim is in this state.
    fn set(activity: Activity) -> Self {
        let peer = Peer::start();
        let limit = usize::from(activity == Activity::WaitingForSlot);
        // The retry must not come before the kill, however slow this machine is.
        let retry =
            RetryPolicy { base: Duration::from_secs(3_600), cap: Duration::from_secs(3_600), ..RetryPolicy::default() };
        let settings = Settings { retry, ..Settings::default() };
        let plan = Plan { real_time: true, working_limit: limit, settings, ..Plan::peer(&peer.url()) };
        let mut app = Harness::new(plan);
        let boss = app.fork_named(0, "boss");
        let victim = app.fork_named(boss, "victim");
        app.fork_named(victim, "child");
        app.fork_named(boss, "sister");
        let mut scene = Self { app, peer, open: Vec::new(), mark: mark() };
        scene.begin(activity);
        scene
    }

    fn begin(&mut self, activity: Activity) {
        if activity == Activity::WaitingForSlot {
            // The agent that holds the only slot keeps it: a new request of it would look like one of the victim.
            self.app.say(0, "takes the slot");
            self.app.accept(&self.peer).stream().text("for ever");
        }
        let victim = self.app.n("victim");
        self.app.say(victim, "to the victim");
        match activity {
            Activity::WaitingForSlot => turn_a_while(&mut self.app),
            activity => self.answer(victim, activity),
        }
        if activity != Activity::Nothing {
            self.app.say(victim, "queued for the victim");
        }
    }

    fn answer(&mut self, victim: usize, activity: Activity) {
        let request = self.app.accept(&self.peer);
        let sleep = format!("sleep {}", self.mark);
        let stubborn = format!("trap '' TERM; (trap '' TERM; setsid {sleep} & {sleep} & wait) & wait");
        match activity {
            Activity::Nothing => drop(request.stream().text("done").finish("stop").done()),
            Activity::Streaming => drop(request.stream().text("half")),
            Activity::Retrying => drop(request.error(503, "overloaded", "not now")),
            Activity::WaitingForMail => reply_with_calls(&request, &[("wait", "{}")]),
            _ => reply_with_calls(&request, &[("bash", &bash(&stubborn))]),
        }
        self.open.push(request);
        self.wait_for(victim, activity);
    }

    fn wait_for(&mut self, victim: usize, activity: Activity) {
        let app = &mut self.app;
        let word = match activity {
            Activity::Nothing => return app.turn_until("the reply", |app| app.replies(victim) == ["done"]),
            Activity::Streaming => return app.turn_until("the half", |h| h.agent(victim).partial_text() == "half"),
            Activity::Retrying => "retrying in",
            Activity::WaitingForMail => "waiting for mail",
            _ => "awaiting approval",
        };
        app.turn_until(word, |app| tree(app).lines().any(|l| l.contains("victim") && l.contains(word)));
        if matches!(activity, Activity::RunningTool | Activity::ForkParked) {
            app.answer(victim, true);
            app.turn_until("the command runs", |_| is_running(&format!("sleep\0{}", self.mark)));
        }
        if activity == Activity::ForkParked {
            app.ask(
                victim,
                Change::Fork(Fork { prompt: Some("from the dead".into()), includes_current: true, ..Fork::default() }),
            );
        }
    }

    /// Kills, and checks the result now and after a restart.
    fn play(mut self, case: &KillCase) {
        let killed: Vec<AgentId> = case.killed.iter().map(|name| self.app.id(self.app.n(name))).collect();
        self.app.switch(self.app.n(case.from));
        self.app.enter_and_confirm(case.line);
        self.assert_killed(case, &killed);
        let logs: Vec<_> = killed.iter().map(|id| self.app.repl.store().replay(*id)).collect();
        self.send_late_replies();
        let app = &mut self.app;
        app.turn_until("nothing of the dead runs", |app| !is_running(&self.mark) && is_quiet(app));
        assert_eq!(logs, killed.iter().map(|id| app.repl.store().replay(*id)).collect::<Vec<_>>());
        assert!(self.peer.try_accept().is_none(), "the dead ask nothing");
        self.assert_family(case);

        let Self { app, peer, .. } = self;
        self = Self { app: app.crash_and_restart(), peer, open: Vec::new(), mark: String::new() };
        turn_a_while(&mut self.app);
        assert!(self.peer.try_accept().is_none(), "the dead do not come back");
        self.assert_family(case);
        assert!(killed.iter().all(|id| self.app.repl.roster().get(*id).is_none()));
    }

    fn assert_killed(&mut self, case: &KillCase, killed: &[AgentId]) {
        let app = &mut self.app;
        let then = if case.then == "root" { 0 } else { app.n(case.then) };
        assert_eq!(app.focus(), then, "{}", case.line);
        for (id, name) in killed.iter().zip(case.killed) {
            assert!(app.repl.roster().get(*id).is_none(), "{name} lives");
            let log = app.repl.store().replay(*id).expect("its log is kept").0;
            assert_eq!(log.last().map(|message| &message.body), Some(&Body::AgentKilled));
            app.enter(&format!("/send {id} are you there?"));
            assert!(app.screen_text().contains("no agent"), "{}", app.screen_text());
            app.type_bytes(b"\x15");
        }
        assert_eq!(app.repl.roster().len(), 5 - killed.len());
    }

    /// The server goes on with its replies, although the client is gone.
    fn send_late_replies(&mut self) {
        for exchange in &self.open {
            exchange.text("too late").finish("stop").done();
            exchange.wait_for_close();
        }
        turn_a_while(&mut self.app);
    }

    /// The parent of the orphan is the adopter, in the tree and for the keys.
    fn assert_family(&mut self, case: &KillCase) {
        if case.killed.contains(&"child") {
            return;
        }
        let app = &mut self.app;
        app.switch(app.n("child"));
        app.type_bytes(b"\x1b[1;5A");
        assert_eq!(app.focus(), app.n("boss"), "Ctrl+Up from the orphan");
        let line = tree(app).lines().find(|line| line.contains("child")).map(str::to_owned).expect("it is listed");
        assert!(line.starts_with("      2") || line.starts_with("      3"), "two steps below the root: {line:?}");
    }
}

/// The tree as `/agents` shows it.
fn tree(app: &Harness) -> String {
    let roster = app.repl.roster();
    let current = roster.nth(0).expect("there is a root");
    commands::agent_tree(&commands::CommandContext {
        roster,
        store: app.repl.store(),
        config: &Config::default(),
        current,
        branches: &Branches::default(),
        unix_ms: 0,
        terminal_infos: Vec::new(),
        clients: None,
        activity: Box::new(|id| {
            let listed = app.repl.list().into_iter().find(|agent| agent.id == id);
            listed.and_then(|agent| agent.activity).unwrap_or_default()
        }),
    })
}

/// The loop waits for no agent, except for the one that holds the only slot and is never done.
fn is_quiet(app: &mut Harness) -> bool {
    let is_root_busy = app.state(0) != State::Idle;
    app.repl.roster().with_live_tools().is_empty() && (is_root_busy || app.timeout().after.is_none())
}

fn killed_in_every_way_while(activity: Activity) {
    for case in &KILL_CASES {
        Scene::set(activity).play(case);
    }
}

#[test]
fn an_idle_agent_is_killed_in_every_way() {
    killed_in_every_way_while(Activity::Nothing);
}

#[test]
fn a_streaming_agent_is_killed_in_every_way() {
    killed_in_every_way_while(Activity::Streaming);
}

#[test]
fn an_agent_that_waits_for_a_retry_is_killed_in_every_way() {
    killed_in_every_way_while(Activity::Retrying);
}

#[test]
fn an_agent_that_waits_for_a_slot_is_killed_in_every_way() {
    killed_in_every_way_while(Activity::WaitingForSlot);
}

#[test]
fn an_agent_that_awaits_approval_is_killed_in_every_way() {
    killed_in_every_way_while(Activity::AwaitingApproval);
}

#[test]
fn an_agent_with_a_command_that_ignores_term_is_killed_in_every_way_with_the_command() {
    killed_in_every_way_while(Activity::RunningTool);
}

#[test]
fn an_agent_with_a_parked_fork_is_killed_in_every_way_and_the_child_is_never_created() {
    killed_in_every_way_while(Activity::ForkParked);
}

#[test]
fn an_agent_that_waits_for_mail_is_killed_in_every_way() {
    killed_in_every_way_while(Activity::WaitingForMail);
}

#[test]
fn the_slot_of_a_killed_agent_goes_to_the_next_in_the_send_queue() {
    let mut scene = Scene::set(Activity::WaitingForSlot);
    let sister = scene.app.n("sister");
    scene.app.ask(sister, Change::Submit("to the sister".into()));
    scene.app.enter_and_confirm("/kill victim");
    let sister = scene.app.n("sister");
    scene.app.ask(0, Change::Interrupt);
    answer_next(&mut scene.app, &scene.peer, sister, "now I am");
    assert!(scene.peer.try_accept().is_none(), "no other agent waited");
}

#[test]
fn the_partial_reply_and_queue_of_a_killed_agent_are_kept_but_never_sent() {
    let mut scene = Scene::set(Activity::Streaming);
    let victim = scene.app.id(scene.app.n("victim"));
    scene.app.enter_and_confirm("/kill victim");
    let log = scene.app.repl.store().replay(victim).expect("a log").0;
    let partial = log.iter().find_map(|m| if let Body::Assistant(reply) = &m.body { Some(reply) } else { None });
    assert!(partial.is_some_and(|reply| reply.is_partial && reply.text == "half"), "{log:?}");
    let app = scene.app.crash_and_restart();
    let queued = app.repl.store().queued(victim).expect("a queue");
    assert_eq!(queued.iter().map(|queued| queued.text.as_str()).collect::<Vec<_>>(), ["queued for the victim"]);
    assert!(scene.peer.try_accept().is_none());
}

#[test]
fn killing_the_root_is_refused() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork_named(0, "child");
    for line in ["/kill", "/kill --cascade", "/kill 0"] {
        app.enter(line);
        assert!(app.screen_text().contains("is the root and cannot be killed"), "{}", app.screen_text());
        app.type_bytes(b"\x15");
    }
    app.switch(1);
    app.enter_and_confirm("/kill 0 --cascade");
    assert!(app.screen_text().contains("is the root and cannot be killed"), "{}", app.screen_text());
    app.type_bytes(b"\x15");
    app.enter_and_confirm("/kill nobody");
    assert!(app.screen_text().contains("no agent \"nobody\""), "{}", app.screen_text());
    assert_eq!(app.repl.roster().len(), 2);
}

#[test]
fn the_name_of_a_killed_agent_is_free_and_its_id_is_not_found() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let first = app.fork_named(0, "scout");
    let first = app.id(first);
    app.enter_and_confirm("/kill scout");
    let again = app.fork_named(0, "scout");
    assert_ne!(app.id(again), first);
    assert!(app.repl.roster().find(&first.to_string()).one().is_none());
    app.enter_and_confirm("/kill scout");
    assert_eq!(app.crash_and_restart().repl.roster().len(), 1);
}

#[test]
fn an_orphan_is_adopted_by_its_nearest_living_ancestor_and_keeps_what_it_inherited() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let mut last = 0;
    for name in ["a", "b", "c"] {
        converse(&mut app, &peer, last, &format!("above {name}"), "yes");
        last = app.fork_named(last, name);
    }
    app.enter_and_confirm("/kill a");
    app.enter_and_confirm("/kill b");
    let expected = ["above a", "yes", "above b", "yes", "above c", "yes", "go"];
    let c = app.n("c");
    assert_eq!(texts_in(&converse(&mut app, &peer, c, "go", "gone")), expected);
    let mut app = app.crash_and_restart();
    assert_eq!(app.repl.roster().parent(app.id(1)), Some(app.id(0)));
    app.type_bytes(b"\x1b[1;5B");
    assert_eq!(app.focus(), app.n("c"), "Ctrl+Down leads to the adopted");
    assert_eq!(texts_in(&converse(&mut app, &peer, 1, "on", "yes"))[..7], expected);
}

/// A boss with two children, and the first child calls the `kill` tool.
fn asked_to_kill(peer: &Peer, arguments: &str) -> Harness {
    let mut app = app(peer);
    let boss = app.fork_named(0, "boss");
    let killer = app.fork_named(boss, "killer");
    app.fork_named(boss, "other");
    app.say(killer, "do it");
    reply_with_calls(&app.accept(peer), &[("kill", arguments)]);
    app
}

#[test]
fn the_kill_tool_asks_a_person_who_sees_the_target_and_may_refuse() {
    let peer = Peer::start();
    for allowed in [true, false] {
        let mut app = asked_to_kill(&peer, "{\"agent\":\"other\",\"cascade\":true}");
        let killer = app.n("killer");
        app.turn_until_asked(killer);
        app.switch(killer);
        assert!(app.screen_text().contains("kill other and all its descendants"), "{}", app.screen_text());
        app.press_at_question(if allowed { b"y" } else { b"n" });
        let results = results_then(&mut app, &peer, killer, "done");
        let refused = "the user denied this call: other is not your descendant";
        assert_eq!(results, [if allowed { "killed other" } else { refused }]);
        assert_eq!(app.repl.roster().len(), if allowed { 3 } else { 4 });
    }
}

#[test]
fn the_kill_tool_is_refused_for_another_agent_where_no_question_is_asked() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let boss = app.fork_named(0, "boss");
    let killer = app.fork_named(boss, "killer");
    app.fork_named(boss, "other");
    app.fork_named(killer, "own");
    app.ask(killer, Change::Setting(Setting::Approval(Policy::Never)));
    app.say(killer, "do it");
    reply_with_calls(&app.accept(&peer), &[("kill", "{\"agent\":\"other\"}"), ("kill", "{\"agent\":\"own\"}")]);
    let results = results_then(&mut app, &peer, killer, "done");
    let refused = "refused: other is not your descendant, and no question is asked (policy never)";
    assert_eq!(results, [refused, "killed own"]);
}

#[test]
fn the_kill_tool_refuses_ancestors_the_root_and_unknown_agents() {
    let peer = Peer::start();
    for (agent_id, expected) in [("boss", "its own ancestors"), ("0", "its own ancestors"), ("nobody", "no agent")] {
        let mut app = asked_to_kill(&peer, &json!({ "agent": agent_id }).to_string());
        let killer = app.n("killer");
        let results = results_then(&mut app, &peer, killer, "a pity");
        assert!(results[0].contains(expected), "{results:?}");
        assert_eq!(app.repl.roster().len(), 4);
    }
    let mut app = app(&peer);
    app.say(0, "do it");
    reply_with_calls(&app.accept(&peer), &[("kill", "{\"agent\":\"0\"}")]);
    let results = results_then(&mut app, &peer, 0, "a pity");
    assert!(results[0].contains("is the root"), "{results:?}");
}

#[test]
fn a_model_ends_its_own_descendants_unasked() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let boss = app.fork_named(0, "boss");
    let child = app.fork_named(boss, "child");
    app.fork_named(child, "grandchild");
    app.say(boss, "do it");
    reply_with_calls(&app.accept(&peer), &[("kill", "{\"agent\":\"grandchild\"}"), ("kill", "{\"agent\":\"child\"}")]);
    assert_eq!(results_then(&mut app, &peer, boss, "done"), ["killed grandchild", "killed child"]);
    assert_eq!(app.repl.roster().len(), 2);
}

#[test]
fn an_agent_may_kill_itself_by_tool_and_nothing_waits_for_its_answer() {
    let peer = Peer::start();
    let mut app = asked_to_kill(&peer, "{\"agent\":\"killer\"}");
    let killer = app.n("killer");
    app.answer(killer, true);
    turn_a_while(&mut app);
    assert!(app.repl.roster().find("killer").one().is_none() && peer.try_accept().is_none());
    assert!(app.repl.roster().busy().is_empty());
    assert_eq!(app.crash_and_restart().repl.roster().len(), 3);
}

#[test]
fn effects_of_an_agent_killed_in_the_same_turn_are_not_applied() {
    let mut app = Harness::new(Plan::default());
    let victim = app.fork_named(0, "victim");
    let victim_id = app.id(victim);
    let killer = app.fork_named(0, "killer");
    app.switch(killer);
    app.say(killer, "%tool kill {\"agent\":\"victim\"}");
    app.turn_until_asked(killer);
    app.turn();
    app.advance(Duration::from_millis(300));
    let calls = "%tool fork {\"prompt\":\"late\",\"name\":\"late\"}\n%tool send_mail {\"to\":\"0\",\"body\":\"late\"}";
    app.say(victim, &format!("%slow 100\nnow\n{calls}"));
    app.turn();
    // The person's answer and the rest of the reply arrive in one turn.
    app.terminal().input.extend_from_slice(b"y");
    app.advance(Duration::from_secs(1));
    assert!(app.repl.roster().find("victim").one().is_none());
    app.turn_until_idle();
    assert!(app.repl.roster().find("late").one().is_none());
    assert_eq!(app.repl.store().mail(app.id(0), None).expect("a box"), []);
    let last = app.repl.store().replay(victim_id).expect("a log").0.pop().map(|message| message.body);
    assert_eq!(last, Some(Body::AgentKilled));
}

#[test]
fn a_conversation_that_was_begun_is_no_descendant_of_the_first_one() {
    let mut app = Harness::new(Plan::default());
    app.enter("/new --name other hello");
    app.turn_until_idle();
    app.fork_named(0, "child");
    app.fork_named(1, "grandchild");
    app.say(1, "text\n%hang");
    app.turn();
    app.switch(0);
    app.enter("/stop agent 0");
    app.turn();
    assert!(!app.repl.roster().busy().is_empty(), "another conversation goes on");
    app.enter("/kill --descendants");
    app.turn_until("the child is gone", |app| app.repl.roster().find("child").one().is_none());
    assert_eq!((app.n("other"), app.n("grandchild"), app.repl.roster().len()), (1, 2, 3));
    let agent_id = app.id(1);
    app.ask(1, Change::Kill { agent_id, cascade: false });
    for _ in 0..2 {
        app.enter("/kill --descendants");
        app.turn();
        assert_eq!(
            (app.n("grandchild"), app.repl.roster().len()),
            (1, 2),
            "what was forked there is no descendant either"
        );
        app = app.crash_and_restart();
    }
}

#[test]
fn a_kill_of_very_many_takes_several_turns_and_holds_nothing_up() {
    let mut app = with_children(2_000);
    app.say(1, "text\n%hang");
    app.turn();
    app.ask(0, Change::KillDescendants(app.id(0)));
    assert!(app.repl.roster().busy().is_empty(), "a victim works on");
    app.say(0, "meanwhile");
    app.turn_until("the answer", |app| app.replies(0) == ["meanwhile"]);
    assert!(app.repl.roster().len() > 1, "all were killed in one turn");
    app.fork_named(0, "new");
    app.turn_until("all are gone", |app| app.repl.roster().len() == 2);
    app.turn_until("the loop waits", |app| app.timeout().after.is_none());
    let screen = app.screen_text();
    assert!(screen.contains("killing 2000 descendants …") && screen.contains("2000 agents killed"), "{screen}");
    assert_eq!(app.n("new"), 1, "one that was made meanwhile is not meant");
}

#[test]
fn very_many_at_work_are_stopped_in_several_turns() {
    // The newest are killed first.
    for first in [1, 1_966] {
        let mut app = with_children(2_000);
        for n in first..first + 35 {
            app.say(n, "%hang");
        }
        app.ask(0, Change::KillDescendants(app.id(0)));
        let mut left = vec![app.repl.roster().busy().len()];
        while left.last() > Some(&0) {
            app.turn();
            left.push(app.repl.roster().busy().len());
        }
        assert_eq!(left, [25, 15, 5, 0], "from {first}");
        app.turn_until("all are gone", |app| app.repl.roster().len() == 1);
    }
}

#[test]
fn one_that_is_being_killed_is_not_forked_or_archived() {
    let mut app = with_children(2_000);
    app.ask(0, Change::KillDescendants(app.id(0)));
    let victim = app.id(1);
    for change in [Change::Fork(Fork::default()), Change::Archive(ArchiveAct::Archive(victim))] {
        let done = app.repl.apply(victim, change);
        assert!(done.is_err_and(|error| error.message.ends_with("is being killed")));
    }
    app.fork_named(0, "new");
    app.turn_until("all are gone", |app| app.repl.roster().len() == 2);
}

#[test]
fn a_kill_of_very_many_is_completed_after_a_crash() {
    let mut app = with_children(2_000);
    let top = app.id(1);
    app.fork(1);
    app.ask(0, Change::KillDescendants(app.id(0)));
    app.turn();
    let mut app = app.crash_and_restart();
    assert!(app.repl.roster().len() > 1_000, "{}", app.repl.roster().len());
    app.fork_named(0, "new");
    app.turn_until("all are gone", |app| app.repl.roster().len() == 2);
    app.turn_until("the loop waits", |app| app.timeout().after.is_none());
    assert!(app.repl.roster().get(top).is_none());
    let mut app = app.crash_and_restart();
    app.turn();
    assert_eq!(app.repl.roster().len(), 2, "the kill had ended");
}

#[test]
fn who_is_killed_with_very_many_is_not_killed_alone_meanwhile() {
    let mut app = with_children(1);
    let top = app.id(1);
    for _ in 0..600 {
        app.fork(1);
    }
    app.ask(0, Change::Kill { agent_id: top, cascade: true });
    let alone = app.repl.apply(app.id(0), Change::Kill { agent_id: top, cascade: false });
    assert!(alone.is_err_and(|error| error.message.contains("being killed")));
    app.ask(0, Change::KillDescendants(top));
    app.turn_until("all are gone", |app| app.repl.roster().len() == 1);
}

#[test]
fn a_kill_of_very_many_that_the_store_refuses_is_tried_again() {
    let mut app = with_children(2_000);
    app.ask(0, Change::KillDescendants(app.id(0)));
    app.is_disk_full.store(true, Ordering::Relaxed);
    app.turn();
    let left = app.repl.roster().len();
    assert!(app.screen_text().contains("cannot kill the rest"), "{}", app.screen_text());
    app.is_disk_full.store(false, Ordering::Relaxed);
    app.turn();
    assert_eq!(app.repl.roster().len(), left, "tried again at once");
    app.advance(Duration::from_secs(10));
    app.turn_until("all are gone", |app| app.repl.roster().len() == 1);
}
