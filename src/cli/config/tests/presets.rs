//! Services and local servers that are used by name alone, and the built-in table of models.

use super::*;
use crate::domain::stream::Usage;
use crate::provider::credentials;

fn endpoint(scene: Scene, model: &str) -> Endpoint {
    scene.arguments(&["-m", model]).config().endpoint
}

#[test]
fn a_service_is_used_by_its_name_with_the_key_of_its_variable() {
    let groq = endpoint(Scene::new().set("GROQ_API_KEY", "k"), "groq/openai/gpt-oss-20b");
    assert_eq!((groq.kind.as_str(), groq.base_url.as_str()), ("openai", "https://api.groq.com/openai/v1"));
    assert_eq!((groq.key, groq.facts.context), (Some(Secret::new("k")), Some(131_072)));
    let error = Scene::new().arguments(&["-m", "groq/x"]).error();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::Auth, "--model: no key for groq: export GROQ_API_KEY=…")
    );
}

#[test]
fn a_service_that_requires_reasoning_gets_it_unless_the_file_says_otherwise() {
    let setting = |text: &str, model: &str| {
        let scene = Scene::new().user(text).set("DEEPSEEK_API_KEY", "k").set("GROQ_API_KEY", "k");
        endpoint(scene, model).send_reasoning
    };
    assert_eq!(setting("", "deepseek/deepseek-chat"), SendReasoning::ReasoningContent);
    assert_eq!(setting("[providers.deepseek]", "deepseek/deepseek-chat"), SendReasoning::ReasoningContent);
    assert_eq!(setting("[providers.deepseek]\nsend_reasoning = \"off\"", "deepseek/x"), SendReasoning::Off);
    assert_eq!(setting("", "groq/x"), SendReasoning::Auto);
}

#[test]
fn a_local_server_is_used_by_its_name_without_a_key() {
    let ollama = endpoint(Scene::new(), "ollama/qwen3:8b");
    assert_eq!((ollama.base_url.as_str(), ollama.key.as_ref()), ("http://localhost:11434/v1", None));
    assert!(credentials::require(&ollama, None).is_ok());
}

#[test]
fn a_preset_is_neither_listed_nor_the_default_unless_it_is_used_or_has_a_key() {
    let in_use = |scene: Scene| {
        let loaded = scene.load();
        loaded.providers_in_use().map(|known| known.entry.name.clone()).collect::<Vec<_>>()
    };
    assert!(in_use(Scene::new()).is_empty());
    assert_eq!(in_use(Scene::new().arguments(&["-m", "ollama/x"])), ["ollama"]);
    assert_eq!(in_use(Scene::new().set("XAI_API_KEY", "k")), ["xai"]);
    assert!(!Scene::new().arguments(&["-m", "other/x"]).error().message.contains("ollama"));
    let config = Scene::new().set("XAI_API_KEY", "k").config();
    assert_eq!(config.endpoint, Endpoint::none());
    assert!(config.hint.unwrap().ends_with("XAI_API_KEY is set, use -m xai/MODEL"));
    assert_eq!(config.sandbox.withheld.iter().filter(|name| *name == "XAI_API_KEY").count(), 1);
}

#[test]
fn a_model_alone_is_that_of_the_provider_that_has_it_or_of_the_only_one() {
    let key = |name: &str| Scene::new().set(name, "k");
    let name = |scene: Scene, model: &str| endpoint(scene, model).full_name();
    assert_eq!(name(key("OPENAI_API_KEY"), "gpt-4o"), "openai/gpt-4o");
    let moved = || key("OPENAI_API_KEY").set("OPENAI_BASE_URL", "http://localhost:9/v1");
    assert_eq!(name(moved(), "gpt-4o"), "openai/gpt-4o");
    assert_eq!(name(moved(), "gpt-none-yet"), "openai/gpt-none-yet");
    assert_eq!(name(key("GROQ_API_KEY"), "new-model"), "groq/new-model");
    let both = || moved().set("ANTHROPIC_API_KEY", "k");
    assert_eq!(name(both(), "gpt-4o"), "openai/gpt-4o");
    assert_eq!(name(both(), "claude-haiku-4-5"), "anthropic/claude-haiku-4-5");
    let error = |scene: Scene, model: &str| scene.arguments(&["-m", model]).error();
    assert!(error(both(), "new-model").message.contains("one of openai, openai-responses, anthropic, echo"));
    assert!(error(moved(), "opnai").message.ends_with("did you mean openai?"));
    for (model, variable) in [("claude-haiku-4-5", "ANTHROPIC_API_KEY"), ("grok-4.20", "XAI_API_KEY")] {
        let error = error(key("OPENAI_API_KEY"), model);
        assert_eq!(error.kind, ErrorKind::Auth);
        assert!(error.message.contains(&format!("export {variable}=…")), "{}", error.message);
    }
}

#[test]
fn gemini_is_a_name_of_google() {
    let google = || Scene::new().set("GEMINI_API_KEY", "k");
    assert_eq!(endpoint(google(), "gemini/gemini-2.5-pro").full_name(), "google/gemini-2.5-pro");
    assert_eq!(endpoint(google(), "gemini").provider, "google");
    let error = Scene::new().arguments(&["-m", "gemini/x"]).error();
    assert!(error.message.starts_with("--model: no key for google: export GE"), "{}", error.message);
}

#[test]
fn a_file_extends_a_preset() {
    let file = "[providers.groq]\nmodels = [{ name = \"m\", tools = false, images = true }]\n";
    let config = Scene::new().user(file).set("GROQ_API_KEY", "k").config();
    assert_eq!(
        (config.endpoint.base_url.as_str(), &config.endpoint.key),
        ("https://api.groq.com/openai/v1", &Some(Secret::new("k")))
    );
    assert_eq!((config.endpoint.facts.tools, config.endpoint.facts.images), (Some(false), Some(true)));
    let other = "[providers.groq]\nbase_url = \"http://localhost:9/v1\"\nmodels = [\"m\"]\n";
    assert_eq!(Scene::new().user(other).config().endpoint.base_url, "http://localhost:9/v1");
    let keyless = Scene::new().user(file).config().endpoint;
    let message = credentials::require(&keyless, None).unwrap_err().message;
    assert_eq!(message, "no key for groq: export GROQ_API_KEY=… and start again");
}

#[test]
fn tools_can_be_switched_off_and_an_environment_can_have_none() {
    let file = "[environments.plain]\ntools = []\n";
    let config = Scene::new().user(file).arguments(&["--no-tools"]).config();
    assert!(!config.settings.has_tools && config.notes.is_empty(), "{:?}", config.notes);
    assert!(config.environments[0].tools.is_empty());
    assert!(Scene::new().config().settings.has_tools);
    assert!(!Scene::new().project("[tools]\nenabled = false").config().settings.has_tools);
    let on = Scene::new().user("[tools]\nenabled = false").project("[tools]\nenabled = true").config();
    assert!(!on.settings.has_tools);
}

#[test]
fn a_configured_variable_that_is_not_set_is_named() {
    let file = "[providers.mine]\nbase_url = \"http://localhost:9/v1\"\napi_key_env = \"MINE\"\nmodels = [\"m\"]\n";
    let mine = Scene::new().user(file).config().endpoint;
    assert_eq!(credentials::hint(&mine, false), "no key was sent: export MINE=… and start again");
}

#[test]
fn facts_come_from_the_table_and_the_file_overrides_them() {
    let file = "[providers.anthropic]\nmodels = [{ name = \"claude-haiku-4-5\", context = 1000 }]\n";
    let haiku = Scene::new().user(file).set("ANTHROPIC_API_KEY", "k").config().endpoint;
    assert_eq!(
        (haiku.facts.context, haiku.facts.output_limit, haiku.facts.max_output),
        (Some(1000), Some(64_000), None)
    );
    // A dollar per million tokens of the request, five per million of the reply.
    let usage = Usage { input: 1_000_000, output: 100_000, ..Usage::default() };
    assert_eq!(haiku.facts.prices.unwrap().cost(&usage), 1_500_000_000);
    // A model of another server has the name by chance.
    let moved = Scene::new().set("ANTHROPIC_BASE_URL", "http://localhost:9").set("ANTHROPIC_API_KEY", "k");
    assert_eq!(endpoint(moved, "anthropic/claude-haiku-4-5").facts.prices, None);
}

#[test]
fn a_built_in_environment_is_replaced_by_the_user_and_not_by_a_project() {
    let config = Scene::new().user("[environments.coding]\nsystem = \"Be brief.\"\n").config();
    assert_eq!(config.environments[0].tools, ["coding"]);
    assert!(config.notes.is_empty(), "{:?}", config.notes);
    let config = Scene::new().user("[environments.coding]\ntools = []\n").config();
    assert!(config.environments[0].tools.is_empty() && config.notes.is_empty());
    let config = Scene::new().project("[environments.readonly]\ntools = [\"coding\"]\n").config();
    assert!(config.environments.is_empty());
    assert!(config.notes[0].contains("a project cannot replace a built-in environment"), "{:?}", config.notes);
}
