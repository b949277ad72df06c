//! What a request must be for the strictest servers of its protocol. Looked at for every request that reaches a scripted
//! peer, whatever the test is about.

mod anthropic;
pub mod google;
mod openai;
mod responses;

/// The first rule of the protocol `kind` that the body breaks.
pub fn check(kind: &str, body: &[u8]) -> Result<(), String> {
    match kind {
        "openai" => openai::check(body),
        "openai-responses" => responses::check(body),
        "anthropic" => anthropic::check(body),
        "google" => google::check(body),
        _ => Err(format!("no rules for {kind}")),
    }
}

/// The same for a request by its path; a path that belongs to no protocol has no rules.
pub fn check_path(path: &str, body: &[u8]) -> Result<(), String> {
    let path = path.split('?').next().unwrap_or(path);
    if path.contains("/models/gemini-3") {
        google::check_signatures(body)?;
    }
    let paths = [
        ("/chat/completions", "openai"),
        ("/responses", "openai-responses"),
        ("/messages", "anthropic"),
        (":streamGenerateContent", "google"),
    ];
    let kind = paths.iter().find(|(end, _)| path.ends_with(end)).map(|(_, kind)| *kind);
    kind.map_or(Ok(()), |kind| check(kind, body))
}
