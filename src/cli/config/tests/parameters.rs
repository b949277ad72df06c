//! Parameters of requests, models to fall back on, and time limits of providers.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::domain::parameters::{Parameter, ParameterName};

const FILE: &str = r#"
model = "work/large"
fallback = ["echo"]
[providers.work]
base_url = "http://localhost:9/v1"
models = ["small", { name = "large", parameters = { temperature = 0.5, thinking = "xhigh" }, fallback = ["work/small"] }]
stall_timeout = 30
[providers.work.parameters]
temperature = 1
seed = 7
body = { top_k = 40, nested = { a = [1, 2] } }
[providers.other]
base_url = "http://localhost:8/v1"
models = ["m"]
fallback = []
"#;

fn value(endpoint: &Endpoint, name: &str) -> Option<(serde_json::Value, String)> {
    let name: ParameterName = name.parse().unwrap();
    let found = endpoint.parameters.iter().find(|(other, _)| **other == name);
    found.map(|(_, set)| (set.value.clone(), set.source.rsplit('/').next().unwrap().to_owned()))
}

#[test]
fn a_model_overrides_its_provider_and_the_command_line_both() {
    let config = Scene::new().user(FILE).config();
    let large = &config.endpoint;
    let source = |line: u32, key: &str| format!("config.toml:{line}: {key}");
    let models = "providers.work.models[1].parameters";
    assert_eq!(value(large, "temperature"), Some((json!(0.5), source(6, &format!("{models}.temperature")))));
    assert_eq!(value(large, "seed"), Some((json!(7), source(10, "providers.work.parameters.seed"))));
    assert_eq!(value(large, "body.top_k").unwrap().0, json!(40));
    assert_eq!(value(large, "body.nested").unwrap().0, json!({"a": [1, 2]}));
    assert_eq!(large.parameters.thinking().unwrap().to_string(), "xhigh");
    let small = config.catalog.find("work/small").unwrap();
    assert_eq!(value(&small, "temperature").unwrap().0, json!(1));
    assert_eq!(small.parameters.get(Parameter::Thinking), None);
    assert_eq!(small.stall_timeout, Some(Duration::from_secs(30)));

    let run = ["--set", "temperature=0", "--set", "max_output=99", "--set", "stop=[\"a\",\"b\"]"];
    let config = Scene::new().user(FILE).arguments(&run).config();
    assert_eq!(value(&config.endpoint, "temperature"), Some((json!(0), "--set".into())));
    assert_eq!(config.endpoint.facts.max_output, Some(99));
    let other = config.catalog.find("other/m").unwrap();
    assert_eq!(value(&other, "stop").unwrap().0, json!(["a", "b"]));
}

#[test]
fn the_thinking_level_of_a_variable_overrides_that_of_a_provider_and_an_option_both() {
    let level = |scene: Scene| scene.user(FILE).config().endpoint.parameters.thinking().unwrap().to_string();
    assert_eq!(level(Scene::new().set("POLYLOGUE_THINKING", "low")), "low");
    let both = Scene::new().set("POLYLOGUE_THINKING", "low").arguments(&["--set", "reasoning_effort=minimal"]);
    assert_eq!(level(both), "minimal");
}

#[test]
fn a_bad_parameter_is_an_error_with_file_line_and_key() {
    let provider = "[providers.x]\nbase_url = \"http://h/v1\"\n";
    for (text, expected) in [
        (
            "[providers.x.parameters]\ntemperature = 3",
            "4: providers.x.parameters.temperature: expected a number from 0",
        ),
        ("[providers.x.parameters]\ntemprature = 1", "unknown parameter \"temprature\": did you mean temperature?"),
        ("[providers.x.parameters]\nseed = 1979-05-27", "seed: expected a value that JSON has"),
        ("[providers.x.parameters]\nbody = { messages = [] }", "4: providers.x.parameters.body.messages: "),
        ("parameters = 3", "providers.x.parameters: expected a table"),
        (
            "kind = \"anthropic\"\n[providers.x.parameters]\nseed = 1",
            "5: providers.x.parameters.seed: seed: the protocol",
        ),
        ("models = [{ name = \"m\", parameters = { thinking = 9 } }]", "not a number of tokens"),
        ("stall_timeout = 0", "3: providers.x.stall_timeout: expected a number of seconds"),
        ("fallback = \"a/b\"", "3: providers.x.fallback: expected a list of strings"),
        ("fallback = [\"nobody/x\"]", "fallback: \"nobody/x\": unknown provider"),
        ("fallback = [\"x\"]", "fallback: \"x\": expected PROVIDER/MODEL"),
    ] {
        let message = Scene::new().user(format!("{provider}{text}")).error().message;
        assert!(message.contains(expected), "{text}: {message}");
    }
    for (option, expected) in [
        ("temperature", "--set: \"temperature\": expected NAME=VALUE"),
        ("temperature=hot", "--set: invalid value \"hot\" for temperature"),
        ("tepm=1", "--set: unknown parameter \"tepm\""),
        ("seed=1", "--set: seed: the protocol echo of echo/echo does not have it"),
    ] {
        let message = Scene::new().arguments(&["-m", "echo", "--set", option]).error().message;
        assert!(message.contains(expected), "{option}: {message}");
    }
}

#[test]
fn the_models_to_fall_back_on_are_those_of_the_model_the_provider_or_all() {
    let config = Scene::new().user(FILE).config();
    let fallback = |name: &str| config.catalog.find(name).unwrap().fallback;
    assert_eq!(config.endpoint.fallback, ["work/small"]);
    assert_eq!(fallback("work/small"), ["echo"]);
    assert!(fallback("other/m").is_empty());
}

#[test]
fn a_project_cannot_choose_models_to_fall_back_on() {
    let project = "fallback = [\"theirs/m\"]\n[providers.theirs]\nbase_url = \"http://h/v1\"\nfallback = [\"echo\"]\n";
    let config = Scene::new()
        .user("[providers.mine]\nbase_url = \"http://localhost:9/v1\"\nmodels = [\"m\"]")
        .project(project)
        .config();
    assert!(config.catalog.0.iter().all(|entry| entry.fallback.is_empty()));
    assert_eq!(config.notes.iter().filter(|note| note.contains("a project cannot choose another model")).count(), 2);
}

#[test]
fn bedrock_gets_the_access_key_of_its_variables_and_the_region_of_its_url() {
    let file = |more: &str| format!("[providers.x]\nkind = \"anthropic\"\nauth = \"aws\"\nmodels = [\"m\"]\n{more}");
    let url = "base_url = \"https://bedrock-runtime.eu-west-1.amazonaws.com\"";
    let scene = |more: &str| {
        let scene = Scene::new().set("AWS_ACCESS_KEY_ID", "ID").set("AWS_SECRET_ACCESS_KEY", "S/+");
        scene.set("AWS_SESSION_TOKEN", "T").user(file(more))
    };
    let config = scene(url).config();
    assert_eq!(config.endpoint.aws_region.as_deref(), Some("eu-west-1"));
    assert_eq!(config.endpoint.key, Some(Secret::new("ID:S/+:T")));
    assert!(config.sandbox.withheld.iter().any(|name| name == "AWS_SECRET_ACCESS_KEY"));
    let other = "base_url = \"http://localhost:9\"";
    assert_eq!(
        scene(&format!("{other}\nregion = \"us-east-1\"")).config().endpoint.aws_region.as_deref(),
        Some("us-east-1")
    );
    assert!(scene(other).error().message.contains("auth: set region"));
    assert!(Scene::new().user(file(url).replace("anthropic", "google")).error().message.contains("aws is for kind"));
    assert!(
        Scene::new().user(file(url).replace("aws", "basic")).error().message.contains("expected \"bearer\" or \"aws\"")
    );
    let vertex = "[providers.v]\nkind = \"google\"\nbase_url = \"https://h/v1\"\nauth = \"bearer\"\nmodels = [\"m\"]\n";
    assert!(Scene::new().user(vertex).config().endpoint.is_bearer);
}
