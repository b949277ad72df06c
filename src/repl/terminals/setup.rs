//! Setting up a model: the provider, its key, one of its models, a request to try it, and the configuration. Waits for
//! a server or a command run on a thread; the view at the terminal asks for the steps.
//!
//! ```text
//!   provider ──▶ key ──▶ model ──▶ trying ──▶ written and used
//!      └── has a key ──────▲ ▲        │
//!                            └─ failed┘
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::base::id::{AgentId, MessageId};
use crate::base::{file, text};
use crate::domain::chosen_model::{self, ChosenModel};
use crate::domain::endpoint::{Endpoint, ProviderEntry, Secret};
use crate::domain::http::HttpHead;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::domain::stream::StreamEvent;
use crate::domain::thinking::Thinking;
use crate::net::{Fetch, Fetched};
use crate::provider::presets;
use crate::provider::{self, Conversation, ProviderRequest, list};
use crate::repl::core::Core;
use crate::repl::core::model::{give_model, set_usual};
use crate::tools::key_command::KeyRun;

/// A local server answers at once or is not there.
const PROBE: Duration = Duration::from_secs(2);
const LIST: Duration = Duration::from_secs(10);
const TRY: Duration = Duration::from_secs(60);
const MAX_KEY_BYTES: u64 = 64 << 10;
const PROMPT: &str = "Say hello in one short sentence.";

/// The current question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::repl::terminals) enum Step {
    #[default]
    Provider,
    /// The URL of another server.
    Url,
    Key,
    /// The key itself, which is kept in a file or not at all.
    Secret {
        is_kept: bool,
    },
    Command,
    File,
    Variable,
    Model,
    /// The model answers one request.
    Trying,
}

/// One of the choices of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::repl::terminals) struct Choice {
    pub text: String,
    pub about: String,
    act: Chosen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Chosen {
    Provider(String),
    Step(Step),
    Model(String),
}

/// The work of a thread.
enum Work {
    Key(KeyRun),
    List(Fetch),
    Try(Fetch),
}

pub(in crate::repl::terminals) struct Setup {
    pub step: Step,
    providers: Vec<ProviderEntry>,
    probes: Vec<(String, Fetch)>,
    /// The local servers that answer.
    answering: BTreeSet<String>,
    entry: ProviderEntry,
    /// The settings to write for the provider.
    settings: Vec<(&'static str, String)>,
    /// A key that was typed, and the file in which it is kept.
    kept: Option<(PathBuf, String)>,
    models: Vec<String>,
    model: String,
    work: Option<Work>,
    pub error: Option<String>,
    /// The answer of the model, once everything is done.
    answer: Option<String>,
}

impl Setup {
    pub fn new(core: &Core) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let configured = core.config().catalog.configured().cloned();
        let mut providers: Vec<ProviderEntry> = configured.collect();
        let known = presets::entries(&variable);
        providers.extend(
            known.into_iter().filter(|entry| core.config().catalog.configured().all(|own| own.name != entry.name)),
        );
        let local = providers.iter().filter(|entry| is_local(entry));
        let probe = |entry: &ProviderEntry| {
            let url = format!("{}/models", entry.base_url);
            Some((entry.name.clone(), Fetch::start(url, Vec::new(), None, PROBE, core.waker()).ok()?))
        };
        Self {
            probes: local.filter_map(probe).collect(),
            providers,
            step: Step::default(),
            answering: BTreeSet::new(),
            entry: ProviderEntry::default(),
            settings: Vec::new(),
            kept: None,
            models: Vec::new(),
            model: String::new(),
            work: None,
            error: None,
            answer: None,
        }
    }

    /// Whether something is waited for.
    pub fn is_waiting(&self) -> bool {
        self.work.is_some()
    }

    pub fn provider(&self) -> &str {
        &self.entry.name
    }

    pub fn model(&self) -> &str {
        &self.model
    }

    /// The choices of this step; none if it takes a text.
    pub fn choices(&self, core: &Core) -> Vec<Choice> {
        match self.step {
            Step::Provider => self.provider_choices(),
            Step::Key => self.key_choices(core),
            Step::Model => {
                let choice = |model: &String| {
                    let context = self.entry.endpoint(model).facts.context;
                    let about = context.map(|tokens| format!("{tokens} tokens")).unwrap_or_default();
                    Choice { text: model.clone(), about, act: Chosen::Model(model.clone()) }
                };
                self.models.iter().map(choice).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Those with a key first, then local servers that answer, then the others.
    fn provider_choices(&self) -> Vec<Choice> {
        let rank = |entry: &&ProviderEntry| match (has_key(entry), self.answering.contains(&entry.name)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) if is_local(entry) => 3,
            (false, false) => 2,
        };
        let mut entries: Vec<&ProviderEntry> = self.providers.iter().collect();
        entries.sort_by_key(rank);
        let choice = |entry: &ProviderEntry| Choice {
            text: entry.name.clone(),
            about: self.about(entry),
            act: Chosen::Provider(entry.name.clone()),
        };
        let other = Choice {
            text: "another server".into(),
            about: "with the protocol of OpenAI, at a URL".into(),
            act: Chosen::Step(Step::Url),
        };
        entries.into_iter().map(choice).chain([other]).collect()
    }

    fn about(&self, entry: &ProviderEntry) -> String {
        let url = entry.base_url.trim_start_matches("http://").trim_end_matches("/v1");
        match &entry.key_variable {
            _ if entry.key_command.is_some() => "has a key command".to_owned(),
            Some(variable) if entry.key.is_some() => format!("{variable} is set"),
            Some(_) => "needs a key".to_owned(),
            None if !is_local(entry) => format!("at {url}"),
            _ if self.answering.contains(&entry.name) => format!("answers at {url}"),
            _ => format!("no answer at {url}"),
        }
    }

    fn key_choices(&self, core: &Core) -> Vec<Choice> {
        let choice = |text: &str, about: String, step| Choice { text: text.into(), about, act: Chosen::Step(step) };
        let kept = key_file(core, &self.entry.name).map(|file| {
            choice(
                "type or paste it",
                format!("kept in {}, for you alone", file.display()),
                Step::Secret { is_kept: true },
            )
        });
        let others = [
            choice("type or paste it for now", "kept nowhere".into(), Step::Secret { is_kept: false }),
            choice("a command prints it", "such as pass show NAME".into(), Step::Command),
            choice("a file holds it", String::new(), Step::File),
            choice("a variable holds it", "if it is not the usual one".into(), Step::Variable),
        ];
        kept.into_iter().chain(others).collect()
    }

    /// Takes the marked choice, or the typed text if there is none.
    pub fn choose(&mut self, core: &Core, focus: AgentId, choice: Option<Choice>, typed: &str) {
        self.error = None;
        let typed = typed.trim();
        let outcome = match (self.step, choice.map(|choice| choice.act)) {
            (_, Some(Chosen::Provider(name))) => self.take_provider(core, focus, &name),
            (_, Some(Chosen::Step(step))) => {
                self.step = step;
                Ok(())
            }
            (_, Some(Chosen::Model(model))) => self.try_model(core, model),
            (Step::Trying, _) => Ok(()),
            (_, None) if typed.is_empty() => Ok(()),
            (Step::Model, None) => self.try_model(core, typed.to_owned()),
            (step, None) => self.take_text(core, focus, step, typed),
        };
        self.error = outcome.err().map(|error| error.message);
    }

    fn take_provider(&mut self, core: &Core, focus: AgentId, name: &str) -> Result<()> {
        let Some(entry) = self.providers.iter().find(|entry| entry.name == name) else { return Ok(()) };
        self.entry = ProviderEntry { is_assumed: false, ..entry.clone() };
        (self.settings, self.kept, self.models) = (Vec::new(), None, Vec::new());
        match &entry.key_command {
            Some(command) => self.run_key_command(core, focus, &command.clone()),
            // A server that wants a key says so.
            None if has_key(entry) || entry.key_variable.is_none() => self.list_models(core),
            None => {
                self.step = Step::Key;
                Ok(())
            }
        }
    }

    fn take_text(&mut self, core: &Core, focus: AgentId, step: Step, typed: &str) -> Result<()> {
        match step {
            Step::Url => {
                let url = typed.trim_end_matches('/');
                if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) || url.contains(['"', ' ']) {
                    return Err(Error::usage("expected a URL such as https://host/v1 or http://localhost:8080/v1"));
                }
                let name = "server".to_owned();
                self.entry =
                    ProviderEntry { name, kind: "openai".into(), base_url: url.into(), ..ProviderEntry::default() };
                self.settings = vec![("base_url", url.to_owned())];
                self.list_models(core)
            }
            Step::Secret { is_kept } => {
                self.kept = key_file(core, &self.entry.name).filter(|_| is_kept).map(|file| (file, typed.to_owned()));
                if let Some((file, _)) = &self.kept {
                    self.settings.push(("api_key_command", command_for(file)));
                }
                self.entry.key = Some(Secret::new(typed));
                self.list_models(core)
            }
            Step::Command => {
                self.settings.push(("api_key_command", typed.to_owned()));
                self.run_key_command(core, focus, typed)
            }
            Step::File => {
                let path = file_at(core, typed);
                self.entry.key = Some(Secret::new(&key_in(&path)?));
                self.settings.push(("api_key_command", command_for(&path)));
                self.list_models(core)
            }
            Step::Variable => {
                let key = std::env::var(typed).ok().filter(|key| !key.is_empty());
                let missing = || Error::usage(format!("{typed} is not set: export it and start again"));
                self.entry.key = Some(Secret::new(&key.ok_or_else(missing)?));
                self.settings.push(("api_key_env", typed.to_owned()));
                self.list_models(core)
            }
            _ => Ok(()),
        }
    }

    fn run_key_command(&mut self, core: &Core, focus: AgentId, command: &str) -> Result<()> {
        let Some(agent) = core.agent(focus) else { return Ok(()) };
        let (environment, limit) = (agent.inputs.environment.clone(), core.config().settings.key_timeout);
        self.entry.key_command = Some(command.to_owned());
        self.work = Some(Work::Key(KeyRun::start(command, limit, environment, core.waker())?));
        Ok(())
    }

    fn list_models(&mut self, core: &Core) -> Result<()> {
        let request = list::request(&self.entry.endpoint("any"), self.entry.key.as_ref())?;
        let fetch = Fetch::start(request.url, request.headers, request.body, LIST, core.waker())?;
        (self.step, self.work) = (Step::Model, Some(Work::List(fetch)));
        Ok(())
    }

    fn try_model(&mut self, core: &Core, model: String) -> Result<()> {
        let (endpoint, key) = (self.entry.endpoint(&model), self.entry.key.as_ref());
        let message = Message { id: MessageId(1), body: Body::User(PROMPT.into()), created_at: core.clock().unix_ms() };
        let thinking = Thinking::Unspecified;
        let conversation =
            Conversation { endpoint: &endpoint, key, thinking, system: "", messages: &[&message], tools: &[] };
        let request = provider::find(&endpoint.kind).map(|spec| (spec.build_request)(&conversation)).transpose()?;
        let Some(ProviderRequest::Http(request)) = request else { return Ok(()) };
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let fetch = Fetch::start(request.url, request.headers, Some(body), TRY, core.waker())?;
        (self.model, self.step, self.work) = (model, Step::Trying, Some(Work::Try(fetch)));
        Ok(())
    }

    /// Goes back one step. False at the first one.
    pub fn go_back(&mut self) -> bool {
        (self.error, self.work) = (None, None);
        self.step = match self.step {
            Step::Provider => return false,
            Step::Url | Step::Key => Step::Provider,
            Step::Model if has_key(&self.entry) && self.settings.is_empty() || is_local(&self.entry) => Step::Provider,
            Step::Trying => Step::Model,
            _ => {
                self.forget_key();
                Step::Key
            }
        };
        true
    }

    fn forget_key(&mut self) {
        self.settings.retain(|(key, _)| *key == "base_url");
        (self.kept, self.entry.key, self.entry.key_command) = (None, None, None);
    }

    /// Takes the results of the threads.
    pub fn poll(&mut self, core: &Core) {
        let answering = &mut self.answering;
        self.probes.retain(|(name, fetch)| match fetch.take_result() {
            Some(Ok((status, _))) => {
                answering.extend((status < 500).then(|| name.clone()));
                false
            }
            Some(Err(_)) => false,
            None => true,
        });
        let outcome = match self.work.take() {
            Some(Work::Key(run)) if run.is_complete() => {
                let secret = run.collect().map_err(|why| Error::new(ErrorKind::Auth, format!("the command {why}")));
                secret.and_then(|secret| {
                    self.entry.key = Some(secret);
                    self.list_models(core)
                })
            }
            Some(Work::List(fetch)) => match fetch.take_result() {
                Some(fetched) => self.on_list(fetched),
                None => return self.work = Some(Work::List(fetch)),
            },
            Some(Work::Try(fetch)) => match fetch.take_result() {
                Some(fetched) => self.on_answer(fetched),
                None => return self.work = Some(Work::Try(fetch)),
            },
            work => return self.work = work,
        };
        if let Err(error) = outcome {
            self.error = Some(error.message);
        }
    }

    fn on_list(&mut self, fetched: Result<Fetched>) -> Result<()> {
        let (status, body) = fetched?;
        let listed = list::read(status, &body).inspect_err(|error| {
            if error.kind == ErrorKind::Auth {
                self.step = Step::Key;
                self.forget_key();
            }
        })?;
        self.entry.listed.clone_from(&listed);
        let first = self.entry.models.first().map(|(model, _)| model.clone());
        let mut models: Vec<String> = listed.into_iter().map(|(name, _)| name).filter(|name| is_chat(name)).collect();
        let is_unknown = |name: &String| self.entry.endpoint(name).facts.context.is_none();
        models.sort_by_key(|name| (Some(name) != first.as_ref(), is_unknown(name)));
        self.models = models;
        if self.models.is_empty() {
            Err(Error::usage("the server lists no models: type the name of one"))
        } else {
            Ok(())
        }
    }

    fn on_answer(&mut self, fetched: Result<Fetched>) -> Result<()> {
        self.step = Step::Model;
        let (status, body) = fetched?;
        let spec = provider::find(&self.entry.kind).ok_or_else(|| Error::usage("unknown protocol"))?;
        let (mut decoder, mut events) = ((spec.decoder)(), Vec::new());
        decoder.head(&HttpHead { status, ..HttpHead::default() });
        decoder.feed(&body, &mut events);
        decoder.end(&mut events);
        let mut answer = String::new();
        for event in events {
            match event {
                StreamEvent::Text(text) => answer += &text,
                StreamEvent::Error(error) => return Err(error),
                _ => {}
            }
        }
        self.step = Step::Trying;
        self.answer = Some(answer);
        Ok(())
    }

    /// Writes the configuration once the model has answered, and has the agents without a model use it. True if all is
    /// done.
    pub fn finish(&mut self, core: &mut Core, focus: AgentId) -> bool {
        let Some(answer) = self.answer.take() else { return false };
        let written = self.write(core);
        let endpoint = self.entry.endpoint(&self.model);
        let name = endpoint.full_name();
        use_everywhere(core, focus, Some(self.entry.clone()), endpoint);
        let answer = text::truncate(answer.trim(), 60);
        let note = match &written {
            Ok(file) => {
                format!("{name} answers: {answer}\nsaved in {}; /setup and /model choose another", file.display())
            }
            Err(error) => format!("{name} answers: {answer}\nfor this run only: {}", error.message),
        };
        core.note(focus, LineKind::Note, &note);
        true
    }

    fn write(&self, core: &Core) -> Result<PathBuf> {
        let path = core.config().user_file.clone().ok_or_else(|| Error::usage("there is no configuration file"))?;
        let fail = |error: std::io::Error| Error::usage(format!("{}: {}", path.display(), system_message(&error)));
        let is_kept_nowhere = self.entry.key.is_some() && self.settings.is_empty() && !has_own_key(&self.entry);
        if is_kept_nowhere {
            return Err(Error::usage("the key is kept nowhere"));
        }
        if let Some((file, key)) = &self.kept {
            write_key(file, key).map_err(fail)?;
        }
        let before = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.map_err(fail)?,
        };
        let settings = self.settings.clone();
        let model = format!("{}/{}", self.entry.name, self.model);
        let chosen = ChosenModel { model, provider: self.entry.name.clone(), settings };
        let after = chosen_model::with_chosen_model(&before, &chosen)
            .map_err(|why| Error::usage(format!("not saved in {}: {why}", path.display())))?;
        file::replace(&path, after.as_bytes()).map_err(fail)?;
        Ok(path)
    }
}

/// The person has left the panel: the built-in model answers where there is no other.
pub(in crate::repl::terminals) fn leave(core: &mut Core, focus: AgentId) {
    if core.config().endpoint.is_none() {
        use_everywhere(core, focus, None, Endpoint::echo());
        core.note(focus, LineKind::Note, "the built-in echo answers; polylogue setup or /setup chooses a model");
    }
}

/// New agents, this one and those without a model have this one.
fn use_everywhere(core: &mut Core, focus: AgentId, entry: Option<ProviderEntry>, endpoint: Endpoint) {
    let name = endpoint.full_name();
    set_usual(core, entry, endpoint);
    for id in core.roster().ids() {
        let is_without = core.agent(id).is_some_and(|agent| agent.inputs.endpoint.is_none());
        if (id == focus || is_without)
            && let Err(error) = give_model(core, id, &name)
        {
            core.note(id, LineKind::Error, &format!("the model was not saved: {error}"));
        }
    }
}

fn has_key(entry: &ProviderEntry) -> bool {
    entry.key.is_some() || entry.key_command.is_some()
}

/// Whether its key is there at the next start without anything that is written.
fn has_own_key(entry: &ProviderEntry) -> bool {
    let is_set = |variable: &String| std::env::var_os(variable).is_some_and(|key| !key.is_empty());
    entry.key_command.is_some() || entry.key_variable.as_ref().is_some_and(is_set)
}

fn is_local(entry: &ProviderEntry) -> bool {
    entry.key_variable.is_none() && entry.base_url.starts_with("http://localhost:")
}

fn is_chat(model: &str) -> bool {
    let others = ["embed", "rerank", "whisper", "tts", "dall-e", "moderation", "transcribe", "image", "realtime"];
    !others.iter().any(|other| model.contains(other))
}

/// The file for a typed key: beside the configuration, where tools of models cannot read.
fn key_file(core: &Core, provider: &str) -> Option<PathBuf> {
    let directory = core.config().user_file.as_ref()?.parent()?;
    let is_hidden = core.config().sandbox.hidden.iter().any(|hidden| directory.starts_with(hidden));
    is_hidden.then(|| directory.join("keys").join(provider))
}

fn write_key(file: &Path, key: &str) -> std::io::Result<()> {
    // A file that is there keeps its mode.
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    file::replace(file, format!("{key}\n").as_bytes())
}

fn file_at(core: &Core, typed: &str) -> PathBuf {
    let home = core.config().display.home.as_deref();
    typed.strip_prefix("~/").zip(home).map_or_else(|| PathBuf::from(typed), |(rest, home)| home.join(rest))
}

fn key_in(path: &Path) -> Result<String> {
    use std::io::Read as _;
    let fail = |error: std::io::Error| Error::usage(format!("{}: {}", path.display(), system_message(&error)));
    let mut key = String::new();
    file::open_regular(path).map_err(fail)?.take(MAX_KEY_BYTES).read_to_string(&mut key).map_err(fail)?;
    let key = key.trim();
    if key.is_empty() { Err(Error::usage(format!("{} is empty", path.display()))) } else { Ok(key.to_owned()) }
}

fn command_for(path: &Path) -> String {
    format!("cat '{}'", path.display().to_string().replace('\'', "'\\''"))
}
