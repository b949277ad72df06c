//! Decoded keyboard, mouse and clipboard input.

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
