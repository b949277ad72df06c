//! Lines of text, packed: a line of one character costs about ten bytes, not the hundred of a `String` of its own.
//!
//! ```text
//!   pages   │ text  aaaabbbbbbcc   │ text ... │ text ...  │ ◄─ lines are added and changed only at the end
//!           │ ends     4     10 12 │ ends ... │ ends ...  │
//!             first                              a full page is never changed
//! ```

use std::cell::Cell;
use std::collections::VecDeque;

use super::{LineKind, Start};

/// A page with as many lines or bytes is full.
const PAGE_LINES: usize = 128;
const PAGE_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub text: &'a str,
    pub kind: LineKind,
    pub start: Start,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where the line ends in the text of its page.
    end: u32,
    kind: LineKind,
    start: Start,
}

#[derive(Debug, Clone, Default)]
struct Page {
    /// The number of its first line.
    first: i64,
    text: String,
    entries: Vec<Entry>,
}

/// Consecutively numbered lines.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    pages: VecDeque<Page>,
    /// The number of the first line. Negative once lines were prepended.
    first: i64,
    /// The page that was read last: a frame reads the same few many times.
    recent: Cell<usize>,
}

impl Page {
    fn end(&self) -> i64 {
        self.first + self.entries.len() as i64
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= PAGE_LINES || self.text.len() >= PAGE_BYTES
    }

    /// Where the line with this index begins in the text.
    fn begin_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.entries[before].end as usize)
    }

    fn line(&self, index: usize) -> Option<Line<'_>> {
        let Entry { end, kind, start } = *self.entries.get(index)?;
        Some(Line { text: &self.text[self.begin_of(index)..end as usize], kind, start })
    }

    /// The text has changed at its end.
    fn update_last(&mut self) {
        let end = u32::try_from(self.text.len()).expect("a page has little more than PAGE_BYTES");
        if let Some(last) = self.entries.last_mut() {
            last.end = end;
        }
    }

    /// The page from the line with this index on, which is removed from this one.
    fn split_off(&mut self, index: usize) -> Self {
        let begin = self.begin_of(index);
        let text = self.text.split_off(begin);
        let mut entries = self.entries.split_off(index);
        entries.iter_mut().for_each(|entry| entry.end -= u32::try_from(begin).unwrap_or(entry.end));
        Self { first: self.first + index as i64, text, entries }
    }

    fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
    }
}

impl Lines {
    pub fn first(&self) -> i64 {
        self.first
    }

    /// The number of the line after the last one.
    pub fn end(&self) -> i64 {
        self.pages.back().map_or(self.first, Page::end)
    }

    pub fn len(&self) -> usize {
        usize::try_from(self.end() - self.first).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub fn get(&self, number: i64) -> Option<Line<'_>> {
        let page = &self.pages[self.page_of(number)?];
        page.line(usize::try_from(number - page.first).ok()?)
    }

    pub fn last(&self) -> Option<Line<'_>> {
        self.get(self.end() - 1)
    }

    fn page_of(&self, number: i64) -> Option<usize> {
        let has_it = |at: &usize| self.pages.get(*at).is_some_and(|page| (page.first..page.end()).contains(&number));
        let find = || self.pages.partition_point(|page| page.first <= number).checked_sub(1).filter(has_it);
        let at = Some(self.recent.get()).filter(has_it).or_else(find)?;
        self.recent.set(at);
        Some(at)
    }

    /// Adds an empty line.
    pub fn push(&mut self, kind: LineKind, start: Start) {
        if self.pages.back().is_none_or(Page::is_full) {
            let first = self.end();
            if let Some(full) = self.pages.back_mut() {
                full.shrink();
            }
            self.pages.push_back(Page { first, ..Page::default() });
        }
        if let Some(page) = self.pages.back_mut() {
            page.entries.push(Entry { end: 0, kind, start });
            page.update_last();
        }
    }

    /// Appends to the last line.
    pub fn push_str(&mut self, text: &str) {
        if let Some(page) = self.pages.back_mut() {
            page.text.push_str(text);
            page.update_last();
        }
    }

    /// Cuts the last line to this many bytes and returns the rest.
    pub fn cut_last(&mut self, bytes: usize) -> String {
        let Some(page) = self.pages.back_mut() else { return String::new() };
        let begin = page.begin_of(page.entries.len() - 1);
        let rest = page.text.split_off(begin + bytes);
        page.update_last();
        rest
    }

    /// Removes the last line.
    pub fn pop(&mut self) {
        self.cut_last(0);
        let Some(page) = self.pages.back_mut() else { return };
        page.entries.pop();
        if page.entries.is_empty() {
            self.pages.pop_back();
        }
    }

    /// Releases the spare memory of the last page.
    pub fn shrink(&mut self) {
        if let Some(page) = self.pages.back_mut() {
            page.shrink();
        }
    }

    /// The lines from this number on, which are removed from these.
    pub fn split_off(&mut self, number: i64) -> Self {
        let Some(at) = self.page_of(number) else { return Self::default() };
        let mut pages = self.pages.split_off(at);
        if let Some(page) = pages.front_mut().filter(|page| page.first < number) {
            let index = usize::try_from(number - page.first).unwrap_or(0);
            let rest = page.split_off(index);
            self.pages.push_back(std::mem::replace(page, rest));
        }
        Self { pages, first: number, ..Self::default() }
    }

    /// Adds these lines at the end, where they get new numbers.
    pub fn append(&mut self, mut other: Self) {
        let shift = self.end() - other.first;
        other.pages.iter_mut().for_each(|page| page.first += shift);
        self.pages.append(&mut other.pages);
    }

    /// Adds these lines at the beginning; no other line changes its number.
    pub fn prepend(&mut self, other: Self) {
        let shift = self.first - other.end();
        self.first = other.first + shift;
        for mut page in other.pages.into_iter().rev() {
            page.first += shift;
            self.pages.push_front(page);
        }
    }

    /// The bytes that are reserved.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        let of = |page: &Page| page.text.capacity() + page.entries.capacity() * size_of::<Entry>() + size_of::<Page>();
        self.pages.iter().map(of).sum()
    }

    /// All lines in order, with their numbers.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, Line<'_>)> {
        (self.first..self.end()).filter_map(|number| Some((number, self.get(number)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: impl IntoIterator<Item = String>) -> Lines {
        let mut lines = Lines::default();
        for text in texts {
            lines.push(LineKind::Note, Start::Line);
            lines.push_str(&text);
        }
        lines
    }

    fn texts(lines: &Lines) -> Vec<&str> {
        lines.iter().map(|(_, line)| line.text).collect()
    }

    #[test]
    fn lines_keep_text_and_number_wherever_they_are_split_and_joined() {
        let all: Vec<String> = (0..400).map(|n| format!("line {n}")).collect();
        for at in [0, 1, 127, 128, 129, 399] {
            let mut front = lines(all.clone());
            let rest = front.split_off(at);
            assert_eq!((texts(&front).len(), rest.first(), rest.end()), (usize::try_from(at).unwrap(), at, 400));
            assert_eq!(rest.get(399).unwrap().text, "line 399");
            front.append(rest);
            assert_eq!(texts(&front), all);
            let mut back = lines(["last".to_owned()]);
            back.prepend(front);
            assert_eq!((back.first(), back.end(), back.len()), (-400, 1, 401));
            assert_eq!((back.get(0).unwrap().text, back.get(-400).unwrap().text), ("last", "line 0"));
            assert_eq!((back.get(-401), back.get(1)), (None, None));
        }
    }

    #[test]
    fn the_last_line_is_cut_and_removed_across_pages() {
        let mut lines = lines((0..300).map(|n| n.to_string()));
        assert_eq!(lines.cut_last(1), "99");
        assert_eq!(lines.last().unwrap().text, "2");
        for left in (0..300).rev() {
            lines.pop();
            assert_eq!(lines.len(), left);
        }
        assert!(lines.is_empty() && lines.last().is_none());
    }

    #[test]
    fn a_line_of_one_character_costs_about_ten_bytes() {
        let lines = lines((0..100_000).map(|_| "a".to_owned()));
        assert!(lines.capacity() < 1_100_000, "{}", lines.capacity());
    }
}
