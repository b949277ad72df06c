//! `polylogue replay`: plays a scenario on the real loop and compares the result with what the file expects.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use super::arguments::ReplayOptions;
use super::config::show::print;
use crate::base::error::{Error, Result};
use crate::replay::{self, Outcome, Scenario, Stage};

/// Returns whether all came as expected.
pub fn run(options: &ReplayOptions) -> Result<bool> {
    let scenario = replay::read(&options.scenario)?;
    let outcome =
        if options.like_the_original { replay::like_the_original(&scenario)? } else { play(&scenario, options)? };
    let mismatches = outcome.mismatches(&scenario.expect);
    let name = options.scenario.display();
    for mismatch in &mismatches {
        let _ = writeln!(std::io::stderr(), "polylogue: {name}: {}", crate::base::text::sanitise(mismatch));
    }
    if mismatches.is_empty() {
        print(&format!("ok    {name}: {}\n", scenario.about));
    }
    Ok(mismatches.is_empty())
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
    if options.screen {
        print(&screen_of(&mut stage));
    }
    if let Some(file) = &options.trace {
        copy(&stage.trace(), file)?;
    }
    stage.outcome()
}

/// Prints what was traced since the last step, and waits for Enter at a terminal.
fn show_step(stage: &mut Stage, shown: &mut usize, has_screen: bool) -> Result<()> {
    let events = stage.outcome()?.events;
    let new = events.iter().skip(*shown);
    let lines: String =
        new.map(|event| format!("{:>8} ms  {:<16} {}\n", event.at_ms, event.agent, event.event)).collect();
    if events.len() == std::mem::replace(shown, events.len()) {
        return Ok(());
    }
    print(&lines);
    if has_screen {
        print(&screen_of(stage));
    }
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        // Without a terminal the steps continue.
        let _ = input.read_line(&mut String::new());
    }
    Ok(())
}

fn screen_of(stage: &mut Stage) -> String {
    let rows = stage.screen();
    let width = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0).min(200);
    let rule = "-".repeat(width);
    format!("{rule}\n{}\n{rule}\n", rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map(drop).map_err(|error| Error::from(error).context(to.display().to_string()))
}
