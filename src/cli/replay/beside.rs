//! Two columns on one clock: what happens in this loop, and in the loop of the C program as it was first written.

use std::collections::BTreeSet;

use crate::base::text::{sanitise, width as width_of, wrap};
use crate::domain::trace::TraceLine;
use crate::replay::{Happened, Outcome, Played, Scenario};

/// The events that both loops have; only these are compared.
const COMPARED: [&str; 9] = ["shown", "/submit", ">waiting", ">tool", ">idle", "text", "usage", "error", "tool_result"];
/// The time, and the mark of the first difference.
const LEFT: usize = 8 + 3;
const GAP: &str = "  ";
const NARROWEST_COLUMN: usize = 20;
const WIDEST_COLUMN: usize = 60;

/// A scenario that both loops have played.
pub struct Beside<'a> {
    scenario: &'a Scenario,
    ours: &'a Outcome,
    original: &'a Played,
    first_difference: Option<u64>,
}

impl<'a> Beside<'a> {
    pub fn new(scenario: &'a Scenario, ours: &'a Outcome, original: &'a Played) -> Self {
        let times =
            times_of(&ours.events).union(&times_of(&original.outcome.events)).copied().collect::<BTreeSet<u64>>();
        let differs = |at: &u64| compared(&ours.events, *at) != compared(&original.outcome.events, *at);
        Self { scenario, ours, original, first_difference: times.into_iter().find(differs) }
    }

    /// The rows, each one or more lines, in at most `width` columns.
    pub fn draw(&self, width: usize) -> Vec<String> {
        let column = ((width.saturating_sub(LEFT + GAP.len())) / 2).clamp(NARROWEST_COLUMN, WIDEST_COLUMN);
        let mut rows = vec![row("ms", "this loop", "as first written", column)];
        let turns = turns_of(&self.original.trace);
        let mut times: BTreeSet<u64> = times_of(&self.ours.events);
        times.extend(turns.iter().map(|turn| turn.at_ms));
        times.extend(self.scenario.stories.iter().map(|step| step.at));
        let mut idle: Vec<&Turn> = Vec::new();
        for at in times {
            let story: Vec<usize> =
                (0..self.scenario.stories.len()).filter(|step| self.scenario.stories[*step].at == at).collect();
            let left = cell(&self.ours.events, at);
            let now: Vec<&Turn> = turns.iter().filter(|turn| turn.at_ms == at).collect();
            if story.is_empty() && left.is_empty() && now.iter().all(|turn| turn.events.is_empty()) {
                idle.extend(now);
                continue;
            }
            rows.extend(idle_row(&std::mem::take(&mut idle), column));
            rows.extend(story.into_iter().map(|step| self.story_row(step, LEFT + 2 * column + GAP.len())));
            let right: Vec<String> = now.iter().map(|turn| turn.text()).collect();
            let time = if self.first_difference == Some(at) { format!("{at} ≠") } else { format!("{at}  ") };
            rows.push(row(&time, &left, &right.join("\n"), column));
        }
        rows.extend(idle_row(&idle, column));
        rows
    }

    fn story_row(&self, step: usize, width: usize) -> String {
        let text = format!("{}. {}", step + 1, sanitise(&self.scenario.stories[step].text));
        let lines: Vec<String> =
            wrap(&text, width.saturating_sub(LEFT)).map(|(_, line)| line.trim_end().to_owned()).collect();
        lines.iter().map(|line| format!("{}{line}\n", " ".repeat(LEFT))).collect()
    }

    /// Where they part, and what the C program made of it.
    pub fn verdict(&self) -> String {
        let parted = match self.first_difference {
            Some(at) => {
                let (here, there) = (compared(&self.ours.events, at), compared(&self.original.outcome.events, at));
                let only = |these: &[String], those: &[String]| {
                    let words: Vec<&str> =
                        these.iter().filter(|word| !those.contains(word)).map(String::as_str).collect();
                    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
                };
                format!("first difference at {at} ms: {} here, {} there\n", only(&here, &there), only(&there, &here))
            }
            None => "no difference\n".to_owned(),
        };
        let mismatches = self.original.outcome.mismatches(&self.scenario.expect);
        let lines = mismatches.iter().map(|mismatch| format!("as first written: {}\n", sanitise(mismatch)));
        let fine = mismatches.is_empty().then(|| "as first written: as expected\n".to_owned());
        parted + &lines.chain(fine).collect::<String>()
    }
}

fn times_of(events: &[Happened]) -> BTreeSet<u64> {
    events.iter().filter(|event| is_compared(event)).map(|event| event.at_ms).collect()
}

fn is_compared(event: &Happened) -> bool {
    COMPARED.contains(&&*event.event)
}

fn compared_at(events: &[Happened], at: u64) -> impl Iterator<Item = &Happened> {
    events.iter().filter(move |event| event.at_ms == at && is_compared(event))
}

/// The compared events of a moment, in an order that does not depend on which agent a turn serves first.
fn compared(events: &[Happened], at: u64) -> Vec<String> {
    let mut found: Vec<(&str, &str)> =
        compared_at(events, at).map(|event| (event.agent.as_str(), event.event.as_str())).collect();
    found.sort_by_key(|(agent, _)| *agent);
    found.dedup();
    found.into_iter().map(|(agent, event)| format!("{agent} {event}")).collect()
}

/// The compared events of a moment, a line for each agent.
fn cell(events: &[Happened], at: u64) -> String {
    by_agent(compared_at(events, at).map(|event| (event.agent.clone(), event.event.clone())))
}

fn by_agent(events: impl Iterator<Item = (String, String)>) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (agent, event) in events {
        match lines.iter_mut().find(|(name, _)| *name == agent) {
            Some((_, events)) if events.last() == Some(&event) => {}
            Some((_, events)) => events.push(event),
            None => lines.push((agent, vec![event])),
        }
    }
    let lines: Vec<String> =
        lines.into_iter().map(|(agent, events)| format!("{agent}: {}", events.join(", "))).collect();
    lines.join("\n")
}

/// A turn of the C program: its wait, and what happened after it.
struct Turn {
    at_ms: u64,
    wait: String,
    events: String,
}

impl Turn {
    fn text(&self) -> String {
        let parts = [self.wait.as_str(), self.events.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// The turns, and what happened during waits, each at its time.
fn turns_of(trace: &[TraceLine]) -> Vec<Turn> {
    let mut turns: Vec<(Turn, Vec<(String, String)>)> = Vec::new();
    for line in trace {
        let at_ms = line.at_us / 1000;
        if line.event == "turn" || turns.last().is_none_or(|(turn, _)| turn.at_ms != at_ms) {
            turns.push((Turn { at_ms, wait: wait_of(line), events: String::new() }, Vec::new()));
        }
        let (Some(agent), Some(word)) = (&line.agent, line.word()) else { continue };
        let word = if line.event == "waits" { line.why.clone().unwrap_or_default().into_owned() } else { word };
        turns.last_mut().expect("one was pushed").1.push((agent.to_string(), word));
    }
    let with_events = |(turn, events): (Turn, Vec<_>)| Turn { events: by_agent(events.into_iter()), ..turn };
    turns.into_iter().map(with_events).collect()
}

/// The wait of a turn: what it listened to and its time limit.
fn wait_of(line: &TraceLine) -> String {
    let Some(timeout) = line.timeout_us else { return String::new() };
    let watched = line.watched.iter().flatten();
    let names: Vec<&str> = watched.map(|watched| watched.agent.as_deref().unwrap_or(&watched.source)).collect();
    format!("select {}; {} ms", names.join(", "), timeout / 1000)
}

/// Waits after which nothing happened, in one row for those that are equal.
fn idle_row(turns: &[&Turn], column: usize) -> Option<String> {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for turn in turns {
        match groups.last_mut() {
            Some((wait, count)) if *wait == turn.wait => *count += 1,
            _ => groups.push((&turn.wait, 1)),
        }
    }
    let lines: Vec<String> = groups
        .into_iter()
        .map(|(wait, count)| if count == 1 { wait.to_owned() } else { format!("{wait}, {count} times") })
        .collect();
    (!lines.is_empty()).then(|| row("", "", &lines.join("\n"), column))
}

fn row(time: &str, left: &str, right: &str, column: usize) -> String {
    let wrapped = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| sanitise(line).into_owned());
        let wrapped =
            lines.map(|line| wrap(&line, column).map(|(_, row)| row.trim_end().to_owned()).collect::<Vec<_>>());
        wrapped.flatten().collect()
    };
    let (left, right) = (wrapped(left), wrapped(right));
    let line = |at: usize| {
        let time = if at == 0 { time } else { "" };
        let cell = |cells: &[String]| cells.get(at).cloned().unwrap_or_default();
        let mark = if time.ends_with('≠') { format!("{time:>10} ") } else { format!("{:>8}   ", time.trim_end()) };
        let left = cell(&left);
        let space = " ".repeat(column.saturating_sub(width_of(&left)));
        format!("{}\n", format!("{mark}{left}{space}{GAP}{}", cell(&right)).trim_end())
    };
    (0..left.len().max(right.len()).max(1)).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{self, Fault, Stage};

    /// The scenarios of which the C program has the fault.
    fn scenarios() -> Vec<(String, Scenario)> {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let scenarios = files.map(|path| (path.display().to_string(), replay::read(&path).unwrap()));
        scenarios.filter(|(_, scenario)| scenario.fault.is_some()).collect()
    }

    fn play(scenario: &Scenario) -> Outcome {
        let mut stage = Stage::open(scenario, false).unwrap();
        while stage.step().unwrap() {}
        stage.outcome().unwrap()
    }

    /// Whatever it makes of a scenario comes from its faults.
    #[test]
    fn without_its_faults_the_copy_of_the_c_program_does_what_this_loop_does() {
        for (name, scenario) in scenarios() {
            let (ours, original) = (play(&scenario), replay::play_original(&scenario, &[]).unwrap());
            let verdict = Beside::new(&scenario, &ours, &original).verdict();
            assert_eq!(verdict, "no difference\nas first written: as expected\n", "{name}");
        }
    }

    #[test]
    fn with_one_fault_and_with_all_the_copy_of_the_c_program_fails() {
        for (name, scenario) in scenarios() {
            let ours = play(&scenario);
            for faults in [vec![scenario.fault.unwrap()], Fault::ALL.to_vec()] {
                let original = replay::play_original(&scenario, &faults).unwrap();
                let verdict = Beside::new(&scenario, &ours, &original).verdict();
                assert!(
                    verdict.starts_with("first difference at ") && verdict.contains(": expected "),
                    "{name}: {verdict}"
                );
            }
        }
    }
}
