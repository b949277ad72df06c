//! The timeline: everything that happened in a conversation, and what a person can do at each point of it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash};

use crate::agent::Agent;
use crate::base::clock::time_of_day;
use crate::base::id::{AgentId, MessageId};
use crate::base::text;
use crate::domain::change::{Change, FileJob, HistoryEdit};
use crate::domain::diff::{DiffColors, FileDiff};
use crate::domain::file_change::UndoRequest;
use crate::domain::frame::{Color, Row, Style, StyledLine};
use crate::domain::key::{Key, KeyCode};
use crate::domain::scrollback::CodeLines;
use crate::domain::timeline::{Child, Entry, Kind, changed_since, timeline};
use crate::repl::core::Core;
use crate::repl::terminals::views::{
    List, Painter, Pane, ScrolledText, ViewAct, ViewContent, ViewContext, ViewName, between, column, indented,
};
use crate::team::changes::{changed_files, compare};

/// Columns of the number and of the speaker.
const NUMBER: usize = 5;
const SPEAKER: usize = 10;
/// Columns at the right: what changed, or the size of the context.
const EFFECT: usize = 14;
/// Files that are named below the list.
const MOST_NAMED: usize = 4;

/// The timeline of one agent.
#[derive(Default)]
pub(super) struct TimelineView {
    agent: Option<AgentId>,
    /// While the newest one is marked, it stays marked when others follow.
    entries: List<Entry>,
    /// What the entries were made of.
    seen: Option<Seen>,
    /// The last line with text of a reply that is being received.
    streaming: Option<String>,
    /// All of the marked entry.
    unfolded: Option<ScrolledText>,
    /// One of two points that are compared.
    from: Option<MessageId>,
    /// What changed between two points.
    diff: Option<Compared>,
}

/// What changed in files, with the colours of the code.
struct Compared {
    files: Vec<(FileDiff, DiffColors)>,
    /// How many lines have their colours.
    colored: usize,
    text: ScrolledText,
}

/// The newest message, the number of children, and whether tools are at work.
type Seen = (MessageId, usize, bool);

impl TimelineView {
    fn read(&mut self, core: &mut Core, focus: AgentId) {
        let id = *self.agent.get_or_insert(focus);
        // The error is shown when a message is sent.
        drop(core.load(id));
        let Some(agent) = core.agent(id) else { return };
        let last = agent.partial_text().lines().rev().find(|line| !line.trim().is_empty());
        self.streaming = last.map(str::to_owned);
        let Some(history) = &agent.inputs.history else { return };
        let seen = (history.last_id(), core.roster().children(id).count(), agent.has_live_tool());
        if self.seen == Some(seen) {
            return;
        }
        let steps = core.store().file_steps(id, MessageId(0)).unwrap_or_default();
        let known: HashSet<MessageId> = history.conversation().iter().map(|message| message.id).collect();
        let children: Vec<Child> = core.roster().children(id).filter_map(|child| child_of(core, child)).collect();
        let follows = self.entries.at() + 1 >= self.entries.len();
        self.entries.replace(timeline(history.iter(), &known, &steps, &children), |_, _| false);
        if follows {
            self.entries.mark(usize::MAX);
        }
        if self.unfolded.is_some() {
            self.unfold();
        }
        self.seen = Some(seen);
    }

    /// Keys while a diff or a whole message is shown. False if it means something else.
    fn scroll(&mut self, code: KeyCode) -> bool {
        match (code, &mut self.diff, &mut self.unfolded) {
            (_, None, None) => return false,
            (KeyCode::Enter | KeyCode::Escape, Some(_), _) => self.diff = None,
            (KeyCode::Enter | KeyCode::Escape, None, _) => self.unfolded = None,
            (KeyCode::Char('f' | 'e' | 'w' | 'u' | 'c'), diff, _) => return diff.is_some(),
            (code, Some(diff), _) => diff.text.on_key(code),
            (code, None, Some(text)) => text.on_key(code),
        }
        true
    }

    /// Enter: all of the entry, or the child that left here.
    fn open(&mut self) -> ViewAct {
        match self.entries.marked().map(|entry| &entry.kind) {
            Some(Kind::Fork(Some(child))) => return ViewAct::Go(*child),
            Some(_) => self.unfold(),
            None => {}
        }
        ViewAct::Done
    }

    fn unfold(&mut self) {
        let lines = self.entries.marked().into_iter().flat_map(|entry| entry.text.lines());
        let lines = lines.map(|line| StyledLine::of(line, Style::default())).collect();
        self.unfolded.get_or_insert_default().replace(lines);
    }

    fn fork(&self) -> ViewAct {
        match (self.agent, self.entries.marked().map(|entry| entry.last)) {
            (Some(agent), Some(Some(message))) => ViewAct::Leave(agent, Change::ForkAt { agent, message, text: None }),
            (Some(_), Some(None)) => ViewAct::Notice("its tools are not done yet: fork from an earlier message"),
            _ => ViewAct::Done,
        }
    }

    fn edit(&self) -> ViewAct {
        match (self.agent, self.entries.marked()) {
            (Some(agent), Some(Entry { kind: Kind::Prompt, previous, text, .. })) => {
                let text = Some(text.clone());
                ViewAct::Leave(agent, Change::ForkAt { agent, message: *previous, text })
            }
            _ => ViewAct::Notice("only messages of yours can be edited: mark one"),
        }
    }

    /// The marked message becomes the last one; a message of the person goes back to the draft.
    fn rewind(&self, core: &Core) -> ViewAct {
        let (Some(agent), Some(entry)) = (self.agent, self.entries.marked()) else { return ViewAct::Done };
        let point = core.agent(agent).map_or(MessageId(0), |agent| agent.identity.fork_point);
        let (after, text) = match (&entry.kind, entry.last) {
            (Kind::Prompt, _) => (entry.previous, Some(entry.text.clone())),
            (_, Some(last)) => (last, None),
            (_, None) => return ViewAct::Notice("its tools are not done yet: stop them with Esc in the conversation"),
        };
        if !entry.is_known {
            return ViewAct::Notice("this message is above a /clear: f forks from it");
        }
        if after < point {
            return ViewAct::Notice("this message is inherited: f forks from it");
        }
        ViewAct::Leave(agent, Change::EditHistory(HistoryEdit::RewindTo { after, text }))
    }

    fn undo(&self) -> ViewAct {
        let (Some(agent), Some(entry)) = (self.agent, self.entries.marked()) else { return ViewAct::Done };
        let request = UndoRequest::new(Some(entry.message.0), false, false);
        ViewAct::Leave(agent, Change::Files(FileJob::Undo { agent, request }))
    }

    /// Notes the first point, or shows what changed between it and this one.
    fn compare(&mut self, core: &Core) -> ViewAct {
        let (Some(agent), Some(message)) = (self.agent, self.entries.marked().map(|entry| entry.message)) else {
            return ViewAct::Done;
        };
        let Some(from) = self.from.take() else {
            self.from = Some(message);
            return ViewAct::Notice("mark another message and press c again; Esc takes it back");
        };
        let (first, last) = (from.min(message), from.max(message));
        // The newest point is now.
        let is_to_the_end = self.entries.all().last().is_some_and(|newest| newest.message == last) || from == message;
        let before = (!is_to_the_end).then_some(last);
        let snapshots = core.agent(agent).and_then(|agent| agent.inputs.environment.snapshots.clone());
        let found = snapshots.and_then(|snapshots| {
            let files = changed_files(core.store(), agent, first, before).ok()?;
            Some(compare(&snapshots, &files))
        });
        let found = found.unwrap_or_default();
        if found.is_empty() {
            return ViewAct::Notice("no tool changed a file between these messages");
        }
        self.diff = Some(Compared::new(found));
        ViewAct::Done
    }

    fn title(&self, core: &Core) -> String {
        let name = self.agent.map(|agent| core.roster().label_of(agent)).unwrap_or_default();
        let forks = self.entries.iter().filter(|entry| matches!(entry.kind, Kind::Fork(_))).count();
        let messages = text::counted(self.entries.len() - forks, "message", "messages");
        let forks = match forks {
            0 => String::new(),
            count => format!(" ─ {}", text::counted(count, "fork", "forks")),
        };
        let from = self.from.map(|from| format!(" ─ comparing from {}", from.0)).unwrap_or_default();
        format!("{name} ─ timeline ─ {messages}{forks}{from}")
    }

    /// The list around the marked entry, and below it what its files became.
    fn list(&self, core: &Core, columns: u16, pane: &mut Pane) {
        let below = self.below(core, columns);
        let live = self.streaming.as_ref().map(|last| self.live_row(core, last, columns));
        let space = pane.room().saturating_sub(below.len() + usize::from(live.is_some()) + 1).max(1);
        pane.list(&self.entries, space, |_| Row::default(), |entry| self.row(core, entry, columns));
        pane.rows.extend(live);
        pane.rows.push(Row::default());
        pane.rows.extend(below);
    }

    fn row(&self, core: &Core, entry: &Entry, columns: u16) -> Row {
        let first = entry.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let speaker = match &entry.kind {
            Kind::Prompt => "you".to_owned(),
            Kind::Reply => self.agent.map(|agent| core.roster().label_of(agent)).unwrap_or_default(),
            Kind::Tool { name, .. } => name.clone(),
            Kind::Event => "·".into(),
            Kind::Fork(_) => "├─ fork".into(),
        };
        let number = if matches!(entry.kind, Kind::Fork(_)) { String::new() } else { entry.message.0.to_string() };
        let line = format!("  {} {number:>NUMBER$}  {} ", time_of_day(entry.at), column(&speaker, SPEAKER));
        let end = if columns >= 60 { format!(" {:>EFFECT$}", effect(entry)) } else { " ".to_owned() };
        let style = match &entry.kind {
            _ if self.from == Some(entry.message) => Style::color(Color::Attention),
            Kind::Tool { has_failed: true, .. } => Style::color(Color::Error),
            _ if !entry.is_known || matches!(entry.kind, Kind::Event) => Style::DIM,
            Kind::Prompt => Style::color(Color::User),
            _ => Style::default(),
        };
        Row::of(between(&line, first, &end, columns), style)
    }

    fn live_row(&self, core: &Core, last: &str, columns: u16) -> Row {
        let name = self.agent.map(|agent| core.roster().label_of(agent)).unwrap_or_default();
        let head = format!("  {:5} {:>NUMBER$}  {} ", "now", "", column(&name, SPEAKER));
        Row::of(between(&head, last, "", columns), Style::DIM)
    }

    /// The files that changed from the marked entry on, and why not all may be known.
    fn below(&self, core: &Core, columns: u16) -> Vec<Row> {
        let Some(entry) = self.entries.marked() else { return Vec::new() };
        let files = changed_since(self.entries.all(), entry.message);
        let top = self.agent.and_then(|agent| core.agent(agent)).map(directory);
        let shown = |path: &std::path::Path| {
            let below = top.as_ref().and_then(|top| path.strip_prefix(top).ok()).unwrap_or(path);
            below.display().to_string()
        };
        let times = |count: usize| if count > 1 { format!(" ({count} calls)") } else { String::new() };
        let mut names: Vec<String> =
            files.iter().take(MOST_NAMED).map(|(path, count)| shown(path) + &times(*count)).collect();
        if files.len() > MOST_NAMED {
            names.push(format!("and {} more", files.len() - MOST_NAMED));
        }
        let mut lines = Vec::new();
        if !names.is_empty() {
            lines.push(format!("files changed from {} on: {}", entry.message.0, names.join(", ")));
        }
        lines.extend(entry.flaw.as_ref().map(|flaw| format!("cannot be undone: {flaw}")));
        lines.iter().flat_map(|line| indented(line, Style::DIM, columns)).collect()
    }

    fn hints(&self) -> &'static str {
        match self.diff.is_some() || self.unfolded.is_some() {
            true => "Up, Down, PageUp, PageDown scroll   Enter or Esc back",
            false => "Enter unfold  f fork here  e edit, fork  w rewind here  u files back  c compare",
        }
    }
}

impl ViewContent for TimelineView {
    fn name(&self) -> ViewName {
        ViewName::Timeline
    }

    fn update(&mut self, core: &mut Core, context: &ViewContext<'_>) -> bool {
        let (focus, screen) = (context.focus, context.screen);
        self.read(core, focus);
        self.unfolded.iter_mut().for_each(|text| text.lay_out(screen));
        self.diff.iter_mut().for_each(|diff| diff.lay_out(screen));
        true
    }

    fn hash_shown(&self, _: &Core, hash: &mut DefaultHasher) {
        // The entries change only with what they were made of.
        (self.seen, &self.streaming, self.diff.as_ref().map(|diff| diff.colored)).hash(hash);
    }

    fn take_uncoloured(&mut self) -> Vec<CodeLines> {
        let files = self.diff.iter().flat_map(|diff| &diff.files);
        files.flat_map(|(_, colors)| colors.take_uncoloured()).collect()
    }

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        let Key::Press(code, modifiers) = key else { return ViewAct::Done };
        if modifiers.ctrl || modifiers.alt {
            return ViewAct::Done;
        }
        if self.scroll(*code) {
            return ViewAct::Done;
        }
        match code {
            KeyCode::Enter => return self.open(),
            KeyCode::Char('f') => return self.fork(),
            KeyCode::Char('e') => return self.edit(),
            KeyCode::Char('w') => return self.rewind(core),
            KeyCode::Char('u') => return self.undo(),
            KeyCode::Char('c') => return self.compare(core),
            KeyCode::Escape if self.from.take().is_some() => {}
            KeyCode::Escape => return ViewAct::Close,
            code => self.entries.on_key(*code),
        }
        ViewAct::Done
    }

    fn pane(&self, core: &Core, _: &Painter, size: (u16, usize)) -> Pane {
        let mut pane = Pane::new(&self.title(core), self.hints(), size);
        match self.diff.as_ref().map(|diff| &diff.text).or(self.unfolded.as_ref()) {
            Some(text) => pane.rows.extend(text.rows(pane.room())),
            None if self.entries.is_empty() && self.streaming.is_none() => {
                pane.say("nothing has happened yet; Esc goes back");
            }
            None => self.list(core, size.0, &mut pane),
        }
        pane
    }
}

fn directory(agent: &Agent) -> std::path::PathBuf {
    let environment = &agent.inputs.environment;
    environment.worktree.clone().unwrap_or_else(|| environment.working_directory.clone())
}

fn child_of(core: &Core, id: AgentId) -> Option<Child> {
    let child = core.agent(id)?;
    let text = format!("{}  {}", child.identity.label(), child.status().name());
    Some(Child { agent: id, point: child.identity.fork_point, text })
}

/// What a call changed, or the context after it.
fn effect(entry: &Entry) -> String {
    let changed = entry.files.iter().filter(|(_, is_undone)| !is_undone).count();
    match (&entry.kind, changed) {
        (Kind::Tool { has_failed: true, .. }, 0) => "failed".into(),
        (_, 0) if !entry.files.is_empty() => "undone".into(),
        (Kind::Tool { .. }, 0) if entry.flaw.is_some() => "no undo".into(),
        (_, 0) => entry.context.map(|tokens| format!("ctx {}", text::with_commas(tokens))).unwrap_or_default(),
        (_, count) => text::counted(count, "file", "files"),
    }
}

impl Compared {
    fn new(files: Vec<FileDiff>) -> Self {
        let with_colors = |file: FileDiff| {
            let colors = DiffColors::of(&file.path, &file.lines);
            (file, colors)
        };
        let files = files.into_iter().map(with_colors).collect();
        let mut compared = Self { files, colored: 0, text: ScrolledText::default() };
        compared.text.replace(compared.lines());
        compared
    }

    fn lay_out(&mut self, screen: (u16, u16)) {
        let colored = self.files.iter().map(|(_, colors)| colors.count()).sum();
        if std::mem::replace(&mut self.colored, colored) != colored {
            self.text.replace(self.lines());
        }
        self.text.lay_out(screen);
    }

    fn lines(&self) -> Vec<StyledLine> {
        let mut all = Vec::new();
        for (file, colors) in &self.files {
            all.push(StyledLine::of(format!("{}  {}", file.path.display(), file.counts()), Style::BOLD));
            all.extend(colors.draw(&file.lines));
        }
        all
    }
}
