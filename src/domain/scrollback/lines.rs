//! Lines of text, packed: a line of one character costs about ten bytes, instead of the hundred of a `String`.
//!
//! ```text
//!   pages   │ text  aaaabbbbbbcc   │ text ... │ text ...  │ ◄─ lines are added and changed only at the end
//!           │ ends     4     10 12 │ ends ... │ ends ...  │
//!           │ runs     4-7 bold    │ runs ... │           │ ◄─ styles other than that of the kind, in order
//!             first                              a full page is never changed
//! ```

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use super::form::Form;
use super::{LineKind, Start};
use crate::domain::frame::Style;

/// A page with as many lines or bytes is full.
const PAGE_LINES: usize = 128;
const PAGE_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub text: &'a str,
    pub kind: LineKind,
    pub start: Start,
    /// How it is drawn; `None`: unchanged.
    pub form: Option<&'a Rc<Form>>,
    /// Where the line begins in the text of its page.
    begin: u32,
    /// The runs of the page that overlap with the line.
    runs: &'a [Run],
}

/// Bytes of a page in one style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    begin: u32,
    end: u32,
    style: Style,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where the line ends in the text of its page.
    end: u32,
    kind: LineKind,
    start: Start,
    /// The number of its form in the page, from 1; 0 if it has none.
    form: u8,
}

/// The end of a line that was cut off, with its styles.
pub struct Cut {
    pub text: String,
    runs: Vec<(Range<usize>, Style)>,
}

#[derive(Debug, Clone, Default)]
struct Page {
    /// The number of its first line.
    first: i64,
    text: String,
    entries: Vec<Entry>,
    runs: Vec<Run>,
    forms: Vec<Rc<Form>>,
}

/// Consecutively numbered lines.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    pages: VecDeque<Page>,
    /// The number of the first line. Negative once lines were prepended.
    first: i64,
    /// The page that was read last: a frame reads the same few pages many times.
    recent: Cell<usize>,
}

impl<'a> Line<'a> {
    /// The parts of the line that have a style of their own, as bytes of the line, in order.
    pub fn styles(&self) -> impl Iterator<Item = (Range<usize>, Style)> + use<'a> {
        let (begin, length) = (self.begin, self.text.len());
        self.runs.iter().map(move |run| {
            let end = (run.end.saturating_sub(begin) as usize).min(length);
            (run.begin.saturating_sub(begin) as usize..end, run.style)
        })
    }
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
        let Entry { end, kind, start, form } = *self.entries.get(index)?;
        let begin = offset(self.begin_of(index));
        let form = usize::from(form).checked_sub(1).map(|at| &self.forms[at]);
        let runs = self.runs_between(begin, end);
        Some(Line { text: &self.text[begin as usize..end as usize], kind, start, form, begin, runs })
    }

    fn runs_between(&self, begin: u32, end: u32) -> &[Run] {
        let first = self.runs.partition_point(|run| run.end <= begin);
        let count = self.runs[first..].partition_point(|run| run.begin < end);
        &self.runs[first..first + count]
    }

    /// Removes the text from this byte on, with its styles.
    fn cut(&mut self, at: usize) -> Cut {
        let text = self.text.split_off(at);
        let first = self.runs.partition_point(|run| run.end as usize <= at);
        let run = |run: &Run| ((run.begin as usize).max(at) - at..run.end as usize - at, run.style);
        let runs = self.runs[first..].iter().map(run).collect();
        self.runs.truncate(first + usize::from(self.runs.get(first).is_some_and(|run| (run.begin as usize) < at)));
        if let Some(last) = self.runs.last_mut() {
            last.end = last.end.min(offset(at));
        }
        Cut { text, runs }
    }

    fn push(&mut self, text: &str, style: Style) {
        let begin = offset(self.text.len());
        self.text.push_str(text);
        let end = offset(self.text.len());
        match self.runs.last_mut() {
            _ if style == Style::default() || text.is_empty() => {}
            Some(last) if last.end == begin && last.style == style => last.end = end,
            _ => self.runs.push(Run { begin, end, style }),
        }
    }

    /// Forgets the forms that no line has any more.
    fn prune_forms(&mut self) {
        let forms = std::mem::take(&mut self.forms);
        let mut numbers = vec![0; forms.len() + 1];
        for entry in self.entries.iter_mut().filter(|entry| entry.form > 0) {
            let number = usize::from(entry.form);
            if numbers[number] == 0 {
                self.forms.push(Rc::clone(&forms[number - 1]));
                numbers[number] = u8::try_from(self.forms.len()).expect("a page has at most PAGE_LINES forms");
            }
            entry.form = numbers[number];
        }
    }

    /// The number of this form in the page. Consecutive lines mostly have the same form.
    fn form_number(&mut self, form: Rc<Form>) -> u8 {
        let known = self.forms.iter().rposition(|known| *known == form);
        let at = known.unwrap_or_else(|| {
            self.forms.push(form);
            self.forms.len() - 1
        });
        u8::try_from(at + 1).expect("a page has at most PAGE_LINES forms")
    }

    /// The text has changed at its end.
    fn update_last(&mut self) {
        let end = offset(self.text.len());
        if let Some(last) = self.entries.last_mut() {
            last.end = end;
        }
    }

    /// The page from the line with this index on, which is removed from this one.
    fn split_off(&mut self, index: usize) -> Self {
        let begin = self.begin_of(index);
        let Cut { text, runs } = self.cut(begin);
        let run =
            |(range, style): (Range<usize>, Style)| Run { begin: offset(range.start), end: offset(range.end), style };
        let runs = runs.into_iter().map(run).collect();
        let mut entries = self.entries.split_off(index);
        entries.iter_mut().for_each(|entry| entry.end -= offset(begin));
        let mut rest = Self { first: self.first + index as i64, text, entries, runs, forms: self.forms.clone() };
        self.prune_forms();
        rest.prune_forms();
        rest
    }

    fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.runs.shrink_to_fit();
        self.forms.shrink_to_fit();
    }
}

/// A position in the text of a page.
fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a page has little more than PAGE_BYTES")
}

impl Lines {
    pub fn first(&self) -> i64 {
        self.first
    }

    /// The number of the line after the last one.
    pub fn end(&self) -> i64 {
        self.pages.back().map_or(self.first, Page::end)
    }

    #[cfg(test)]
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
            page.entries.push(Entry { end: 0, kind, start, form: 0 });
            page.update_last();
        }
    }

    /// Sets how the last line is drawn.
    pub fn set_form(&mut self, form: Rc<Form>) {
        let Some(page) = self.pages.back_mut() else { return };
        let number = page.form_number(form);
        if let Some(last) = page.entries.last_mut() {
            last.form = number;
        }
    }

    /// Changes the form of a line that has one.
    pub fn replace_form(&mut self, number: i64, form: Rc<Form>) {
        let Some(page) = self.page_of(number).and_then(|at| self.pages.get_mut(at)) else { return };
        let entry = usize::try_from(number - page.first).ok().and_then(|index| page.entries.get(index));
        if let Some(known) = entry.and_then(|entry| page.forms.get_mut(usize::from(entry.form).checked_sub(1)?)) {
            *known = form;
        }
    }

    /// Appends to the last line.
    pub fn push_str(&mut self, text: &str, style: Style) {
        if let Some(page) = self.pages.back_mut() {
            page.push(text, style);
            page.update_last();
        }
    }

    /// Appends to the last line what was cut off another one.
    pub fn push_cut(&mut self, cut: &Cut) {
        let mut at = 0;
        for (range, style) in &cut.runs {
            self.push_str(&cut.text[at..range.start], Style::default());
            self.push_str(&cut.text[range.clone()], *style);
            at = range.end;
        }
        self.push_str(&cut.text[at..], Style::default());
    }

    /// Cuts the last line to this many bytes and returns the rest.
    pub fn cut_last(&mut self, bytes: usize) -> Cut {
        let Some(page) = self.pages.back_mut() else { return Cut { text: String::new(), runs: Vec::new() } };
        let begin = page.begin_of(page.entries.len() - 1);
        let rest = page.cut(begin + bytes);
        page.update_last();
        rest
    }

    /// Removes this many lines at the end.
    pub fn drop_last(&mut self, lines: usize) {
        (0..lines).for_each(|_| self.pop());
    }

    /// Removes the last line.
    pub fn pop(&mut self) {
        self.cut_last(0);
        let Some(page) = self.pages.back_mut() else { return };
        let form = page.entries.pop().map_or(0, |last| last.form);
        // The form of a line that was just added is the last one, unless another line has it too.
        if form > 0
            && usize::from(form) == page.forms.len()
            && !page.entries.iter().rev().any(|other| other.form == form)
        {
            page.forms.pop();
        }
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
        let of = |page: &Page| {
            page.text.capacity()
                + page.entries.capacity() * size_of::<Entry>()
                + size_of::<Page>()
                + page.runs.capacity() * size_of::<Run>()
                + page.forms.capacity() * size_of::<Rc<Form>>()
        };
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
            lines.push_str(&text, Style::default());
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
        assert_eq!(lines.cut_last(1).text, "99");
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
