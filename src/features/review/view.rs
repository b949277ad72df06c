//! The review of one agent: which file and hunk is shown, what was commented, and what keys do.
//!
//! What has changed is found out on a thread, again whenever the agent has said or done something.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash as _};
use std::ops::Range;
use std::path::PathBuf;

use super::comments::Comment;
use super::paint::Layout;
use crate::base::id::{AgentId, MessageId};
use crate::base::job::JobThread;
use crate::domain::change::{Change, FileJob, ViewName};
use crate::domain::diff::{DiffColors, FileDiff};
use crate::domain::file_change::{LandMany, LandMethod, LandRequest};
use crate::domain::key::{Key, KeyCode};
use crate::domain::scrollback::CodeLines;
use crate::repl::core::{Core, file_steps};
use crate::repl::terminals::views::{List, Painter, Pane, ViewAct, ViewContent, ViewContext};
use crate::team::changes::AgentChanges;

/// Rows that a page leaves on the screen.
const PAGE_OVERLAP: usize = 2;

pub(super) struct ReviewView {
    pub agent: AgentId,
    reading: Option<JobThread<AgentChanges>>,
    /// Without the files, which are below.
    pub changes: Option<Result<AgentChanges, String>>,
    /// What the agent had said and done when they were read.
    seen: Option<Seen>,
    pub files: List<FileDiff>,
    /// The hunk that keys are about.
    pub hunk: usize,
    /// The first row of the file that is shown.
    pub top: usize,
    pub layout: Layout,
    /// Of the marked file.
    pub colors: Option<DiffColors>,
    /// Hunks that `x` and `c` are about instead of that one, with the path of their file.
    pub marked: Vec<(PathBuf, Vec<String>)>,
    /// Some marks are gone since the last key: their hunks have changed.
    has_lost_marks: bool,
    pub comments: Vec<Comment>,
    /// What the text that is typed is for.
    pub asked: Option<Asked>,
    /// `D` was pressed: a second time discards.
    discards: bool,
    /// `A` was pressed: a second time lands the work of all agents.
    lands_all: bool,
    /// A key that leaves was pressed while there were comments.
    leaves: bool,
    /// The agents that can be reviewed, in the order of the roster.
    others: Vec<AgentId>,
    pub revision: u64,
    /// The revision that the last frame showed.
    pub drawn: Cell<u64>,
}

/// The newest message, and whether tools are at work.
type Seen = (Option<MessageId>, bool);

pub(super) enum Asked {
    /// One comment for each hunk, without a text yet.
    Comments(Vec<Comment>),
    Land,
}

impl ReviewView {
    pub fn of(agent: AgentId) -> Self {
        Self {
            agent,
            reading: None,
            changes: None,
            seen: None,
            files: List::default(),
            hunk: 0,
            top: 0,
            layout: Layout::default(),
            colors: None,
            marked: Vec::new(),
            has_lost_marks: false,
            comments: Vec::new(),
            asked: None,
            discards: false,
            lands_all: false,
            leaves: false,
            drawn: Cell::new(0),
            others: Vec::new(),
            revision: 0,
        }
    }

    pub fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Begins to find out what has changed.
    fn read(&mut self, core: &mut Core) {
        let reading = file_steps::changes_of(core, self.agent)
            .and_then(|source| JobThread::spawn("review".into(), move |job| source.read(job), core.waker()));
        match reading {
            Ok(thread) => self.reading = Some(thread),
            Err(error) => self.show(Err(error.message)),
        }
    }

    fn show(&mut self, mut changes: Result<AgentChanges, String>) {
        self.revision += 1;
        let mut files = Vec::new();
        if let Ok(changes) = &mut changes {
            files.append(&mut changes.files);
            files.append(&mut changes.elsewhere);
        }
        self.files.replace(files, |one, other| one.path == other.path);
        if changes.is_ok() {
            let count = self.marked.len();
            self.marked =
                std::mem::take(&mut self.marked).into_iter().filter_map(|mark| self.mark_again(mark)).collect();
            self.has_lost_marks |= self.marked.len() < count;
        }
        self.changes = Some(changes);
        self.layout = Layout::default();
    }

    pub fn file(&self) -> Option<&FileDiff> {
        self.files.marked()
    }

    pub fn hunks(&self) -> Vec<Range<usize>> {
        self.file().map(FileDiff::hunks).unwrap_or_default()
    }

    fn go_to_file(&mut self, by: isize) {
        self.files.step(by);
        (self.hunk, self.top) = (0, 0);
    }

    /// The next hunk, or the first of the next file.
    pub fn next_hunk(&mut self) {
        let is_last = self.hunk + 1 >= self.hunks().len();
        match is_last && self.files.at() + 1 < self.files.len() {
            true => self.go_to_file(1),
            false => self.hunk += usize::from(!is_last),
        }
        self.layout.reveals_hunk = true;
    }

    fn previous_hunk(&mut self) {
        if self.hunk == 0 && self.files.at() > 0 {
            self.go_to_file(-1);
            self.hunk = self.hunks().len().saturating_sub(1);
        } else {
            self.hunk = self.hunk.saturating_sub(1);
        }
        self.layout.reveals_hunk = true;
    }

    fn scroll(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by).min(self.layout.rows.len().saturating_sub(1));
        self.layout.reveals_hunk = false;
    }

    /// Reviews the next agent that can be, or the one before.
    fn go_to_agent(&mut self, is_forward: bool) -> ViewAct {
        let count = self.others.len();
        let at = self.others.iter().position(|agent| *agent == self.agent);
        let next = match (at, is_forward) {
            (None, _) => 0,
            (Some(at), true) => at + 1,
            (Some(at), false) => at + count - 1,
        };
        match self.others.get(next.checked_rem(count).unwrap_or(0)).copied().filter(|next| *next != self.agent) {
            None => ViewAct::Notice("no other agent has a worktree"),
            Some(_) if !self.comments.is_empty() => ViewAct::Notice("s sends the comments first; C throws them away"),
            Some(next) => {
                *self = Self::of(next);
                ViewAct::Done
            }
        }
    }

    /// The base branch; none without a worktree.
    fn target(&self) -> Option<&str> {
        self.changes.as_ref()?.as_ref().ok()?.target.as_deref()
    }

    fn begin_landing(&mut self, core: &Core) -> ViewAct {
        let Some(target) = self.target() else {
            return ViewAct::Notice("nothing to land: this agent works in your directory, not in a worktree");
        };
        let check = core.agent(self.agent).map(|agent| (agent.report.fails, agent.report.check.as_str()));
        let check = match check {
            Some((true, check)) => format!(" although {check}"),
            _ => String::new(),
        };
        let title =
            format!("land on {target}{check}: commit message for uncommitted changes (Enter lands, Esc cancels)");
        self.asked = Some(Asked::Land);
        ViewAct::Ask { title, text: core.roster().commit_subject(core.store(), self.agent) }
    }

    fn land(&self, message: &str) -> ViewAct {
        let commit = Some(message.trim()).filter(|message| !message.is_empty()).map(str::to_owned);
        let request = LandRequest { commit, ..LandRequest::default() };
        ViewAct::Changes(vec![(self.agent, Change::Files(FileJob::Land { agent: self.agent, request }))])
    }

    /// Lands the work of all agents, when the key was pressed twice.
    fn land_all(&mut self, core: &Core, was_asked: bool) -> ViewAct {
        let agents = || self.others.iter().filter_map(|agent| core.agent(*agent));
        let checked = agents().filter(|agent| !agent.done_command(core.config()).is_empty()).count();
        self.lands_all = !was_asked;
        match (was_asked, checked) {
            (true, _) => {
                let how = LandMany { agents: Vec::new(), method: LandMethod::Rebase, only_committed: false };
                ViewAct::Told((self.agent, Change::Files(FileJob::LandMany(how))), "landing, one after another")
            }
            (false, 0) => {
                ViewAct::Notice("A again lands the work of all agents, unchecked: there is no [done] command")
            }
            (false, checked) if checked < agents().count() => ViewAct::Notice(
                "A again lands the work of all agents; not all have a command that checks it (/done sets one)",
            ),
            (false, _) => ViewAct::Notice("A again lands the work of all agents, each if your [done] command succeeds"),
        }
    }

    /// Has the agent merge what was landed meanwhile.
    fn merge(&self, core: &Core) -> ViewAct {
        match self.target().filter(|_| core.agent(self.agent).is_some()) {
            None => ViewAct::Notice("nothing to merge: this agent works in your directory, not in a worktree"),
            Some(target) => {
                let text = format!(
                    "Commit your work, then merge the branch {target} into yours (git merge {target}), resolve the \
                     conflicts so that both changes keep their meaning, and run the tests. Say what you resolved, and how."
                );
                ViewAct::Told((self.agent, Change::Submit(text)), "the agent has been asked to merge")
            }
        }
    }

    /// Comments that were not sent would be lost: only a second key leaves them.
    fn leave(&mut self, was_asked: bool, leaving: ViewAct) -> ViewAct {
        self.leaves = !self.comments.is_empty() && !was_asked;
        if self.leaves {
            ViewAct::Notice("s sends the comments first; the same key again throws them away")
        } else {
            leaving
        }
    }

    fn discard(&mut self, was_asked: bool) -> ViewAct {
        if self.target().is_none() {
            return ViewAct::Notice("nothing to discard: this agent works in your directory; /undo brings files back");
        }
        if !was_asked {
            self.discards = true;
            return ViewAct::Notice(
                "D again deletes the worktree, its branch and this agent; the work can be restored for 30 days",
            );
        }
        let agent = self.agent;
        ViewAct::Changes(vec![(agent, Change::Files(FileJob::Discard(agent)))])
    }
}

impl ViewContent for ReviewView {
    fn name(&self) -> ViewName {
        ViewName::Review
    }

    fn update(&mut self, core: &mut Core, context: &ViewContext<'_>) -> bool {
        if let Some(thread) = self.reading.take_if(|thread| thread.is_complete()) {
            self.show(thread.collect());
        }
        if core.agent(self.agent).is_none() {
            // It was discarded or killed.
            let at = self.others.iter().position(|agent| *agent == self.agent).unwrap_or(0);
            let mut next = self.others[at..].iter().chain(&self.others[..at]).copied();
            let Some(next) = next.find(|next| core.agent(*next).is_some()) else { return false };
            *self = Self::of(next);
        }
        let is_reviewed = |agent: &crate::agent::Agent| agent.inputs.environment.worktree.is_some();
        self.others = core.roster().iter().filter(|agent| is_reviewed(agent)).map(crate::agent::Agent::id).collect();
        let known = core.agent(self.agent);
        let newest = known.and_then(|agent| agent.inputs.history.as_ref()).map(|history| history.last_id());
        let seen = (newest, known.is_some_and(crate::agent::Agent::has_live_tool));
        if self.reading.is_none() && self.seen != Some(seen) {
            self.seen = Some(seen);
            self.read(core);
        }
        self.lay_out(context.screen);
        true
    }

    fn hash_shown(&self, core: &Core, hash: &mut DefaultHasher) {
        (self.agent, self.revision, self.is_reading(), self.comments.len(), self.marked.len()).hash(hash);
        self.colors.as_ref().map(DiffColors::count).hash(hash);
        core.agent(self.agent).map(|agent| agent.status().name()).hash(hash);
    }

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        let (discards, leaves) = (std::mem::take(&mut self.discards), std::mem::take(&mut self.leaves));
        let lands_all = std::mem::take(&mut self.lands_all);
        let Key::Press(code, modifiers) = key else {
            if let Key::Wheel(notches) = key {
                self.scroll(isize::try_from(*notches).unwrap_or(0) * 3);
            }
            return ViewAct::Done;
        };
        if modifiers.ctrl || modifiers.alt {
            return ViewAct::Done;
        }
        let page = isize::try_from(self.layout.height.saturating_sub(PAGE_OVERLAP).max(1)).unwrap_or(1);
        match code {
            KeyCode::Escape => return self.leave(leaves, ViewAct::Close),
            KeyCode::Enter => return self.leave(leaves, ViewAct::Go(self.agent)),
            KeyCode::Char('i') => return ViewAct::Write(vec![self.agent]),
            KeyCode::Char('j') => self.next_hunk(),
            KeyCode::Char('k') => self.previous_hunk(),
            KeyCode::Char('J') | KeyCode::Tab => self.go_to_file(1),
            KeyCode::Char('K') | KeyCode::BackTab => self.go_to_file(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::Up => self.scroll(-1),
            KeyCode::Char(' ') => self.mark_hunk(),
            KeyCode::Char('f') => self.mark(&self.hunks()),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::Home => self.scroll(isize::MIN / 2),
            KeyCode::End => self.scroll(isize::MAX / 2),
            KeyCode::Char('c' | 'x') if std::mem::take(&mut self.has_lost_marks) => {
                return ViewAct::Notice(
                    "marked hunks have changed and lost their marks: look again, then press the key",
                );
            }
            KeyCode::Char('c') => return self.begin_comment(),
            KeyCode::Char('C') => self.comments.clear(),
            KeyCode::Char('s') => return self.send_comments(core),
            KeyCode::Char('l') => return self.begin_landing(core),
            KeyCode::Char('A') => return self.land_all(core, lands_all),
            KeyCode::Char('m') => return self.merge(core),
            KeyCode::Char('x') => return self.revert_hunks(),
            KeyCode::Char('D') => return self.discard(discards),
            KeyCode::Char(']') => return self.go_to_agent(true),
            KeyCode::Char('[') => return self.go_to_agent(false),
            _ => {}
        }
        ViewAct::Done
    }

    fn take_uncoloured(&mut self) -> Vec<CodeLines> {
        self.colors.as_ref().map(DiffColors::take_uncoloured).unwrap_or_default()
    }

    fn on_text(&mut self, _: &Core, text: String) -> ViewAct {
        match self.asked.take() {
            Some(Asked::Comments(comments)) if !text.trim().is_empty() => {
                let text = text.trim();
                self.comments.extend(comments.into_iter().map(|comment| Comment { text: text.to_owned(), ..comment }));
                self.marked.clear();
            }
            Some(Asked::Comments(_)) => {}
            Some(Asked::Land) => return self.land(&text),
            None => {}
        }
        ViewAct::Done
    }

    fn pane(&self, core: &Core, _: &Painter, size: (u16, usize)) -> Pane {
        self.drawn.set(self.revision);
        self.paint(core, size)
    }
}

/// The path and the line of a hunk: `src/cli.rs:12`.
pub(super) fn place(file: &FileDiff, hunks: &[Range<usize>], at: usize) -> String {
    let line = hunks.get(at).map_or(1, |lines| file.first_changed(lines));
    format!("{}:{line}", file.path.display())
}
