//! Applies a spec to a conversation.
//!
//! A reply, its calls and their results belong together. A range that begins or ends among them is extended to include
//! them all, so that no call is separated from its result.
//!
//! ```text
//!   user │ reply  call  call  result  result │ reply │ user        a cut is possible at each │
//! ```

use std::ops::Range;

use super::{ResolvedSegment, SliceSpec, SpecError, compact::compact, summary};
use crate::domain::message::{Body, Message};
use crate::domain::tool::ToolResult;

/// The conversation of a child, part by part.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    pub parts: Vec<CutPart>,
    /// The extended ranges, each before and after.
    pub widened: Vec<(Range<usize>, Range<usize>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CutPart {
    Messages(Vec<Body>),
    /// A summary that a model has to write.
    Summary {
        request: String,
        /// The line above the summary.
        heading: String,
    },
}

impl Cut {
    /// Takes the prompts for the summaries, in order.
    pub fn take_requests(&mut self) -> Vec<String> {
        let request = |part: &mut CutPart| match part {
            CutPart::Summary { request, .. } => Some(std::mem::take(request)),
            CutPart::Messages(_) => None,
        };
        self.parts.iter_mut().filter_map(request).collect()
    }

    /// The messages, given one summary for each part that needs one, in order.
    pub fn into_messages(self, summaries: Vec<String>) -> Vec<Body> {
        let mut summaries = summaries.into_iter();
        let mut rows = Vec::new();
        for part in self.parts {
            match part {
                CutPart::Messages(more) => rows.extend(more),
                CutPart::Summary { heading, .. } => {
                    let summary = summaries.next().expect("a summary for each part that needs one");
                    rows.push(Body::User(format!("{heading}\n\n{summary}")));
                }
            }
        }
        rows
    }
}

impl SliceSpec {
    /// Applies the spec to a conversation.
    pub fn cut(&self, rows: &[&Message]) -> Result<Cut, SpecError> {
        let pieces = self.resolve(rows.len()).map_err(|fault| SpecError::new(&self.source, fault))?;
        let mut cut = Cut { parts: Vec::new(), widened: Vec::new() };
        for piece in pieces {
            let part = match piece {
                ResolvedSegment::Take(range) => CutPart::Messages(cut.copy(rows, range, copy_body)),
                ResolvedSegment::Compact(range) => CutPart::Messages(cut.copy(rows, range, compacted)),
                ResolvedSegment::Inject(text) => CutPart::Messages(vec![Body::User(text.to_owned())]),
                ResolvedSegment::Summarize(range, goal) => {
                    let range = cut.widen(rows, range);
                    let request = summary::request(&rows[range.clone()], goal);
                    CutPart::Summary { request, heading: summary::heading(&range, goal) }
                }
            };
            cut.parts.push(part);
        }
        Ok(cut)
    }
}

impl Cut {
    fn copy(&mut self, rows: &[&Message], range: Range<usize>, copy: fn(&Body) -> Body) -> Vec<Body> {
        rows[self.widen(rows, range)].iter().map(|row| copy(&row.body)).collect()
    }

    fn widen(&mut self, rows: &[&Message], range: Range<usize>) -> Range<usize> {
        let wide = whole_groups(rows, &range);
        if wide != range {
            self.widened.push((range, wide.clone()));
        }
        wide
    }
}

/// The ids in a compaction are those of another log.
fn copy_body(body: &Body) -> Body {
    match body {
        Body::Compaction(compaction) => Body::User(compaction.text()),
        _ => body.clone(),
    }
}

fn compacted(body: &Body) -> Body {
    match body {
        Body::ToolResult(result) => match compact(&result.content) {
            Some(content) => Body::ToolResult(ToolResult { content, ..result.clone() }),
            None => body.clone(),
        },
        _ => copy_body(body),
    }
}

/// The smallest range around this one that separates no call from its reply or result. An empty range stays empty.
fn whole_groups(rows: &[&Message], range: &Range<usize>) -> Range<usize> {
    if range.is_empty() {
        return range.clone();
    }
    let start = (0..=range.start).rev().find(|at| can_cut_before(rows, *at)).unwrap_or(0);
    let end = (range.end..rows.len()).find(|at| can_cut_before(rows, *at)).unwrap_or(rows.len());
    start..end
}

/// Whether a part may begin with the message at this index.
pub(in crate::domain) fn can_cut_before(rows: &[&Message], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    match rows.get(at).map(|row| &row.body) {
        Some(Body::ToolResult(_)) => false,
        Some(Body::ToolCall(_)) => !matches!(rows[before].body, Body::Assistant(_) | Body::ToolCall(_)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::id::MessageId;
    use crate::domain::message::Reply;
    use crate::domain::tool::ToolCall;

    /// `u` a user message, `a` a reply, `c` a call, `r` a result.
    fn log(kinds: &str) -> Vec<Message> {
        let body = |at: usize, kind: char| match kind {
            'u' => Body::User(at.to_string()),
            'a' => Body::Assistant(Reply { text: at.to_string(), ..Reply::default() }),
            'c' => Body::ToolCall(ToolCall { id: "x".into(), name: "bash".into(), arguments: "{}".into() }),
            _ => Body::ToolResult(ToolResult {
                call_id: "x".into(),
                name: "bash".into(),
                content: "line\n".repeat(100),
                is_error: false,
                duration: Duration::ZERO,
            }),
        };
        let row = |(at, kind)| Message { id: MessageId(at as i64 + 1), body: body(at, kind), created_at: 0 };
        kinds.chars().enumerate().map(row).collect()
    }

    fn cut(kinds: &str, spec: &str) -> Cut {
        let log = log(kinds);
        let rows: Vec<&Message> = log.iter().collect();
        SliceSpec::parse(spec).unwrap().cut(&rows).unwrap()
    }

    fn kinds(cut: Cut) -> String {
        let rows = cut.into_messages(vec!["short".into(); 9]);
        let kind = |body: &Body| match body {
            Body::User(text) if text.starts_with('[') => 's',
            Body::User(_) => 'u',
            Body::Assistant(_) => 'a',
            Body::ToolCall(_) => 'c',
            _ => 'r',
        };
        rows.iter().map(kind).collect()
    }

    #[test]
    fn a_range_is_extended_to_whole_groups_of_reply_calls_and_results() {
        for (log, spec, expected) in [
            ("uaccrrau", "0:1", "u"),
            ("uaccrrau", "1:2", "accrr"),
            ("uaccrrau", "3:4", "accrr"),
            ("uaccrrau", "5:7", "accrra"),
            ("uaccrrau", "0:3", "uaccrr"),
            ("uaccrrau", "6:", "au"),
            ("uaccrrau", "4:4,7:", "u"),
            ("ucrcra", "2:3", "cr"),
            ("ucrcra", "3:4", "cr"),
            ("ucrcra", "2:4", "crcr"),
            ("ucr", "2:", "cr"),
            ("uaccrrau", "compact:2:3,:1", "accrru"),
            ("uaccrrau", "summarize:4:5,-1:", "su"),
            ("ua", "1:,:1,inject:'x'", "auu"),
        ] {
            assert_eq!(kinds(cut(log, spec)), expected, "{spec} of {log}");
        }
    }

    #[test]
    fn extended_ranges_are_reported_and_summaries_count_their_messages() {
        let cut = cut("uaccrrau", "summarize:4:5");
        assert_eq!(cut.widened, [(4..5, 1..6)]);
        assert_eq!(kinds_of_heading(&cut), "[Summary of 5 earlier messages]");
    }

    fn kinds_of_heading(cut: &Cut) -> &str {
        let [CutPart::Summary { heading, .. }] = cut.parts.as_slice() else { panic!("one summary") };
        heading
    }

    #[test]
    fn only_results_are_made_short() {
        let CutPart::Messages(rows) = &cut("ucr", "compact::").parts[0] else { panic!("rows") };
        let whole = log("ucr");
        assert_eq!((&rows[0], &rows[1]), (&whole[0].body, &whole[1].body));
        let Body::ToolResult(result) = &rows[2] else { panic!("a result") };
        assert!(result.content.contains("90 lines") && result.call_id == "x", "{result:?}");
    }

    #[test]
    fn the_prompt_for_a_summary_contains_the_range_and_the_goal_only() {
        let cut = cut("uaucr", "summarize:1:3:'it''s late'");
        let [CutPart::Summary { request, heading }] = cut.parts.as_slice() else { panic!("one summary") };
        assert!(request.contains("for this goal: it's late\n") && heading.contains(", for: it's late]"), "{request}");
        assert!(request.contains("[assistant]\n1\n\n[user]\n2\n\n=== END"), "{request}");
        assert!(!request.contains("[user]\n0"), "{request}");
    }
}
