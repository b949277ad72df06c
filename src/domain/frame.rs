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
    /// A colour that is a background, or the default one.
    pub background: Color,
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
    // Backgrounds: of changed lines, and of the changed words in them.
    AddedLine,
    RemovedLine,
    AddedWord,
    RemovedWord,
}

impl Color {
    /// All colours with their settings and meanings, in the order of the type.
    pub const ALL: [(Self, &'static str, &'static str); 24] = [
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
        (Self::AddedLine, "theme.added_line", "Background of added lines"),
        (Self::RemovedLine, "theme.removed_line", "Background of removed lines"),
        (Self::AddedWord, "theme.added_word", "Background of words that replace others"),
        (Self::RemovedWord, "theme.removed_word", "Background of words that are replaced"),
    ];

    /// Whether it is only a background.
    pub const fn is_background(self) -> bool {
        matches!(self, Self::AddedLine | Self::RemovedLine | Self::AddedWord | Self::RemovedWord)
    }
}

/// A line of text before it is wrapped for a screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StyledLine {
    /// Before the first row; the others are indented by as many columns.
    pub prefix: String,
    /// Parts of the text with their styles.
    pub parts: Vec<(String, Style)>,
}

impl StyledLine {
    pub fn of(text: impl Into<String>, style: Style) -> Self {
        Self { prefix: String::new(), parts: vec![(text.into(), style)] }
    }

    /// Appends a part, unless it is empty.
    pub fn push(&mut self, text: &str, style: Style) {
        if !text.is_empty() {
            self.parts.push((text.to_owned(), style));
        }
    }

    pub fn text(&self) -> String {
        self.prefix.chars().chain(self.parts.iter().flat_map(|(part, _)| part.chars())).collect()
    }

    /// Its rows on a screen of this many columns: sanitised, and filled up to the end if it has a background.
    pub fn wrap(&self, columns: usize) -> Vec<Row> {
        let prefix = if text::width(&self.prefix) * 2 > columns { "" } else { &self.prefix };
        let room = columns.saturating_sub(text::width(prefix)).max(1);
        let (mut line, mut ends) = (String::new(), Vec::new());
        for (part, style) in &self.parts {
            for (number, run) in part.split('\t').enumerate() {
                let spaces = text::TAB_COLUMNS - text::width(&line) % text::TAB_COLUMNS;
                line.push_str(&" ".repeat(if number > 0 { spaces } else { 0 }));
                line.push_str(&text::sanitise(run).replace('\n', "␊"));
            }
            ends.push((line.len(), *style));
        }
        let rows = text::wrap(&line, room).map(|(at, part)| {
            let mut row =
                Row::of(if at == 0 { prefix.to_owned() } else { " ".repeat(text::width(prefix)) }, Style::DIM);
            let mut begin = at;
            for (end, style) in &ends {
                let to = (*end).clamp(begin, at + part.len());
                row.push(&line[begin..to], *style);
                begin = to;
            }
            row.filled(columns)
        });
        rows.collect()
    }
}

impl Row {
    /// The background of its last run up to this column.
    pub fn filled(mut self, columns: usize) -> Self {
        let background = self.spans.last().map_or(Color::Default, |last| last.style.background);
        if background != Color::Default {
            let space = columns.saturating_sub(text::width(&self.text()));
            self.push(
                " ".repeat(space),
                Style::default().on(match background {
                    Color::AddedWord => Color::AddedLine,
                    Color::RemovedWord => Color::RemovedLine,
                    line => line,
                }),
            );
        }
        self
    }

    /// The row after blanks.
    pub fn indented(&self, indent: &str) -> Self {
        let mut row = Self { copied: self.copied, ..Self::of(indent, Style::default()) };
        self.spans.iter().for_each(|span| row.push_linked(span.text.as_str(), span.style, span.link.clone()));
        row
    }

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
            background: Color::Default,
            bold: false,
            dim: false,
            italic: false,
            underline: false,
            strike: false,
            reverse: false,
            link: LinkPart::None,
        }
    }

    /// The same on a background.
    pub const fn on(self, background: Color) -> Self {
        Self { background, ..self }
    }

    /// For a terminal that does not show its background: the colour of text says the same.
    pub fn without_background(self) -> Self {
        let color = match self.background {
            Color::AddedLine | Color::AddedWord => Color::Added,
            Color::RemovedLine | Color::RemovedWord => Color::Removed,
            _ => self.color,
        };
        Self { color, background: Color::Default, ..self }
    }

    pub const DIM: Self = Self { dim: true, ..Self::color(Color::Default) };
    pub const BOLD: Self = Self { bold: true, ..Self::color(Color::Default) };
}
