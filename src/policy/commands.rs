//! The verdict on a shell command: every simple command must be allowed by a rule, or known to only read.

use super::matching::{Match, allows, catches, catches_text};
use super::protected::protected_name_in;
use super::readonly::{self, Read};
use super::shell::{self, SimpleCommand};
use super::{CommandRequest, Permissions, Verdict, asks_for, refuse_by_rule};
use crate::domain::approval::Policy;
use crate::domain::rule::Rule;

impl Permissions<'_> {
    pub(super) fn command(&self, request: &CommandRequest<'_>) -> Verdict {
        let script = shell::parse(request.text);
        let find = |rules: &'_ [Rule], at_least: Match| {
            let catch = |rule: &&Rule| match &script {
                Ok(commands) => catches(rule, commands) >= at_least,
                Err(_) => catches_text(rule, request.text) >= at_least,
            };
            rules.iter().find(catch).cloned()
        };
        if let Some(rule) = find(&self.rules.deny, Match::Certain) {
            return refuse_by_rule(&rule);
        }
        let question = find(&self.rules.deny, Match::Possible)
            .map(|rule| format!("may run something that `deny {rule}` forbids"))
            .or_else(|| find(&self.rules.ask, Match::Possible).map(|rule| asks_for(&rule)));
        let granted = script
            .map_err(|what| format!("not a plain command: {what}"))
            .and_then(|commands| self.grant(request, &commands));
        self.weigh(request, granted, question)
    }

    /// What the commands read if all are free, and whether all only read.
    fn grant(&self, request: &CommandRequest<'_>, commands: &[SimpleCommand]) -> Result<(Vec<Read>, bool), String> {
        let judge = |is_allowed: &dyn Fn(&SimpleCommand) -> bool| {
            readonly::reads(commands, request.directory, self.sandboxed, is_allowed)
        };
        let only_reads = match request.distrust {
            Some(reason) => Err(reason.to_owned()),
            None => judge(&|_| false),
        };
        if let Ok(reads) = only_reads {
            return Ok((reads, true));
        }
        let is_allowed = |command: &SimpleCommand| {
            self.rules.allow.iter().any(|rule| rule.holds(self.sandboxed) && allows(rule, command))
        };
        if let Some(reason) = request.distrust.filter(|_| !commands.iter().all(is_allowed)) {
            return Err(reason.to_owned());
        }
        judge(&is_allowed).map(|reads| (reads, false))
    }

    fn weigh(
        &self,
        request: &CommandRequest<'_>,
        granted: Result<(Vec<Read>, bool), String>,
        question: Option<String>,
    ) -> Verdict {
        let (reads, only_reads) = match granted {
            Ok(granted) => granted,
            Err(reason) => return self.run(request, question, reason),
        };
        if !only_reads && (self.policy == Policy::Plan || protected_name_in(request.text).is_some()) {
            return self.run(request, question, "it may change something".into());
        }
        let judged = reads.iter().map(|read| {
            let (path, place) = (request.resolve)(read);
            self.read(&path, &place)
        });
        let strictest = judged.max_by_key(strictness).unwrap_or(Verdict::Free);
        match question {
            Some(question) if strictest == Verdict::Free => self.ask(question),
            _ => strictest,
        }
    }

    /// A command that is not free.
    fn run(&self, request: &CommandRequest<'_>, question: Option<String>, reason: String) -> Verdict {
        let protected = protected_name_in(request.text).map(|name| format!("it may change {name}, which is protected"));
        match (self.change(reason), question.or(protected)) {
            (Verdict::Free | Verdict::Ask(_) | Verdict::Unasked(_), Some(question)) => self.ask(question),
            (verdict, _) => verdict,
        }
    }
}

fn strictness(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Free => 0,
        Verdict::Ask(_) => 1,
        Verdict::Unasked(_) => 2,
        Verdict::Refuse(_) => 3,
    }
}
