//! Skills: what models and people see of them, what is read when one is used, and how changes are noticed.

use std::fs;
use std::path::{Path, PathBuf};

use polylogue::config::Policy;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::Peer;
use crate::support::scene::{answer_next, assert_refused, assert_shows, bash, reply_with_calls, results_in, texts_in};

/// A directory with skills of the person, outside of the workspace.
struct Skills(TempDir);

impl Skills {
    fn new() -> Self {
        let skills = Self(TempDir::new().expect("a directory"));
        skills.write(
            "notes",
            "name: notes\ndescription: >-\n  Writes the notes:\n  of a release.",
            "Read references/form.md.",
        );
        fs::create_dir(skills.folder("notes").join("references")).expect("a directory");
        fs::write(skills.folder("notes").join("references/form.md"), "One line for each change.").expect("a file");
        skills
    }

    fn write(&self, name: &str, header: &str, body: &str) {
        fs::create_dir_all(self.folder(name)).expect("a directory");
        fs::write(self.folder(name).join("SKILL.md"), format!("---\n{header}\n---\n\n{body}\n")).expect("a file");
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn plan(&self, plan: Plan) -> Plan {
        Plan { skill_directories: vec![self.0.path().into()], real_time: true, size: Some((100, 40)), ..plan }
    }

    /// Agent 0 after a turn in which the skills were found.
    fn app(&self, peer: &Peer, plan: Plan) -> Harness {
        let mut app = Harness::new(self.plan(Plan { ..plan }));
        app.say(0, "hello");
        answer_next(&mut app, peer, 0, "yes?");
        app.turn_until("the skills", |app| knows(app, "notes"));
        app
    }
}

fn knows(app: &Harness, name: &str) -> bool {
    app.agent(0).inputs.environment.skills.find(name).is_some()
}

fn system_of(request: &[u8]) -> String {
    let body: Value = serde_json::from_slice(request).expect("JSON");
    body["messages"][0]["content"].as_str().expect("a system prompt").to_owned()
}

/// Sends a message whose reply calls these tools; returns their results and the next request, which is answered.
fn results_of(app: &mut Harness, peer: &Peer, calls: &[(&str, &str)]) -> Vec<String> {
    app.say(0, "do it");
    reply_with_calls(&app.accept(peer), calls);
    let request = answer_next(app, peer, 0, "done");
    results_in(&serde_json::from_slice(&request).expect("JSON")).into_iter().map(|(_, text)| text).collect()
}

fn read(path: &Path) -> String {
    json!({"file_path": path}).to_string()
}

#[test]
fn the_model_sees_the_description_and_reads_the_text_and_the_files_when_it_uses_a_skill() {
    let (peer, skills) = (Peer::start(), Skills::new());
    let mut app = skills.app(&peer, Plan::peer(&peer.url()));
    app.say(0, "again");
    let system = system_of(&answer_next(&mut app, &peer, 0, "yes"));
    assert!(system.ends_with("\n- notes: Writes the notes: of a release."), "{system}");
    let file = skills.folder("notes").join("references/form.md");
    let results =
        results_of(&mut app, &peer, &[("skill", r#"{"skill":"notes","args":"1.2"}"#), ("read_file", &read(&file))]);
    let folder = skills.folder("notes").canonicalize().expect("a folder");
    let expected = format!(
        "Skill notes\nFolder: {} (relative paths begin here)\nFiles: references/form.md\n\nRead references/form.md.\n\n\
         Arguments: 1.2",
        folder.display()
    );
    assert_eq!(results[0], expected);
    assert!(results[1].contains("One line for each change."), "{results:?}");
}

#[test]
fn the_folder_of_a_skill_is_open_to_reads_and_to_nothing_else() {
    let (peer, skills) = (Peer::start(), Skills::new());
    let mut app = skills.app(&peer, Plan { policy: Policy::Never, ..Plan::peer(&peer.url()) });
    fs::write(skills.0.path().join("beside.txt"), "beside").expect("a file");
    let write = json!({"file_path": skills.folder("notes").join("new.txt"), "content": "x"}).to_string();
    let results = results_of(
        &mut app,
        &peer,
        &[("read_file", &read(&skills.0.path().join("beside.txt"))), ("write_file", &write)],
    );
    assert!(results.iter().all(|result| result.starts_with("refused: it needs approval")), "{results:?}");
    assert!(!skills.folder("notes").join("new.txt").exists());
}

#[test]
fn commands_in_the_sandbox_see_the_folder_and_cannot_change_it() {
    let (peer, skills) = (Peer::start(), Skills::new());
    let rules = polylogue::config::Rules::default();
    let mut app = skills.app(&peer, Plan { policy: Policy::Auto, rules, ..Plan::peer(&peer.url()) });
    let folder = skills.folder("notes").canonicalize().expect("a folder").display().to_string();
    let command = format!("cat {folder}/references/form.md; touch {folder}/new || echo refused");
    let results = results_of(&mut app, &peer, &[("bash", &bash(&command))]);
    assert!(results[0].contains("One line for each change.") && results[0].contains("refused"), "{results:?}");
    assert!(!skills.folder("notes").join("new").exists());
}

#[test]
fn a_skill_that_was_edited_or_added_is_noticed_with_the_next_turn() {
    let (peer, skills) = (Peer::start(), Skills::new());
    let mut app = skills.app(&peer, Plan::peer(&peer.url()));
    skills.write("notes", "name: notes\ndescription: Writes notes.", "Now in two lines.");
    let results = results_of(&mut app, &peer, &[("skill", r#"{"name":"notes"}"#)]);
    assert!(results[0].ends_with("Now in two lines."), "{results:?}");
    skills.write("later", "description: Added later.", "Text.");
    app.turn_until("the new skill", |app| {
        if !knows(app, "later") && app.state(0) == State::Idle {
            app.say(0, "and now?");
            answer_next(app, &peer, 0, "hm");
        }
        knows(app, "later")
    });
    app.turn();
    assert_shows(&mut app, "new: later");
}

#[test]
fn mistakes_of_the_model_are_answered_with_the_names_that_there_are() {
    let (peer, skills) = (Peer::start(), Skills::new());
    skills.write("mine", "description: For people.\ndisable-model-invocation: true", "Text.");
    let mut app = skills.app(&peer, Plan::peer(&peer.url()));
    let calls = [("skill", r#"{"name":"note"}"#), ("skill", r#"{"command":"mine"}"#), ("skill", "{}")];
    let results = results_of(&mut app, &peer, &calls);
    assert_eq!(results[0], "unknown skill \"note\"; did you mean notes?; available skills: notes");
    assert_eq!(results[1], "only the user can use the skill mine: they type /mine");
    assert!(results[2].contains("`name` is missing"), "{results:?}");
}

#[test]
fn a_person_uses_a_skill_by_name_and_sees_what_is_wrong_with_others() {
    let (peer, skills) = (Peer::start(), Skills::new());
    skills.write("quiet", "description: For models.\nuser-invocable: false", "Text.");
    skills.write("tell", "description: Hidden by a command.", "Say $ARGUMENTS.");
    skills.write("bad", "name: [", "Text.");
    let mut app = skills.app(&peer, Plan::peer(&peer.url()));
    app.enter("/notes for 1.2");
    let said = texts_in(&answer_next(&mut app, &peer, 0, "done"));
    let said = said.last().expect("a message");
    assert!(said.starts_with("Use the skill notes: for 1.2\n") && said.contains("Read references/form.md."), "{said}");
    app.enter("/skill tell it all");
    let said = texts_in(&answer_next(&mut app, &peer, 0, "done"));
    assert!(said.last().expect("a message").ends_with("\n\nSay it all."), "{said:?}");
    assert_refused(&mut app, "/skill quiet", "only the model can use the skill quiet");
    assert_refused(&mut app, "/skill note", "did you mean notes?");
    assert_refused(&mut app, "/notec", "did you mean /notes?");
    app.enter("/skills");
    for shown in ["notes", "only the model: For models.", "bad/SKILL.md: ignored: the header is not valid YAML"] {
        assert_shows(&mut app, shown);
    }
    app.type_bytes(b"/not\t");
    assert_eq!(app.draft(0).text(), "/notes ");
}

#[test]
fn an_agent_without_the_tool_sees_no_skills() {
    let (peer, skills) = (Peer::start(), Skills::new());
    let mut app = skills.app(&peer, Plan::peer(&peer.url()));
    app.enter("/env chat");
    app.turn();
    let n = app.focus();
    app.say(n, "hello");
    let request = answer_next(&mut app, &peer, n, "yes");
    let body: Value = serde_json::from_slice(&request).expect("JSON");
    assert!(!system_of(&request).contains("Skills are") && !body["tools"].to_string().contains("\"skill\""));
    app.enter("/skills");
    assert_shows(&mut app, "has no tool `skill`");
}
