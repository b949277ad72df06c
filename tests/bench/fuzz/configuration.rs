//! What a person, or a stranger's project, writes into a configuration.

use std::path::Path;

use super::Step;
use crate::chance::Chance;
use crate::support::internals::config::{Diagnostics, examine};

/// Where a key may have been put by mistake; no error repeats it.
const PLANTED: &str = "sk-planted-0123456789";

/// A file with a bit of everything.
const WHOLE: &str = r#"
model = "work/large"
thinking = "low"
working_limit = 4
follow_forks = false
[limits]
stall_timeout = 60.5
retries = 3
retry_jitter = 0.25
[providers.work]
kind = "openai"
base_url = "https://llm.example.com/v1"
api_key_env = "WORK_API_KEY"
headers = { X-Team = "blue" }
models = ["small", { name = "large", context = 200_000, input_price = 2.5, output_price = 10 }]
[environments.docs]
tools = ["read_file"]
directory = "~/docs"
system = """
Be brief."""
"#;

const TABLES: &[&str] = &["", "limits", "providers", "providers.a", "providers.\"\"", "environments.x", "[providers]"];
const KEYS: &[&str] = &[
    "model",
    "thinking",
    "data_dir",
    "trace",
    "working_limit",
    "retries",
    "retry_cap",
    "kind",
    "base_url",
    "api_key",
    "api_key_env",
    "api_key_command",
    "headers",
    "models",
    "tools",
    "directory",
    "system",
    "nonsense",
    "a.b.c",
];
const VALUES: &[&str] = &[
    "1",
    "-1",
    "1e308",
    "nan",
    "-inf",
    "0x7fffffffffffffff",
    "9999999999999999999999",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\"http://[::1\"",
    "\"https://a:b@c:99999\"",
    "[{}, 1, \"a\", \"a\", [[]]]",
    "{ name = 1, context = -1 }",
    "1979-05-27",
    "\"\\u0000\\u202e\"",
    "\"sk-planted-0123456789\"",
    "[\"sk-planted-0123456789\"]",
    "{ A = \"sk-planted-0123456789\\n\" }",
    "[{ name = \"sk-planted-0123456789\", context = \"x\" }]",
];

/// Good files with a few bytes changed, keys with any value, and anything at all: the same complaints every time, each
/// with its file, on one line, and without what might be a key.
pub fn config() -> Step {
    Box::new(|chance| {
        let bytes = match chance.below(4) {
            0 => chance.bytes(2_000),
            1 => chance.mutated(WHOLE.as_bytes()),
            _ => generated(chance).into_bytes(),
        };
        let is_project = chance.once_in(2);
        let complaints = complaints(&bytes, is_project);
        assert_eq!(complaints, self::complaints(&bytes, is_project));
        for complaint in &complaints {
            assert!(complaint.starts_with("here/config.toml:"), "{complaint}");
            assert!(!complaint.contains(char::is_control), "{complaint:?}");
            assert!(!complaint.contains(PLANTED), "{complaint:?}");
        }
    })
}

fn complaints(bytes: &[u8], is_project: bool) -> Vec<String> {
    let Diagnostics { warnings, errors, .. } = examine(Path::new("here/config.toml"), bytes.to_vec(), is_project);
    warnings.into_iter().chain(errors.into_iter().map(|error| error.message)).collect()
}

fn generated(chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..chance.below(5) {
        text += &format!("[{}]\n", chance.of(TABLES));
        for _ in 0..chance.below(4) {
            text += &format!("{} = {}\n", chance.of(KEYS), chance.of(VALUES));
        }
    }
    text.trim_start_matches("[]\n").to_owned()
}
