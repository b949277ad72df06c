//! Decoded keyboard, mouse and clipboard input, and what a record keeps of the bytes.

use crate::base::id::{AgentId, TerminalId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Press(KeyCode, Modifiers),
    /// Text was pasted (bracketed paste), with CR and CRLF turned into LF.
    Paste(String),
    /// The mouse wheel moved by this many notches; negative is up.
    Wheel(i32),
    /// The left button of the mouse, at a column and a row from 0.
    Mouse(MouseAction, u16, u16),
    /// The terminal window gained or lost the focus.
    Focus(bool),
    /// The terminal's reply that it shows status reports.
    ShowsStatus,
    /// The terminal's reply about its background: red, green and blue.
    Background([u8; 3]),
}

/// The action of the left button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseAction {
    Press,
    /// The mouse was moved while the button was held.
    Drag,
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyCode {
    /// A character, as typed (upper case with shift). Ctrl+A is `Char('a')` with [`Modifiers::ctrl`].
    Char(char),
    /// Return. Ctrl+J arrives as `Char('j')` with ctrl.
    Enter,
    Escape,
    Backspace,
    Tab,
    /// Shift+Tab.
    BackTab,
    /// Delete to the right.
    Delete,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// F1 to F24.
    Function(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Modifiers {
    pub ctrl: bool,
    pub alt: bool,
    /// Shift; for characters it is already in the character.
    pub shift: bool,
}

/// What a terminal has received.
pub struct TypedInput {
    pub terminal: TerminalId,
    /// The agent that it shows.
    pub shown: AgentId,
    pub bytes: Vec<u8>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    pub kind: TypedKind,
}

/// What letters are where they are typed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TypedKind {
    Text,
    /// Keys of a view, or answers.
    Keys,
    /// Perhaps a key of a provider: nothing of it is recorded.
    Secret,
}
