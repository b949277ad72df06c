//! `polylogue replay`: plays scenarios on the real loop and compares the results with what the files expect. With `--beside`,
//! a copy of the C program plays them too.

mod beside;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use super::arguments::ReplayOptions;
use super::config::show::print;
use crate::base::error::{Error, Result};
use crate::domain::trace::TraceLine;
use crate::replay::{self, Fault, Outcome, Scenario, Stage};
use beside::Beside;

/// Returns whether all came as expected.
pub fn run(options: &ReplayOptions) -> Result<bool> {
    if options.trace.is_some() && options.scenarios.len() > 1 {
        return Err(Error::usage("--trace writes one file: name one scenario with it"));
    }
    let mut is_as_expected = true;
    for file in &options.scenarios {
        let scenario = replay::read(file)?;
        let outcome = if options.beside { play_both(&scenario, options)? } else { play(&scenario, options)? };
        is_as_expected &= report(file, &scenario, &outcome);
    }
    Ok(is_as_expected)
}

fn report(file: &Path, scenario: &Scenario, outcome: &Outcome) -> bool {
    let mismatches = outcome.mismatches(&scenario.expect);
    let name = file.display();
    for mismatch in &mismatches {
        let _ = writeln!(std::io::stderr(), "polylogue: {name}: {}", crate::base::text::sanitise(mismatch));
    }
    if mismatches.is_empty() {
        print(&format!("ok    {name}: {}\n", scenario.about));
    }
    mismatches.is_empty()
}

fn play(scenario: &Scenario, options: &ReplayOptions) -> Result<Outcome> {
    let mut stage = Stage::open(scenario, options.turns)?;
    let mut shown = 0;
    while stage.step()? {
        if options.step {
            show_step(&mut stage, &mut shown, options.screen)?;
        }
    }
    if options.step {
        show_step(&mut stage, &mut shown, false)?;
    }
    let outcome = stage.outcome()?;
    if options.screen {
        print(&screen_of(&outcome.screen));
    }
    if let Some(file) = &options.trace {
        copy(&stage.trace(), file)?;
    }
    Ok(outcome)
}

/// Plays it on this loop and on the copy of the C program, and draws both. Returns what this loop made of it.
fn play_both(scenario: &Scenario, options: &ReplayOptions) -> Result<Outcome> {
    let ours = play(scenario, &ReplayOptions { step: false, screen: false, ..options.clone() })?;
    let faults = options.fault.map_or(Fault::ALL.to_vec(), |fault| vec![fault]);
    let original = replay::play_original(scenario, &faults)?;
    if let Some(file) = &options.trace {
        write_trace(&original.trace, file)?;
    }
    let beside = Beside::new(scenario, &ours, &original);
    for row in beside.draw(super::trace::width()) {
        print(&row);
        if options.step {
            wait_for_enter();
        }
    }
    if options.screen {
        print(&format!("this loop\n{}", screen_of(&ours.screen)));
        print(&format!("as first written\n{}", screen_of(&original.outcome.screen)));
    }
    print(&beside.verdict());
    Ok(ours)
}

/// Prints what was traced since the last step, and waits for Enter at a terminal.
fn show_step(stage: &mut Stage, shown: &mut usize, has_screen: bool) -> Result<()> {
    let outcome = stage.outcome()?;
    let new = outcome.events.iter().skip(*shown);
    let lines: String =
        new.map(|event| format!("{:>8} ms  {:<16} {}\n", event.at_ms, event.agent, event.event)).collect();
    if outcome.events.len() == std::mem::replace(shown, outcome.events.len()) {
        return Ok(());
    }
    print(&lines);
    if has_screen {
        print(&screen_of(&outcome.screen));
    }
    wait_for_enter();
    Ok(())
}

/// Waits at a terminal; elsewhere the steps go on.
fn wait_for_enter() {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        let _ = input.read_line(&mut String::new());
    }
}

fn screen_of(rows: &[String]) -> String {
    let width = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0).min(200);
    let rule = "-".repeat(width);
    format!("{rule}\n{}\n{rule}\n", rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map(drop).map_err(|error| Error::from(error).context(to.display().to_string()))
}

/// Writes the trace of the C program's copy beside the one of this loop.
fn write_trace(trace: &[TraceLine], file: &Path) -> Result<()> {
    let lines: Vec<String> = trace.iter().filter_map(|line| serde_json::to_string(line).ok()).collect();
    let mut name = file.as_os_str().to_owned();
    name.push(".original");
    let file = PathBuf::from(name);
    let failed = |error| Error::from(error).context(file.display().to_string());
    std::fs::write(&file, lines.join("\n") + "\n").map_err(failed)
}
