//! The frame of a Chat Completions response: events of a stream until `[DONE]`, or a complete object. What is in them:
//! `reply`.

use crate::base::error::Result;
use crate::domain::stream::StreamEvent;
use crate::provider::error_object;
use crate::provider::openai::reply::Reply;
use crate::provider::openai::wire::Chunk;
use crate::provider::response::{IsComplete, ReplyParser, incomplete, is_done_marker};

impl ReplyParser for Reply {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(false);
        }
        if is_done_marker(self, data)? {
            return Ok(true);
        }
        match serde_json::from_str::<Chunk>(data) {
            Ok(chunk) if chunk.error.is_none() && chunk.object.0 != "error" && name != "error" => {
                self.take(chunk, out)?;
                Ok(false)
            }
            _ => Err(error_object::of_event(data)),
        }
    }

    fn body(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        match serde_json::from_str::<Chunk>(body) {
            Ok(chunk) if chunk.choices.as_ref().is_some_and(|choices| !choices.is_empty()) => self.take(chunk, out),
            Err(error) if error.is_eof() && body.starts_with('{') => Err(incomplete()),
            _ => Err(error_object::of_body(body)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::{Error, ErrorKind};
    use crate::domain::http::HttpHead;
    use crate::provider::Decoder;
    use crate::provider::response::ResponseDecoder;

    fn decode(head: HttpHead, pieces: &[&[u8]]) -> Vec<StreamEvent> {
        let (mut decoder, mut out) = (ResponseDecoder::<Reply>::default(), Vec::new());
        decoder.head(&head);
        for piece in pieces {
            decoder.feed(piece, &mut out);
        }
        decoder.end(&mut out);
        out
    }

    fn ok() -> HttpHead {
        HttpHead { status: 200, content_type: "text/event-stream".into(), ..HttpHead::default() }
    }

    fn only_error(events: &[StreamEvent]) -> &Error {
        match events {
            [StreamEvent::Error(error)] => error,
            other => panic!("not one error alone: {other:?}"),
        }
    }

    #[test]
    fn nothing_is_given_after_the_end_of_a_reply() {
        let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        let once = decode(ok(), &[stream]);
        assert_eq!(once.last(), Some(&StreamEvent::Done));
        assert_eq!(decode(ok(), &[stream, stream, b"data: {bad\n\n"]), once);
        assert_eq!(decode(ok(), &[&[stream.as_slice(), stream].concat()]), once);
    }

    #[test]
    fn a_big_error_page_is_still_the_error_of_its_status() {
        let page = vec![b'x'; 65 << 10];
        let head =
            HttpHead { status: 503, content_type: "text/html".into(), retry_after: Some(7), ..HttpHead::default() };
        let events = decode(head, &[&page, &page]);
        let error = only_error(&events);
        assert_eq!((error.kind, error.retry_after), (ErrorKind::Overloaded, Some(7)));
        assert!(error.message.len() < 700);
    }

    #[test]
    fn an_endless_answer_that_is_no_stream_is_a_protocol_error() {
        let piece = vec![b' '; 1 << 20];
        let (mut decoder, mut out) = (ResponseDecoder::<Reply>::default(), Vec::new());
        decoder.head(&ok());
        decoder.feed(b"{", &mut out);
        for _ in 0..33 {
            decoder.feed(&piece, &mut out);
        }
        assert_eq!(only_error(&out).kind, ErrorKind::Protocol);
    }

    #[test]
    fn a_line_without_end_is_a_protocol_error() {
        let piece = vec![b'x'; 1 << 22];
        let events = decode(ok(), &[b"data: ", &piece, &piece, &piece]);
        assert_eq!(only_error(&events).kind, ErrorKind::Protocol);
    }

    #[test]
    fn random_bytes_end_in_exactly_one_done_or_error() {
        let mut seed = 7_u64;
        let alphabet = b"data: {}[]\"\n\r:,choices0delta\\\xFF\xEF<";
        for _ in 0..2000 {
            let mut bytes = b"data: ".to_vec();
            for _ in 0..60 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bytes.push(alphabet[usize::try_from(seed >> 40).unwrap() % alphabet.len()]);
            }
            let events = decode(ok(), &[&bytes]);
            let ends = events.iter().filter(|e| matches!(e, StreamEvent::Done | StreamEvent::Error(_))).count();
            assert_eq!(ends, 1, "{:?}", String::from_utf8_lossy(&bytes));
            assert!(matches!(events.last(), Some(StreamEvent::Done | StreamEvent::Error(_))));
        }
    }
}
