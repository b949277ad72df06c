//! The columns of the table: one for each agent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::rows::Row;
use super::waits;
use crate::base::text::{counted, shortened, width as width_of, wrap};
use crate::domain::trace::TraceLine;

/// Time, turn, duration and reason.
const LEFT: usize = 8 + 1 + 6 + 1 + 6 + 2 + 10 + 2;
const LEFT_WITHOUT_TURNS: usize = 8 + 2;
const NARROWEST_LANE: usize = 12;
const WIDEST_LANE: usize = 40;
/// Lines that one row has at most in a lane.
const LINES_PER_ROW: usize = 4;

/// The agents of a trace in the order in which they appear, with their names.
pub struct Lanes {
    lanes: Vec<(String, String)>,
}

impl Lanes {
    pub fn of(lines: &[TraceLine]) -> Self {
        let mut lanes: Vec<(String, String)> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for line in lines {
            let Some(agent) = &line.agent else { continue };
            let at = *numbers.entry(agent.to_string()).or_insert(lanes.len());
            if at == lanes.len() {
                lanes.push((agent.to_string(), agent.to_string()));
            }
            if let Some(name) = &line.name {
                lanes[at].1 = name.to_string();
            }
        }
        Self { lanes }
    }

    /// Keeps only the agent with this name or id, or with an id that begins so.
    pub fn keep(&mut self, text: &str) -> Result<(), String> {
        let is_meant = |(id, name): &(String, String)| id == text || name == text;
        let found = if self.lanes.iter().any(is_meant) {
            self.lanes.iter().filter(|lane| is_meant(lane)).cloned().collect()
        } else {
            let begins = |lane: &&(String, String)| text.len() >= 4 && lane.0.starts_with(text);
            self.lanes.iter().filter(begins).cloned().collect::<Vec<_>>()
        };
        match found.as_slice() {
            [_] => self.lanes = found,
            [] => {
                let names: Vec<&str> = self.lanes.iter().map(|(_, name)| name.as_str()).collect();
                return Err(format!("no agent {text:?} in this trace: it has {}", names.join(", ")));
            }
            several => {
                let ids: Vec<&str> = several.iter().map(|(id, _)| id.as_str()).collect();
                return Err(format!("several agents are called {text:?}: {}", ids.join(", ")));
            }
        }
        Ok(())
    }

    fn name<'a>(&'a self, agent: &'a str) -> &'a str {
        self.lanes.iter().find(|(id, _)| id == agent).map_or(agent, |(_, name)| name)
    }

    /// Whether something happened in a lane.
    pub fn has_entry(&self, row: &Row) -> bool {
        self.lanes.iter().any(|(id, _)| row.entries.contains_key(id))
    }

    /// Draws the rows in at most `width` columns, with their waits if asked; agents that do not fit are counted below.
    pub fn draw(&self, rows: &[Row], has_waits: bool, width: usize) -> String {
        // A narrow table has times only.
        let has_turns = width >= LEFT + NARROWEST_LANE && rows.iter().any(|row| row.turn.is_some());
        let left = if has_turns { LEFT } else { LEFT_WITHOUT_TURNS };
        let most = (width.saturating_sub(left) / NARROWEST_LANE).max(1);
        let busy = |id: &str| rows.iter().filter(|row| row.entries.contains_key(id)).count();
        let mut chosen: Vec<&(String, String)> = self.lanes.iter().filter(|(id, _)| busy(id) > 0).collect();
        let idle = self.lanes.len() - chosen.len();
        chosen.truncate(most);
        let hidden = self.lanes.len() - chosen.len() - idle;
        let lane = (width.saturating_sub(left) / chosen.len().max(1)).clamp(NARROWEST_LANE, WIDEST_LANE);
        let mut out = header(has_turns, &chosen, lane);
        for row in rows {
            if has_waits && row.turn.is_some() {
                out += &waits::draw(row, |agent| self.name(agent), width);
            }
            out += &draw_row(row, has_turns, &chosen, lane);
        }
        // Writing into a `String` cannot fail.
        if hidden > 0 {
            let more = format!("{}: see --agent NAME", counted(hidden, "more agent", "more agents"));
            let _ = writeln!(out, "{}", shortened(&more, width));
        }
        out
    }
}

fn header(has_turns: bool, lanes: &[&(String, String)], lane: usize) -> String {
    let mut line = format!("{:>8}", "time");
    if has_turns {
        line += &format!(" {:>6} {:>6}  {:<10}", "turn", "ms", "woken by");
    }
    line += "  ";
    lanes.iter().for_each(|(_, name)| line += &padded(&shortened(name, lane - 2), lane));
    format!("{}\n", line.trim_end())
}

/// One row, as many lines as its longest cell needs.
fn draw_row(row: &Row, has_turns: bool, lanes: &[&(String, String)], lane: usize) -> String {
    let cells: Vec<Vec<String>> = lanes.iter().map(|(id, _)| cell(row.entries.get(id), lane - 2)).collect();
    let mut out = String::new();
    let step = row.step.as_ref().filter(|_| has_turns);
    let least = if step.is_some() { 2 } else { 1 };
    for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0).max(least) {
        let mut line = match (at, step) {
            (0, _) => left_of(row, has_turns),
            (1, Some((name, took))) => format!("{:>22}  {}", milliseconds(*took), shortened(name, 10)),
            _ => String::new(),
        };
        line = padded(&line, if has_turns { LEFT } else { LEFT_WITHOUT_TURNS });
        for ((id, _), cell) in lanes.iter().zip(&cells) {
            let mark = if at == 0 && row.shown.contains(id) { "*" } else { " " };
            let text = cell.get(at).map_or("", String::as_str);
            line += &padded(&format!("{mark}{text}"), lane);
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn left_of(row: &Row, has_turns: bool) -> String {
    let seconds = format!("{}.{:03}", row.at_us / 1_000_000, row.at_us / 1000 % 1000);
    if !has_turns {
        return format!("{seconds:>8}");
    }
    let turn = row.turn.map(|turn| turn.to_string()).unwrap_or_default();
    let took = row.took_us.map(milliseconds).unwrap_or_default();
    format!("{seconds:>8} {turn:>6} {took:>6}  {:<10}", shortened(&row.woken_by(), 10))
}

fn milliseconds(us: u64) -> String {
    format!("{}.{}", us / 1000, us / 100 % 10)
}

/// The entries of one agent in lines of this many columns.
fn cell(entries: Option<&Vec<String>>, columns: usize) -> Vec<String> {
    let text = entries.map(|entries| entries.join(", ")).unwrap_or_default();
    let mut lines: Vec<String> = wrap(&text, columns).map(|(_, line)| line.trim_end().to_owned()).collect();
    if lines.len() > LINES_PER_ROW {
        lines.truncate(LINES_PER_ROW);
        if let Some(last) = lines.last_mut() {
            *last = shortened(&format!("{last} …"), columns).into_owned();
        }
    }
    lines
}

fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width_of(text))))
}
