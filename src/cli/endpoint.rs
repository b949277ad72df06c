//! Which models there are, and which one new agents talk to: from `--model` and the variables that the ecosystem knows.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Catalog, Endpoint, ProviderEntry, Secret};

const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
/// What is asked for where a key, but no model, is named.
const OPENAI_MODEL: &str = "openai/gpt-5-mini";
const SET_UP: &str = "No model is configured, so echo answers. For a real one: export OPENAI_API_KEY=… (or \
                      OPENAI_BASE_URL=http://localhost:8080/v1 for a local server) and start again with -m openai/MODEL";

/// What is configured, what is chosen, and what a person should be told about it.
#[derive(Debug)]
pub struct Chosen {
    pub catalog: Catalog,
    pub endpoint: Endpoint,
    pub hint: Option<String>,
}

/// Chooses by the name, or by what is configured.
pub fn choose(name: Option<&str>) -> Result<Chosen> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    choose_from(name, variable("OPENAI_API_KEY").as_deref(), variable("OPENAI_BASE_URL").as_deref())
}

fn choose_from(name: Option<&str>, key: Option<&str>, base_url: Option<&str>) -> Result<Chosen> {
    let is_configured = key.is_some() || base_url.is_some();
    let catalog = Catalog(is_configured.then(|| openai(key, base_url)).into_iter().collect());
    let hint = (name.is_none() && !is_configured).then(|| SET_UP.to_owned());
    let name = name.unwrap_or(if is_configured { OPENAI_MODEL } else { "echo" });
    let provider = name.split('/').next().unwrap_or(name);
    if !is_configured && !matches!(provider, "openai" | "echo") {
        let words = format!("there is no provider {provider:?}: there are openai/MODEL and echo");
        return Err(Error::new(ErrorKind::Usage, words));
    }
    if !is_configured && provider == "openai" {
        let words = "no key for openai: export OPENAI_API_KEY=…, or OPENAI_BASE_URL for a server that needs none";
        return Err(Error::new(ErrorKind::Auth, words));
    }
    Ok(Chosen { endpoint: catalog.find(name)?, catalog, hint })
}

fn openai(key: Option<&str>, base_url: Option<&str>) -> ProviderEntry {
    ProviderEntry {
        name: "openai".into(),
        kind: "openai".into(),
        base_url: base_url.unwrap_or(OPENAI_BASE_URL).trim_end_matches('/').into(),
        key: key.map(Secret::new),
        ..ProviderEntry::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_nothing_configured_echo_answers_and_says_how_to_set_up_a_real_model() {
        let chosen = choose_from(None, None, None).unwrap();
        assert_eq!(chosen.endpoint, Endpoint::echo());
        assert!(chosen.hint.unwrap().contains("OPENAI_API_KEY"));
    }

    #[test]
    fn a_local_server_needs_no_key_and_its_slash_does_not_matter() {
        let endpoint = choose_from(Some("openai/a/b"), None, Some("http://localhost:1/v1/")).unwrap().endpoint;
        assert_eq!((endpoint.model.as_str(), endpoint.base_url.as_str()), ("a/b", "http://localhost:1/v1"));
        assert_eq!(endpoint.key, None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_way_out() {
        let kind = |name| choose_from(Some(name), None, None).unwrap_err().kind;
        assert_eq!(kind("openai/x"), ErrorKind::Auth);
        assert_eq!(kind("nobody/x"), ErrorKind::Usage);
        assert_eq!(choose_from(Some("openai"), Some("k"), None).unwrap_err().kind, ErrorKind::Usage);
    }
}
