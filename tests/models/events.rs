//! Whatever happens to a conversation, its next request is valid, for each protocol: the same table of events for all,
//! with the real loop. Each protocol has a peer of its own, which looks at its requests.

use polylogue::config::Endpoint;
use polylogue::{Change, Setting};

use super::kinds::{KINDS, Kind, Piece};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Agent, State};
use crate::support::peer::{Exchange, Peer};

/// An app in which every protocol is configured, each with a peer of its own.
struct Scene {
    app: Harness,
    peers: [Peer; 4],
    /// Who answers now.
    kind: Kind,
    /// Requests so far.
    requests: usize,
}

impl Scene {
    /// Agent 0 talks to a model of this kind and lets it think.
    fn new(kind: Kind, thinking: &str) -> Self {
        let peers = [(); 4].map(|()| Peer::start());
        let entries: Vec<_> = KINDS.iter().zip(&peers).map(|(kind, peer)| kind.entry(peer)).collect();
        let plan = Plan { size: Some((100, 60)), real_time: true, providers: entries, ..Plan::default() };
        let mut app = Harness::new(Plan { endpoint: Endpoint::echo(), ..plan });
        app.enter(&format!("/model {}", kind.full_name()));
        app.enter(&format!("/thinking {thinking}"));
        Self { app, peers, kind, requests: 0 }
    }

    fn switch(&mut self, kind: Kind) {
        let focus = self.app.focus();
        self.app.ask(focus, Change::Setting(Setting::Model(kind.full_name())));
        self.kind = kind;
    }

    /// The next request, which reaches only the current provider. The peer has looked whether it is valid.
    fn accept(&mut self) -> Exchange {
        self.requests += 1;
        let at = KINDS.iter().position(|kind| *kind == self.kind).expect("one of the four");
        let exchange = self.app.accept(&self.peers[at]);
        assert!(self.peers.iter().all(|peer| peer.try_accept().is_none()), "one request goes to one provider");
        exchange
    }

    /// A request that is answered with this.
    fn answer(&mut self, piece: Piece<'_>) -> Exchange {
        let exchange = self.accept();
        self.kind.play(&exchange, self.requests, piece);
        exchange
    }

    fn ask(&mut self, text: &str, piece: Piece<'_>) -> Exchange {
        self.app.enter(text);
        self.answer(piece)
    }

    fn see(&mut self, text: &str) {
        self.app.turn_until(text, |app| app.screen_text().contains(text));
    }

    fn allow(&mut self) {
        let focus = self.app.focus();
        self.app.answer(focus, true);
    }

    /// A turn with a thought, a call and its result.
    fn round(&mut self, text: &str, command: &str, reply: &str) {
        self.ask(text, Piece::Calls(command));
        self.allow();
        self.answer(Piece::Ends(reply));
        self.app.turn_until_idle();
    }

    fn interrupt(&mut self) {
        self.app.escape();
        self.app.turn_until_idle();
    }

    /// Sends the next message, checks that the request is valid and answers it; returns the request.
    fn goes_on(&mut self) -> String {
        let focus = self.app.focus();
        let exchange = self.ask("\x15and now?", Piece::Ends("all is well"));
        self.app.turn_until("the end of the turn", |app| app.state(focus) == State::Idle);
        assert_eq!(self.app.replies(focus).last().map(String::as_str), Some("all is well"));
        let converse = all_of(&exchange);
        assert!(converse.contains("and now?"), "{converse}");
        converse
    }
}

/// Address, head and body of a request as one text.
fn all_of(exchange: &Exchange) -> String {
    let request = exchange.request();
    format!("{} {:?} {}", request.path, request.headers, String::from_utf8_lossy(&request.body))
}

/// What happens to a conversation, and what the next request then says and does not say.
struct Event {
    name: &'static str,
    happen: fn(&mut Scene),
    converse: &'static [&'static str],
    absent: &'static [&'static str],
}

const EVENTS: &[Event] = &[
    Event {
        name: "an interrupt in the text",
        happen: |scene| {
            scene.ask("go", Piece::Text("I was ab"));
            scene.see("I was ab");
            scene.interrupt();
        },
        converse: &["I was ab"],
        absent: &[],
    },
    Event {
        name: "an interrupt in the thinking",
        happen: |scene| {
            scene.ask("go", Piece::Thinks);
            scene.see("a thought");
            scene.interrupt();
        },
        converse: &[],
        absent: &["a thought"],
    },
    Event {
        name: "an interrupt in the arguments of a call",
        happen: |scene| {
            scene.ask("go", Piece::BeginsCall);
            scene.see("I look.");
            scene.interrupt();
        },
        converse: &["I look."],
        absent: &["{\\\"comm"],
    },
    Event {
        name: "an interrupt of a running tool",
        happen: |scene| {
            scene.ask("go", Piece::Calls("touch up; sleep 60"));
            scene.allow();
            let up = scene.app.directory().join("up");
            scene.app.turn_until("the command runs", |_| up.exists());
            scene.interrupt();
        },
        converse: &["I look.", "sleep 60"],
        absent: &[],
    },
    Event {
        name: "an interrupt at a question",
        happen: |scene| {
            scene.ask("go", Piece::Calls("true"));
            scene.app.turn_until_asked(0);
            scene.interrupt();
        },
        converse: &["I look."],
        absent: &[],
    },
    Event {
        name: "an error after a part of the reply",
        happen: |scene| {
            scene.ask("go", Piece::Fails);
            scene.app.turn_until_idle();
            assert!(scene.app.last_error(0).contains("Boom."), "{}", scene.app.last_error(0));
        },
        converse: &["so far"],
        absent: &["Boom."],
    },
    Event {
        name: "a crash in the text",
        happen: |scene| {
            scene.round("the first", "echo result-$((20+3))", "done");
            scene.ask("go", Piece::Text("I was ab"));
            scene.see("I was ab");
            crash(scene);
        },
        converse: &["result-23", "done", "I was ab"],
        absent: &[],
    },
    Event {
        name: "a crash in a running tool",
        happen: |scene| {
            scene.ask("go", Piece::Calls("touch up; sleep 60"));
            scene.allow();
            let up = scene.app.directory().join("up");
            scene.app.turn_until("the command runs", |_| up.exists());
            crash(scene);
        },
        converse: &["I look."],
        absent: &[],
    },
    Event {
        name: "a slice that begins with a reply",
        happen: |scene| slice(scene, "1:"),
        converse: &["result-23", "done"],
        absent: &["the first"],
    },
    Event {
        name: "a slice through a call and its result",
        happen: |scene| slice(scene, "0:3"),
        converse: &["the first", "result-23"],
        absent: &[],
    },
    Event {
        name: "a slice of which the last word is a reply with a call",
        happen: |scene| slice(scene, "0:2"),
        converse: &["the first", "I look."],
        absent: &["done"],
    },
    Event {
        name: "a slice that turns everything round and tells it twice",
        happen: |scene| slice(scene, "-2:,0:-2,1:,inject:'quite new'"),
        converse: &["result-23", "done", "quite new"],
        absent: &[],
    },
    Event {
        name: "a slice with short results",
        happen: |scene| slice(scene, "compact:0:"),
        converse: &["the first", "done"],
        absent: &[],
    },
    Event {
        name: "a rewind",
        happen: |scene| {
            scene.round("the first", "echo result-$((20+3))", "done");
            scene.app.enter("/mark here");
            scene.round("the second", "echo further-$((20+3))", "done too");
            scene.app.enter("/rewind here");
        },
        converse: &["the first", "result-23", "done"],
        absent: &["the second", "further-23", "done too"],
    },
    Event {
        name: "a rewind that waits in the queue behind a reply",
        happen: |scene| {
            scene.round("the first", "echo result-$((20+3))", "done");
            scene.app.enter("/mark here");
            scene.app.enter("the second");
            let exchange = scene.accept();
            scene.app.enter("/rewind here");
            scene.kind.play(&exchange, scene.requests, Piece::Ends("done too"));
            scene.app.turn_until_idle();
        },
        converse: &["the first", "result-23", "done"],
        absent: &["the second", "done too"],
    },
    Event {
        name: "all was cleared",
        happen: |scene| {
            scene.round("the first", "true", "done");
            scene.app.enter("/clear");
        },
        converse: &[],
        absent: &["the first", "done", "I look."],
    },
    Event {
        name: "what was queued while a tool ran",
        happen: |scene| {
            scene.ask("the first", Piece::Calls("echo result-$((20+3))"));
            scene.app.turn_until_asked(0);
            scene.app.ask(0, Change::Submit("queued".into()));
            scene.allow();
            let converse = all_of(&scene.answer(Piece::Ends("done")));
            assert!(converse.contains("result-23") && !converse.contains("queued"), "{converse}");
            let converse = all_of(&scene.answer(Piece::Ends("done too")));
            assert!(converse.contains("done") && converse.contains("queued"), "{converse}");
            scene.app.turn_until_idle();
        },
        converse: &["the first", "queued", "done too"],
        absent: &[],
    },
    Event {
        name: "what was queued before an interrupt and sent after it",
        happen: |scene| {
            scene.ask("the first", Piece::Text("I was ab"));
            scene.see("I was ab");
            scene.app.enter("queued");
            scene.interrupt();
            scene.app.enter("");
            scene.answer(Piece::Ends("done"));
            scene.app.turn_until_idle();
        },
        converse: &["the first", "I was ab", "queued", "done"],
        absent: &[],
    },
    Event {
        name: "a fork while the parent's reply streams",
        happen: |scene| {
            scene.round("the first", "echo result-$((20+3))", "done");
            scene.ask("the second", Piece::Text("I was ab"));
            scene.see("I was ab");
            scene.app.enter("/fork --name kid");
        },
        converse: &["the first", "result-23", "done"],
        absent: &["I was ab"],
    },
];

/// What came since the last checkpoint is gone with a crash, and how the bytes were cut decides what that is: here all
/// that was seen is kept.
fn crash(scene: &mut Scene) {
    let is_kept = |agent: &Agent| agent.deadline().is_none_or(|(_, why)| why != "checkpoint");
    scene.app.turn_until("all to be kept", |app| is_kept(app.agent(0)));
    let spare = Harness::new(Plan::default());
    let app = std::mem::replace(&mut scene.app, spare);
    scene.app = app.crash_and_restart();
}

/// `first`, a reply with a call, its result, `done`: four messages, of which the child gets this cut.
fn slice(scene: &mut Scene, spec: &str) {
    scene.round("the first", "echo result-$((20+3))", "done");
    scene.app.enter(&format!("/slice {spec}"));
    assert_eq!(scene.app.focus(), 1, "{}", scene.app.screen_text());
}

#[test]
fn after_each_event_the_conversation_goes_on_with_a_valid_request() {
    for kind in KINDS {
        for event in EVENTS {
            let mut scene = Scene::new(kind, "high");
            (event.happen)(&mut scene);
            let converse = scene.goes_on();
            for expected in event.converse {
                assert!(
                    converse.contains(expected),
                    "{} after {}: {expected:?} is not in the request\n{converse}",
                    kind.name(),
                    event.name
                );
            }
            for expected in event.absent {
                assert!(
                    !converse.contains(expected),
                    "{} after {}: {expected:?} is in the request\n{converse}",
                    kind.name(),
                    event.name
                );
            }
        }
    }
}

/// A conversation with rounds of tools, in whose middle the model is changed while a question waits; and back.
#[test]
fn switching_between_models_sends_signatures_only_to_their_own() {
    for first in KINDS {
        for other in KINDS.into_iter().filter(|other| *other != first) {
            let story = format!("{} -> {}", first.name(), other.name());
            let mut scene = Scene::new(first, "high");
            scene.round("the first", "echo result-$((20+3))", "done");
            scene.ask("the second", Piece::Calls("echo further-$((20+3))"));
            scene.app.turn_until_asked(0);
            scene.switch(other);
            scene.allow();
            let converse = all_of(&scene.answer(Piece::Calls("echo of-the-other-$((20+3))")));
            assert!(
                converse.contains("result-23") && converse.contains("further-23") && converse.contains("I look."),
                "{story}: {converse}"
            );
            assert!(
                converse.contains(&format!("{}-key", other.mark())) && !converse.contains(first.mark()),
                "{story}: {converse}"
            );
            scene.allow();
            scene.answer(Piece::Ends("done too"));
            scene.app.turn_until_idle();

            scene.switch(first);
            let converse = scene.goes_on();
            assert!(converse.contains("of-the-other-23") && converse.contains("done too"), "{story}, back: {converse}");
            assert!(!converse.contains(other.mark()), "{story}, back: {converse}");
            let signatures = first.signature().map_or(0, |signature| converse.matches(&signature).count());
            assert_eq!(signatures, if first == Kind::OpenAi { 0 } else { 3 }, "{story}, back: {converse}");
        }
    }
}

#[test]
fn an_unsupported_thinking_level_is_not_sent() {
    let takes = |kind: Kind, thinking: &str| match kind {
        Kind::Anthropic => true,
        Kind::OpenAi | Kind::Responses => thinking != "2048",
        Kind::Google => !["2048", "off"].contains(&thinking),
    };
    let markers = ["reasoning", "budget", "thinkingLevel", "\"thinking\":"];
    for thinking in ["2048", "off", "high"] {
        for first in KINDS.into_iter().filter(|first| takes(*first, thinking)) {
            for other in KINDS.into_iter().filter(|other| !takes(*other, thinking)) {
                let mut scene = Scene::new(first, thinking);
                assert!(all_of(&scene.ask("go", Piece::Ends("done"))).contains(&scene.kind.model().to_owned()));
                scene.app.turn_until_idle();
                scene.switch(other);
                assert!(scene.app.screen_text().contains(&format!("does not support thinking {thinking}")));
                let converse = scene.goes_on();
                let converse = converse.replace("reasoning.encrypted_content", "");
                for word in markers {
                    assert!(!converse.contains(word), "{thinking} {} -> {}: {converse}", first.name(), other.name());
                }
            }
        }
    }
}
