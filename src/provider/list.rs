//! The list of a server's models: the request for it, and the parser of the answer.
//!
//! | server | where the models are | what it tells besides the name |
//! |---|---|---|
//! | OpenAI | `data[].id` | nothing |
//! | OpenRouter | `data[].id` | `context_length`, `pricing`, `supported_parameters`, `architecture`, `top_provider` |
//! | vLLM | `data[].id` | `max_model_len` |
//! | llama.cpp | `data[].id` | `meta.n_ctx`, else `/props`, else `meta.n_ctx_train` |
//! | Ollama | `data[].id` | nothing; `/api/show` the context and abilities of one model |
//! | Groq | `data[].id` | `context_window`, `max_completion_tokens` |
//! | Mistral | `data[].id` | `max_context_length`, `capabilities` |
//! | Anthropic | `data[].id` | `max_input_tokens`, `max_tokens` |
//! | Google | `models[].name` | `inputTokenLimit`, `outputTokenLimit` |
//! | Together | `[].id` | `context_length` |

use serde_json::{Value, json};

use super::{Conversation, ProviderRequest, error_object, find};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::MessageId;
use crate::domain::endpoint::{Endpoint, ModelFacts, Prices, Secret};
use crate::domain::message::{Body, Message};
use crate::domain::thinking::{Efforts, Thinking};

/// A request for a list, or for the details of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    pub url: String,
    /// The headers of a chat request, with the key.
    pub headers: Vec<(String, String)>,
    /// The JSON of a `POST`; a `GET` has none.
    pub body: Option<String>,
}

/// A model in the list of a server, with its facts.
pub type ListedModel = (String, ModelFacts);

/// More are not read.
const MAX_MODELS: usize = 10_000;

/// The request for the list of models, derived from a chat request to this endpoint.
pub fn request(endpoint: &Endpoint, key: Option<&Secret>) -> Result<ListRequest> {
    let message = Message { id: MessageId(1), body: Body::User("hello".into()), created_at: 0 };
    let conversation =
        Conversation { endpoint, key, thinking: Thinking::Unspecified, system: "", messages: &[&message], tools: &[] };
    let request = find(&endpoint.kind).map(|spec| (spec.build_request)(&conversation)).transpose()?;
    let Some(ProviderRequest::Http(request)) = request else {
        return Err(Error::usage(format!("{} has no list of models", endpoint.provider)));
    };
    let mut headers = request.headers;
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type") && !name.eq_ignore_ascii_case("accept"));
    Ok(ListRequest { url: url(&request.url), headers, body: None })
}

/// The request for facts about a model that the list lacks, if the server has one.
pub fn details_request(list: &ListRequest, body: &[u8], model: &str) -> Option<ListRequest> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let listed =
        answer.get("data")?.as_array()?.iter().find(|object| object.get("id").is_some_and(|id| id == model))?;
    let root = list.url.split_once("/v1/models").map(|(root, _)| root)?;
    let (path, body) = match listed.get("owned_by")?.as_str()? {
        "llamacpp" if listed.pointer("/meta/n_ctx").is_none() => ("/props", None),
        "library" => ("/api/show", Some(json!({ "model": model }).to_string())),
        _ => return None,
    };
    let mut headers = list.headers.clone();
    headers.extend(body.iter().map(|_| ("Content-Type".to_owned(), "application/json".to_owned())));
    Some(ListRequest { url: format!("{root}{path}"), headers, body })
}

/// The facts in the answer to [`details_request`].
pub fn read_details(status: u16, body: &[u8]) -> ModelFacts {
    let answer: Option<Value> = serde_json::from_slice(body).ok().filter(|_| status == 200);
    let Some(answer) = answer else { return ModelFacts::default() };
    // The context that the server was started with, or that the model file sets, takes precedence over that of the
    // training.
    let props = answer.pointer("/default_generation_settings/n_ctx").and_then(Value::as_u64);
    let set = answer
        .get("parameters")
        .and_then(Value::as_str)
        .and_then(|text| text.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok()));
    let trained = answer.get("model_info").and_then(Value::as_object).and_then(|info| {
        info.iter().find_map(|(key, value)| key.ends_with(".context_length").then(|| value.as_u64())?)
    });
    let abilities = answer.get("capabilities").and_then(Value::as_array);
    let has = |name: &str| abilities.map(|list| list.iter().any(|ability| ability == name));
    ModelFacts {
        context: props.or(set).or(trained).filter(|tokens| *tokens > 0),
        tools: has("tools"),
        images: has("vision"),
        ..ModelFacts::default()
    }
}

/// The URL of the list beside that of a conversation.
fn url(chat: &str) -> String {
    let (address, query) = chat.split_at(chat.find('?').unwrap_or(chat.len()));
    let parameters = query.trim_start_matches('?').split('&').filter(|part| !part.is_empty() && *part != "alt=sse");
    let mut parameters: Vec<&str> = parameters.collect();
    let list = if let Some((models, _)) = address.split_once(":streamGenerateContent") {
        parameters.push("pageSize=1000");
        models.rsplit_once('/').map_or(models, |(list, _)| list).to_owned()
    } else if let Some(base) = address.strip_suffix("/messages") {
        parameters.push("limit=1000");
        format!("{base}/models")
    } else {
        let base = ["/chat/completions", "/responses"].iter().find_map(|end| address.strip_suffix(end));
        let base = base.unwrap_or(address);
        // Azure lists the models beside the deployments.
        format!("{}/models", base.rsplit_once("/deployments/").map_or(base, |(base, _)| base))
    };
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{list}{mark}{}", parameters.join("&"))
}

/// The models in the answer.
pub fn read(status: u16, body: &[u8]) -> Result<Vec<ListedModel>> {
    if !(200..300).contains(&status) {
        return Err(error_object::of_response(status, &String::from_utf8_lossy(body)));
    }
    let list: Option<Value> = serde_json::from_slice(body).ok();
    let models = list.as_ref().and_then(|list| {
        let inner = ["data", "models"].iter().find_map(|key| list.get(key)?.as_array());
        inner.or_else(|| list.as_array())
    });
    let models =
        models.ok_or_else(|| Error::new(ErrorKind::Protocol, "the server's answer is not a list of models"))?;
    Ok(models.iter().take(MAX_MODELS).filter_map(model).collect())
}

/// The default model for a server. Some servers list models that are not for chats.
pub fn first_chat(models: &[ListedModel]) -> Option<&ListedModel> {
    models.iter().find(|(name, _)| !name.contains("embed") && !name.contains("rerank"))
}

fn model(object: &Value) -> Option<ListedModel> {
    let name = ["id", "name", "model"].iter().find_map(|key| object.get(key)?.as_str())?;
    let name = name.strip_prefix("models/").unwrap_or(name);
    let methods = object.get("supportedGenerationMethods").and_then(Value::as_array);
    let is_chat = methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"));
    let is_shown = !name.is_empty() && !name.chars().any(char::is_control);
    (is_chat && is_shown).then(|| (name.to_owned(), facts(object)))
}

fn facts(object: &Value) -> ModelFacts {
    let number =
        |paths: &[&str]| paths.iter().find_map(|path| object.pointer(path)?.as_u64()).filter(|number| *number > 0);
    let contains = |path: &str, word: &str| {
        let list = object.pointer(path)?.as_array()?;
        Some(list.iter().any(|item| item == word))
    };
    let is_true = |path: &str| object.pointer(path)?.as_bool();
    let modalities = "/architecture/input_modalities";
    ModelFacts {
        context: number(&[
            "/top_provider/context_length",
            "/context_length",
            "/max_model_len",
            "/context_window",
            "/max_context_length",
            "/meta/n_ctx",
            "/meta/n_ctx_train",
            "/inputTokenLimit",
            "/max_input_tokens",
        ]),
        output_limit: number(&[
            "/top_provider/max_completion_tokens",
            "/max_completion_tokens",
            "/outputTokenLimit",
            "/max_output_tokens",
            "/max_tokens",
        ]),
        prices: prices(object),
        tools: contains("/supported_parameters", "tools").or_else(|| is_true("/capabilities/function_calling")),
        images: contains(modalities, "image").or_else(|| is_true("/capabilities/vision")),
        documents: contains(modalities, "file"),
        max_output: None,
        efforts: efforts(object),
    }
}

/// The efforts of thinking: OpenRouter has a list, Anthropic an object for each.
fn efforts(object: &Value) -> Efforts {
    let list = ["/reasoning/supported_efforts", "/supported_reasoning_efforts", "/reasoning_efforts/valid_efforts"];
    if let Some(list) = list.iter().find_map(|path| object.pointer(path)?.as_array()) {
        return Efforts::of(list.iter().filter_map(Value::as_str));
    }
    let by_name = object.pointer("/capabilities/effort").and_then(Value::as_object);
    let is_supported = |value: &Value| value.get("supported").and_then(Value::as_bool) == Some(true);
    let named = by_name.into_iter().flatten().filter(|(_, value)| is_supported(value));
    Efforts::of(named.map(|(name, _)| name.as_str()))
}

/// OpenRouter's prices: dollars per token as text. A router without a price of its own has -1.
fn prices(object: &Value) -> Option<Prices> {
    let price = |name: &str| {
        let dollars: f64 = object.get("pricing")?.get(name)?.as_str()?.parse().ok()?;
        (0.0..1.0).contains(&dollars).then(|| (dollars * 1e12).round() as u64)
    };
    let (input, output) = (price("prompt")?, price("completion")?);
    let cached = price("input_cache_read").unwrap_or(input);
    let written = price("input_cache_write").unwrap_or(input);
    Some(Prices { input, cached, written, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_beside_the_conversations() {
        for (chat, list) in [
            ("https://host/v1/chat/completions", "https://host/v1/models"),
            ("https://host/v1/responses?a=b", "https://host/v1/models?a=b"),
            ("https://host/v1/messages", "https://host/v1/models?limit=1000"),
            (
                "https://host/v1beta/models/gemini:streamGenerateContent?alt=sse",
                "https://host/v1beta/models?pageSize=1000",
            ),
            (
                "https://me.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2024-10-21",
                "https://me.openai.azure.com/openai/models?api-version=2024-10-21",
            ),
            (
                "https://me.openai.azure.com/openai/v1/chat/completions?api-version=preview",
                "https://me.openai.azure.com/openai/v1/models?api-version=preview",
            ),
        ] {
            assert_eq!(url(chat), list);
        }
    }

    fn one(body: &str) -> ListedModel {
        let mut models = read(200, body.as_bytes()).unwrap();
        assert_eq!(models.len(), 1, "{models:?}");
        models.remove(0)
    }

    /// Recorded from llama-server 0.5.0-dev (llama.cpp in llama-cpp-python 0.3.36) with a random model.
    #[test]
    fn the_list_of_llama_server_tells_the_context_that_it_was_started_with() {
        let (name, facts) = one(include_str!("../../fixtures/models/llama-server.json"));
        assert_eq!((name.as_str(), facts.context), ("plain-random.gguf", Some(2048)));
    }

    /// Constructed from the documentation of each server.
    #[test]
    fn what_each_server_tells_of_a_model_is_read() {
        let (name, facts) = one(
            r#"{"data":[{"id":"qwen/qwen3","context_length":262144,"architecture":{"input_modalities":["text","image"]},
            "pricing":{"prompt":"0.0000003","completion":"0.0000012","input_cache_read":"0.00000003"},
            "top_provider":{"context_length":131072,"max_completion_tokens":32768},
            "supported_parameters":["tools","temperature"],"reasoning":{"supported_efforts":["low","ultra"]}}]}"#,
        );
        assert_eq!(facts.efforts.names().collect::<Vec<_>>(), ["low", "ultra"]);
        assert_eq!((name.as_str(), facts.context, facts.output_limit), ("qwen/qwen3", Some(131_072), Some(32_768)));
        let prices = Prices { input: 300_000, cached: 30_000, written: 300_000, output: 1_200_000 };
        assert_eq!(facts.prices, Some(prices));
        assert_eq!((facts.tools, facts.images, facts.documents), (Some(true), Some(true), Some(false)));
        for (body, name, context) in [
            (r#"{"object":"list","data":[{"id":"gpt-5","object":"model"}]}"#, "gpt-5", None),
            (r#"{"data":[{"id":"m","max_model_len":8192}]}"#, "m", Some(8192)),
            (
                r#"{"models":[{"name":"x"}],"data":[{"id":"tiny.gguf","meta":{"n_ctx_train":2048}}]}"#,
                "tiny.gguf",
                Some(2048),
            ),
            (r#"{"data":[{"id":"m","context_window":131072,"max_completion_tokens":100}]}"#, "m", Some(131_072)),
            (r#"{"data":[{"type":"model","id":"claude","max_input_tokens":200000}]}"#, "claude", Some(200_000)),
            (
                r#"{"models":[{"name":"models/gemini","inputTokenLimit":1000,"supportedGenerationMethods":["generateContent"]},
                {"name":"models/embed","supportedGenerationMethods":["embedContent"]}]}"#,
                "gemini",
                Some(1000),
            ),
            (r#"[{"id":"m","context_length":"no","pricing":{"prompt":"-1","completion":"-1"}}]"#, "m", None),
        ] {
            let (found, facts) = one(body);
            assert_eq!((found.as_str(), facts.context, facts.prices), (name, context, None), "{body}");
        }
    }

    #[test]
    fn the_context_of_a_local_server_is_asked_for_where_the_list_does_not_tell() {
        let headers = vec![("Authorization".to_owned(), "Bearer x".to_owned())];
        let list = ListRequest { url: "http://localhost:1/v1/models".into(), headers, body: None };
        let asked = |body: &str| details_request(&list, body.as_bytes(), "m");
        let old = asked(r#"{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx_train":8}}]}"#).unwrap();
        assert_eq!((old.url.as_str(), old.body), ("http://localhost:1/props", None));
        let ollama = asked(r#"{"data":[{"id":"other"},{"id":"m","owned_by":"library"}]}"#).unwrap();
        assert_eq!(ollama.url, "http://localhost:1/api/show");
        assert_eq!((ollama.body.as_deref(), ollama.headers.len()), (Some(r#"{"model":"m"}"#), 2));
        for body in [
            r#"{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":2048}}]}"#,
            r#"{"data":[{"id":"m","owned_by":"openai"}]}"#,
            r#"{"data":[{"id":"n","owned_by":"library"}]}"#,
            "[]",
        ] {
            assert_eq!(asked(body), None, "{body}");
        }
    }

    /// Constructed from the documentation of llama.cpp's server and of Ollama.
    #[test]
    fn the_details_of_a_model_are_read() {
        let context = |body: &str| read_details(200, body.as_bytes()).context;
        assert_eq!(context(r#"{"default_generation_settings":{"n_ctx":2048},"total_slots":1}"#), Some(2048));
        let show = r#"{"parameters":"stop \"<|eot|>\"\nnum_ctx 4096","model_info":{"llama.context_length":131072},
            "capabilities":["completion","tools"]}"#;
        let facts = read_details(200, show.as_bytes());
        assert_eq!((facts.context, facts.tools, facts.images), (Some(4096), Some(true), Some(false)));
        assert_eq!(context(r#"{"model_info":{"gemma3.context_length":8192}}"#), Some(8192));
        for body in ["", "[]", "{\"model_info\":3}", "\u{0}"] {
            assert_eq!(read_details(200, body.as_bytes()), ModelFacts::default());
        }
        assert_eq!(read_details(404, show.as_bytes()), ModelFacts::default());
    }

    #[test]
    fn what_is_not_a_list_is_an_error() {
        assert_eq!(read(401, b"{\"error\":\"who\"}").unwrap_err().kind, ErrorKind::Auth);
        for body in [&b"<html>"[..], b"{}", b"", b"{\"data\":3}", b"\xff"] {
            assert_eq!(read(200, body).unwrap_err().kind, ErrorKind::Protocol);
        }
        assert_eq!(read(200, b"{\"data\":[{},3,{\"id\":\"\"},{\"id\":\"a\\nb\"}]}").unwrap(), []);
    }
}
