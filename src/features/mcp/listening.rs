//! The stream on which a server of the older era says what belongs to no request (MCP 2025-11-25, "Listening for Messages
//! from the Server"): when it is opened, and when again.

use std::time::Duration;

use crate::base::clock::Moment;

/// The pause before a stream is resumed, and the longest one. For this stream it is doubled each time.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a stream is resumed that brings nothing; this one, if it ended soon. Then the next request opens it.
pub(super) const MOST_ATTEMPTS: u32 = 5;
/// A stream that lasted so long has not ended soon.
const STEADY: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Listening {
    /// The server has no such stream.
    is_refused: bool,
    /// It has refused the login with this number.
    refused_token: Option<u64>,
    /// The last event that was heard.
    last_id: Option<String>,
}

/// How the stream ended.
pub(super) struct End {
    /// 0 without a response.
    pub(super) status: u16,
    pub(super) is_stream: bool,
    /// After which event it was resumed, and the last one with an id now.
    pub(super) resumed_after: Option<String>,
    pub(super) last_id: Option<String>,
    /// The pause that the server wants.
    pub(super) retry: Option<Duration>,
    pub(super) lasted: Duration,
    pub(super) attempts: u32,
    /// The number of the token of the login.
    pub(super) token: u64,
}

/// When it is opened again, after which event, and how often it was before.
pub(super) type Again = (Moment, Option<String>, u32);

impl Listening {
    /// Whether it can be opened with this token.
    pub(super) fn may_open(&self, token: u64) -> bool {
        !self.is_refused && self.refused_token != Some(token)
    }

    pub(super) fn last_id(&self) -> Option<String> {
        self.last_id.clone()
    }

    pub(super) fn on_end(&mut self, end: End, now: Moment) -> Option<Again> {
        self.last_id.clone_from(&end.last_id);
        match end.status {
            200..=299 if end.is_stream => {}
            // No response, or none now; 409 is that an earlier one seems to be open still.
            0 | 408 | 409 | 429 | 500 | 502..=599 => {}
            // The event is not known any more.
            400 | 404 if end.resumed_after.is_some() => self.last_id = None,
            401 | 403 => {
                self.refused_token = Some(end.token);
                return None;
            }
            _ => {
                self.is_refused = true;
                return None;
            }
        }
        let attempts = if end.lasted >= STEADY { 0 } else { end.attempts + 1 };
        let pause = (PAUSE * (1 << attempts.min(MOST_ATTEMPTS))).max(end.retry.unwrap_or_default()).min(LONGEST_PAUSE);
        (attempts <= MOST_ATTEMPTS).then(|| (now + pause, self.last_id(), attempts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;

    #[test]
    fn what_a_server_answers_decides_whether_it_is_asked_again() {
        let now = Clock::manual().now();
        let end = |status: u16, is_stream: bool| End {
            status,
            is_stream,
            resumed_after: None,
            last_id: None,
            retry: None,
            lasted: Duration::ZERO,
            attempts: 0,
            token: 1,
        };
        for (status, is_stream, is_again, may_open) in [
            (200, true, true, true),
            (200, false, false, false),
            (0, false, true, true),
            (405, false, false, false),
            (404, false, false, false),
            (409, false, true, true),
            (503, false, true, true),
            (302, false, false, false),
        ] {
            let mut listening = Listening::default();
            assert_eq!(listening.on_end(end(status, is_stream), now).is_some(), is_again, "{status}");
            assert_eq!(listening.may_open(1), may_open, "{status}");
        }
        let mut listening = Listening::default();
        assert!(listening.on_end(end(401, false), now).is_none());
        assert_eq!((listening.may_open(1), listening.may_open(2)), (false, true));
        let resumed = End { resumed_after: Some("e".into()), last_id: Some("e".into()), ..end(404, false) };
        assert_eq!(Listening::default().on_end(resumed, now), Some((now + 2 * PAUSE, None, 1)));
        let last = End { attempts: 5, last_id: Some("e".into()), ..end(200, true) };
        assert_eq!((listening.on_end(last, now), listening.last_id()), (None, Some("e".into())));
        let long = End { attempts: 5, lasted: STEADY, retry: Some(5 * PAUSE), ..end(200, true) };
        assert_eq!(listening.on_end(long, now), Some((now + 5 * PAUSE, None, 0)));
    }
}
