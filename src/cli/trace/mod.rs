//! `polylogue trace show`: draws a trace as a table, with a line for each turn and a lane for each agent.

mod lanes;
mod rows;
mod waits;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use super::arguments::TraceShow;
use super::config;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::counted;
use crate::domain::trace::{SCHEMA, TraceLine};
use lanes::Lanes;
use rows::{Row, rows_of};

/// Columns where the output is not a terminal and `COLUMNS` is not set.
const COLUMNS: usize = 80;
/// Maximum length of a line, in bytes: bounds what is read of a file that is not a trace.
const LONGEST_LINE: u64 = 1 << 20;
/// Maximum invalid lines that are reported one by one.
const REPORTED: usize = 20;

/// Draws a trace. Returns whether every line of it could be read.
pub fn show(options: &TraceShow) -> Result<bool> {
    let (lines, bad) = read(&options.file)?;
    config::show::print(&draw_table(&lines, options, width())?);
    let file = options.file.display();
    for (number, why) in bad.iter().take(REPORTED) {
        report(&format!("{file}:{number}: not a line of a trace: {why}"));
    }
    if bad.len() > REPORTED {
        report(&format!("{file}: {} more", counted(bad.len() - REPORTED, "such line", "such lines")));
    }
    Ok(bad.is_empty())
}

/// The table in at most `width` columns.
fn draw_table(lines: &[TraceLine], options: &TraceShow, width: usize) -> Result<String> {
    let mut lanes = Lanes::of(lines);
    if let Some(agent) = &options.agent {
        lanes.keep(agent).map_err(Error::usage)?;
    }
    let slow_us = options.slow.map(|ms| ms.saturating_mul(1000));
    let is_shown = |row: &Row| {
        let is_slow = slow_us.is_none_or(|least| row.took_us.is_some_and(|took| took >= least));
        is_slow && (options.agent.is_none() || lanes.has_entry(row))
    };
    let rows: Vec<Row> = rows_of(lines).into_iter().filter(is_shown).collect();
    Ok(lanes.draw(&rows, options.waits, width))
}

/// The number of an invalid line, and the reason.
type BadLine = (usize, String);

fn read(path: &Path) -> Result<(Vec<TraceLine>, Vec<BadLine>)> {
    let failed = |error: std::io::Error| Error::from(error).context(path.display().to_string());
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let (mut lines, mut bad) = (Vec::new(), Vec::new());
    for number in 1.. {
        let mut bytes = Vec::new();
        let read = std::io::Read::take(&mut file, LONGEST_LINE).read_until(b'\n', &mut bytes).map_err(failed)?;
        if read == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        match TraceLine::parse(text.trim_end()) {
            Ok(line) if line.schema.is_some_and(|schema| schema > SCHEMA) => {
                let message = format!("{}: written by a newer version of polylogue", path.display());
                return Err(Error::new(ErrorKind::Usage, message));
            }
            Ok(line) => lines.push(line),
            Err(why) => bad.push((number, why)),
        }
    }
    Ok((lines, bad))
}

fn report(message: &str) {
    // Nobody else could be told about a closed standard error.
    let _ = writeln!(std::io::stderr(), "polylogue: {}", crate::base::text::sanitise(message));
}

/// The columns of the terminal.
pub fn width() -> usize {
    let of_variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    let of_terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    of_terminal().filter(|columns| *columns > 0).or_else(of_variable).unwrap_or(COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"{"at_us":0,"event":"start","schema":1}
{"at_us":0,"event":"agent","agent":"A","name":"main"}
{"at_us":0,"event":"agent","agent":"B","name":"scout","parent":"A"}
{"at_us":0,"event":"focus","agent":"A","terminal":1}
{"turn":1,"at_us":2000,"event":"turn","why":"nothing","watched":[{"source":"terminal","fd":3,"read":true,"write":false},{"source":"socket","agent":"A","fd":9,"read":true,"write":true}]}
{"turn":1,"at_us":2000,"event":"ready","source":"terminal","read":true,"write":false,"error":false}
{"turn":1,"at_us":2000,"event":"keys","agent":"A","terminal":1,"keys":3}
{"turn":1,"at_us":2100,"event":"change","agent":"A","terminal":1,"change":"submit"}
{"turn":1,"at_us":2100,"event":"effect","agent":"A","effect":"state_changed","from":"idle","to":"waiting for the model"}
{"turn":1,"at_us":2900,"event":"end","duration_us":900}
{"turn":2,"at_us":1002000,"event":"turn","timeout_us":1000000,"why":"retry","agent":"B","candidates":[{"why":"retry","agent":"B","timeout_us":1000000},{"why":"draft","timeout_us":2000000}]}
{"turn":2,"at_us":1002000,"event":"ready","agent":"A","source":"socket","fd":9,"read":true,"write":false,"error":false}
{"turn":2,"at_us":1002000,"event":"callback","agent":"A","callback":"text","bytes":5}
{"turn":2,"at_us":1002000,"event":"callback","agent":"A","callback":"text","bytes":7}
{"turn":2,"at_us":1002000,"event":"callback","agent":"B","callback":"error","bytes":0}
{"turn":2,"at_us":1010000,"event":"render","agent":"A","terminal":1}
{"turn":2,"at_us":1014500,"event":"end","duration_us":12500,"step":"render","step_us":8000}
"#;

    fn draw(slow: Option<u64>, agent: Option<&str>, width: usize) -> String {
        let lines: Vec<TraceLine> = TRACE.lines().map(|line| TraceLine::parse(line).unwrap()).collect();
        let options = TraceShow { file: "x".into(), slow, agent: agent.map(str::to_owned), waits: false };
        draw_table(&lines, &options, width).unwrap()
    }

    #[test]
    fn a_line_is_a_turn_and_each_agent_has_a_lane() {
        let expected = [
            "    time   turn     ms  woken by    main                  scout",
            "   0.000                            *shown",
            "   0.002      1    0.9  terminal    *3 keys, /submit,",
            "                                     >waiting",
            "   1.002      2   12.5  socket      *in, text 12, frame    error",
            "                   8.0  render",
        ];
        assert_eq!(draw(None, None, 80).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn above_a_turn_are_the_sets_of_its_wait_and_the_least_of_its_time_limits() {
        let lines: Vec<TraceLine> = TRACE.lines().map(|line| TraceLine::parse(line).unwrap()).collect();
        let options = TraceShow { file: "x".into(), slow: None, agent: None, waits: true };
        let drawn = draw_table(&lines, &options, 80).unwrap();
        let waits: Vec<&str> = drawn.lines().filter(|line| line.starts_with("          ")).collect();
        let expected = [
            "          read    terminal (3), main (9)",
            "          write   main (9)",
            "          wait    for ever",
            "                                     >waiting",
            "          read    terminal (3), main (9)",
            "          write   main (9)",
            "          wait    1000 ms, the least of retry of scout 1000 ms, draft 2000 ms",
            "                   8.0  render",
        ];
        assert_eq!(waits, expected, "{drawn}");
    }

    #[test]
    fn slow_turns_and_one_agent_can_be_chosen() {
        let slow = draw(Some(10), None, 80);
        assert!(slow.contains("12.5") && !slow.contains("keys"), "{slow}");
        let scout = draw(None, Some("scout"), 80);
        assert!(scout.contains("error") && !scout.contains("keys") && !scout.contains("main"), "{scout}");
        assert_eq!(draw(None, Some("B"), 80), scout);
        let lines: Vec<TraceLine> = TRACE.lines().map(|line| TraceLine::parse(line).unwrap()).collect();
        let options = TraceShow { file: "x".into(), slow: None, agent: Some("nobody".into()), waits: false };
        assert!(draw_table(&lines, &options, 80).unwrap_err().message.contains("main, scout"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [1, 20, 40, 61, 80, 200] {
            let table = draw(None, None, width);
            let widest = table.lines().map(crate::base::text::width).max().unwrap();
            assert!(widest <= width.max(22), "{width}: {widest}\n{table}");
        }
    }
}
