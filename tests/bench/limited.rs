//! 100 agents at a server of 20 requests a minute and 3 at once, for three minutes of real time.

use std::time::{Duration, Instant};

use crate::app::App;
use crate::support::limited::{Crowd, Headers, LimitedServer};
use crate::table::Table;

const AGENTS: usize = 100;

/// One server that tells its limits and one that does not, at the same time.
pub fn figures(table: &mut Table) {
    let time = Duration::from_secs_f64(crate::asked("--seconds", 180.0));
    let mut crowds = [Headers::OpenAi, Headers::None].map(|headers| {
        let crowd = Crowd::new(LimitedServer::start(headers, 20, 3), AGENTS);
        (headers, App::new(Some(&crowd.server.url()), AGENTS), crowd)
    });
    let start = Instant::now();
    while start.elapsed() < time {
        for (_, app, crowd) in &mut crowds {
            app.turn(Duration::from_millis(5));
            crowd.step(&mut app.repl, start.elapsed());
        }
    }
    for (headers, _, crowd) in &crowds {
        let outcome = crowd.outcome(start.elapsed());
        let told = if *headers == Headers::None { "no headers" } else { "headers" };
        table.holds(
            &format!("100 agents at 20 requests a minute, 3 at once ({told}): failed"),
            &outcome.failed.to_string(),
            "0",
            outcome.failed == 0,
        );
        table.tell("  answered", outcome.answered as f64, "");
        table.tell("  refused by the server", outcome.refused as f64, "");
        let rate = outcome.rate * 100.0;
        table.holds("  rate used", &format!("{rate:.1} %"), ">= 90 %", rate >= 90.0);
        let (seen, others) = (outcome.on_screen.1, outcome.others.0);
        table.at_most("  mean wait on the screen", seen.as_secs_f64(), others.as_secs_f64(), "s");
        table.tell("  longest wait on the screen", outcome.on_screen.0.as_secs_f64(), "s");
        table.tell("  median wait of the others, ended or not", outcome.others.1.as_secs_f64(), "s");
    }
}
