//! Which model new agents talk to: from `--model` and the variables that the ecosystem knows.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Endpoint, Secret};

const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
/// What is asked for where a key, but no model, is named.
const OPENAI_MODEL: &str = "gpt-5-mini";
const SET_UP: &str = "No model is configured, so echo answers. For a real one: export OPENAI_API_KEY=… (or \
                      OPENAI_BASE_URL=http://localhost:8080/v1 for a local server) and start again with -m openai/MODEL";

/// An endpoint, and what a person should be told about it.
pub struct Chosen {
    pub endpoint: Endpoint,
    pub hint: Option<String>,
}

/// Chooses by the name, or by what is configured.
pub fn choose(name: Option<&str>) -> Result<Chosen> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    choose_from(name, variable("OPENAI_API_KEY").as_deref(), variable("OPENAI_BASE_URL").as_deref())
}

fn choose_from(name: Option<&str>, key: Option<&str>, base_url: Option<&str>) -> Result<Chosen> {
    let model = match name.map(|name| name.split_once('/').unwrap_or((name, ""))) {
        Some(("echo", _)) => return Ok(Chosen { endpoint: Endpoint::echo(), hint: None }),
        Some(("openai", "")) => return Err(usage("say which model: -m openai/NAME")),
        Some(("openai", model)) => model,
        Some((provider, _)) => {
            return Err(usage(&format!("there is no provider {provider:?}: there are openai/MODEL and echo")));
        }
        None if key.is_none() && base_url.is_none() => {
            return Ok(Chosen { endpoint: Endpoint::echo(), hint: Some(SET_UP.into()) });
        }
        None => OPENAI_MODEL,
    };
    if key.is_none() && base_url.is_none() {
        let words = "no key for openai: export OPENAI_API_KEY=…, or OPENAI_BASE_URL for a server that needs none";
        return Err(Error::new(ErrorKind::Auth, words));
    }
    let endpoint = Endpoint {
        provider: "openai".into(),
        kind: "openai".into(),
        model: model.into(),
        base_url: base_url.unwrap_or(OPENAI_BASE_URL).trim_end_matches('/').into(),
        key: key.map(Secret::new),
        headers: Vec::new(),
    };
    Ok(Chosen { endpoint, hint: None })
}

fn usage(words: &str) -> Error {
    Error::new(ErrorKind::Usage, words)
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
        let kind = |name| choose_from(Some(name), None, None).err().map(|error| error.kind);
        assert_eq!(kind("openai/x"), Some(ErrorKind::Auth));
        assert_eq!(kind("openai"), Some(ErrorKind::Usage));
        assert_eq!(kind("nobody/x"), Some(ErrorKind::Usage));
    }
}
