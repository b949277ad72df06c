//! What a key does: sends, interrupts, answers a question, moves. A pure function of the key and the situation.

use crate::domain::approval::Policy;
use crate::domain::change::{Change, QueueEdit, Setting, Shown, ViewName};
use crate::domain::draft::Draft;
use crate::domain::key::{Key, KeyCode, Modifiers};
use crate::domain::keymap::{Bound, Chord, KeyAction, KeyMap, is_typed};
use crate::domain::rule::Scope;
use crate::repl::terminals::question::{Entry, QuestionKeys};

/// What the meaning of a key depends on. "The agent" is the one that the terminal shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Situation {
    /// What the agent may do without a question.
    pub policy: Policy,
    /// The meaning of keys for the question that is shown.
    pub question: QuestionKeys,
    /// Rules could allow the call of the question.
    pub has_rules: bool,
    /// They can be saved for all agents in the directory.
    pub can_save_rules: bool,
    /// The call has a command or a text that can be changed before it runs.
    pub can_edit_call: bool,
    /// The question has several pages.
    pub is_question_paged: bool,
    /// The key is followed by text that was typed or pasted with it.
    pub is_followed: bool,
    /// The agent is not idle.
    pub is_busy: bool,
    /// The agent waits for a retry or for the end of a pause.
    pub is_held_up: bool,
    /// Other agents work for the agent: on summaries or on a task.
    pub has_background_work: bool,
    pub is_draft_empty: bool,
    pub has_queue: bool,
    /// The last turn failed or was interrupted, and the agent does nothing.
    pub can_retry: bool,
    pub has_failed: bool,
    /// A call in the conversation is selected.
    pub has_selected: bool,
    /// A notice is shown above the input; any key removes it.
    pub has_notice: bool,
    /// The key before began a binding of two keys.
    pub prefix: Option<Chord>,
}

#[derive(Debug)]
pub enum Action {
    Nothing,
    Edit(fn(&mut Draft) -> bool),
    Type(String),
    Paste(String),
    Send,
    /// Sends the draft to a new agent in a git worktree of its own.
    Delegate,
    Answer(bool),
    /// Allows the call although not all of its question was shown.
    AllowUnread,
    /// Allows the call and gives its rules to this scope.
    Always(Scope),
    /// Shows the rules that "always" would give, or the question again.
    ShowRules(bool),
    /// From now on the input is this, instead of a message.
    BeginEntry(Entry),
    /// The input is a message again.
    EndEntry(Entry),
    /// Takes the text that was typed at the question.
    Enter(Entry),
    /// Shows the whole question in a pager.
    View,
    /// An answer that came too soon, as from a held key: only after a silence does the next one count.
    TooSoon,
    /// Shows the next page of the question, or the one before.
    TurnPage(bool),
    Change(Change),
    Scroll(Scroll),
    /// Unfolds what is folded in the conversation, or folds it again.
    ToggleFolds,
    /// Selects the next call or reasoning that is folded, towards older text or newer.
    SelectFold(bool),
    /// Opens or folds what is selected.
    OpenSelected,
    /// Up or down in the draft, then through the history of inputs.
    Recall(bool),
    /// Brings the message of the last turn back, to be edited.
    EditMessage,
    /// Through the history of inputs only.
    RecallInput(bool),
    Complete,
    /// The next key decides.
    Prefix(Chord),
    /// Empties the draft; its text stays in the history of inputs.
    Clear,
    ShowKeys,
    SearchHistory,
    Editor,
    PasteImage,
    Go(Direction),
    Redraw,
    Suspend,
    Background,
    Leave,
}

impl Action {
    /// Whether it may change more than the draft and the scroll position.
    pub const fn is_act(&self) -> bool {
        !matches!(
            self,
            Self::Nothing
                | Self::Edit(_)
                | Self::Type(_)
                | Self::Paste(_)
                | Self::Scroll(_)
                | Self::ToggleFolds
                | Self::SelectFold(_)
                | Self::OpenSelected
                | Self::TooSoon
                | Self::TurnPage(_)
                | Self::ShowRules(_)
                | Self::BeginEntry(_)
                | Self::EndEntry(_)
                | Self::Redraw
                | Self::Prefix(_)
        )
    }
}

/// How far to scroll; negative is towards older text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scroll {
    Rows(isize),
    Pages(isize),
    Top,
    Bottom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Parent,
    NewestChild,
    Sibling(isize),
    /// The agent with this number.
    Number(u8),
}

/// Rows per notch of the wheel.
const WHEEL_ROWS: isize = 3;

pub fn action_of(key: &Key, situation: &Situation, keymap: &KeyMap) -> Action {
    match key {
        Key::Paste(text) => Action::Paste(text.clone()),
        Key::Wheel(notches) => Action::Scroll(Scroll::Rows(isize::try_from(*notches).unwrap_or(0) * WHEEL_ROWS)),
        Key::Focus(_) | Key::Background(_) | Key::ShowsStatus | Key::Mouse(..) => Action::Nothing,
        Key::Press(code, modifiers) => {
            let answer = answer_for_key(*code, *modifiers, situation).filter(|_| situation.prefix.is_none());
            answer.unwrap_or_else(|| bound(key, situation, keymap))
        }
    }
}

/// The key as an answer to the question that is shown.
fn answer_for_key(code: KeyCode, modifiers: Modifiers, situation: &Situation) -> Option<Action> {
    let KeyCode::Char(c) = code else { return None };
    let may_answer = match (modifiers.ctrl, modifiers.alt) {
        (false, false) => may_answer(situation),
        // On an empty input Alt+A opens the inbox.
        (false, true) => is_asked(situation) && !(situation.is_draft_empty && c.eq_ignore_ascii_case(&'a')),
        (true, _) => false,
    };
    // Hints say Alt+Y: with Alt, both are the same key.
    let letter = if modifiers.alt { c.to_ascii_lowercase() } else { c };
    (may_answer && is_answer(c, situation)).then(|| answer(letter, situation))
}

fn bound(key: &Key, situation: &Situation, keymap: &KeyMap) -> Action {
    let is_text = situation.prefix.is_none() && is_typed(key);
    let is_in_text = !situation.is_draft_empty || situation.is_followed;
    match (keymap.meaning(situation.prefix, key), key) {
        (Bound::Action(action), _) if !(is_text && is_in_text) => meaning(action, situation),
        (Bound::Prefix(prefix), _) if !(is_text && is_in_text) => Action::Prefix(prefix),
        (_, Key::Press(KeyCode::Char(c), _)) if is_text => Action::Type(c.to_string()),
        _ => Action::Nothing,
    }
}

fn send(situation: &Situation) -> Action {
    match situation.question {
        QuestionKeys::Typing(_) if situation.is_draft_empty => Action::Nothing,
        QuestionKeys::Typing(entry) => Action::Enter(entry),
        _ if !situation.is_draft_empty => Action::Send,
        _ if situation.has_selected => Action::OpenSelected,
        _ if situation.is_held_up => Action::Change(Change::TryNow),
        // What is queued follows when the turn is complete.
        _ if situation.has_failed && !situation.is_busy => Action::Change(Change::Retry),
        _ if situation.has_queue && !situation.is_busy => Action::Change(Change::EditQueue(QueueEdit::Resume)),
        _ if situation.can_retry && !situation.is_busy => Action::Change(Change::Retry),
        _ => Action::Nothing,
    }
}

fn cancel(situation: &Situation) -> Action {
    match situation.question {
        QuestionKeys::Typing(entry) => Action::EndEntry(entry),
        _ if situation.has_selected => Action::Nothing,
        _ if shows_rules(situation) => Action::ShowRules(false),
        _ if situation.is_busy || situation.has_background_work => Action::Change(Change::Interrupt),
        _ if !situation.is_draft_empty && !situation.has_notice => Action::Clear,
        _ => Action::Nothing,
    }
}

/// The meaning of an action here.
fn meaning(action: KeyAction, situation: &Situation) -> Action {
    match action {
        KeyAction::Send => send(situation),
        KeyAction::Delegate if matches!(situation.question, QuestionKeys::Typing(_)) => Action::Nothing,
        KeyAction::Delegate => Action::Delegate,
        KeyAction::Cancel => cancel(situation),
        KeyAction::Leave if !situation.is_draft_empty => Action::Clear,
        KeyAction::Leave => Action::Leave,
        KeyAction::DeleteOrLeave if situation.is_draft_empty => Action::Leave,
        KeyAction::NextPolicy => Action::Change(Change::Setting(Setting::Approval(next_policy(situation.policy)))),
        KeyAction::Complete => Action::Complete,
        KeyAction::ShowKeys => Action::ShowKeys,
        KeyAction::SearchHistory => Action::SearchHistory,
        KeyAction::Editor => Action::Editor,
        KeyAction::PasteImage => Action::PasteImage,
        KeyAction::Up if situation.is_draft_empty && situation.has_queue => {
            Action::Change(Change::EditQueue(QueueEdit::TakeBackNewest))
        }
        KeyAction::Up if situation.is_draft_empty && situation.can_retry => Action::EditMessage,
        KeyAction::Up => Action::Recall(true),
        KeyAction::Down => Action::Recall(false),
        KeyAction::OlderInput => Action::RecallInput(true),
        KeyAction::NewerInput => Action::RecallInput(false),
        KeyAction::PageUp if situation.is_question_paged => Action::TurnPage(false),
        KeyAction::PageDown if situation.is_question_paged => Action::TurnPage(true),
        KeyAction::PageUp => Action::Scroll(Scroll::Pages(-1)),
        KeyAction::PageDown => Action::Scroll(Scroll::Pages(1)),
        KeyAction::Top => Action::Scroll(Scroll::Top),
        KeyAction::Bottom => Action::Scroll(Scroll::Bottom),
        KeyAction::Parent => Action::Go(Direction::Parent),
        KeyAction::Child => Action::Go(Direction::NewestChild),
        KeyAction::PreviousSibling => Action::Go(Direction::Sibling(-1)),
        KeyAction::NextSibling => Action::Go(Direction::Sibling(1)),
        KeyAction::Agent(number) => Action::Go(Direction::Number(number)),
        KeyAction::ToggleFolds => Action::ToggleFolds,
        KeyAction::LineUp if situation.is_draft_empty => Action::SelectFold(true),
        KeyAction::LineDown if situation.is_draft_empty => Action::SelectFold(false),
        // Within text Ctrl+F moves as in a shell.
        KeyAction::View(ViewName::Search) if !situation.is_draft_empty => Action::Edit(Draft::right),
        KeyAction::View(name) => Action::Change(Change::Show(Shown::View(name))),
        KeyAction::Redraw => Action::Redraw,
        KeyAction::Suspend => Action::Suspend,
        KeyAction::Background => Action::Background,
        action => edit_of(action).map_or(Action::Nothing, Action::Edit),
    }
}

/// The edit of an action that only edits.
fn edit_of(action: KeyAction) -> Option<fn(&mut Draft) -> bool> {
    Some(match action {
        KeyAction::Newline => newline,
        KeyAction::Left => Draft::left,
        KeyAction::Right => Draft::right,
        KeyAction::WordLeft => Draft::word_left,
        KeyAction::WordRight => Draft::word_right,
        KeyAction::LineStart => Draft::home,
        KeyAction::LineEnd => Draft::end,
        KeyAction::LineUp => Draft::up,
        KeyAction::LineDown => Draft::down,
        KeyAction::DeleteLeft => Draft::backspace,
        KeyAction::DeleteRight | KeyAction::DeleteOrLeave => Draft::delete,
        KeyAction::KillToEnd => Draft::kill_to_end,
        KeyAction::KillToStart => Draft::kill_to_start,
        KeyAction::KillWord => Draft::kill_word_back,
        KeyAction::KillWordLeft => Draft::kill_word_left,
        KeyAction::KillWordRight => Draft::kill_word_forward,
        KeyAction::Yank => Draft::yank,
        KeyAction::YankOlder => Draft::yank_older,
        KeyAction::Undo => Draft::undo,
        KeyAction::Redo => Draft::redo,
        _ => return None,
    })
}

/// Shift+Tab goes through the policies that are safe to reach by mistake.
fn next_policy(policy: Policy) -> Policy {
    match policy {
        Policy::Plan => Policy::Ask,
        Policy::Ask => Policy::Auto,
        Policy::Auto | Policy::Yolo | Policy::Never => Policy::Plan,
    }
}

/// A letter within a text is never an answer.
fn may_answer(situation: &Situation) -> bool {
    is_asked(situation) && situation.is_draft_empty && !situation.is_followed
}

/// Keys may be answers to a question.
const fn is_asked(situation: &Situation) -> bool {
    !matches!(situation.question, QuestionKeys::Text | QuestionKeys::Typing(_))
}

fn shows_rules(situation: &Situation) -> bool {
    matches!(situation.question, QuestionKeys::ScopeSettling | QuestionKeys::Scope)
}

/// Whether a letter means something for the question that is shown.
fn is_answer(letter: char, situation: &Situation) -> bool {
    match (situation.question, letter.to_ascii_lowercase()) {
        (QuestionKeys::ScopeSettling | QuestionKeys::Scope, letter) => "yatspne".contains(letter),
        (_, 'a') => situation.has_rules,
        (_, 'e') => situation.can_edit_call,
        (_, letter) => "ynrv".contains(letter),
    }
}

fn answer(letter: char, situation: &Situation) -> Action {
    match (situation.question, letter.to_ascii_lowercase()) {
        (QuestionKeys::ScopeSettling | QuestionKeys::Scope, 'n') => Action::ShowRules(false),
        (QuestionKeys::Scope, 'e') if situation.is_draft_empty => Action::BeginEntry(Entry::Rules),
        (QuestionKeys::Scope, 's') => Action::Always(Scope::Session),
        (QuestionKeys::Scope, 't') => Action::Always(Scope::Agent),
        (QuestionKeys::Scope, 'p') if situation.can_save_rules => Action::Always(Scope::Project),
        (QuestionKeys::ReadOn, 'y') if letter == 'Y' => Action::AllowUnread,
        (QuestionKeys::ReadOn, 'y' | 'a') => Action::TurnPage(true),
        (QuestionKeys::Answer, 'y') => Action::Answer(true),
        (QuestionKeys::Answer, 'a') => Action::ShowRules(true),
        (QuestionKeys::ReadOn | QuestionKeys::Settling | QuestionKeys::Answer, letter) if "nrev".contains(letter) => {
            match letter {
                'n' => Action::Answer(false),
                'r' => Action::BeginEntry(Entry::Reason),
                'v' => Action::View,
                // The input is for the call.
                _ if !situation.is_draft_empty => Action::Nothing,
                _ => Action::BeginEntry(Entry::Call),
            }
        }
        (QuestionKeys::Settling | QuestionKeys::ScopeSettling, _) => Action::TooSoon,
        _ => Action::Nothing,
    }
}

fn newline(draft: &mut Draft) -> bool {
    draft.newline();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Situation {
        Situation { question: QuestionKeys::Answer, is_busy: true, is_draft_empty: true, ..Situation::default() }
    }

    fn act(key: &Key, situation: &Situation) -> Action {
        action_of(key, situation, &KeyMap::default())
    }

    fn press(code: KeyCode) -> Key {
        Key::Press(code, Modifiers::default())
    }

    #[test]
    fn y_answers_only_what_was_shown_and_only_as_a_letter_by_itself() {
        let asked = asked();
        let y = |situation: Situation| act(&press(KeyCode::Char('y')), &situation);
        assert!(matches!(y(asked), Action::Answer(true)));
        assert!(matches!(y(Situation { is_draft_empty: false, ..asked }), Action::Type(_)));
        assert!(matches!(y(Situation { is_followed: true, ..asked }), Action::Type(_)));
        assert!(matches!(y(Situation { question: QuestionKeys::Text, ..asked }), Action::Type(_)));
        assert!(matches!(y(Situation { question: QuestionKeys::ReadOn, ..asked }), Action::TurnPage(true)));
        assert!(matches!(y(Situation { question: QuestionKeys::Settling, ..asked }), Action::TooSoon));
        let alt_y = Key::Press(KeyCode::Char('y'), Modifiers { alt: true, ..Modifiers::default() });
        let typing = Situation { is_draft_empty: false, ..asked };
        assert!(matches!(act(&alt_y, &typing), Action::Answer(true)));
        assert!(matches!(act(&alt_y, &Situation { question: QuestionKeys::ReadOn, ..typing }), Action::TurnPage(true)));
        let unread = |key: &Key, situation| act(key, &Situation { question: QuestionKeys::ReadOn, ..situation });
        assert!(matches!(unread(&press(KeyCode::Char('Y')), asked), Action::AllowUnread));
        let alt_shift_y = Key::Press(KeyCode::Char('Y'), Modifiers { alt: true, ..Modifiers::default() });
        assert!(matches!(unread(&alt_shift_y, typing), Action::TurnPage(true)), "as the hint writes Alt+Y");
        for question in [QuestionKeys::Text, QuestionKeys::Settling, QuestionKeys::Answer, QuestionKeys::Scope] {
            let action = act(&press(KeyCode::Char('Y')), &Situation { question, ..asked });
            assert!(!matches!(action, Action::AllowUnread), "{question:?}");
        }
        let n = press(KeyCode::Char('n'));
        assert!(matches!(act(&n, &Situation { question: QuestionKeys::ReadOn, ..asked }), Action::Answer(false)));
    }

    #[test]
    fn a_shows_the_rules_and_only_then_a_letter_gives_them() {
        let with_rules = Situation { has_rules: true, can_save_rules: true, ..asked() };
        let at = |question, code| act(&press(code), &Situation { question, ..with_rules });
        let letter = |question, c| at(question, KeyCode::Char(c));
        assert!(matches!(letter(QuestionKeys::Answer, 'a'), Action::ShowRules(true)));
        assert!(matches!(letter(QuestionKeys::ReadOn, 'a'), Action::TurnPage(true)));
        assert!(matches!(letter(QuestionKeys::Settling, 'a'), Action::TooSoon));
        assert!(matches!(letter(QuestionKeys::Text, 'a'), Action::Type(_)));
        for c in ['s', 'a', 't', 'p', 'y'] {
            assert!(matches!(letter(QuestionKeys::ScopeSettling, c), Action::TooSoon), "{c}");
        }
        assert!(matches!(letter(QuestionKeys::Scope, 'y'), Action::Nothing));
        assert!(matches!(letter(QuestionKeys::Scope, 's'), Action::Always(Scope::Session)));
        assert!(matches!(letter(QuestionKeys::Scope, 't'), Action::Always(Scope::Agent)));
        assert!(matches!(letter(QuestionKeys::Scope, 'p'), Action::Always(Scope::Project)));
        assert!(matches!(letter(QuestionKeys::Scope, 'a'), Action::Nothing), "the key that showed the rules");
        let unsaved = Situation { question: QuestionKeys::Scope, can_save_rules: false, ..with_rules };
        assert!(matches!(act(&press(KeyCode::Char('p')), &unsaved), Action::Nothing));
        for question in [QuestionKeys::ScopeSettling, QuestionKeys::Scope] {
            assert!(matches!(letter(question, 'n'), Action::ShowRules(false)));
            assert!(matches!(at(question, KeyCode::Escape), Action::ShowRules(false)));
        }
        let without = act(&press(KeyCode::Char('a')), &asked());
        assert!(matches!(without, Action::Type(_)), "there is no rule to give");
    }

    #[test]
    fn escape_interrupts_the_agent_before_it_clears_the_draft() {
        let busy = Situation { is_busy: true, ..Situation::default() };
        assert!(matches!(act(&press(KeyCode::Escape), &busy), Action::Change(Change::Interrupt)));
        let summarised = Situation { has_background_work: true, ..Situation::default() };
        assert!(matches!(act(&press(KeyCode::Escape), &summarised), Action::Change(Change::Interrupt)));
        assert!(matches!(act(&press(KeyCode::Escape), &Situation::default()), Action::Clear));
        let choosing = Situation { has_notice: true, ..Situation::default() };
        assert!(matches!(act(&press(KeyCode::Escape), &choosing), Action::Nothing));
        let nothing = Situation { is_draft_empty: true, ..Situation::default() };
        assert!(matches!(act(&press(KeyCode::Escape), &nothing), Action::Nothing));
    }

    #[test]
    fn ctrl_c_clears_before_it_leaves_and_a_key_that_types_acts_on_an_empty_draft_only() {
        let empty = Situation { is_draft_empty: true, ..Situation::default() };
        let typed = Situation::default();
        let ctrl = |c| Key::Press(KeyCode::Char(c), Modifiers { ctrl: true, ..Modifiers::default() });
        assert!(matches!(act(&ctrl('c'), &empty), Action::Leave));
        assert!(matches!(act(&ctrl('c'), &typed), Action::Clear));
        assert!(matches!(act(&ctrl('d'), &empty), Action::Leave));
        assert!(matches!(act(&ctrl('d'), &typed), Action::Edit(_)));
        let question_mark = press(KeyCode::Char('?'));
        assert!(matches!(act(&question_mark, &empty), Action::ShowKeys));
        assert!(matches!(act(&question_mark, &typed), Action::Type(_)));
        assert!(matches!(act(&question_mark, &Situation { is_followed: true, ..empty }), Action::Type(_)));
        let leader = "ctrl+x".parse().unwrap();
        assert!(matches!(act(&ctrl('x'), &typed), Action::Prefix(_)));
        let after = Situation { prefix: Some(leader), ..typed };
        assert!(matches!(act(&press(KeyCode::Char('3')), &after), Action::Go(Direction::Number(3))));
        assert!(matches!(act(&press(KeyCode::Char('q')), &after), Action::Nothing));
    }

    #[test]
    fn a_paste_never_answers_and_never_sends() {
        let asked = Situation { has_queue: true, ..asked() };
        assert!(matches!(act(&Key::Paste("y\n".into()), &asked), Action::Paste(_)));
    }
}
