//! Questions of agents as requests to the editor. Each answer is bound to the question as it was shown, by the id that
//! the server gave it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::tools::{self, Call};
use crate::base::json_rpc::Fault;
use crate::domain::wire::Request;

/// A question that the editor was sent.
struct Permission {
    session: String,
    /// The server's id of the question, with a digest of what was shown.
    question: String,
    rules: Vec<String>,
    /// The server has the answer, or will have it.
    is_answered: bool,
}

/// A question for an editor.
pub struct Asked {
    /// The number of the request.
    pub number: u64,
    pub session: String,
    /// The id of the call within the session.
    pub call_id: String,
    pub call: Call,
    pub params: Value,
}

#[derive(Default)]
pub struct Permissions {
    /// All open questions of all agents.
    listed: Vec<Value>,
    /// By the number of the request to the editor.
    open: BTreeMap<u64, Permission>,
    count: u64,
}

impl Permissions {
    /// Takes the list of open questions. Returns the requests whose question was answered elsewhere.
    pub fn on_listed(&mut self, questions: Value) -> Vec<u64> {
        self.listed = if let Value::Array(rows) = questions { rows } else { Vec::new() };
        let is_listed = |permission: &Permission| self.listed.iter().any(|row| row["id"] == permission.question);
        let closed = self.open.extract_if(.., |_, permission| !is_listed(permission));
        closed.filter(|(_, permission)| !permission.is_answered).map(|(number, _)| number).collect()
    }

    /// The questions of these sessions that the editor was not sent yet.
    pub fn unasked_questions(&mut self, is_session: &dyn Fn(&str) -> bool) -> Vec<Asked> {
        let listed = std::mem::take(&mut self.listed);
        let asked = listed.iter().filter_map(|row| self.ask(row, is_session)).collect();
        self.listed = listed;
        asked
    }

    /// The editor has closed this session: its questions are for others.
    pub fn forget(&mut self, session: &str) {
        self.open.retain(|_, permission| permission.session != session);
    }

    /// The request about a question of a session's agent or of one below it.
    fn ask(&mut self, row: &Value, is_session: &dyn Fn(&str) -> bool) -> Option<Asked> {
        if self.open.values().any(|permission| row["id"] == permission.question) {
            return None;
        }
        let agent = row["agent"].as_str()?;
        let above = row["ancestors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let session = std::iter::once(agent).chain(above).find(|id| is_session(id))?.to_owned();
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let call = &row["call"];
        let (name, arguments) =
            (call["name"].as_str().unwrap_or_default(), call["arguments"].as_str().unwrap_or_default());
        let (mut title, mut call_id) = (text("title").to_owned(), call["id"].as_str().unwrap_or_default().to_owned());
        if agent != session {
            title = format!("{}: {title}", text("label"));
            call_id = format!("{agent}:{call_id}");
        }
        let rules: Vec<String> =
            row["rules"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let call = Call::new(name, &title, arguments, text("directory"));
        let detail: Vec<&str> = row["detail"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut content = call.diffs();
        content.push(tools::text(&detail.join("\n")));
        let mut shown = call.to_json(&call_id, "pending");
        shown["content"] = content.into();
        let params = json!({"sessionId": session, "toolCall": shown, "options": options(&rules)});
        self.count += 1;
        let (session_id, question) = (session.clone(), text("id").to_owned());
        let permission = Permission { session: session_id, question, rules, is_answered: false };
        self.open.insert(self.count, permission);
        Some(Asked { number: self.count, session, call_id, call, params })
    }

    /// The editor's answer. `None`: the question is closed.
    pub fn answer(&mut self, id: &Value, outcome: Result<Value, Fault>) -> Option<Answer> {
        let permission = self.open.get_mut(&id.as_u64()?).filter(|permission| !permission.is_answered)?;
        permission.is_answered = true;
        let answer = |name: &str, options: &[String]| {
            let words = [&[name.to_owned()], options, &["--".to_owned(), permission.question.clone()]].concat();
            Request::Run { agent: None, directory: None, argv: words }
        };
        let because = |reason: String| vec![format!("--reason={reason}")];
        let with_rules = |options: &[&str]| -> Vec<String> {
            let rules = permission.rules.iter().map(|rule| format!("--rule={rule}"));
            options.iter().map(|option| (*option).to_owned()).chain(rules).collect()
        };
        let is_cancelled = matches!(&outcome, Ok(result) if result["outcome"]["outcome"] == "cancelled");
        let request = match outcome {
            Ok(_) if is_cancelled => answer("deny", &[]),
            Ok(result) => match result["outcome"]["optionId"].as_str() {
                Some(ALLOW_ONCE) => answer("approve", &[]),
                Some(ALLOW_ALWAYS) if !permission.rules.is_empty() => {
                    answer("approve", &with_rules(&["--always", "--session"]))
                }
                Some(REJECT_ALWAYS) => answer("deny", &with_rules(&[])),
                Some(REJECT_ONCE) => answer("deny", &[]),
                _ => answer("deny", &because("the editor gave no valid answer".into())),
            },
            Err(fault) => answer("deny", &because(format!("the editor could not ask the user: {}", fault.message))),
        };
        let (session, question) = (permission.session.clone(), permission.question.clone());
        Some(Answer { session, question, is_cancelled, request })
    }
}

/// The editor's answer to a question.
pub struct Answer {
    pub session: String,
    pub question: String,
    /// The editor has cancelled the prompt instead.
    pub is_cancelled: bool,
    /// The answer for the server.
    pub request: Request,
}

const ALLOW_ONCE: &str = "allow_once";
const ALLOW_ALWAYS: &str = "allow_always";
const REJECT_ONCE: &str = "reject_once";
const REJECT_ALWAYS: &str = "reject_always";

/// The possible answers. Those that apply to later calls show their rules.
fn options(rules: &[String]) -> Value {
    let option = |kind: &str, name: String| json!({"optionId": kind, "kind": kind, "name": name});
    let shown = rules.join(", ");
    let mut options = vec![option(ALLOW_ONCE, "Allow".into())];
    if !rules.is_empty() {
        options.push(option(ALLOW_ALWAYS, format!("Always allow in this session: {shown}")));
    }
    options.push(option(REJECT_ONCE, "Reject".into()));
    if !rules.is_empty() {
        options.push(option(REJECT_ALWAYS, format!("Always reject: {shown}")));
    }
    options.into()
}
