//! `polylogue compare`: one prompt for several models, for scripts and for the shell. Each gets an agent of its own that
//! inherits nothing. The answers go to standard output in the order of the models, each when it and those before it are
//! complete; no terminal is needed, and calls that need approval are refused.
//!
//! With `--json` each answer is one object in one line:
//!
//! ```json
//! {"v":1,"type":"answer","letter":"a","model":"openai/gpt-5","agent":"<id>","outcome":"completed","text":"...",
//!  "usage":{"input":9,"cached":0,"written":0,"output":5,"reasoning":0},"cost":120000,"stop_reason":"stop","error":null,"ms":830}
//! ```
//!
//! The agents work in this process, or in the server that holds the data directory.

mod ask;

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::arguments::{Arguments, Compare};
use super::config::ProcessEnvironment;
use super::print::summary::{Failure, Summary};
use super::stdio::{print_line, print_note};
use super::{code, print};
use crate::base::error::{Error, Result};
use crate::base::text::dollars;
use crate::base::text::{sanitise, with_commas};
use crate::team::compare::LETTERS;

/// Returns the exit code: that of the first model that gave no answer.
pub fn run(arguments: &Arguments, compare: &Compare, env: &ProcessEnvironment) -> Result<u8> {
    let started = Instant::now();
    let models: Vec<&String> = compare.models.iter().filter(|model| !model.is_empty()).collect();
    if models.is_empty() || models.len() > LETTERS.len() {
        return Err(Error::usage(format!("--models takes 1 to {} models (got {})", LETTERS.len(), models.len())));
    }
    let arguments = &Arguments {
        prompt: compare.prompt.clone(),
        timeout: compare.timeout,
        ephemeral: arguments.ephemeral || compare.ephemeral,
        ..arguments.clone()
    };
    let deadline = print::deadline(arguments, started)?;
    let prompt = match print::read_prompt(arguments, deadline)? {
        Ok(prompt) => prompt,
        Err(limit) => {
            print_note(&limit);
            return Ok(code::LIMIT);
        }
    };
    let answers = LETTERS.chars().zip(models).map(|(letter, model)| Answer::new(letter, model, started)).collect();
    let mut answers = Answers { answers, printed: 0, is_json: compare.json, is_closed: false };
    let ended = ask::ask((arguments, env), &prompt, &mut answers, deadline)?;
    Ok(answers.finish(ended))
}

/// Why not all answers are complete.
enum Ended {
    Complete,
    Timeout,
    Signal(i32),
    /// A limit of the configuration was reached.
    Limit(String),
}

/// The answer of one model.
struct Answer {
    letter: char,
    model: String,
    /// The id of its agent.
    agent: String,
    summary: Summary,
    started: Instant,
    /// How long it took, when it is complete.
    took: Option<Duration>,
    /// Why there is no answer, if the summary does not say it.
    failure: Option<Failure>,
}

impl Answer {
    fn new(letter: char, model: &str, started: Instant) -> Self {
        let (summary, model) = (Summary::default(), model.to_owned());
        Self { letter, model, agent: String::new(), summary, started, took: None, failure: None }
    }

    fn end(&mut self) {
        self.took.get_or_insert(self.started.elapsed());
    }

    fn outcome(&self) -> (&'static str, Option<Failure>, u8) {
        let failure = self.failure.clone().or_else(|| self.summary.failure().cloned());
        match failure {
            Some(failure) => ("failed", Some(failure.clone()), code::of_kind(&failure.kind)),
            None if self.took.is_none() || self.summary.is_interrupted() => ("interrupted", None, code::INTERRUPTED),
            None => ("completed", None, code::DONE),
        }
    }

    fn to_json(&self) -> Value {
        let mut result = self.summary.to_json();
        let (outcome, failure, _) = self.outcome();
        let took = self.took.unwrap_or_else(|| self.started.elapsed());
        result["type"] = "answer".into();
        result["letter"] = self.letter.to_string().into();
        result["model"] = self.model.as_str().into();
        result["agent"] = self.agent.as_str().into();
        result["outcome"] = outcome.into();
        result["error"] = json!(failure);
        result["ms"] = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into();
        result
    }

    /// `── a openai/gpt-5 ── 4.1 s, 812 tokens, $0.031`.
    fn heading(&self) -> String {
        let usage = self.summary.usage();
        let took = self.took.map(|took| format!("{:.1} s", took.as_secs_f64()));
        let tokens = usage.tokens();
        let tokens = (tokens > 0).then(|| format!("{} tokens", with_commas(tokens)));
        let cost = usage.cost.filter(|cost| *cost > 0).map(|cost| format!("${}", dollars(cost)));
        let outcome = Some(self.outcome().0).filter(|outcome| *outcome != "completed").map(str::to_owned);
        let parts: Vec<String> = [outcome, took, tokens, cost].into_iter().flatten().collect();
        format!("── {} {} ── {}", self.letter, self.model, parts.join(", "))
    }
}

struct Answers {
    answers: Vec<Answer>,
    printed: usize,
    is_json: bool,
    /// The reader of standard output has gone.
    is_closed: bool,
}

impl Answers {
    fn are_complete(&self) -> bool {
        self.is_closed || self.answers.iter().all(|answer| answer.took.is_some())
    }

    /// Prints the answers that are complete, in their order.
    fn print_complete(&mut self) {
        while let Some(answer) = self.answers.get(self.printed).filter(|answer| answer.took.is_some()) {
            self.is_closed |= !print_answer(answer, self.is_json, self.printed == 0);
            self.printed += 1;
        }
    }

    /// Prints the remaining answers as far as they arrived, and returns the exit code.
    fn finish(mut self, ended: Ended) -> u8 {
        for at in self.printed..self.answers.len() {
            self.is_closed |= !print_answer(&self.answers[at], self.is_json, at == 0);
        }
        match ended {
            _ if self.is_closed => code::UNREAD,
            Ended::Timeout => {
                print_note("reached the limit of --timeout");
                code::LIMIT
            }
            Ended::Limit(message) => {
                print_note(&message);
                code::LIMIT
            }
            Ended::Signal(number) => code::of_signal(number),
            Ended::Complete => {
                let codes = self.answers.iter().map(|answer| answer.outcome().2);
                codes.into_iter().find(|code| *code != code::DONE).unwrap_or(code::DONE)
            }
        }
    }
}

/// False if standard output is closed.
fn print_answer(answer: &Answer, is_json: bool, is_first: bool) -> bool {
    if is_json {
        return print_line(&answer.to_json().to_string());
    }
    if let Some(failure) = answer.outcome().1 {
        print_note(&format!("{}: {}", answer.model, failure.message));
    }
    let text =
        format!("{}{}\n{}", if is_first { "" } else { "\n" }, answer.heading(), answer.summary.text().trim_end());
    let mut out = std::io::stdout();
    // A terminal gets no control characters of a model.
    let shown = if out.is_terminal() { sanitise(&text) } else { text.as_str().into() };
    writeln!(out, "{}", shown.trim_end()).and_then(|()| out.flush()).is_ok()
}
