//! The built-in table of models: context, limits, prices and abilities of the models of well-known services.
//!
//! `fixtures/models/extract.py` makes it from litellm's data, whose version is in its first line.

use std::sync::OnceLock;

use crate::domain::endpoint::{ModelFacts, Prices};

const TABLE: &str = include_str!("models.tsv");

/// What the table says about a model of a service; empty if it does not list the model.
pub fn facts(service: &str, model: &str) -> ModelFacts {
    let name = format!("{service}/{model}");
    // Servers take names with a tag or a date that the table may not have.
    let plain = name.strip_suffix("-latest").or_else(|| without_date(&name));
    [Some(name.as_str()), plain].into_iter().flatten().find_map(row).map(read).unwrap_or_default()
}

/// The models of a service in the table.
pub fn of_service(service: &str) -> impl Iterator<Item = &'static str> {
    let names = TABLE.lines().filter_map(|line| line.split_once('\t')?.0.split_once('/'));
    names.filter(move |(known, _)| *known == service).map(|(_, model)| model)
}

/// The services that have a model of this name.
pub fn services_of(model: &str) -> Vec<&'static str> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let mut services: Vec<&str> = rows.filter_map(|line| Some(line.split_once('/')?.0)).collect();
    services.dedup();
    services.retain(|service| facts(service, model) != ModelFacts::default());
    services
}

/// The name before `-20250929` or `-2025-09-29`.
fn without_date(name: &str) -> Option<&str> {
    ["-########", "-####-##-##"].into_iter().find_map(|form| {
        let (plain, date) = name.split_at_checked(name.len().checked_sub(form.len())?)?;
        let fits = |(c, form): (u8, u8)| if form == b'#' { c.is_ascii_digit() } else { c == form };
        date.bytes().zip(form.bytes()).all(fits).then_some(plain)
    })
}

/// The columns after the name.
fn row(name: &str) -> Option<&'static str> {
    static ROWS: OnceLock<Vec<(&'static str, &'static str)>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| TABLE.lines().filter_map(|line| line.split_once('\t')).collect());
    let at = rows.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(rows[at].1)
}

fn read(row: &str) -> ModelFacts {
    let mut columns = row.split('\t');
    let mut number = || columns.next().and_then(|column| column.parse::<u64>().ok());
    let (context, output_limit) = (number(), number());
    let [input, cached, written, output] = std::array::from_fn(|_| number());
    let prices = input.zip(output).map(|(input, output)| Prices {
        input,
        // Tokens of the cache have the input price by default.
        cached: cached.unwrap_or(input),
        written: written.unwrap_or(input),
        output,
    });
    let abilities = columns.next().unwrap_or_default();
    let has = |letter: char| abilities.contains(letter).then_some(true);
    ModelFacts {
        context,
        output_limit,
        prices,
        tools: has('t'),
        images: has('i'),
        documents: has('p'),
        ..ModelFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_row_can_be_read() {
        let names: Vec<&str> = TABLE.lines().filter_map(|line| Some(line.split_once('\t')?.0)).collect();
        let rows = &names[names.iter().take_while(|name| name.starts_with('#')).count()..];
        assert!(rows.len() > 300, "{}", rows.len());
        assert!(names.is_sorted());
        for name in rows {
            let (service, model) = name.split_once('/').unwrap();
            let facts = facts(service, model);
            assert!(facts != ModelFacts::default(), "{name}");
            assert_eq!(TABLE.lines().filter(|line| line.starts_with(&format!("{name}\t"))).count(), 1, "{name}");
        }
    }

    #[test]
    fn a_model_has_its_context_limit_prices_and_abilities() {
        let model = facts("anthropic", "claude-haiku-4-5");
        assert_eq!((model.context, model.output_limit, model.max_output), (Some(200_000), Some(64_000), None));
        let prices = Prices { input: 1_000_000, cached: 100_000, written: 1_250_000, output: 5_000_000 };
        assert_eq!(model.prices, Some(prices));
        assert_eq!((model.tools, model.images, model.documents), (Some(true), Some(true), Some(true)));
        assert_eq!(facts("groq", "claude-haiku-4-5"), ModelFacts::default());
    }

    #[test]
    fn a_date_or_a_tag_that_the_table_does_not_have_is_ignored() {
        let plain = facts("openai", "gpt-5-mini");
        assert!(plain.context.is_some());
        assert_eq!(facts("openai", "gpt-5-mini-2031-01-02"), plain);
        assert_eq!(facts("anthropic", "claude-haiku-4-5-20310102"), facts("anthropic", "claude-haiku-4-5"));
        assert_eq!(facts("openai", "gpt-5-mini-latest"), plain);
        assert_eq!(facts("openai", "gpt-5-minimal"), ModelFacts::default());
        assert_eq!(facts("openai", "gpt-5-mini-2"), ModelFacts::default());
    }
}
