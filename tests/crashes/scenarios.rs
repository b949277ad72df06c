//! The scenarios: what is done while the process dies, and what may be left of it.

use polylogue::{Change, Decision, Fork, HistoryEdit, MailAct, QueueEdit, Setting, SliceSpec};

use super::{Scenario, kill_at_every_write};
use crate::support::harness::Harness;
use crate::support::internals::{DraftSlot, Probe};

/// Finds a scenario by name, for the process that gets its name.
pub fn find(name: &str) -> &'static Scenario {
    SCENARIOS.iter().copied().find(|scenario| scenario.name == name).expect("a scenario of this name")
}

const SCENARIOS: &[&Scenario] = &[
    &FORK,
    &FORK_WITH_PROMPT,
    &FORK_BY_TOOL,
    &KILL,
    &CASCADE,
    &MAIL,
    &TURN,
    &TOOL,
    &QUEUE,
    &COMMANDS,
    &SENT,
    &UNQUEUE,
    &PAST,
    &SLICE,
    &COMPACT,
    &START,
    &ASK,
    &ANSWER,
    &REFUSE,
    &super::index::INDEX,
];

fn nothing(_: &mut Harness) {}

fn fork(prompt: Option<&str>, name: &str) -> Change {
    Change::Fork(Fork { prompt: prompt.map(str::to_owned), name: Some(name.to_owned()), ..Fork::default() })
}

fn a_talk(app: &mut Harness) {
    app.say(0, "hello");
    app.turn_until_idle();
}

/// Children `a` and `b` of the root, `c` of `a`, `d` of `c`.
fn a_family(app: &mut Harness) {
    for (parent, name) in [(0, "a"), (0, "b"), (1, "c"), (3, "d")] {
        app.ask(parent, fork(None, name));
    }
}

const FORK: Scenario = Scenario {
    name: "fork",
    prepare: a_talk,
    actions: |run| {
        run.ask(0, fork(None, "a"));
        run.acknowledge(1);
    },
    steps: &[&["0 running: hello reply usage"], &["0 running: hello reply usage fork", "a running: fork"]],
};

#[test]
fn a_fork_is_there_whole_or_not_at_all() {
    kill_at_every_write(&FORK);
}

const FORK_WITH_PROMPT: Scenario = Scenario {
    name: "fork with a prompt",
    prepare: a_talk,
    actions: |run| {
        run.ask(0, fork(Some("go"), "a"));
        run.acknowledge(1);
        run.until_idle(1);
        run.acknowledge(2);
    },
    steps: &[
        &["0 running: hello reply usage"],
        &["0 running: hello reply usage fork", "a running: fork go interrupted"],
        &["0 running: hello reply usage fork", "a running: fork go reply usage"],
    ],
};

#[test]
fn a_fork_with_a_prompt_never_leaves_a_child_without_it() {
    kill_at_every_write(&FORK_WITH_PROMPT);
}

const FORK_BY_TOOL: Scenario = Scenario {
    name: "fork by a tool",
    prepare: nothing,
    actions: |run| {
        run.say(0, "%tool fork {\"prompt\":\"%hang\",\"name\":\"a\"}");
        run.until_idle(0);
    },
    steps: &[
        &["0 running:"],
        &["0 running: %tool fork {\"prompt\":\"%hang\",\"name\":\"a\"} interrupted"],
        &["0 running: %tool fork {\"prompt\":\"%hang\",\"name\":\"a\"} tool_call usage tool_result interrupted"],
        &[
            "0 running: %tool fork {\"prompt\":\"%hang\",\"name\":\"a\"} tool_call usage fork tool_result interrupted",
            "a running: fork %hang interrupted",
        ],
        &[
            "0 running: %tool fork {\"prompt\":\"%hang\",\"name\":\"a\"} tool_call usage fork tool_result reply usage",
            "a running: fork %hang interrupted",
        ],
    ],
};

#[test]
fn a_fork_by_a_tool_never_leaves_a_child_without_its_prompt() {
    kill_at_every_write(&FORK_BY_TOOL);
}

const KILL: Scenario = Scenario {
    name: "kill",
    prepare: a_family,
    actions: |run| {
        let agent_id = run.id(3);
        run.ask(0, Change::Kill { agent_id, cascade: false });
        run.acknowledge(1);
    },
    steps: &[
        &["0 running: fork fork", "a running: fork fork", "b running: fork", "c running: fork fork", "d running: fork"],
        &[
            "0 running: fork fork",
            "a running: fork fork",
            "b running: fork",
            "c dead: fork fork agent_killed",
            "d running: fork",
        ],
    ],
};

#[test]
fn a_kill_happened_or_did_not() {
    kill_at_every_write(&KILL);
}

const CASCADE: Scenario = Scenario {
    name: "cascade",
    prepare: a_family,
    actions: |run| {
        run.say(3, "%hang");
        run.acknowledge(1);
        let agent_id = run.id(1);
        run.ask(0, Change::Kill { agent_id, cascade: true });
        run.acknowledge(2);
    },
    steps: &[
        &["0 running: fork fork", "a running: fork fork", "b running: fork", "c running: fork fork", "d running: fork"],
        &[
            "0 running: fork fork",
            "a running: fork fork",
            "b running: fork",
            "c running: fork fork %hang interrupted",
            "d running: fork",
        ],
        &[
            "0 running: fork fork",
            "a dead: fork fork agent_killed",
            "b running: fork",
            "c dead: fork fork %hang agent_killed",
            "d dead: fork agent_killed",
        ],
    ],
};

#[test]
fn a_cascade_takes_all_of_the_subtree_or_none() {
    kill_at_every_write(&CASCADE);
}

const MAIL: Scenario = Scenario {
    name: "mail",
    prepare: a_family,
    actions: |run| {
        let to = run.id(2);
        run.ask(1, Change::Mail(MailAct::Send { to, body: "news".into() }));
        run.acknowledge(1);
        run.ask(2, Change::Mail(MailAct::Read(None)));
        run.acknowledge(2);
    },
    steps: &[
        &["0 running: fork fork", "a running: fork fork", "b running: fork", "c running: fork fork", "d running: fork"],
        &[
            "0 running: fork fork",
            "a running: fork fork",
            "b running: fork, box news",
            "c running: fork fork",
            "d running: fork",
        ],
        &[
            "0 running: fork fork",
            "a running: fork fork",
            "b running: fork, box news (read)",
            "c running: fork fork",
            "d running: fork",
        ],
    ],
};

#[test]
fn mail_is_delivered_or_was_never_sent() {
    kill_at_every_write(&MAIL);
}

const TURN: Scenario = Scenario {
    name: "turn",
    prepare: nothing,
    actions: |run| {
        run.say(0, "hello");
        run.acknowledge(1);
        run.until_idle(0);
        run.acknowledge(2);
    },
    steps: &[&["0 running:"], &["0 running: hello interrupted"], &["0 running: hello reply usage"]],
};

#[test]
fn a_turn_that_is_cut_anywhere_keeps_its_question_and_is_marked_as_cut() {
    kill_at_every_write(&TURN);
}

const TOOL: Scenario = Scenario {
    name: "tool",
    prepare: nothing,
    actions: |run| {
        run.say(0, "%tool read_file {\"path\":\"none\"}");
        run.acknowledge(1);
        run.until_idle(0);
        run.acknowledge(3);
    },
    steps: &[
        &["0 running:"],
        &["0 running: %tool read_file {\"path\":\"none\"} interrupted"],
        &["0 running: %tool read_file {\"path\":\"none\"} tool_call usage tool_result interrupted"],
        &["0 running: %tool read_file {\"path\":\"none\"} tool_call usage tool_result reply usage"],
    ],
};

#[test]
fn a_call_has_its_result_wherever_its_turn_was_cut() {
    kill_at_every_write(&TOOL);
}

const QUEUE: Scenario = Scenario {
    name: "queue",
    prepare: nothing,
    actions: |run| {
        run.say(0, "%hang");
        run.acknowledge(1);
        run.say(0, "next");
        run.acknowledge(2);
        run.ask(0, Change::Interrupt);
        run.ask(0, Change::EditQueue(QueueEdit::Resume));
        run.acknowledge(3);
    },
    steps: &[
        &["0 running:"],
        &["0 running: %hang interrupted"],
        &["0 running: %hang interrupted, queued next"],
        &["0 running: %hang interrupted next interrupted"],
    ],
};

#[test]
fn a_queued_text_is_in_the_queue_or_in_the_talk_never_in_both_or_neither() {
    kill_at_every_write(&QUEUE);
}

const COMMANDS: Scenario = Scenario {
    name: "commands",
    prepare: |app| {
        app.say(0, "%hang");
        app.ask(0, Change::Enqueue("/mark a".into()));
        app.ask(0, Change::Enqueue("/rewind a".into()));
        app.ask(0, Change::Interrupt);
    },
    actions: |run| {
        run.ask(0, Change::EditQueue(QueueEdit::Resume));
        run.acknowledge(2);
    },
    steps: &[
        &["0 running: %hang interrupted, queued /mark a /rewind a"],
        &["0 running: %hang interrupted mark, queued /rewind a"],
        &["0 running: %hang interrupted mark rewind"],
    ],
};

#[test]
fn a_queued_command_is_in_the_queue_or_was_carried_out_never_both_or_neither() {
    kill_at_every_write(&COMMANDS);
}

const SENT: Scenario = Scenario {
    name: "sent",
    prepare: |app| app.repl.store().set_draft(app.id(0), DraftSlot(0), "%hang", None).expect("a draft"),
    actions: |run| {
        run.type_bytes(b"\r");
        run.acknowledge(1);
        run.type_bytes(b"next");
        run.acknowledge(2);
        run.type_bytes(b"\r");
        run.acknowledge(3);
    },
    steps: &[
        &["0 running:, typed %hang"],
        &["0 running: %hang interrupted"],
        &["0 running: %hang interrupted, typed next"],
        &["0 running: %hang interrupted, queued next"],
    ],
};

#[test]
fn what_is_sent_is_typed_or_sent_never_both_or_neither() {
    kill_at_every_write(&SENT);
}

const UNQUEUE: Scenario = Scenario {
    name: "unqueue",
    prepare: |app| {
        app.say(0, "%hang");
        app.say(0, "next");
        app.ask(0, Change::Interrupt);
    },
    actions: |run| {
        run.ask(0, Change::EditQueue(QueueEdit::TakeBackNewest));
        run.acknowledge(1);
    },
    steps: &[&["0 running: %hang interrupted, queued next"], &["0 running: %hang interrupted, typed next"]],
};

#[test]
fn a_text_that_is_taken_back_is_queued_or_typed_never_both_or_neither() {
    kill_at_every_write(&UNQUEUE);
}

const PAST: Scenario = Scenario {
    name: "past",
    prepare: nothing,
    actions: |run| {
        run.ask(0, Change::EditHistory(HistoryEdit::Mark("m".into())));
        run.acknowledge(1);
        run.ask(0, Change::EditHistory(HistoryEdit::Rewind(None)));
        run.acknowledge(2);
        run.ask(0, Change::EditHistory(HistoryEdit::Clear));
        run.acknowledge(3);
        run.ask(0, Change::Setting(Setting::Name(Some("a".into()))));
        run.acknowledge(4);
    },
    steps: &[
        &["0 running:"],
        &["0 running: mark"],
        &["0 running: mark rewind"],
        &["0 running: mark rewind clear"],
        &["a running: mark rewind clear"],
    ],
};

#[test]
fn marks_rewinds_clears_and_names_are_kept_once_they_are_acknowledged() {
    kill_at_every_write(&PAST);
}

const SLICE: Scenario = Scenario {
    name: "slice",
    prepare: a_talk,
    actions: |run| {
        run.ask(0, Change::EditHistory(HistoryEdit::Slice(SliceSpec::parse("inject:'first',:").expect("a spec"))));
        run.acknowledge(1);
    },
    steps: &[
        &["0 running: hello reply usage"],
        &["0 running: hello reply usage fork", "1 running: clear fork first hello reply"],
    ],
};

#[test]
fn a_slice_is_there_with_all_of_its_messages_or_not_at_all() {
    kill_at_every_write(&SLICE);
}

const COMPACT: Scenario = Scenario {
    name: "compact",
    prepare: |app| {
        // A summary has to be shorter; that of the echo is as long as it may be.
        app.say(0, &"h".repeat(100_000));
        app.turn_until_idle();
        a_talk(app);
    },
    actions: |run| {
        run.ask(0, Change::EditHistory(HistoryEdit::Compact(None)));
        run.acknowledge(0);
        run.until_compacted(0);
        run.acknowledge(1);
        run.ask(0, Change::EditHistory(HistoryEdit::UndoCompact));
        run.acknowledge(2);
    },
    steps: &[
        &["0 running: long reply usage hello reply usage"],
        &["0 running: long reply usage hello reply usage compaction usage"],
        &["0 running: long reply usage hello reply usage compaction usage compaction_undone"],
    ],
};

#[test]
fn a_compaction_is_there_whole_or_not_at_all() {
    kill_at_every_write(&COMPACT);
}

const START: Scenario = Scenario {
    name: "start",
    prepare: |app| {
        a_family(app);
        app.say(0, "%tool bash {\"command\":\"true\"}");
        app.turn_until_asked(0);
        app.say(1, "some words\n%hang");
        app.turn_until("a piece", |app| !app.agent(1).partial_text().is_empty());
    },
    actions: |run| run.acknowledge(0),
    steps: &[&[
        "0 running: fork fork %tool bash {\"command\":\"true\"} tool_call usage, busy, asks",
        "a running: fork fork some words\n%hang part interrupted",
        "b running: fork",
        "c running: fork fork",
        "d running: fork",
    ]],
};

#[test]
fn a_start_that_dies_while_it_closes_what_was_cut_is_done_by_the_next_one() {
    kill_at_every_write(&START);
}

const TWO_CALLS: &str = "%tool bash {\"command\":\"true\"}\n%tool bash {\"command\":\"true\"}";

/// Agent 0 after it got the text with two calls.
macro_rules! after_two_calls {
    ($rest:literal) => {
        concat!("0 running: %tool bash {\"command\":\"true\"}\n%tool bash {\"command\":\"true\"} ", $rest)
    };
}

const ASK: Scenario = Scenario {
    name: "ask",
    prepare: nothing,
    actions: |run| {
        run.say(0, TWO_CALLS);
        run.until_asked(0);
        run.acknowledge(3);
    },
    steps: &[
        &["0 running:"],
        &[after_two_calls!("interrupted")],
        &[after_two_calls!("tool_call tool_call usage tool_result tool_result interrupted")],
        &[after_two_calls!("tool_call tool_call usage, busy, asks")],
    ],
};

#[test]
fn a_question_that_was_seen_is_asked_again() {
    kill_at_every_write(&ASK);
}

fn two_calls_asked(app: &mut Harness) {
    app.say(0, TWO_CALLS);
    app.turn_until_asked(0);
}

const ANSWER: Scenario = Scenario {
    name: "answer",
    prepare: two_calls_asked,
    actions: |run| {
        run.answer(0, Decision::Allow);
        run.acknowledge(1);
        run.until_asked(0);
        run.acknowledge(2);
    },
    steps: &[
        &[after_two_calls!("tool_call tool_call usage, busy, asks")],
        &[after_two_calls!("tool_call tool_call usage tool_result tool_result interrupted")],
        &[after_two_calls!("tool_call tool_call usage tool_result, busy, asks")],
    ],
};

#[test]
fn a_call_that_was_allowed_is_not_asked_about_again_and_the_next_one_is() {
    kill_at_every_write(&ANSWER);
}

const REFUSE: Scenario = Scenario {
    name: "refuse",
    prepare: |app| {
        app.say(0, "%tool bash {\"command\":\"true\"}");
        app.turn_until_asked(0);
    },
    actions: |run| {
        run.answer(0, Decision::Deny(None));
        run.acknowledge(1);
        run.until_idle(0);
        run.acknowledge(2);
    },
    steps: &[
        &["0 running: %tool bash {\"command\":\"true\"} tool_call usage, busy, asks"],
        &["0 running: %tool bash {\"command\":\"true\"} tool_call usage tool_result interrupted"],
        &["0 running: %tool bash {\"command\":\"true\"} tool_call usage tool_result reply usage"],
    ],
};

#[test]
fn a_call_that_was_refused_is_not_asked_about_again() {
    kill_at_every_write(&REFUSE);
}
