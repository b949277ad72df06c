//! What a key means, as a pure function of the key and the situation.

use crate::domain::approval::Policy;
use crate::domain::draft::Draft;
use crate::domain::flow::Change;
use crate::domain::key::{Key, KeyCode, Modifiers};
use crate::domain::rule::Scope;
use crate::repl::terminals::question::QuestionKeys;

/// What the meaning of a key depends on. "The agent" is the one that the terminal shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Situation {
    /// What the agent may do without a question.
    pub policy: Policy,
    /// What keys mean for the question that is shown.
    pub question: QuestionKeys,
    /// Rules could allow what the question is about.
    pub has_rules: bool,
    /// They can be saved for all agents in the directory.
    pub can_save_rules: bool,
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
    /// A notice is shown above the input; any key removes it.
    pub has_notice: bool,
}

#[derive(Debug)]
pub enum Action {
    Nothing,
    Edit(fn(&mut Draft) -> bool),
    Type(String),
    Paste(String),
    Send,
    Answer(bool),
    /// Allows the call and gives its rules to this scope.
    Always(Scope),
    /// Shows the rules that "always" would give, or the question again.
    ShowRules(bool),
    /// An answer that came too soon, as from a key that is held: only silence makes the next one an answer.
    TooSoon,
    /// Shows the next page of the question, or the one before.
    TurnPage(bool),
    Change(Change),
    Scroll(Scroll),
    /// Shows what is folded in the conversation, or folds it again.
    ToggleFolds,
    Recall(bool),
    Complete,
    Go(Direction),
    Redraw,
    Suspend,
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
                | Self::TooSoon
                | Self::TurnPage(_)
                | Self::ShowRules(_)
                | Self::Redraw
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
    Nth(usize),
}

/// Rows per notch of the wheel.
const WHEEL_ROWS: isize = 3;

pub fn action_of(key: &Key, situation: &Situation) -> Action {
    match key {
        Key::Paste(text) => Action::Paste(text.clone()),
        Key::Wheel(notches) => Action::Scroll(Scroll::Rows(isize::try_from(*notches).unwrap_or(0) * WHEEL_ROWS)),
        Key::Focus(_) | Key::Background(_) | Key::Mouse(..) => Action::Nothing,
        Key::Press(code, modifiers) => match (modifiers.ctrl, modifiers.alt) {
            (true, false) => with_ctrl(*code, situation),
            (false, true) => with_alt(*code, situation),
            (false, false) => plain(*code, *modifiers, situation),
            (true, true) => Action::Nothing,
        },
    }
}

fn plain(code: KeyCode, modifiers: Modifiers, situation: &Situation) -> Action {
    match code {
        KeyCode::Char(c) if may_answer(situation) && is_answer(c, situation) => answer(c, situation),
        KeyCode::Char(c) => Action::Type(c.to_string()),
        KeyCode::Enter if modifiers.shift => Action::Edit(newline),
        KeyCode::Enter if !situation.is_draft_empty => Action::Send,
        KeyCode::Enter if situation.is_held_up => Action::Change(Change::TryNow),
        KeyCode::Enter if situation.has_queue && !situation.is_busy => Action::Change(Change::Resume),
        KeyCode::Escape if shows_rules(situation) => Action::ShowRules(false),
        KeyCode::Escape if situation.is_busy || situation.has_background_work => Action::Change(Change::Interrupt),
        KeyCode::Escape if !situation.is_draft_empty && !situation.has_notice => Action::Edit(clear),
        KeyCode::Backspace => Action::Edit(Draft::backspace),
        KeyCode::Delete => Action::Edit(Draft::delete),
        KeyCode::Tab => Action::Complete,
        KeyCode::BackTab => Action::Change(Change::Approval(next_policy(situation.policy))),
        KeyCode::Left => Action::Edit(Draft::left),
        KeyCode::Right => Action::Edit(Draft::right),
        KeyCode::Up if situation.is_draft_empty && situation.has_queue => Action::Change(Change::Unqueue),
        KeyCode::Up => Action::Recall(true),
        KeyCode::Down => Action::Recall(false),
        KeyCode::Home => Action::Edit(Draft::home),
        KeyCode::End => Action::Edit(Draft::end),
        KeyCode::PageUp if situation.is_question_paged => Action::TurnPage(false),
        KeyCode::PageDown if situation.is_question_paged => Action::TurnPage(true),
        KeyCode::PageUp => Action::Scroll(Scroll::Pages(-1)),
        KeyCode::PageDown => Action::Scroll(Scroll::Pages(1)),
        _ => Action::Nothing,
    }
}

/// Shift+Tab goes through the policies that are safe to reach by mistake.
fn next_policy(policy: Policy) -> Policy {
    match policy {
        Policy::Plan => Policy::Ask,
        Policy::Ask => Policy::Auto,
        Policy::Auto | Policy::Yolo | Policy::Never => Policy::Plan,
    }
}

fn with_ctrl(code: KeyCode, situation: &Situation) -> Action {
    match code {
        KeyCode::Char('c') => Action::Leave,
        KeyCode::Char('d') if situation.is_draft_empty => Action::Leave,
        KeyCode::Char('d') => Action::Edit(Draft::delete),
        KeyCode::Char('j') => Action::Edit(newline),
        KeyCode::Char('a') => Action::Edit(Draft::home),
        KeyCode::Char('e') => Action::Edit(Draft::end),
        KeyCode::Char('b') => Action::Edit(Draft::left),
        KeyCode::Char('f') => Action::Edit(Draft::right),
        KeyCode::Char('h') => Action::Edit(Draft::backspace),
        KeyCode::Char('k') => Action::Edit(Draft::kill_to_end),
        KeyCode::Char('u') => Action::Edit(Draft::kill_to_start),
        KeyCode::Char('w') => Action::Edit(Draft::kill_word_back),
        KeyCode::Char('y') => Action::Edit(Draft::yank),
        KeyCode::Char('_' | '/') => Action::Edit(Draft::undo),
        KeyCode::Char('p') => Action::Recall(true),
        KeyCode::Char('n') => Action::Recall(false),
        KeyCode::Char('o') => Action::ToggleFolds,
        KeyCode::Char('l') => Action::Redraw,
        KeyCode::Char('z') => Action::Suspend,
        KeyCode::Up => Action::Go(Direction::Parent),
        KeyCode::Down => Action::Go(Direction::NewestChild),
        KeyCode::Left => Action::Go(Direction::Sibling(-1)),
        KeyCode::Right => Action::Go(Direction::Sibling(1)),
        KeyCode::Home => Action::Scroll(Scroll::Top),
        KeyCode::End => Action::Scroll(Scroll::Bottom),
        _ => Action::Nothing,
    }
}

fn with_alt(code: KeyCode, situation: &Situation) -> Action {
    match code {
        KeyCode::Char(digit @ '1'..='9') => Action::Go(Direction::Nth(digit as usize - '1' as usize)),
        KeyCode::Char(c) if situation.question != QuestionKeys::Text && is_answer(c, situation) => answer(c, situation),
        KeyCode::Char('b') | KeyCode::Left => Action::Edit(Draft::word_left),
        KeyCode::Char('f') | KeyCode::Right => Action::Edit(Draft::word_right),
        KeyCode::Char('d') => Action::Edit(Draft::kill_word_forward),
        KeyCode::Backspace => Action::Edit(Draft::kill_word_left),
        KeyCode::Enter => Action::Edit(newline),
        KeyCode::Up => Action::Edit(Draft::up),
        KeyCode::Down => Action::Edit(Draft::down),
        _ => Action::Nothing,
    }
}

/// A letter within a text is never an answer.
fn may_answer(situation: &Situation) -> bool {
    situation.question != QuestionKeys::Text && situation.is_draft_empty && !situation.is_followed
}

fn shows_rules(situation: &Situation) -> bool {
    matches!(situation.question, QuestionKeys::ScopeSettling | QuestionKeys::Scope)
}

/// Whether a letter means something for the question that is shown.
fn is_answer(letter: char, situation: &Situation) -> bool {
    let letters = match situation.question {
        QuestionKeys::ScopeSettling | QuestionKeys::Scope => "yatspn",
        _ if situation.has_rules => "yna",
        _ => "yn",
    };
    letters.contains(letter.to_ascii_lowercase())
}

fn answer(letter: char, situation: &Situation) -> Action {
    match (situation.question, letter.to_ascii_lowercase()) {
        (QuestionKeys::ScopeSettling | QuestionKeys::Scope, 'n') => Action::ShowRules(false),
        (QuestionKeys::Scope, 's') => Action::Always(Scope::Session),
        (QuestionKeys::Scope, 't') => Action::Always(Scope::Agent),
        (QuestionKeys::Scope, 'p') if situation.can_save_rules => Action::Always(Scope::Project),
        (QuestionKeys::ReadOn, 'y' | 'a') => Action::TurnPage(true),
        (QuestionKeys::Answer, 'y') => Action::Answer(true),
        (QuestionKeys::Answer, 'a') => Action::ShowRules(true),
        (QuestionKeys::ReadOn | QuestionKeys::Settling | QuestionKeys::Answer, 'n') => Action::Answer(false),
        (QuestionKeys::Settling | QuestionKeys::ScopeSettling, _) => Action::TooSoon,
        _ => Action::Nothing,
    }
}

fn newline(draft: &mut Draft) -> bool {
    draft.newline();
    true
}

fn clear(draft: &mut Draft) -> bool {
    draft.set("");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Situation {
        Situation { question: QuestionKeys::Answer, is_busy: true, is_draft_empty: true, ..Situation::default() }
    }

    fn press(code: KeyCode) -> Key {
        Key::Press(code, Modifiers::default())
    }

    #[test]
    fn y_answers_only_what_was_shown_and_only_as_a_letter_by_itself() {
        let asked = asked();
        let y = |situation: Situation| action_of(&press(KeyCode::Char('y')), &situation);
        assert!(matches!(y(asked), Action::Answer(true)));
        assert!(matches!(y(Situation { is_draft_empty: false, ..asked }), Action::Type(_)));
        assert!(matches!(y(Situation { is_followed: true, ..asked }), Action::Type(_)));
        assert!(matches!(y(Situation { question: QuestionKeys::Text, ..asked }), Action::Type(_)));
        assert!(matches!(y(Situation { question: QuestionKeys::ReadOn, ..asked }), Action::TurnPage(true)));
        assert!(matches!(y(Situation { question: QuestionKeys::Settling, ..asked }), Action::TooSoon));
        let alt_y = Key::Press(KeyCode::Char('y'), Modifiers { alt: true, ..Modifiers::default() });
        let typing = Situation { is_draft_empty: false, ..asked };
        assert!(matches!(action_of(&alt_y, &typing), Action::Answer(true)));
        assert!(matches!(
            action_of(&alt_y, &Situation { question: QuestionKeys::ReadOn, ..typing }),
            Action::TurnPage(true)
        ));
        let n = press(KeyCode::Char('n'));
        assert!(matches!(action_of(&n, &Situation { question: QuestionKeys::ReadOn, ..asked }), Action::Answer(false)));
    }

    #[test]
    fn a_shows_the_rules_and_only_then_a_letter_gives_them() {
        let with_rules = Situation { has_rules: true, can_save_rules: true, ..asked() };
        let at = |question, code| action_of(&press(code), &Situation { question, ..with_rules });
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
        assert!(matches!(action_of(&press(KeyCode::Char('p')), &unsaved), Action::Nothing));
        for question in [QuestionKeys::ScopeSettling, QuestionKeys::Scope] {
            assert!(matches!(letter(question, 'n'), Action::ShowRules(false)));
            assert!(matches!(at(question, KeyCode::Escape), Action::ShowRules(false)));
        }
        let without = action_of(&press(KeyCode::Char('a')), &asked());
        assert!(matches!(without, Action::Type(_)), "there is no rule to give");
    }

    #[test]
    fn escape_interrupts_the_agent_before_it_clears_the_draft() {
        let busy = Situation { is_busy: true, ..Situation::default() };
        assert!(matches!(action_of(&press(KeyCode::Escape), &busy), Action::Change(Change::Interrupt)));
        let summarised = Situation { has_background_work: true, ..Situation::default() };
        assert!(matches!(action_of(&press(KeyCode::Escape), &summarised), Action::Change(Change::Interrupt)));
        assert!(matches!(action_of(&press(KeyCode::Escape), &Situation::default()), Action::Edit(_)));
        let choosing = Situation { has_notice: true, ..Situation::default() };
        assert!(matches!(action_of(&press(KeyCode::Escape), &choosing), Action::Nothing));
        let nothing = Situation { is_draft_empty: true, ..Situation::default() };
        assert!(matches!(action_of(&press(KeyCode::Escape), &nothing), Action::Nothing));
    }

    #[test]
    fn a_paste_never_answers_and_never_sends() {
        let asked = Situation { has_queue: true, ..asked() };
        assert!(matches!(action_of(&Key::Paste("y\n".into()), &asked), Action::Paste(_)));
    }
}
