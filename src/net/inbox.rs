//! libcurl's callbacks for one transfer: they append received bytes, read headers and hand out the request body. They
//! do nothing else, because a panic in a callback would stop the callbacks of every agent on the thread.

use std::io::SeekFrom;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use curl::easy::{Handler, ReadError, SeekResult, WriteError};

use crate::base::clock::leading_span;
use crate::domain::http::HttpHead;

/// Size of the buffer for received bytes. When it is full, the transfer is paused until the agent has read.
const FULL: usize = 256 * 1024;

/// The bytes of one transfer, in both directions.
pub struct Inbox {
    pub url: String,
    pub head: HttpHead,
    /// libcurl was asked to pause the transfer.
    pub is_paused: bool,
    /// Bytes sent and received, including headers.
    pub transferred: u64,
    received: Vec<u8>,
    /// Dropped when the response begins: a reply may stream for minutes, and nothing is sent again after that.
    body: Option<Rc<[u8]>>,
    sent: usize,
}

impl Inbox {
    pub fn new(url: &str, body: Rc<[u8]>) -> Self {
        let (head, received) = (HttpHead::default(), Vec::new());
        Self { url: url.to_owned(), head, is_paused: false, transferred: 0, received, body: Some(body), sent: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// The next bytes, at most `limit`.
    pub fn take(&mut self, limit: usize) -> Vec<u8> {
        if limit >= self.received.len() {
            return std::mem::take(&mut self.received);
        }
        self.received.drain(..limit).collect()
    }

    /// Whether a paused transfer has space again.
    pub fn can_resume(&self) -> bool {
        self.is_paused && self.received.len() < FULL / 2
    }
}

/// Seconds of a `Retry-After`: a number or an HTTP date (RFC 9110, section 10.2.3). A past date means 0.
fn wait_of(value: &str) -> Option<u32> {
    if let Some(seconds) = whole_seconds(value, 1.0) {
        return Some(seconds);
    }
    let wait = httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::now()).unwrap_or_default();
    Some(u32::try_from(wait.as_secs()).unwrap_or(u32::MAX))
}

/// When a limit of requests ends: `6m0s` (OpenAI, Groq), or a number of seconds or milliseconds, from now or since 1970
/// (OpenRouter, draft-ietf-httpapi-ratelimit-headers).
fn reset_of(value: &str) -> Option<Duration> {
    const YEAR: f64 = 365.0 * 86_400.0;
    let Some(number) = value.parse::<f64>().ok() else { return leading_span(value) };
    let seconds = if number > 1000.0 * YEAR { number / 1000.0 } else { number };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    Duration::try_from_secs_f64(if seconds > YEAR { seconds - now } else { seconds }).ok()
}

/// A number of units, `unit` of which make a second, rounded up to whole seconds. Some servers send fractions, which
/// the standard does not allow. Negative numbers are invalid; too large ones saturate.
fn whole_seconds(value: &str, unit: f64) -> Option<u32> {
    let number: f64 = value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates and is not negative")]
    Some((number / unit).ceil() as u32)
}

/// Reads a line of the head of a response.
pub(super) fn read_header(head: &mut HttpHead, line: &str) {
    if line.starts_with("HTTP/") {
        // A head follows that of 100 Continue and that of a proxy; the last one counts.
        let status = line.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok());
        *head = HttpHead { status: status.unwrap_or(0), ..HttpHead::default() };
        return;
    }
    let Some((name, value)) = line.split_once(':') else { return };
    let value = value.trim();
    match name.trim().to_ascii_lowercase().as_str() {
        "content-type" => head.content_type = value.to_ascii_lowercase(),
        "mcp-session-id" => head.mcp_session = Some(value.to_owned()),
        // Several mean the same as one with all their values (RFC 9110, 5.3).
        "www-authenticate" if !head.challenge.is_empty() => head.challenge.push_str(&format!(", {value}")),
        "www-authenticate" => value.clone_into(&mut head.challenge),
        "retry-after" => head.retry_after = head.retry_after.or(wait_of(value)),
        // More exact than the other header, which counts where this one is invalid.
        "x-ratelimit-remaining-requests" | "x-ratelimit-remaining" | "ratelimit-remaining" => {
            head.requests_left = value.parse().ok();
        }
        "x-ratelimit-limit-requests" | "x-ratelimit-limit" | "ratelimit-limit" => {
            head.requests_limit = value.parse().ok();
        }
        "x-ratelimit-reset-requests" | "x-ratelimit-reset" | "ratelimit-reset" => {
            head.reset_in = reset_of(value).or(head.reset_in);
        }
        "retry-after-ms" => head.retry_after = whole_seconds(value, 1000.0).or(head.retry_after),
        _ => {}
    }
}

impl Handler for Inbox {
    fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        if self.received.len() >= FULL {
            self.is_paused = true;
            return Err(WriteError::Pause);
        }
        self.received.extend_from_slice(data);
        self.body.take_if(|body| self.sent == body.len());
        self.transferred += data.len() as u64;
        Ok(data.len())
    }

    fn header(&mut self, data: &[u8]) -> bool {
        self.transferred += data.len() as u64;
        read_header(&mut self.head, &String::from_utf8_lossy(data));
        true
    }

    fn read(&mut self, data: &mut [u8]) -> Result<usize, ReadError> {
        let rest = self.body.as_deref().map_or(&[][..], |body| &body[self.sent..]);
        let count = rest.len().min(data.len());
        data[..count].copy_from_slice(&rest[..count]);
        self.sent += count;
        self.transferred += count as u64;
        Ok(count)
    }

    fn seek(&mut self, whence: SeekFrom) -> SeekResult {
        match whence {
            SeekFrom::Start(offset) if self.body.as_ref().is_some_and(|body| offset <= body.len() as u64) => {
                self.sent = usize::try_from(offset).unwrap_or(usize::MAX);
                SeekResult::Ok
            }
            _ => SeekResult::Fail,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn inbox() -> Inbox {
        Inbox::new("http://localhost", Rc::from(&b"body"[..]))
    }

    #[test]
    fn the_last_head_counts_and_header_names_are_case_insensitive() {
        let mut inbox = inbox();
        for line in ["HTTP/1.1 100 Continue", "HTTP/1.1 429 Too Many", "RETRY-AFTER: 7", "Content-Type: Text/Plain"] {
            assert!(inbox.header(line.as_bytes()));
        }
        let head =
            HttpHead { status: 429, content_type: "text/plain".into(), retry_after: Some(7), ..HttpHead::default() };
        assert_eq!(inbox.head, head);
    }

    #[test]
    fn a_date_is_a_wait_until_then() {
        for date in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(wait_of(date), Some(0), "{date}");
        }
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(wait_of(&soon).is_some_and(|seconds| (90..=100).contains(&seconds)), "{soon}");
        assert!(wait_of("Fri, 31 Dec 9999 23:59:59 GMT").is_some());
        for date in ["Sun, 06 Nov 1994 9999999999999999999:49:37 GMT", "Sun, 00 Jan 1970 00:00:00 GMT"] {
            assert_eq!(wait_of(date), None, "{date}");
        }
    }

    #[test]
    fn a_number_of_seconds_is_not_negative_and_saturates() {
        let waits = ["0", "7", "0.2", "99999999999", "-1", "-0.5", "NaN", "inf", "", "7 s", "soon"].map(wait_of);
        let some = [Some(0), Some(7), Some(1), Some(u32::MAX)];
        assert_eq!((&waits[..4], &waits[4..]), (&some[..], &[None; 7][..]));
    }

    #[test]
    fn a_valid_header_in_milliseconds_counts_before_the_other() {
        let read = |lines: [&str; 2]| {
            let mut inbox = inbox();
            lines.iter().for_each(|line| assert!(inbox.header(line.as_bytes())));
            inbox.head.retry_after
        };
        assert_eq!(read(["retry-after: 9", "retry-after-ms: 1500"]), Some(2));
        assert_eq!(read(["retry-after-ms: 1500", "retry-after: 9"]), Some(2));
        assert_eq!(read(["retry-after: 9", "retry-after-ms: nonsense"]), Some(9));
    }

    #[test]
    fn bytes_are_taken_in_order_and_a_full_inbox_pauses_the_transfer() {
        let mut inbox = inbox();
        assert!(matches!(inbox.write(&vec![b'a'; FULL]), Ok(FULL)));
        assert!(matches!(inbox.write(b"b"), Err(WriteError::Pause)));
        assert!(!inbox.can_resume());
        assert_eq!(inbox.take(FULL / 2 + 1).len(), FULL / 2 + 1);
        assert!(inbox.can_resume());
        inbox.is_paused = false;
        assert!(matches!(inbox.write(b"b"), Ok(1)));
        assert_eq!(inbox.take(usize::MAX).last(), Some(&b'b'));
        assert!(inbox.is_empty());
    }

    #[test]
    fn a_body_can_be_sent_again_from_any_offset() {
        let mut inbox = inbox();
        let mut data = [0; 3];
        assert!(matches!(inbox.read(&mut data), Ok(3)));
        assert!(matches!(inbox.seek(SeekFrom::Start(0)), SeekResult::Ok));
        assert!(matches!(inbox.read(&mut data), Ok(3)));
        assert_eq!(&data, b"bod");
        assert!(matches!(inbox.seek(SeekFrom::Start(5)), SeekResult::Fail));
    }

    #[test]
    fn a_body_is_dropped_when_its_response_begins_but_not_before_all_of_it_is_sent() {
        let body: Rc<[u8]> = Rc::from(&b"body"[..]);
        let mut inbox = Inbox::new("http://localhost", body.clone());
        let mut data = [0; 3];
        assert!(matches!(inbox.read(&mut data), Ok(3)));
        assert!(matches!(inbox.write(b"early"), Ok(5)));
        assert_eq!(Rc::strong_count(&body), 2);
        assert!(matches!(inbox.read(&mut data), Ok(1)));
        assert!(matches!(inbox.write(b"more"), Ok(4)));
        assert_eq!(Rc::strong_count(&body), 1);
        assert!(matches!(inbox.read(&mut data), Ok(0)));
        assert!(matches!(inbox.seek(SeekFrom::Start(0)), SeekResult::Fail));
    }
}
