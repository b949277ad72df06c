//! Where libcurl's callbacks put what arrives for one agent, and take what is sent. They append bytes and do nothing
//! else: a panic in a callback would silence the callbacks of every agent on the thread.

use std::io::SeekFrom;
use std::rc::Rc;

use curl::easy::{Handler, ReadError, SeekResult, WriteError};

use crate::domain::http::HttpHead;

/// More than this is not kept: libcurl is told to hold the transfer until the agent has read.
const FULL: usize = 256 * 1024;

/// One transfer's bytes, both ways.
pub struct Inbox {
    pub url: String,
    pub head: HttpHead,
    /// libcurl was told to wait.
    pub is_paused: bool,
    /// Bytes that came or were sent, headers included.
    pub moved: u64,
    received: Vec<u8>,
    /// Let go when the answer begins: a reply may stream for minutes, and nothing is sent again then.
    body: Option<Rc<[u8]>>,
    sent: usize,
}

impl Inbox {
    pub fn new(url: &str, body: Rc<[u8]>) -> Self {
        let (head, received) = (HttpHead::default(), Vec::new());
        Self { url: url.to_owned(), head, is_paused: false, moved: 0, received, body: Some(body), sent: 0 }
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

    /// A transfer that was held back has room again.
    pub fn wants_to_resume(&self) -> bool {
        self.is_paused && self.received.len() < FULL / 2
    }

    fn note_header(&mut self, line: &str) {
        if line.starts_with("HTTP/") {
            // A further head follows 100 Continue and a proxy's answer; the last one counts.
            let status = line.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok());
            self.head = HttpHead { status: status.unwrap_or(0), ..HttpHead::default() };
            return;
        }
        let Some((name, value)) = line.split_once(':') else { return };
        let value = value.trim();
        match name.trim().to_ascii_lowercase().as_str() {
            "content-type" => self.head.content_type = value.to_ascii_lowercase(),
            "retry-after" => self.head.retry_after = self.head.retry_after.or(seconds(value)),
            // More exact than the other; where it makes no sense, the other counts.
            "retry-after-ms" => self.head.retry_after = whole_seconds(value, 1000.0).or(self.head.retry_after),
            _ => {}
        }
    }
}

/// `Retry-After` is whole seconds or an HTTP date (RFC 9110, section 10.2.3). A date that has passed is no wait.
fn seconds(value: &str) -> Option<u32> {
    if let Some(seconds) = whole_seconds(value, 1.0) {
        return Some(seconds);
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(u32::try_from(http_date(value)?.saturating_sub(now)).unwrap_or(u32::MAX))
}

/// A number of which `unit` make a second, rounded up. Some servers send fractions, which the standard does not have;
/// what is below zero or too large to be a time makes no sense and is at most the largest number.
fn whole_seconds(value: &str, unit: f64) -> Option<u32> {
    let number: f64 = value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, and is not below zero")]
    Some((number / unit).ceil() as u32)
}

/// Seconds since 1970 of a date like `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
fn http_date(value: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = value.split_once(", ")?.1.split(' ');
    let day: u64 = parts.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = parts.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut time = parts.next()?.split(':').map(|part| part.parse::<u64>().ok().filter(|part| *part <= 60));
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    // Days from the civil date, with the year counted from March so that a leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some((days.checked_sub(719_468)? * 24 + hour) * 3600 + minute * 60 + second)
}

impl Handler for Inbox {
    fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        if self.received.len() >= FULL {
            self.is_paused = true;
            return Err(WriteError::Pause);
        }
        self.received.extend_from_slice(data);
        self.body.take_if(|body| self.sent == body.len());
        self.moved += data.len() as u64;
        Ok(data.len())
    }

    fn header(&mut self, data: &[u8]) -> bool {
        self.moved += data.len() as u64;
        self.note_header(&String::from_utf8_lossy(data));
        true
    }

    fn read(&mut self, data: &mut [u8]) -> Result<usize, ReadError> {
        let rest = self.body.as_deref().map_or(&[][..], |body| &body[self.sent..]);
        let count = rest.len().min(data.len());
        data[..count].copy_from_slice(&rest[..count]);
        self.sent += count;
        self.moved += count as u64;
        Ok(count)
    }

    fn seek(&mut self, whence: SeekFrom) -> SeekResult {
        match whence {
            SeekFrom::Start(at) if self.body.as_ref().is_some_and(|body| at <= body.len() as u64) => {
                self.sent = usize::try_from(at).unwrap_or(usize::MAX);
                SeekResult::Ok
            }
            _ => SeekResult::Fail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> Inbox {
        Inbox::new("http://localhost", Rc::from(&b"body"[..]))
    }

    #[test]
    fn the_last_head_counts_and_its_names_are_read_in_any_case() {
        let mut inbox = inbox();
        for line in ["HTTP/1.1 100 Continue", "HTTP/1.1 429 Too Many", "RETRY-AFTER: 7", "Content-Type: Text/Plain"] {
            assert!(inbox.header(line.as_bytes()));
        }
        let head = HttpHead { status: 429, content_type: "text/plain".into(), retry_after: Some(7) };
        assert_eq!(inbox.head, head);
    }

    #[test]
    fn a_date_is_seconds_since_1970() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(http_date("soon"), None);
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(http_date("Sun, 06 Nov 1994 9999999999999999999:49:37 GMT"), None);
        assert_eq!(http_date("Sun, 00 Jan 1970 00:00:00 GMT"), None);
        assert!(seconds("Fri, 31 Dec 9999 23:59:60 GMT").is_some());
    }

    #[test]
    fn a_wait_is_a_number_of_seconds_from_zero_on_and_never_wraps() {
        let waits = ["0", "7", "0.2", "99999999999", "-1", "-0.5", "NaN", "inf", "", "7 s", "soon"].map(seconds);
        let some = [Some(0), Some(7), Some(1), Some(u32::MAX)];
        assert_eq!((&waits[..4], &waits[4..]), (&some[..], &[None; 7][..]));
    }

    #[test]
    fn of_two_headers_the_one_in_milliseconds_counts_where_it_makes_sense() {
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
    fn bytes_are_taken_in_order_and_a_full_inbox_holds_the_transfer_back() {
        let mut inbox = inbox();
        assert!(matches!(inbox.write(&vec![b'a'; FULL]), Ok(FULL)));
        assert!(matches!(inbox.write(b"b"), Err(WriteError::Pause)));
        assert!(!inbox.wants_to_resume());
        assert_eq!(inbox.take(FULL / 2 + 1).len(), FULL / 2 + 1);
        assert!(inbox.wants_to_resume());
        inbox.is_paused = false;
        assert!(matches!(inbox.write(b"b"), Ok(1)));
        assert_eq!(inbox.take(usize::MAX).last(), Some(&b'b'));
        assert!(inbox.is_empty());
    }

    #[test]
    fn a_body_can_be_sent_again_from_any_place() {
        let mut inbox = inbox();
        let mut data = [0; 3];
        assert!(matches!(inbox.read(&mut data), Ok(3)));
        assert!(matches!(inbox.seek(SeekFrom::Start(0)), SeekResult::Ok));
        assert!(matches!(inbox.read(&mut data), Ok(3)));
        assert_eq!(&data, b"bod");
        assert!(matches!(inbox.seek(SeekFrom::Start(5)), SeekResult::Fail));
    }

    #[test]
    fn a_body_is_let_go_when_its_answer_begins_but_not_before_all_of_it_is_sent() {
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
