//! The content of a screen, before any terminal is involved.

use std::rc::Rc;

use crate::base::text;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Width in columns; no row is wider.
    pub width: u16,
    /// The rows from the top; there are exactly as many as the screen has.
    pub rows: Vec<Row>,
    /// The position of the cursor as (column, row) from 0; hidden if `None`.
    pub cursor: Option<(u16, u16)>,
    /// This many rows at the top are scrolling text: a shift of them may be sent to the terminal as a scroll.
    pub scrolling_rows: u16,
}

/// One row: styled runs of text from the left; the rest is blank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// The runs; their text is sanitised.
    pub spans: Vec<Span>,
    pub copied: Copied,
}

/// How a row is copied from the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Columns at the left that only draw: they are left out.
    pub skipped: u16,
    /// The row continues the text of the row above, which was wrapped: this text joins the two rows instead of a line break.
    pub joined_by: Option<&'static str>,
}

/// A run of text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub style: Style,
    /// Where the text leads: printable ASCII.
    pub link: Option<Rc<str>>,
}

/// The style of text. The default is the terminal's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    pub color: Color,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub strike: bool,
    /// Text and background exchanged.
    pub reverse: bool,
    pub link: LinkPart,
}

/// The relation of a text to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkPart {
    #[default]
    None,
    /// It leads to the target after it, or is the target.
    Text,
    Target,
}

/// The meaning of a colour. The theme of the terminal says how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Color {
    /// The terminal's own.
    #[default]
    Default,
    /// What the user typed.
    User,
    /// What an agent does.
    Activity,
    /// A tool call.
    Tool,
    Note,
    Error,
    /// A question, or anything else that waits for the user.
    Attention,
    Added,
    Removed,
    Heading,
    /// Code within text.
    Code,
    Link,
    // Syntax of code blocks.
    Keyword,
    Type,
    Function,
    String,
    Number,
    Comment,
    Constant,
    Tag,
}

impl Color {
    /// All colours with their settings and meanings, in the order of the type.
    pub const ALL: [(Self, &'static str, &'static str); 20] = [
        (Self::Default, "theme.text", "Text of agents"),
        (Self::User, "theme.user", "What you typed"),
        (Self::Activity, "theme.activity", "What an agent does"),
        (Self::Tool, "theme.tool", "Calls of tools"),
        (Self::Note, "theme.note", "Notes of polylogue"),
        (Self::Error, "theme.error", "Errors"),
        (Self::Attention, "theme.attention", "Questions, and whatever else waits for you"),
        (Self::Added, "theme.added", "Added lines of a change"),
        (Self::Removed, "theme.removed", "Removed lines of a change"),
        (Self::Heading, "theme.heading", "Headings"),
        (Self::Code, "theme.code", "Code within text"),
        (Self::Link, "theme.link", "Links"),
        (Self::Keyword, "theme.keyword", "Keywords in code"),
        (Self::Type, "theme.type", "Types in code"),
        (Self::Function, "theme.function", "Functions in code"),
        (Self::String, "theme.string", "Strings in code"),
        (Self::Number, "theme.number", "Numbers in code"),
        (Self::Comment, "theme.comment", "Comments in code"),
        (Self::Constant, "theme.constant", "Constants in code"),
        (Self::Tag, "theme.tag", "Tags and attributes in code"),
    ];
}

impl Row {
    /// A row of one run, blank if the text is empty.
    pub fn of(text: impl Into<String>, style: Style) -> Self {
        let mut row = Self::default();
        row.push(text, style);
        row
    }

    /// Appends a run, unless it is empty.
    pub fn push(&mut self, text: impl Into<String>, style: Style) {
        self.push_linked(text, style, None);
    }

    /// Appends a run that leads somewhere, unless it is empty.
    pub fn push_linked(&mut self, text: impl Into<String>, style: Style, link: Option<Rc<str>>) {
        let text = text.into();
        if text.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.style == style && last.link == link => last.text.push_str(&text),
            _ => self.spans.push(Span { text, style, link }),
        }
    }

    /// The row, cut off at this many columns.
    pub fn cut(self, columns: u16) -> Self {
        // No character has more columns than bytes.
        if self.spans.iter().map(|span| span.text.len()).sum::<usize>() <= usize::from(columns) {
            return self;
        }
        let mut cut = Self { copied: self.copied, ..Self::default() };
        let mut left = usize::from(columns);
        for span in self.spans {
            let part = text::truncate(&span.text, left);
            left -= text::width(part);
            cut.push_linked(part, span.style, span.link);
        }
        cut
    }

    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

impl Style {
    pub const fn color(color: Color) -> Self {
        Self {
            color,
            bold: false,
            dim: false,
            italic: false,
            underline: false,
            strike: false,
            reverse: false,
            link: LinkPart::None,
        }
    }

    /// Of a line in a diff that begins with this character.
    pub const fn of_diff_line(first: Option<char>) -> Self {
        match first {
            Some('+') => Self::color(Color::Added),
            Some('-') => Self::color(Color::Removed),
            Some('@') => Self::DIM,
            _ => Self::color(Color::Default),
        }
    }

    pub const DIM: Self = Self { dim: true, ..Self::color(Color::Default) };
    pub const BOLD: Self = Self { bold: true, ..Self::color(Color::Default) };
}
