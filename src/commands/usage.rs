//! `/usage`: tokens and cost of all requests since the conversation began.

use clap::ArgMatches;

use super::{CommandContext, CommandSpec};
use crate::base::error::Result;
use crate::base::text::dollars;
use crate::domain::flow::InputResult;
use crate::store::UsageTotal;

pub const USAGE: CommandSpec = CommandSpec {
    aliases: &["cost"],
    ..CommandSpec::new("usage", "show tokens and cost of this and of all agents", run)
};

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let (own, all) = (context.store.usage(Some(context.current))?, context.store.usage(None)?);
    let lines =
        [format!("this agent  {}", summary(&own)), format!("all agents  {}", summary(&all)), context_line(context)?];
    Ok(InputResult::Continue(Some(lines.join("\n"))))
}

fn summary(usage: &UsageTotal) -> String {
    let UsageTotal { requests, input, cached, output, reasoning, .. } = usage;
    let cost = match usage.priced {
        0 => String::new(),
        priced if priced < *requests => format!(", ${} for {priced} of them", dollars(usage.cost)),
        _ => format!(", ${}", dollars(usage.cost)),
    };
    // Requests to a provider that does not report usage are not counted.
    let counted = if *requests == 1 { "counted request" } else { "counted requests" };
    let reasoning = if *reasoning == 0 { String::new() } else { format!(" ({reasoning} reasoning)") };
    format!("{requests} {counted}, {input} tokens in ({cached} cached), {output} out{reasoning}{cost}")
}

fn context_line(context: &CommandContext) -> Result<String> {
    let agent = context.agent()?;
    let known = match agent.context_tokens() {
        Some(known) => Some(known),
        None => context.store.last_context(context.current)?.map(|tokens| (tokens, false)),
    };
    let Some((tokens, is_estimate)) = known else { return Ok("context     no requests counted yet".into()) };
    let about = if is_estimate { "about " } else { "" };
    Ok(match agent.context_limit().filter(|limit| *limit > 0) {
        Some(limit) => {
            let percent = tokens.saturating_mul(100) / limit;
            format!("context     {about}{tokens} of {limit} tokens ({percent} %)")
        }
        None => format!("context     {about}{tokens} tokens"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_show_more_decimals() {
        for (billionths, text) in
            [(0, "0.00"), (1_234_567_890, "1.23"), (1_000_000, "0.0010"), (12_000, "0.000012"), (1, "0.000000001")]
        {
            assert_eq!(dollars(billionths), text);
        }
    }

    #[test]
    fn a_partial_cost_says_how_many_requests_it_covers() {
        let usage = UsageTotal { requests: 3, cost: 20_000_000, priced: 2, ..UsageTotal::default() };
        assert!(summary(&usage).ends_with(", $0.020 for 2 of them"), "{}", summary(&usage));
        assert!(!summary(&usage_of(1)).contains('$'));
    }

    #[test]
    fn tokens_of_reasoning_are_told_where_there_are_some() {
        let usage = UsageTotal { requests: 1, output: 9, reasoning: 4, ..UsageTotal::default() };
        assert!(summary(&usage).ends_with(", 9 out (4 reasoning)"), "{}", summary(&usage));
        assert!(!summary(&usage_of(1)).contains("reasoning"));
    }

    #[test]
    fn the_number_of_requests_agrees_with_its_noun() {
        assert!(summary(&usage_of(1)).starts_with("1 counted request, "));
        assert!(summary(&usage_of(2)).starts_with("2 counted requests, "));
    }

    fn usage_of(requests: u64) -> UsageTotal {
        UsageTotal { requests, ..UsageTotal::default() }
    }
}
