//! What was measured beside what is to be reached, one line each, printed as it becomes known.

use std::time::Duration;

/// The rows of one group, and whether one of them was not reached.
#[derive(Default)]
pub struct Table {
    missed: usize,
}

impl Table {
    /// The line above the rows of one group.
    pub fn heading(title: &str) {
        println!("\n{title}\n{}", "-".repeat(title.len()));
    }

    /// A measured number that must not be above `reach`; both in `unit`.
    pub fn at_most(&mut self, figure: &str, measured: f64, reach: f64, unit: &str) {
        let is_reached = measured <= reach;
        self.missed += usize::from(!is_reached);
        let verdict = if is_reached { "ok" } else { "NOT" };
        self.line(figure, &number(measured, unit), &format!("<= {}", number(reach, unit)), verdict);
    }

    /// A time that must not be above `reach`.
    pub fn within(&mut self, figure: &str, measured: Duration, reach: Duration) {
        self.at_most(figure, measured.as_secs_f64() * 1e3, reach.as_secs_f64() * 1e3, "ms");
    }

    /// Something that must hold.
    pub fn holds(&mut self, figure: &str, measured: &str, reach: &str, is_reached: bool) {
        self.missed += usize::from(!is_reached);
        self.line(figure, measured, reach, if is_reached { "ok" } else { "NOT" });
    }

    /// A number that explains another and has no limit of its own.
    pub fn tell(&mut self, figure: &str, measured: f64, unit: &str) {
        self.line(figure, &number(measured, unit), "", "");
    }

    /// How many figures were not reached.
    pub fn missed(&self) -> usize {
        self.missed
    }

    fn line(&self, figure: &str, measured: &str, reach: &str, verdict: &str) {
        println!("{figure:<66} {measured:>16}  {reach:>14}  {verdict}");
    }
}

fn number(value: f64, unit: &str) -> String {
    let space = if unit.is_empty() { "" } else { " " };
    let decimals = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ => 3,
    };
    format!("{value:.decimals$}{space}{unit}")
}

/// The median, or another share of the sorted values: 0.5, 0.99.
pub fn share(values: &[Duration], at: f64) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1).expect("something was measured");
    sorted[((last as f64) * at).round() as usize]
}

/// The value in the middle.
pub fn median(values: &[Duration]) -> Duration {
    share(values, 0.5)
}
