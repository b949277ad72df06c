//! `polylogue doctor`: looks whether everything is there and works, and says what to do where it does not. A line each:
//! `ok`, `warn` (it works, but), `fail` (it will not). No key is ever shown.

mod provider;
mod system;

use std::path::Path;

use crate::cli::arguments::Arguments;
use crate::cli::config::{self, Loaded, Surroundings};
use crate::store;

/// What was found.
#[derive(Debug, Default)]
struct Report {
    lines: Vec<(Verdict, &'static str, String)>,
}

/// How it is with a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Report {
    fn add(&mut self, verdict: Verdict, what: &'static str, words: impl Into<String>) {
        self.lines.push((verdict, what, words.into()));
    }

    fn ok(&mut self, what: &'static str, words: impl Into<String>) {
        self.add(Verdict::Ok, what, words);
    }

    fn warn(&mut self, what: &'static str, words: impl Into<String>) {
        self.add(Verdict::Warn, what, words);
    }

    fn fail(&mut self, what: &'static str, words: impl Into<String>) {
        self.add(Verdict::Fail, what, words);
    }

    fn text(&self) -> String {
        let row = |(verdict, what, words): &(Verdict, &str, String)| {
            let verdict = match verdict {
                Verdict::Ok => "ok",
                Verdict::Warn => "warn",
                Verdict::Fail => "fail",
            };
            format!("{verdict:<5} {what:<14} {}\n", words.replace('\n', " "))
        };
        self.lines.iter().map(row).collect()
    }

    fn has_failed(&self) -> bool {
        self.lines.iter().any(|(verdict, ..)| *verdict == Verdict::Fail)
    }
}

/// Looks at everything and says what it saw. True if nothing will fail.
pub fn run(arguments: &Arguments, around: &Surroundings, is_offline: bool) -> bool {
    let loaded = config::load(arguments, around);
    let mut report = Report::default();
    configuration(&mut report, &loaded);
    provider::look(&mut report, &loaded, is_offline);
    match loaded.config().data_directory.as_deref() {
        Some(directory) => keeping(&mut report, directory),
        None => report.ok("store", "nothing is kept (--ephemeral)"),
    }
    system::look(&mut report, around);
    config::show::print(&report.text());
    !report.has_failed()
}

fn configuration(report: &mut Report, loaded: &Loaded) {
    for error in &loaded.complaints.errors {
        error.message.lines().for_each(|line| report.fail("configuration", line));
    }
    for words in &loaded.complaints.warnings {
        report.warn("configuration", words);
    }
    if loaded.complaints.errors.is_empty() {
        report.ok("configuration", format!("new agents talk to {}", loaded.config().endpoint.full_name()));
    }
}

/// Below this many free bytes a person should make room.
const FEW_BYTES: u64 = 100 * 1024 * 1024;

fn keeping(report: &mut Report, directory: &Path) {
    let place = directory.display();
    match store::health(directory) {
        Ok(None) => report.ok("store", format!("there is none in {place} yet: the first start makes it")),
        Ok(Some(found)) if !found.damage.is_empty() => {
            let words = found.damage.join("; ");
            report.fail("store", format!("{place} is damaged ({words}): keep a copy; sqlite3 FILE .recover saves it"));
        }
        Ok(Some(found)) if found.version > found.current => {
            let words = format!("{place} was written by a newer polylogue (schema {}): use that", found.version);
            report.fail("store", words);
        }
        Ok(Some(found)) => {
            let older = if found.version < found.current { ", the next start brings it up to date" } else { "" };
            report.ok("store", format!("{place}: whole, schema {}{older}", found.version));
        }
        Err(error) => report.fail("store", error.message),
    }
    if let Some(process) = store::holder(directory) {
        let words = format!("process {process} holds it: another can only look at it (--read-only)");
        report.warn("store", words);
    }
    free_space(report, directory);
}

fn free_space(report: &mut Report, directory: &Path) {
    let there = directory.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(there) {
        Ok(volume) => {
            let free = volume.f_bavail.saturating_mul(volume.f_frsize);
            let words = format!("{} MB are free on its disk", free / 1_000_000);
            match free < FEW_BYTES {
                true => report.warn("store", format!("only {words}: make room, or choose another with --data-dir")),
                false => report.ok("store", words),
            }
        }
        Err(error) => report.warn("store", format!("nobody tells how much is free on its disk: {error}")),
    }
}
