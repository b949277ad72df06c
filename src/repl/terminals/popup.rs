//! A list between the input and the status line: completions that follow the typed text, the history of inputs, help.
//! The last two have a search line of their own.

use crate::base::fuzzy::Fuzzy;
use crate::base::text;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode, Modifiers};

/// Rows of completions.
const COMPLETION_ROWS: usize = 8;
/// Characters of a search; more are not taken from a paste.
const MAX_QUERY: usize = 200;
/// Columns of the texts of help; other lists are as wide as their widest text.
const MOST_TEXT_COLUMNS: usize = 40;

/// The items of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PopupKind {
    /// Whole lines for the draft.
    Commands,
    /// Completions of the `@` at this offset of the draft.
    Mentions(usize),
    History,
    Help,
}

/// An entry of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Item {
    /// The text on the screen, on one line.
    pub text: String,
    pub about: String,
    /// The heading above it.
    pub group: &'static str,
    /// The text for the draft.
    pub value: String,
    /// The row of the store with the whole text, of an item of the history.
    pub input: Option<i64>,
}

/// The effect of a key at an open list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PopupAct {
    /// The key was for the list.
    Done,
    Close,
    Accept(Item),
    /// The key is for the draft.
    Pass,
}

#[derive(Debug)]
pub(super) struct Popup {
    pub kind: PopupKind,
    query: String,
    items: Vec<Item>,
    /// The items that match the query, best first.
    matching: Vec<usize>,
    selected: usize,
    /// The list is still being searched for matches.
    pub is_incomplete: bool,
    /// Nobody has asked for the list or moved in it: Tab is for the draft, and Enter too unless this says that it takes the
    /// marked item.
    pub offered: Option<EnterTakes>,
}

/// Whether Enter takes the marked item of a list that opened automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EnterTakes(pub bool);

impl Popup {
    pub fn new(kind: PopupKind, items: Vec<Item>) -> Self {
        let matching = (0..items.len()).collect();
        Self { kind, query: String::new(), items, matching, selected: 0, is_incomplete: false, offered: None }
    }

    /// Replaces the items, which are all shown. The selection stays with an item that is still there.
    pub fn replace(&mut self, items: Vec<Item>) {
        let selected = self.selected_item().filter(|_| self.selected > 0);
        self.selected = selected.and_then(|selected| items.iter().position(|item| item == selected)).unwrap_or(0);
        self.matching = (0..items.len()).collect();
        self.items = items;
    }

    /// Whether this is the whole name of an item of the list, while the first one is selected.
    pub fn has_whole(&self, name: &str) -> bool {
        matches!(self.kind, PopupKind::Mentions(_))
            && self.selected == 0
            && self.items.iter().any(|item| item.text == name)
    }

    /// Whether all keys are for the list.
    pub fn is_modal(&self) -> bool {
        matches!(self.kind, PopupKind::History | PopupKind::Help)
    }

    fn selected_item(&self) -> Option<&Item> {
        self.matching.get(self.selected).map(|at| &self.items[*at])
    }

    pub fn on_key(&mut self, key: &Key) -> PopupAct {
        match key {
            Key::Press(code, modifiers) => self.on_press(*code, *modifiers),
            Key::Paste(text) if self.is_modal() => {
                let room = MAX_QUERY.saturating_sub(self.query.chars().count());
                self.query.extend(text.chars().filter(|c| !c.is_control()).take(room));
                self.search();
                PopupAct::Done
            }
            Key::Wheel(notches) if self.is_modal() => {
                self.select_by(isize::try_from(*notches).unwrap_or(0), false);
                PopupAct::Done
            }
            _ => PopupAct::Pass,
        }
    }

    fn on_press(&mut self, code: KeyCode, modifiers: Modifiers) -> PopupAct {
        let is_plain = !modifiers.ctrl && !modifiers.alt;
        match code {
            KeyCode::Escape => PopupAct::Close,
            KeyCode::Char('c' | 'g') if modifiers.ctrl => PopupAct::Close,
            KeyCode::Enter | KeyCode::Tab
                if self.offered.is_some_and(|takes| code == KeyCode::Tab || takes == EnterTakes(false)) =>
            {
                PopupAct::Pass
            }
            KeyCode::Enter | KeyCode::Tab if is_plain && !modifiers.shift => match self.selected_item() {
                Some(item) => PopupAct::Accept(item.clone()),
                // Text that matches nothing may still be sent.
                None if !self.is_modal() && code == KeyCode::Enter => PopupAct::Pass,
                None => PopupAct::Close,
            },
            KeyCode::Up => self.step(-1),
            KeyCode::Down => self.step(1),
            KeyCode::BackTab => self.step(-1),
            KeyCode::Char('p') if modifiers.ctrl => self.step(-1),
            KeyCode::Char('n' | 'r') if modifiers.ctrl && (code != KeyCode::Char('r') || self.is_modal()) => {
                self.step(1)
            }
            _ if !self.is_modal() => PopupAct::Pass,
            KeyCode::PageUp => self.leap(-10),
            KeyCode::PageDown => self.leap(10),
            KeyCode::Home => self.leap(isize::MIN),
            KeyCode::End => self.leap(isize::MAX),
            KeyCode::Backspace => self.edit(drop_last),
            KeyCode::Char('h') if modifiers.ctrl => self.edit(drop_last),
            KeyCode::Char('u') if modifiers.ctrl => self.edit(String::clear),
            KeyCode::Char(c) if is_plain => self.edit(|query| query.push(c)),
            _ => PopupAct::Done,
        }
    }

    fn step(&mut self, by: isize) -> PopupAct {
        self.offered = None;
        self.select_by(by, true);
        PopupAct::Done
    }

    fn leap(&mut self, by: isize) -> PopupAct {
        self.select_by(by, false);
        PopupAct::Done
    }

    fn edit(&mut self, edit: impl FnOnce(&mut String)) -> PopupAct {
        edit(&mut self.query);
        self.search();
        PopupAct::Done
    }

    /// Moves the selection; beyond an end it continues at the other if it cycles.
    fn select_by(&mut self, by: isize, cycles: bool) {
        let Ok(count @ 1..) = isize::try_from(self.matching.len()) else { return };
        let at = isize::try_from(self.selected).unwrap_or(0).saturating_add(by);
        let at = if cycles { at.rem_euclid(count) } else { at.clamp(0, count - 1) };
        self.selected = usize::try_from(at).unwrap_or(0);
    }

    /// Finds the items that match: those of the history in their order, those of help in their groups, if they
    /// contain the words as typed; otherwise those whose letters match, best first.
    fn search(&mut self) {
        self.selected = 0;
        let words: Vec<String> = self.query.split_whitespace().map(str::to_lowercase).collect();
        let has_words = |item: &Item| {
            let text = format!("{} {} {}", item.text, item.about, item.group).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.matching = (0..self.items.len()).filter(|at| has_words(&self.items[*at])).collect();
        if self.matching.is_empty() {
            let mut fuzzy = Fuzzy::words(&self.query);
            let scores = self.items.iter().enumerate().filter_map(|(at, item)| Some((fuzzy.score(&item.text)?, at)));
            let mut scores: Vec<(u32, usize)> = scores.collect();
            scores.sort_by_key(|(score, at)| (std::cmp::Reverse(*score), *at));
            self.matching = scores.into_iter().map(|(_, at)| at).collect();
        }
    }

    /// The rows on a screen of this width, in this many rows at most, and the column of the cursor in the first row of a
    /// search.
    pub fn rows(&self, columns: usize, room: usize) -> (Vec<Row>, Option<usize>) {
        let mut rows = Vec::new();
        let mut cursor = None;
        let prompt = match self.kind {
            PopupKind::History => Some("search history: "),
            PopupKind::Help => Some("search help: "),
            PopupKind::Commands | PopupKind::Mentions(_) => None,
        };
        let room = if prompt.is_some() { room } else { room.min(COMPLETION_ROWS) };
        if let Some(prompt) = prompt.filter(|_| room > 0) {
            let query = text::sanitise(&self.query).into_owned();
            cursor = Some(text::width(prompt) + text::width(&query));
            let mut row = Row::of(prompt, Style::color(Color::Attention));
            row.push(query, Style::BOLD);
            row.push(
                format!("  {} of {}, Enter takes one, Esc closes", self.matching.len(), self.items.len()),
                Style::DIM,
            );
            rows.push(row);
        }
        rows.extend(self.list_rows(columns, room - rows.len()));
        (rows, cursor)
    }

    /// The rows around the selected item, with headings.
    fn list_rows(&self, columns: usize, room: usize) -> Vec<Row> {
        let widths = self.matching.iter().map(|at| text::width(&self.items[*at].text));
        let left = widths.max().unwrap_or(0).min(MOST_TEXT_COLUMNS).min(columns / 2);
        let first = self.selected.saturating_sub(room);
        let mut group = first.checked_sub(1).map_or("", |before| self.items[self.matching[before]].group);
        let (mut rows, mut selected) = (Vec::new(), 0);
        for (place, at) in self.matching.iter().enumerate().skip(first).take(2 * room + 1) {
            let item = &self.items[*at];
            if item.group != group && self.query.is_empty() {
                group = item.group;
                rows.push(Row::of(group, Style::color(Color::Heading)));
            }
            selected = if place == self.selected { rows.len() } else { selected };
            rows.push(item_row(item, place == self.selected, left));
        }
        let hidden = (selected + 1).saturating_sub(room);
        let mut rows: Vec<Row> = rows.into_iter().skip(hidden).take(room).collect();
        if self.is_incomplete && self.matching.is_empty() && room > 0 {
            rows.push(Row::of("  …", Style::DIM));
        }
        rows
    }
}

fn drop_last(query: &mut String) {
    query.pop();
}

fn item_row(item: &Item, is_selected: bool, left: usize) -> Row {
    let (sign, style) = if is_selected { ("> ", Style::BOLD) } else { ("  ", Style::default()) };
    let shown = text::sanitise(&item.text).replace('\n', "␊");
    let mut row = Row::of(sign, Style::color(Color::User));
    if item.about.is_empty() {
        row.push(shown, style);
        return row;
    }
    let padding = left.saturating_sub(text::width(&shown));
    row.push(shown, style);
    row.push(format!("{}  {}", " ".repeat(padding), text::sanitise(&item.about)), Style::DIM);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popup(kind: PopupKind, texts: &[&str]) -> Popup {
        let item = |text: &&str| Item { text: (*text).to_owned(), value: (*text).to_owned(), ..Item::default() };
        Popup::new(kind, texts.iter().map(item).collect())
    }

    fn press(code: KeyCode) -> Key {
        Key::Press(code, Modifiers::default())
    }

    fn shown(popup: &Popup, room: usize) -> Vec<String> {
        popup.rows(40, room).0.iter().map(Row::text).collect()
    }

    #[test]
    fn the_selection_cycles_and_stays_on_the_screen() {
        let mut popup = popup(PopupKind::Commands, &["a", "b", "c", "d"]);
        assert_eq!(shown(&popup, 2), ["> a", "  b"]);
        popup.on_key(&press(KeyCode::Up));
        assert_eq!(shown(&popup, 2), ["  c", "> d"]);
        popup.on_key(&press(KeyCode::Down));
        popup.on_key(&press(KeyCode::Down));
        let PopupAct::Accept(item) = popup.on_key(&press(KeyCode::Tab)) else { panic!("Tab accepts") };
        assert_eq!(item.value, "b");
        assert_eq!(popup.on_key(&press(KeyCode::Char('x'))), PopupAct::Pass);
        assert_eq!(popup.on_key(&press(KeyCode::Escape)), PopupAct::Close);
    }

    #[test]
    fn a_search_finds_words_in_any_order_and_letters_otherwise() {
        let mut popup = popup(PopupKind::History, &["cargo test", "git push", "test the cargo"]);
        for c in "test ca".chars() {
            assert_eq!(popup.on_key(&press(KeyCode::Char(c))), PopupAct::Done);
        }
        assert_eq!(shown(&popup, 9)[1..], ["> cargo test", "  test the cargo"]);
        for _ in 0.."test ca".len() {
            popup.on_key(&press(KeyCode::Backspace));
        }
        for c in "gtph".chars() {
            popup.on_key(&press(KeyCode::Char(c)));
        }
        assert_eq!(shown(&popup, 9)[1..], ["> git push"]);
        popup.on_key(&press(KeyCode::Char('z')));
        assert_eq!(popup.on_key(&press(KeyCode::Enter)), PopupAct::Close);
    }

    #[test]
    fn headings_never_push_the_selected_row_out() {
        let texts: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        let groups = ["one", "two", "three"];
        let items = texts.iter().enumerate();
        let items = items.map(|(n, text)| Item { text: text.clone(), group: groups[n / 10], ..Item::default() });
        let mut popup = Popup::new(PopupKind::Help, items.collect());
        for n in 0..30 {
            for room in 2..12 {
                let rows = shown(&popup, room);
                assert!(rows.len() <= room && rows.contains(&format!("> {n}")), "{n} in {room}: {rows:?}");
            }
            popup.on_key(&press(KeyCode::Down));
        }
    }
}
