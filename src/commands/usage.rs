//! `/usage`: what requests have cost, in tokens and in money, since the conversation began.

use super::{CommandContext, CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::domain::flow::InputResult;
use crate::store::UsageTotal;

/// `/usage`.
pub const USAGE: CommandSpec = CommandSpec {
    name: "usage",
    aliases: &["cost"],
    arguments: "",
    about: "tokens and cost, this agent's and everybody's",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("usage", arguments)?;
    let (own, all) = (context.store.usage(Some(context.current))?, context.store.usage(None)?);
    let lines =
        [format!("this agent  {}", words(&own)), format!("all agents  {}", words(&all)), context_words(context)?];
    Ok(InputResult::Continue(Some(lines.join("\n"))))
}

fn words(spent: &UsageTotal) -> String {
    let UsageTotal { requests, input, cached, output, .. } = spent;
    let cost = match spent.priced {
        0 => String::new(),
        priced if priced < *requests => format!(", ${} for {priced} of them", dollars(spent.cost)),
        _ => format!(", ${}", dollars(spent.cost)),
    };
    // A provider that counts nothing was asked all the same.
    let counted = if *requests == 1 { "counted request" } else { "counted requests" };
    format!("{requests} {counted}, {input} tokens in ({cached} cached), {output} out{cost}")
}

/// Billionths of a dollar as dollars: cents as usual, and as much more as is needed to see something.
fn dollars(billionths: u64) -> String {
    let exact = format!("{}.{:09}", billionths / 1_000_000_000, billionths % 1_000_000_000);
    let (whole, rest) = exact.split_once('.').unwrap_or((&exact, ""));
    let significant = rest.bytes().position(|digit| digit != b'0').map_or(2, |first| first + 2);
    format!("{whole}.{}", &rest[..significant.clamp(2, rest.len())])
}

/// How full the model's context is, as far as that is known.
fn context_words(context: &CommandContext) -> Result<String> {
    let size = context.agent()?.talk.endpoint.facts.context;
    Ok(match (context.store.last_context(context.current)?, size) {
        (None, _) => "context     no request was counted yet".into(),
        (Some(tokens), Some(size)) if size > 0 => {
            format!("context     {tokens} of {size} tokens ({} %)", tokens.saturating_mul(100) / size)
        }
        (Some(tokens), _) => format!("context     {tokens} tokens"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sums_are_seen_and_large_ones_are_in_cents() {
        for (billionths, text) in
            [(0, "0.00"), (1_234_567_890, "1.23"), (1_000_000, "0.0010"), (12_000, "0.000012"), (1, "0.000000001")]
        {
            assert_eq!(dollars(billionths), text);
        }
    }

    #[test]
    fn a_cost_that_is_known_for_some_requests_says_for_how_many() {
        let spent = UsageTotal { requests: 3, cost: 20_000_000, priced: 2, ..UsageTotal::default() };
        assert!(words(&spent).ends_with(", $0.020 for 2 of them"), "{}", words(&spent));
        assert!(!words(&spent_on(1)).contains('$'));
    }

    #[test]
    fn only_what_was_counted_is_said_to_be() {
        assert!(words(&spent_on(1)).starts_with("1 counted request, "));
        assert!(words(&spent_on(2)).starts_with("2 counted requests, "));
    }

    fn spent_on(requests: u64) -> UsageTotal {
        UsageTotal { requests, ..UsageTotal::default() }
    }
}
