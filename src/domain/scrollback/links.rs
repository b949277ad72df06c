//! Targets of links. A target follows its link in the same line, so nothing else is stored.

use std::fmt::Write as _;
use std::ops::Range;
use std::rc::Rc;

use super::lines::Line;
use crate::domain::frame::{LinkPart, Style};

/// Longer targets are not links: that is the limit of VTE and iTerm2.
const TARGET_BYTES: usize = 2_083;
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// The parts of the line that are links, in order, and their targets.
pub fn of(line: &Line<'_>) -> Vec<(Range<usize>, Rc<str>)> {
    let parts: Vec<(Range<usize>, Style)> = line.styles().filter(|(_, style)| style.link != LinkPart::None).collect();
    let mut links = Vec::new();
    let mut rest = parts.as_slice();
    while let Some((range, style)) = rest.first() {
        let (mut end, mut count) = (range.start, 0);
        while let Some((part, style)) = rest.get(count).filter(|(part, _)| part.start == end)
            && style.link == LinkPart::Text
        {
            (end, count) = (part.end, count + 1);
        }
        let end = end.max(range.end);
        let is_target = |(target, style): &&(Range<usize>, Style)| {
            count == 0 || style.link == LinkPart::Target && &line.text[end..target.start] == " ("
        };
        let shown = rest.get(count).filter(is_target);
        let target = shown.map_or(range.start..end, |(target, _)| target.clone());
        if let Some(to) = uri(&line.text[target.clone()], style.link == LinkPart::Text && shown.is_none()) {
            let to: Rc<str> = to.into();
            links.push((range.start..end, Rc::clone(&to)));
            links.extend(shown.filter(|_| count > 0).map(|(target, _)| (target.clone(), to)));
        }
        rest = &rest[(count + usize::from(shown.is_some())).max(1)..];
    }
    links
}

/// The target as a URI of printable ASCII, if a terminal may open it.
fn uri(shown: &str, may_be_address: bool) -> Option<String> {
    let is_address = may_be_address && shown.contains('@') && !shown.contains("://");
    let scheme = if is_address && !shown.starts_with("mailto:") { "mailto:" } else { "" };
    let has_scheme = |known: &&str| shown.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
    if scheme.is_empty() && !SCHEMES.iter().any(has_scheme) {
        return None;
    }
    let mut uri = scheme.to_owned();
    for byte in shown.bytes() {
        match byte {
            b'!'..=b'~' => uri.push(char::from(byte)),
            _ => write!(uri, "%{byte:02X}").ok()?,
        }
    }
    (uri.len() <= TARGET_BYTES).then_some(uri)
}
