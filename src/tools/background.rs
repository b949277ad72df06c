//! Commands that `bash` runs in the background, and the tools `bash_output` and `bash_kill`, which concern them.
//!
//! Such a command runs on a tool thread, as every command does, under the same supervisor and in the same sandbox. The
//! call is answered at once; the thread wakes the loop when the command has ended. The commands belong to one agent and
//! end with it. Their number and their output ([`Capture`]) are bounded, and only some of the ended ones are
//! remembered.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use serde_json::Value;

use super::capture::{Capture, Sink};
use super::{Environment, Judged, Prepared, Question, Run, Running, ToolSpec, bash, one_line, visible};
use crate::domain::flow::ToolRequest;
use crate::domain::tool::{Reach, ToolCall, ToolDeclaration};

/// Commands of one agent that run at once.
const MAX_PER_AGENT: usize = 8;
/// Commands of all agents that run at once.
const MAX_RUNNING: usize = 64;
/// Commands of one agent that have ended and can still be read.
const MAX_ENDED: usize = 16;
/// Length of a filter, in bytes.
const MAX_FILTER: usize = 1000;
/// The most bytes of a compiled filter and of its cache. It is compiled and matched in the event loop.
const MAX_FILTER_MEMORY: usize = 1 << 20;
/// How long `bash_output` may wait, in milliseconds.
const MAX_WAIT: u64 = 600_000;

/// Commands of all agents that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

pub const OUTPUT: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "bash_output",
        description: "Returns the output of a background command since the last call, and whether it is running or how it \
            ended. To wait until it ends, set timeout instead of calling repeatedly.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "bash_id": {"type": "string", "description": "The id that bash returned."},
                "filter": {"type": "string",
                    "description": "A regular expression: only matching lines are returned, the other new lines are skipped."},
                "timeout": {"type": "integer", "minimum": 0, "maximum": 600000,
                    "description": "How long to wait for the command to end, in milliseconds. Default: 0."}
            },
            "required": ["bash_id"],
            "additionalProperties": false
        }"#,
    },
    aliases: &[("shell_id", "bash_id"), ("task_id", "bash_id"), ("id", "bash_id"), ("timeout_ms", "timeout")],
    reach: Reach::Reads,
    judged: Judged::Nothing,
    check: |arguments, _| {
        filter(arguments)?;
        title_only("bash_output", arguments)
    },
    run: Run::InEventLoop(|arguments| ToolRequest::BashOutput {
        id: id(arguments),
        filter: arguments["filter"].as_str().map(str::to_owned),
        wait: Duration::from_millis(arguments["timeout"].as_u64().unwrap_or(0).min(MAX_WAIT)),
    }),
};

pub const KILL: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "bash_kill",
        description: "Ends a background command with all its processes, and returns its output since the last call of \
            bash_output.",
        parameters: r#"{
            "type": "object",
            "properties": {"bash_id": {"type": "string", "description": "The id that bash returned."}},
            "required": ["bash_id"],
            "additionalProperties": false
        }"#,
    },
    aliases: &[("shell_id", "bash_id"), ("task_id", "bash_id"), ("id", "bash_id")],
    reach: Reach::Writes,
    judged: Judged::Nothing,
    check: |arguments, _| title_only("bash_kill", arguments),
    run: Run::InEventLoop(|arguments| ToolRequest::BashKill { id: id(arguments) }),
};

fn id(arguments: &Value) -> String {
    arguments["bash_id"].as_str().unwrap_or_default().trim().to_owned()
}

fn title_only(tool: &str, arguments: &Value) -> Result<Question, String> {
    let title = one_line(&format!("{tool}: {}", id(arguments)), 100);
    Ok(Question::new(title.clone(), vec![title]))
}

fn filter(arguments: &Value) -> Result<Option<RegexMatcher>, String> {
    let compile = |pattern: &str| {
        if pattern.len() > MAX_FILTER {
            return Err(format!("`filter`: longer than {MAX_FILTER} bytes; use a shorter regular expression"));
        }
        RegexMatcherBuilder::new()
            .size_limit(MAX_FILTER_MEMORY)
            .dfa_size_limit(MAX_FILTER_MEMORY)
            .build(pattern)
            .map_err(|error| format!("`filter`: {error}; use a valid, simpler regular expression"))
    };
    arguments["filter"].as_str().map(compile).transpose()
}

/// The commands that one agent has started in the background.
#[derive(Default)]
pub struct BackgroundCommands {
    commands: Vec<BackgroundCommand>,
}

struct BackgroundCommand {
    id: String,
    /// Its first line.
    title: String,
    printed: Arc<Mutex<Printed>>,
    progress: Progress,
}

/// The output of a command, and changes of protected files during its run, for the person.
struct Printed {
    output: Capture,
    warnings: Vec<String>,
}

/// Takes it on the thread of the command.
struct Printer {
    printed: Arc<Mutex<Printed>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Sink for Printer {
    fn push(&mut self, bytes: &[u8]) {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).output.push(bytes);
    }

    fn warn(&mut self, line: &str) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        printed.output.warn(line);
        printed.warnings.push(visible(line));
        drop(printed);
        (self.wake)();
    }
}

enum Progress {
    Running(Running),
    /// How, in lines for the model.
    Ended(String),
}

/// News about a command since the last [`BackgroundCommands::poll`].
pub struct CommandNews {
    pub id: String,
    pub has_ended: bool,
    /// For the person, one line each.
    pub notes: Vec<String>,
}

impl BackgroundCommands {
    /// Starts the command of a call. Returns the result of the call.
    pub fn start(
        &mut self,
        call: ToolCall,
        prepared: Prepared,
        env: Arc<Environment>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<String, String> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        if self.running() >= MAX_PER_AGENT {
            let ids: Vec<&str> = self.commands.iter().filter(|command| command.runs()).map(|c| c.id.as_str()).collect();
            return Err(format!(
                "too many background commands (limit {MAX_PER_AGENT}): {}; end one with bash_kill",
                ids.join(", ")
            ));
        }
        let counted = Counted::new().ok_or_else(|| {
            format!("too many background commands of all agents (limit {MAX_RUNNING}); wait until some have ended")
        })?;
        let id = format!("bash_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let title = one_line(prepared.arguments["command"].as_str().unwrap_or_default(), 60);
        let output = Capture::in_parts(env.output_cap, &env.output_directory);
        let printed = Arc::new(Mutex::new(Printed { output, warnings: Vec::new() }));
        let mut printer = Printer { printed: Arc::clone(&printed), wake: Arc::clone(&wake) };
        let work = move |job: &_| {
            let _counted = counted;
            bash::run_in_background(&prepared, &env, &mut printer, job)
        };
        let running = Running::spawn(call, work, wake).map_err(|error| error.message)?;
        let result = format!("running in the background as {id}; bash_output returns its output, bash_kill ends it");
        self.commands.push(BackgroundCommand { id, title, printed, progress: Progress::Running(running) });
        self.forget_ended();
        Ok(result)
    }

    fn forget_ended(&mut self) {
        let ended = self.commands.len() - self.running();
        let mut surplus = ended.saturating_sub(MAX_ENDED);
        self.commands.retain(|command| {
            let is_kept = command.runs() || surplus == 0;
            surplus -= usize::from(!is_kept);
            is_kept
        });
    }

    pub fn running(&self) -> usize {
        self.commands.iter().filter(|command| command.runs()).count()
    }

    /// Those that are running, one line each.
    pub fn list(&self) -> Vec<String> {
        let running = self.commands.iter().filter(|command| command.runs());
        running.map(|command| format!("{}  {}", command.id, command.title)).collect()
    }

    /// Collects those that have ended, and the news of the others.
    pub fn poll(&mut self) -> Vec<CommandNews> {
        self.commands.iter_mut().filter_map(BackgroundCommand::poll).collect()
    }

    /// Whether this command is running.
    pub fn is_running(&mut self, id: &str) -> Result<bool, String> {
        self.find(id).map(|command| command.runs())
    }

    /// The lines that a command has printed since the last call and that match, and its state.
    pub fn read(&mut self, id: &str, filter: Option<&str>) -> Result<String, String> {
        let matcher = self::filter(&serde_json::json!({ "filter": filter }))?;
        Ok(self.find(id)?.read(matcher.as_ref()))
    }

    /// Asks a command to end. It ends soon after.
    pub fn kill(&mut self, id: &str) -> Result<(), String> {
        if let Progress::Running(running) = &self.find(id)?.progress {
            running.cancel();
        }
        Ok(())
    }

    /// Ends all. Returns the threads, which have to be joined.
    pub fn end(&mut self) -> Vec<Running> {
        let running = |command: BackgroundCommand| match command.progress {
            Progress::Running(running) => Some(running),
            Progress::Ended(_) => None,
        };
        let all: Vec<Running> = std::mem::take(&mut self.commands).into_iter().filter_map(running).collect();
        all.iter().for_each(Running::cancel);
        all
    }

    /// Asks all to end.
    pub fn cancel(&self) {
        for command in &self.commands {
            if let Progress::Running(running) = &command.progress {
                running.cancel();
            }
        }
    }

    fn find(&mut self, id: &str) -> Result<&mut BackgroundCommand, String> {
        let at = self.commands.iter().position(|command| command.id == id);
        let known = || {
            let known: Vec<&str> = self.commands.iter().map(|command| command.id.as_str()).collect();
            if known.is_empty() { "you have none".to_owned() } else { format!("yours: {}", known.join(", ")) }
        };
        let at = at.ok_or_else(|| {
            format!(
                "no background command {:?}; {}. Commands of other agents and of earlier sessions are not available",
                one_line(id, 40),
                known()
            )
        })?;
        Ok(&mut self.commands[at])
    }
}

impl BackgroundCommand {
    fn runs(&self) -> bool {
        matches!(self.progress, Progress::Running(_))
    }

    fn poll(&mut self) -> Option<CommandNews> {
        let warnings = std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner).warnings);
        let mut notes: Vec<String> =
            warnings.iter().map(|line| format!("{} ({}): {line}", self.id, self.title)).collect();
        if !matches!(&self.progress, Progress::Running(running) if running.is_complete()) {
            return (!notes.is_empty()).then(|| CommandNews { id: self.id.clone(), has_ended: false, notes });
        }
        let collected = std::mem::replace(&mut self.progress, Progress::Ended(String::new()));
        let Progress::Running(running) = collected else { return None };
        let warnings = running.warnings();
        let how = running.collect().content;
        let last = how.lines().last().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let note = format!("{} ended: {last} ({})", self.id, self.title);
        self.progress = Progress::Ended(how);
        notes.extend([note].into_iter().chain(warnings));
        Some(CommandNews { id: self.id.clone(), has_ended: true, notes })
    }

    fn read(&mut self, filter: Option<&RegexMatcher>) -> String {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let output = &mut printed.output;
        let mut text = output.take(!self.runs());
        if let Some(filter) = filter {
            let all = text.lines().count();
            let matches = |line: &&str| filter.is_match(line.as_bytes()).unwrap_or(true);
            let lines: Vec<&str> = text.lines().filter(matches).collect();
            let skipped = all - lines.len();
            text = lines.join("\n");
            if let Some(path) = output.path().filter(|_| skipped > 0) {
                let gap = if text.is_empty() { "" } else { "\n" };
                text.push_str(&format!(
                    "{gap}[{skipped} lines do not match; the full output is in {}]",
                    path.display()
                ));
            }
        }
        if text.is_empty() {
            text.push_str("[no new output]");
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        match &self.progress {
            Progress::Running(_) => format!("{text}[{} is running]", self.id),
            Progress::Ended(how) => format!("{text}[{} has ended]\n{how}", self.id),
        }
    }
}

/// A command that counts as running.
struct Counted;

impl Counted {
    /// `None` if there are too many.
    fn new() -> Option<Self> {
        let more = |count: usize| (count < MAX_RUNNING).then_some(count + 1);
        RUNNING.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}
