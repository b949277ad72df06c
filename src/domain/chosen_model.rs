//! The model of new agents, and its provider, in the text of a configuration file.
//!
//! They are inserted into the text, so that comments and everything else stay.

use std::ops::Range;

use serde_json::json;
use toml::de::DeTable;

/// What is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChosenModel {
    /// As `provider/model`.
    pub model: String,
    /// The name of the provider.
    pub provider: String,
    /// Keys of `[providers.NAME]` with their texts.
    pub settings: Vec<(&'static str, String)>,
}

/// Keys that cannot be used together.
const KEYS: [&str; 2] = ["api_key_env", "api_key_command"];

/// The text with this model, and with these settings of its provider.
///
/// # Errors
/// The text is not TOML, or its form allows no insertion; then the person has to edit it.
pub fn with_chosen_model(text: &str, chosen: &ChosenModel) -> Result<String, String> {
    let mut after = with_model(text, &chosen.model)?;
    for (key, value) in &chosen.settings {
        after = with_setting(&after, &chosen.provider, key, value)?;
    }
    // Whatever the text looked like, it must say this now.
    let root = parsed(&after)?;
    let says = |table: &DeTable<'_>, key: &str, value: &str| {
        table.get(key).and_then(|found| found.get_ref().as_str()) == Some(value)
    };
    let provider = table_of(&root, &chosen.provider);
    let is_right = says(&root, "model", &chosen.model)
        && chosen.settings.iter().all(|(key, value)| provider.is_some_and(|table| says(table, key, value)));
    if is_right { Ok(after) } else { Err(format!("set model = {} there", json!(chosen.model))) }
}

fn parsed(text: &str) -> Result<DeTable<'_>, String> {
    DeTable::parse(text).map(toml::Spanned::into_inner).map_err(|error| error.message().to_owned())
}

fn table_of<'t>(root: &'t DeTable<'_>, provider: &str) -> Option<&'t DeTable<'t>> {
    let all = root.get("providers")?.get_ref().as_table()?;
    all.get(provider)?.get_ref().as_table()
}

fn with_model(text: &str, model: &str) -> Result<String, String> {
    let root = parsed(text)?;
    Ok(match root.get("model") {
        Some(value) => splice(text, value.span(), &json!(model).to_string()),
        None => format!("model = {}\n{}{text}", json!(model), if text.starts_with('[') { "\n" } else { "" }),
    })
}

fn with_setting(text: &str, provider: &str, key: &str, value: &str) -> Result<String, String> {
    let root = parsed(text)?;
    let value = json!(value).to_string();
    let Some(table) = table_of(&root, provider) else {
        let gap = if text.ends_with("\n") { "\n" } else { "\n\n" };
        return Ok(format!("{text}{gap}[providers.{provider}]\n{key} = {value}\n"));
    };
    if let Some(found) = table.get(key) {
        return Ok(splice(text, found.span(), &value));
    }
    if let Some(other) = KEYS.iter().find(|other| KEYS.contains(&key) && table.contains_key(**other)) {
        return Err(format!("remove {other} of [providers.{provider}] there first"));
    }
    match table.iter().map(|(key, _)| key.span().start).min() {
        Some(first) => Ok(splice(text, first..first, &format!("{key} = {value}\n"))),
        None => Err(format!("add {key} = {value} to [providers.{provider}] there")),
    }
}

fn splice(text: &str, at: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..at.start], &text[at.end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(settings: &[(&'static str, &str)]) -> ChosenModel {
        let settings = settings.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        ChosenModel { model: "groq/m".into(), provider: "groq".into(), settings }
    }

    #[test]
    fn a_model_and_its_provider_are_put_beside_everything_else() {
        let key = [("api_key_env", "MINE")];
        assert_eq!(with_chosen_model("", &chosen(&[])).unwrap(), "model = \"groq/m\"\n");
        assert_eq!(
            with_chosen_model("# mine\n[rules]\nallow = []\n", &chosen(&key)).unwrap(),
            "model = \"groq/m\"\n# mine\n[rules]\nallow = []\n\n[providers.groq]\napi_key_env = \"MINE\"\n"
        );
        assert_eq!(
            with_chosen_model("model = 'x' # old\n[providers.groq]\nmodels = [\"m\"]", &chosen(&key)).unwrap(),
            "model = \"groq/m\" # old\n[providers.groq]\napi_key_env = \"MINE\"\nmodels = [\"m\"]"
        );
        let again = with_chosen_model("[providers.groq]\napi_key_env = \"OLD\"\n", &chosen(&key)).unwrap();
        assert!(again.contains("api_key_env = \"MINE\"") && !again.contains("OLD"), "{again}");
    }

    #[test]
    fn what_cannot_be_added_is_said() {
        let key = [("api_key_env", "MINE")];
        assert!(with_chosen_model("model = ", &chosen(&key)).is_err());
        let both = with_chosen_model("[providers.groq]\napi_key_command = \"x\"\n", &chosen(&key)).unwrap_err();
        assert!(both.contains("remove api_key_command"), "{both}");
        assert!(with_chosen_model("[providers.groq]\n", &chosen(&key)).unwrap_err().contains("add api_key_env"));
    }
}
