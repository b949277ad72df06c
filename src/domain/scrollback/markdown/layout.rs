//! From the events of a Markdown parser to lines.

use std::ops::Range;
use std::rc::Rc;

use pulldown_cmark::{BlockQuoteKind, BrokenLinkCallback, CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};

use super::boundary::is_after_blank_line;
use crate::base::text;
use crate::domain::frame::{Color, LinkPart, Style};
use crate::domain::scrollback::code::Code;
use crate::domain::scrollback::form::{CELL_END, Columns, Form, QUOTE, Shape};
use crate::domain::scrollback::writer::{LINE_BYTES, Writer};

/// Lists and quotes that are nested deeper are drawn at this depth.
const DEPTH: usize = 20;
const CODE_INDENT: &str = "  ";

/// Words after a fence that are not a language.
const WITHOUT_COLORS: [&str; 5] = ["", "text", "txt", "plain", "plaintext"];

/// The beginning of a piece of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::domain::scrollback) struct Piece {
    /// The gap between it and the text before.
    pub gap: Gap,
    /// The number of the first item, if it continues an ordered list.
    pub number: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::domain::scrollback) enum Gap {
    #[default]
    None,
    Blank,
    /// A blank line of a quote.
    Quoted,
}

impl Piece {
    /// It follows a block that is complete.
    pub fn after_block() -> Self {
        Self { gap: Gap::Blank, number: None }
    }
}

/// The form of lines of a code block.
pub(super) fn code_form(code: Option<Rc<Code>>) -> Rc<Form> {
    Rc::new(Form::new(CODE_INDENT, CODE_INDENT, Shape::Text).of_code(code))
}

/// What a piece of a reply results in besides lines.
#[derive(Default)]
pub(super) struct Laid {
    /// The columns of the last table.
    pub columns: Option<Rc<Columns>>,
    /// The code blocks in a language, in order.
    pub codes: Vec<Rc<Code>>,
}

/// A list item, a quote, or another block that contains blocks.
struct Container {
    first: String,
    rest: String,
    /// Its current line was started.
    is_begun: bool,
}

struct Table {
    columns: Rc<Columns>,
    /// Only the rows after the header are laid out: the others are on the screen.
    is_continued: bool,
    /// The row is still being received.
    is_open: bool,
    is_header: bool,
    cells: usize,
}

impl Table {
    fn new(columns: Rc<Columns>) -> Self {
        Self { columns, is_continued: false, is_open: false, is_header: false, cells: 0 }
    }
}

struct Link {
    target: String,
    title: String,
    /// Its text so far.
    text: String,
    is_image: bool,
}

/// Lays out one piece of a reply.
pub(super) struct Layout<'a, 'w, 'l> {
    source: &'a str,
    piece: &'a Piece,
    out: &'w mut Writer<'l>,
    containers: Vec<Container>,
    /// The number of the next item of each open list; `None` for a list without numbers.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    links: Vec<Link>,
    table: Option<Table>,
    /// What is known of the first table of the source.
    known_table: Option<Table>,
    is_in_code: bool,
    /// The open code block, if it is in a language.
    code: Option<Rc<Code>>,
    /// The code blocks of an earlier layout of the same text.
    known_codes: &'a [Rc<Code>],
    codes: Vec<Rc<Code>>,
    /// Text is added to the last line.
    is_line_open: bool,
    /// The prefix of the blank line that comes before the next one.
    gap: Option<String>,
    /// Something was laid out, or another piece comes before.
    has_blocks: bool,
    /// The source up to here was laid out.
    covered: usize,
}

impl<'a, 'w, 'l> Layout<'a, 'w, 'l> {
    pub fn new(source: &'a str, piece: &'a Piece, out: &'w mut Writer<'l>) -> Self {
        let gap = match piece.gap {
            Gap::None => None,
            Gap::Blank => Some(String::new()),
            Gap::Quoted => Some(QUOTE.to_owned()),
        };
        Self {
            source,
            piece,
            out,
            containers: Vec::new(),
            lists: Vec::new(),
            styles: Vec::new(),
            links: Vec::new(),
            table: None,
            known_table: None,
            is_in_code: false,
            code: None,
            known_codes: &[],
            codes: Vec::new(),
            is_line_open: false,
            gap,
            has_blocks: false,
            covered: 0,
        }
    }

    /// The source is a table; only its last row is laid out.
    pub fn continue_table(&mut self, columns: Rc<Columns>, is_open: bool) {
        self.known_table = Some(Table { is_continued: true, is_open, ..Table::new(columns) });
        self.gap = None;
    }

    /// The source is the beginning of a table, which was laid out before with these columns.
    pub fn keep_columns(&mut self, columns: Rc<Columns>) {
        self.known_table = Some(Table::new(columns));
    }

    /// The text was laid out before: its code blocks, with their colours, stay the same.
    pub fn keep_codes(&mut self, codes: &'a [Rc<Code>]) {
        self.known_codes = codes;
    }

    pub fn run<F: BrokenLinkCallback<'a>>(mut self, parser: Parser<'a, F>) -> Laid {
        let mut depth = 0;
        for (event, range) in parser.into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    self.start(tag, &range, depth);
                    depth += 1;
                }
                Event::End(tag) => {
                    depth -= 1;
                    self.end(tag, &range);
                }
                Event::Rule => {
                    self.begin_block(range.start, depth);
                    self.begin_line(Shape::Rule);
                    self.end_line();
                    (self.has_blocks, self.covered) = (true, range.end);
                }
                event => self.inline(event, &range),
            }
        }
        self.show_definitions(self.source.len());
        Laid { columns: self.table.map(|table| table.columns), codes: self.codes }
    }

    fn start(&mut self, tag: Tag<'a>, range: &Range<usize>, depth: usize) {
        match tag {
            Tag::Emphasis => self.push_style(|style| style.italic = true),
            Tag::Strong => self.push_style(|style| style.bold = true),
            Tag::Strikethrough => self.push_style(|style| style.strike = true),
            Tag::Superscript | Tag::Subscript => self.push_style(|_| {}),
            Tag::Link { dest_url, title, .. } => self.start_link(&dest_url, &title, false),
            Tag::Image { dest_url, title, .. } => self.start_link(&dest_url, &title, true),
            Tag::TableHead | Tag::TableRow => self.start_row(tag == Tag::TableHead, range),
            Tag::TableCell => self.start_cell(),
            tag => self.start_block(tag, range, depth),
        }
    }

    fn start_block(&mut self, tag: Tag<'a>, range: &Range<usize>, depth: usize) {
        self.begin_block(range.start, depth);
        match tag {
            Tag::Heading { level, .. } => self.push_style(|style| *style = heading(level)),
            Tag::BlockQuote(kind) => {
                self.push_container(QUOTE, QUOTE);
                kind.into_iter().for_each(|kind| self.label(alert(kind), Style::BOLD));
            }
            Tag::CodeBlock(kind) => {
                self.is_in_code = true;
                if let CodeBlockKind::Fenced(info) = kind
                    && !info.trim().is_empty()
                {
                    self.label(info.trim(), Style::DIM);
                    self.begin_code(info.trim());
                }
                // The label is where the text around the block begins.
                let first = CODE_INDENT.to_owned();
                self.containers.push(Container { rest: first.clone(), first, is_begun: true });
                self.covered = range.end;
            }
            Tag::HtmlBlock => {
                self.is_in_code = true;
                self.push_style(|style| style.dim = true);
                self.covered = range.end;
            }
            Tag::List(first) => {
                let number =
                    first.map(|first| self.piece.number.filter(|_| depth == 0 && !self.has_blocks).unwrap_or(first));
                self.lists.push(number);
            }
            Tag::Item => self.start_item(),
            Tag::FootnoteDefinition(label) => {
                self.push_container(&format!("[^{}]: ", text::sanitise(&label)), CODE_INDENT);
                self.covered = range.start + 4 + label.len();
            }
            Tag::Table(alignments) => {
                let new = || Table::new(Rc::new(Columns::new(alignments)));
                self.table = Some(self.known_table.take().unwrap_or_else(new));
            }
            _ => self.push_style(|_| {}),
        }
        self.has_blocks = true;
    }

    fn begin_code(&mut self, info: &str) {
        let language = info.split([' ', ',', '{', ':']).next().unwrap_or_default();
        if WITHOUT_COLORS.contains(&language) {
            return;
        }
        let known = self.known_codes.get(self.codes.len()).filter(|known| *known.language == *language);
        let code = known.map_or_else(|| Code::new(language), Rc::clone);
        self.codes.push(Rc::clone(&code));
        self.code = Some(code);
    }

    fn start_item(&mut self) {
        let (first, rest) = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                let rest = " ".repeat(marker.len());
                (marker, rest)
            }
            _ => ("• ".to_owned(), "  ".to_owned()),
        };
        self.push_container(&first, &rest);
    }

    fn end(&mut self, tag: TagEnd, range: &Range<usize>) {
        if is_inline(tag) {
            self.covered = self.covered.max(range.end);
        }
        match tag {
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Superscript | TagEnd::Subscript => {
                self.styles.pop();
                return;
            }
            TagEnd::Link | TagEnd::Image => return self.end_link(),
            TagEnd::TableCell => return,
            TagEnd::TableHead | TagEnd::TableRow => self.end_row(range),
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::BlockQuote(_) | TagEnd::Item | TagEnd::FootnoteDefinition => self.end_container(range),
            TagEnd::CodeBlock => {
                self.is_in_code = false;
                self.code = None;
                self.containers.pop();
            }
            TagEnd::HtmlBlock => {
                self.is_in_code = false;
                self.styles.pop();
            }
            TagEnd::Table => {}
            _ => drop(self.styles.pop()),
        }
        self.end_line();
        self.covered = self.covered.max(range.end);
    }

    fn end_container(&mut self, range: &Range<usize>) {
        self.end_line();
        self.show_definitions(range.end);
        if self.containers.last().is_some_and(|container| !container.is_begun) {
            self.begin_line(Shape::Text);
            self.end_line();
        }
        self.containers.pop();
    }

    /// A block begins at this byte: a blank line separates it from what is above, if anything.
    fn begin_block(&mut self, at: usize, depth: usize) {
        self.end_line();
        self.show_definitions(at);
        let is_first_of_container = self.containers.iter().take(DEPTH).any(|container| !container.is_begun);
        let is_separate = depth == 0 || is_after_blank_line(self.source, at);
        if self.gap.is_none() && self.has_blocks && is_separate && !is_first_of_container {
            self.gap = Some(self.prefix());
        }
    }

    /// The parser says nothing of link definitions: they are shown as they were written.
    fn show_definitions(&mut self, until: usize) {
        let between = self.source.get(self.covered..until).unwrap_or_default();
        self.covered = self.covered.max(until);
        let Some(definitions) = between.find('[').map(|at| between[at..].trim_end()) else { return };
        if !definitions.contains("]:") {
            return;
        }
        if self.has_blocks && self.gap.is_none() && self.containers.is_empty() {
            self.gap = Some(String::new());
        }
        for line in definitions.lines() {
            self.label(line.trim_matches([' ', '\t', '>']), Style::DIM);
        }
        self.has_blocks = true;
    }

    fn push_container(&mut self, first: &str, rest: &str) {
        self.containers.push(Container { first: first.to_owned(), rest: rest.to_owned(), is_begun: false });
    }

    fn push_style(&mut self, change: impl FnOnce(&mut Style)) {
        let mut style = self.style();
        change(&mut style);
        self.styles.push(style);
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// The prefix of a line that is not the first of its containers.
    fn prefix(&self) -> String {
        self.containers.iter().take(DEPTH).map(|container| container.rest.as_str()).collect()
    }

    fn begin_line(&mut self, shape: Shape) {
        if let Some(prefix) = self.gap.take() {
            self.out.begin(form(&prefix, &prefix, Shape::Text));
        }
        let rest = self.prefix();
        let mut first = String::new();
        for container in self.containers.iter_mut().take(DEPTH) {
            first.push_str(if container.is_begun { &container.rest } else { &container.first });
            container.is_begun = true;
        }
        let form = form(&first, &rest, shape);
        let is_code = self.is_in_code && !self.containers.is_empty();
        self.out.begin(match form {
            Some(_) if is_code => Some(Rc::new(Form::new(&first, &rest, Shape::Text).of_code(self.code.clone()))),
            form => form,
        });
        self.is_line_open = true;
    }

    fn end_line(&mut self) {
        self.is_line_open = false;
    }

    /// A line of its own.
    fn label(&mut self, label: &str, style: Style) {
        self.end_line();
        self.text(&label.replace('\n', " "), style);
        self.end_line();
    }

    /// Adds text without newlines to the open line.
    fn text(&mut self, text: &str, style: Style) {
        let safe = text::sanitise(text);
        if self.table.as_ref().is_some_and(|table| table.cells > 0) {
            let in_one_line = safe.replace(['\n', '\t'], " ");
            return self.out.unsplit(&in_one_line, style);
        }
        if !self.is_line_open {
            self.begin_line(Shape::Text);
        }
        self.out.text(&safe.replace('\n', " "), style);
    }

    fn inline(&mut self, event: Event<'a>, range: &Range<usize>) {
        self.covered = self.covered.max(range.end);
        let style = self.style();
        match event {
            Event::Text(text) | Event::Html(text) if self.is_in_code => self.code(&text),
            Event::Text(text) => self.linked_text(&text, style),
            Event::Code(code) => self.linked_text(&code, Style { color: Color::Code, ..style }),
            Event::InlineHtml(html) if is_line_break(&html) => self.line_break(),
            Event::Html(html) | Event::InlineHtml(html) => self.linked_text(&html, Style { dim: true, ..style }),
            Event::FootnoteReference(label) => {
                self.linked_text(&format!("[^{label}]"), Style { color: Color::Link, ..style });
            }
            Event::SoftBreak if self.table.as_ref().is_none_or(|table| table.cells == 0) => self.end_line(),
            Event::SoftBreak | Event::HardBreak => self.line_break(),
            Event::TaskListMarker(is_done) => self.mark_task(is_done),
            _ => {}
        }
    }

    /// Text that is a part of the links around it.
    fn linked_text(&mut self, text: &str, style: Style) {
        self.links.iter_mut().for_each(|link| link.text.push_str(text));
        self.text(text, style);
    }

    /// A break is one on the screen: models mean the lines that they write.
    fn line_break(&mut self) {
        self.links.iter_mut().for_each(|link| link.text.push(' '));
        match &self.table {
            Some(table) if table.cells > 0 => self.out.unsplit(" ", Style::default()),
            _ => {
                if !self.is_line_open {
                    self.begin_line(Shape::Text);
                }
                self.end_line();
            }
        }
    }

    fn mark_task(&mut self, is_done: bool) {
        let Some(item) = self.containers.last_mut().filter(|item| !item.is_begun) else { return };
        let marker = if is_done { "[x] " } else { "[ ] " };
        (item.first, item.rest) = (marker.to_owned(), " ".repeat(marker.len()));
    }

    fn code(&mut self, text: &str) {
        let style = self.style();
        for line in text.split_inclusive('\n') {
            if !self.is_line_open {
                self.begin_line(Shape::Text);
            }
            self.out.text(&text::sanitise(line.trim_end_matches('\n')), style);
            if line.ends_with('\n') {
                self.end_line();
            }
        }
    }

    fn start_link(&mut self, target: &str, title: &str, is_image: bool) {
        self.push_style(|style| {
            *style = Style { color: Color::Link, underline: !is_image, link: LinkPart::Text, ..*style };
        });
        if is_image {
            self.linked_text("image: ", Style { dim: true, ..self.style() });
        }
        let (target, title, text) = (target.to_owned(), title.to_owned(), String::new());
        self.links.push(Link { target, title, text, is_image });
    }

    /// The target is shown unless it is the text.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some(Link { target, title, text, is_image }) = self.links.pop() else { return };
        let is_shown = !is_image && (text == target || Some(text.as_str()) == target.strip_prefix("mailto:"));
        let target = if is_shown { "" } else { target.as_str() };
        if target.is_empty() && title.is_empty() {
            return;
        }
        let style = Style { dim: true, ..self.style() };
        self.linked_text(if text.is_empty() { "(" } else { " (" }, style);
        self.linked_text(target, Style { link: LinkPart::Target, ..style });
        let space = if target.is_empty() { "" } else { " " };
        let title = if title.is_empty() { String::new() } else { format!("{space}\"{title}\"") };
        self.linked_text(&format!("{title})"), style);
    }

    fn start_row(&mut self, is_header: bool, range: &Range<usize>) {
        self.covered = self.covered.max(range.start);
        let Some(table) = self.table.as_mut() else { return };
        (table.is_header, table.cells) = (is_header, 0);
        let shape = Shape::Row { columns: table.columns.clone(), is_header };
        self.push_style(|style| style.bold |= is_header);
        self.begin_line(shape);
    }

    fn start_cell(&mut self) {
        let Some(table) = self.table.as_mut() else { return };
        table.cells += 1;
        if table.cells > 1 {
            self.out.unsplit(CELL_END.encode_utf8(&mut [0; 4]), Style::default());
        }
    }

    fn end_row(&mut self, range: &Range<usize>) {
        self.styles.pop();
        // Cells beyond those of the header, which the parser drops.
        let source = self.source.get(self.covered..range.end).unwrap_or_default();
        let excess = source.lines().next().unwrap_or_default().trim_matches(['|', ' ', '\t']);
        if !excess.is_empty() {
            self.out.unsplit(&text::sanitise(&format!(" {}", excess.replace('\t', " "))), Style::default());
        }
        let Some(table) = self.table.as_mut() else { return };
        table.cells = 0;
        let row = self.out.line().to_owned();
        if table.is_header && !table.is_continued {
            table.columns.set_headers(&row);
        }
        if table.is_header && table.is_continued {
            self.out.drop_last();
        } else if row.len() > LINE_BYTES {
            self.out.drop_last();
            self.label(&row.replace(CELL_END, " │ "), Style::default());
        } else {
            table.columns.add(&row, table.is_open);
        }
    }
}

/// The form of a line with these prefixes, if it needs one.
fn form(first: &str, rest: &str, shape: Shape) -> Option<Rc<Form>> {
    let is_plain = first.is_empty() && rest.is_empty() && shape == Shape::Text;
    (!is_plain).then(|| Rc::new(Form::new(first, rest, shape)))
}

const fn is_inline(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::Link
            | TagEnd::Image
            | TagEnd::TableCell
    )
}

const fn heading(level: HeadingLevel) -> Style {
    let style = Style { bold: true, ..Style::color(Color::Heading) };
    match level {
        HeadingLevel::H1 => Style { underline: true, ..style },
        HeadingLevel::H2 => style,
        _ => Style { italic: true, ..style },
    }
}

const fn alert(kind: BlockQuoteKind) -> &'static str {
    match kind {
        BlockQuoteKind::Note => "Note",
        BlockQuoteKind::Tip => "Tip",
        BlockQuoteKind::Important => "Important",
        BlockQuoteKind::Warning => "Warning",
        BlockQuoteKind::Caution => "Caution",
    }
}

fn is_line_break(html: &str) -> bool {
    matches!(html.to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />")
}
