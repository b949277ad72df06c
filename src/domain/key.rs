//! Decoded keyboard, mouse and clipboard input.

/// One input event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A key press with its modifiers.
    Press(KeyCode, Modifiers),
    /// Text was pasted (bracketed paste), with CR and CRLF turned into LF.
    Paste(String),
    /// The mouse wheel moved by this many notches; negative is up.
    Wheel(i32),
    /// The terminal window gained or lost the focus.
    Focus(bool),
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyCode {
    /// A character, as typed (upper case with shift). Ctrl+A is `Char('a')` with [`Modifiers::ctrl`].
    Char(char),
    /// Return. Ctrl+J arrives as `Char('j')` with ctrl.
    Enter,
    /// Escape, alone.
    Escape,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Shift+Tab.
    BackTab,
    /// Delete to the right.
    Delete,
    /// Insert.
    Insert,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// F1 to F24.
    Function(u8),
}

/// The modifier keys held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Modifiers {
    /// Control.
    pub ctrl: bool,
    /// Alt or Option.
    pub alt: bool,
    /// Shift; for characters it is already in the character.
    pub shift: bool,
}
