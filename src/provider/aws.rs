//! Signs requests as Amazon's services want it (AWS Signature Version 4,
//! docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).

use crate::base::digest::{hmac, sha256};
use serde_json::Value;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::percent;
use crate::base::text::hex;
use crate::domain::endpoint::{Endpoint, Secret};
use crate::domain::http::HttpRequest;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// An access key: `ID:SECRET` or `ID:SECRET:SESSION_TOKEN`, or the JSON that `aws configure export-credentials` prints.
struct AccessKey {
    id: String,
    secret: String,
    token: Option<String>,
}

impl AccessKey {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(json) = serde_json::from_str::<Value>(text) {
            let field = |name: &str| json.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            let (id, secret) = (field("AccessKeyId")?, field("SecretAccessKey")?);
            return Some(Self { id, secret, token: field("SessionToken") });
        }
        let mut parts = text.splitn(3, ':').map(str::to_owned);
        let (id, secret) = (parts.next()?, parts.next()?);
        let key = Self { id, secret, token: parts.next().filter(|token| !token.is_empty()) };
        (!key.id.is_empty() && !key.secret.is_empty()).then_some(key)
    }
}

/// Adds the headers that sign a request to Bedrock at this time, in milliseconds since 1970.
///
/// # Errors
/// `Auth` if the key is no access key, `Usage` if the URL is invalid.
pub fn sign(request: &mut HttpRequest, endpoint: &Endpoint, key: Option<&Secret>, unix_ms: i64) -> Result<()> {
    let Some(region) = &endpoint.aws_region else { return Ok(()) };
    let key = key.and_then(|key| AccessKey::parse(key.reveal().trim())).ok_or_else(|| {
        let message = format!(
            "no access key for {}: export AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…, or set api_key_command = \
             \"aws configure export-credentials\"",
            endpoint.provider
        );
        Error::new(ErrorKind::Auth, message)
    })?;
    let time = jiff::Timestamp::from_millisecond(unix_ms)
        .map_err(|_| Error::usage("the clock is not set"))?
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string();
    let body = sha256(&request.body);
    let mut headers = vec![
        ("host".to_owned(), host_of(&request.url)?.to_owned()),
        ("x-amz-content-sha256".to_owned(), body.clone()),
        ("x-amz-date".to_owned(), time.clone()),
    ];
    headers.extend(key.token.clone().map(|token| ("x-amz-security-token".to_owned(), token)));
    let scope = Scope { time: &time, region, service: "bedrock" };
    let authorization = authorization("POST", &request.url, &headers, &body, &key, &scope)?;
    // libcurl sets the host.
    request.headers.extend(headers.into_iter().skip(1));
    request.headers.push(("Authorization".to_owned(), authorization));
    Ok(())
}

struct Scope<'a> {
    /// `YYYYMMDDTHHMMSSZ`.
    time: &'a str,
    region: &'a str,
    service: &'a str,
}

/// The value of the header; `body` is the digest of the body. The headers are in lower case, in the order of their names.
fn authorization(
    method: &str,
    url: &str,
    headers: &[(String, String)],
    body: &str,
    key: &AccessKey,
    scope: &Scope<'_>,
) -> Result<String> {
    let names = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let (path, query) = path_and_query(url)?;
    let request = format!("{method}\n{}\n{}\n{lines}\n{names}\n{body}", encode_path(path), sort_query(query));
    let date = scope.time.get(..8).unwrap_or_default();
    let place = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let text = format!("{ALGORITHM}\n{}\n{place}\n{}", scope.time, sha256(request.as_bytes()));
    let first = format!("AWS4{}", key.secret).into_bytes();
    let parts = [date, scope.region, scope.service, "aws4_request"];
    let signing_key = parts.iter().fold(first, |key, part| hmac(&key, part.as_bytes()).to_vec());
    let signature = hex(hmac(&signing_key, text.as_bytes()));
    Ok(format!("{ALGORITHM} Credential={}/{place}, SignedHeaders={names}, Signature={signature}", key.id))
}

fn rest_of(url: &str) -> Result<&str> {
    url.split_once("://").map(|(_, rest)| rest).ok_or_else(|| Error::usage("the base URL must begin with https://"))
}

fn host_of(url: &str) -> Result<&str> {
    let rest = rest_of(url)?;
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    Ok(authority.rsplit('@').next().unwrap_or(authority))
}

fn path_and_query(url: &str) -> Result<(&str, &str)> {
    let rest = rest_of(url)?;
    let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Ok((if path.is_empty() { "/" } else { path }, query))
}

/// The path for the signature: escaped characters are escaped again.
fn encode_path(path: &str) -> String {
    path.split('/').map(percent::encode).collect::<Vec<_>>().join("/")
}

fn sort_query(query: &str) -> String {
    let with_value = |part: &str| if part.contains('=') { part.to_owned() } else { format!("{part}=") };
    let mut parts: Vec<String> = query.split('&').filter(|part| !part.is_empty()).map(with_value).collect();
    parts.sort();
    parts.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test suite and the example of the documentation, all with one key and one time.
    #[test]
    fn signatures_are_those_of_the_published_test_vectors() {
        let key = AccessKey::parse("AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY").unwrap();
        let time = "20150830T123600Z";
        let host = |name: &str| vec![("host".to_owned(), name.to_owned()), ("x-amz-date".to_owned(), time.to_owned())];
        let mut form = host("iam.amazonaws.com");
        form.insert(0, ("content-type".into(), "application/x-www-form-urlencoded; charset=utf-8".into()));
        let cases = [
            (
                ("GET", "https://example.amazonaws.com/", host("example.amazonaws.com"), "service"),
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                ("POST", "https://example.amazonaws.com", host("example.amazonaws.com"), "service"),
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                (
                    "GET",
                    "https://example.amazonaws.com/?Param2=value2&Param1=value1",
                    host("example.amazonaws.com"),
                    "service",
                ),
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                ("GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", form, "iam"),
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
        ];
        for ((method, url, headers, service), expected) in cases {
            let scope = Scope { time, region: "us-east-1", service };
            let found = authorization(method, url, &headers, &sha256(b""), &key, &scope).unwrap();
            assert!(found.ends_with(&format!("Signature={expected}")), "{url}: {found}");
        }
    }

    #[test]
    fn a_key_is_read_in_every_form() {
        let read = |text: &str| AccessKey::parse(text).map(|key| (key.id, key.secret, key.token));
        let expected = |token: Option<&str>| Some(("ID".to_owned(), "S/+".to_owned(), token.map(str::to_owned)));
        assert_eq!(read("ID:S/+"), expected(None));
        assert_eq!(read("ID:S/+:T=="), expected(Some("T==")));
        assert_eq!(
            read(r#"{"Version":1,"AccessKeyId":"ID","SecretAccessKey":"S/+","SessionToken":"T"}"#),
            expected(Some("T"))
        );
        for wrong in ["", "ID", "ID:", ":S", "{}"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_escaped_path_is_escaped_again() {
        assert_eq!(encode_path("/model/a.b-v1%3A0/x"), "/model/a.b-v1%253A0/x");
    }
}
