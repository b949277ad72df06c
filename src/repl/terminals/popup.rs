//! A list between the input and the status line: completions that follow the typed text, the history of inputs, help.
//! The last two have a search line of their own.

use crate::base::fuzzy::Fuzzy;
use crate::base::text;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode, Modifiers};
use crate::repl::terminals::list::{List, choice_row};
use crate::repl::terminals::query::QueryLine;

/// Rows of completions.
const COMPLETION_ROWS: usize = 8;
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
    query: QueryLine,
    items: List<Item>,
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
        let mut popup =
            Self { kind, query: QueryLine::default(), items: List::default(), is_incomplete: false, offered: None };
        popup.replace(items);
        popup
    }

    /// Replaces the items, which are all shown. The selection stays with an item that is still there, if it was moved.
    pub fn replace(&mut self, items: Vec<Item>) {
        self.items.offer(items, PartialEq::eq);
    }

    /// Whether this is the whole name of an item of the list, while the first one is selected.
    pub fn has_whole(&self, name: &str) -> bool {
        matches!(self.kind, PopupKind::Mentions(_))
            && self.items.at() == 0
            && self.items.iter().any(|item| item.text == name)
    }

    /// Whether all keys are for the list.
    pub fn is_modal(&self) -> bool {
        matches!(self.kind, PopupKind::History | PopupKind::Help)
    }

    pub fn on_key(&mut self, key: &Key) -> PopupAct {
        if let Key::Press(code, modifiers) = key
            && let Some(act) = self.on_press(*code, *modifiers)
        {
            return act;
        }
        if !self.is_modal() {
            return PopupAct::Pass;
        }
        match (self.query.on_key(key), key) {
            (Some(true), _) => self.search(),
            (Some(false), _) => {}
            (None, Key::Press(code, _)) => self.items.on_key(*code),
            (None, Key::Wheel(notches)) => self.items.step(isize::try_from(*notches).unwrap_or(0)),
            (None, _) => return PopupAct::Pass,
        }
        PopupAct::Done
    }

    /// What a key does that is not for the query.
    fn on_press(&mut self, code: KeyCode, modifiers: Modifiers) -> Option<PopupAct> {
        let is_plain = !modifiers.ctrl && !modifiers.alt;
        let passes = |takes: EnterTakes| code == KeyCode::Tab || takes == EnterTakes(false);
        let is_down = match code {
            KeyCode::Escape => return Some(PopupAct::Close),
            KeyCode::Char('c' | 'g') if modifiers.ctrl => return Some(PopupAct::Close),
            KeyCode::Enter | KeyCode::Tab if self.offered.is_some_and(passes) => return Some(PopupAct::Pass),
            KeyCode::Enter | KeyCode::Tab if is_plain && !modifiers.shift => {
                return Some(match self.items.marked() {
                    Some(item) => PopupAct::Accept(item.clone()),
                    // Text that matches nothing may still be sent.
                    None if !self.is_modal() && code == KeyCode::Enter => PopupAct::Pass,
                    None => PopupAct::Close,
                });
            }
            KeyCode::Up | KeyCode::BackTab => false,
            KeyCode::Down => true,
            KeyCode::Char('p') if modifiers.ctrl => false,
            KeyCode::Char('n') if modifiers.ctrl => true,
            KeyCode::Char('r') if modifiers.ctrl && self.is_modal() => true,
            _ => return None,
        };
        self.offered = None;
        self.items.cycle(is_down);
        Some(PopupAct::Done)
    }

    /// Finds the items that match: those of the history in their order, those of help in their groups, if they
    /// contain the words as typed; otherwise those whose letters match, best first.
    fn search(&mut self) {
        let words: Vec<String> = self.query.text().split_whitespace().map(str::to_lowercase).collect();
        self.items.filter(|item| {
            let text = format!("{} {} {}", item.text, item.about, item.group).to_lowercase();
            words.iter().all(|word| text.contains(word)).then_some(0)
        });
        if self.items.is_empty() {
            let mut fuzzy = Fuzzy::words(self.query.text());
            self.items.filter(|item| fuzzy.score(&item.text));
        }
        self.items.mark(0);
    }

    /// The rows on a screen of this width, in this many rows at most, and the column of the cursor in the first row of a
    /// search.
    pub fn rows(&self, columns: usize, room: usize) -> (Vec<Row>, Option<u16>) {
        let prompt = match self.kind {
            PopupKind::History => "search history: ",
            PopupKind::Help => "search help: ",
            PopupKind::Commands | PopupKind::Mentions(_) => {
                return (self.list_rows(columns, room.min(COMPLETION_ROWS)), None);
            }
        };
        let (mut row, cursor) = self.query.row(prompt, Color::Attention);
        let (found, all) = (self.items.len(), self.items.all().len());
        row.push(format!("  {found} of {all}, Enter takes one, Esc closes"), Style::DIM);
        let rows = [row].into_iter().chain(self.list_rows(columns, room.saturating_sub(1)));
        (rows.take(room).collect(), (room > 0).then_some(cursor))
    }

    /// The rows around the selected item, with headings.
    fn list_rows(&self, columns: usize, room: usize) -> Vec<Row> {
        let widths = self.items.iter().map(|item| text::width(&item.text));
        let left = widths.max().unwrap_or(0).min(MOST_TEXT_COLUMNS).min(columns / 3);
        let group = |item: &Item| if self.query.text().is_empty() { item.group } else { "" };
        let heading = |item: &Item| Row::of(group(item), Style::color(Color::Heading));
        let mut rows = self
            .items
            .rows(room, heading, |item, is_selected| choice_row((&item.text, &item.about), is_selected, left));
        if self.is_incomplete && self.items.is_empty() && room > 0 {
            rows.push(Row::of("  …", Style::DIM));
        }
        rows
    }
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
