//! The thread: syntaxes, the state of each block, and from scopes to colours.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use two_face::re_exports::syntect::parsing::{
    BasicScopeStackOp, ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet,
};

use super::{Colored, Exchange, Job, Outcome, Shared};
use crate::base::job::Wake;
use crate::domain::frame::Color;

/// The blocks whose state is kept.
const BLOCKS: usize = 64;

/// Names that models use, and the extension under which the syntax is found.
const ALIASES: [(&str, &str); 14] = [
    ("c#", "cs"),
    ("console", "sh"),
    ("csharp", "cs"),
    ("golang", "go"),
    ("javascript", "js"),
    ("jsonc", "json"),
    ("jsx", "js"),
    ("node", "js"),
    ("objective-c", "m"),
    ("python3", "py"),
    ("shell", "sh"),
    ("shell-session", "sh"),
    ("terminal", "sh"),
    ("udiff", "diff"),
];

/// Scopes and their colours; of those that match, the longest counts. Scopes without a colour are transparent: the
/// enclosing scope counts.
const COLORS: [(&str, Color); 40] = [
    ("comment", Color::Comment),
    ("constant", Color::Constant),
    ("constant.numeric", Color::Number),
    ("entity.name.class", Color::Type),
    ("entity.name.enum", Color::Type),
    ("entity.name.function", Color::Function),
    ("entity.name.impl", Color::Type),
    ("entity.name.interface", Color::Type),
    ("entity.name.macro", Color::Function),
    ("entity.name.namespace", Color::Type),
    ("entity.name.section", Color::Heading),
    ("entity.name.struct", Color::Type),
    ("entity.name.tag", Color::Tag),
    ("entity.name.trait", Color::Type),
    ("entity.name.type", Color::Type),
    ("entity.name.union", Color::Type),
    ("entity.other.attribute-name", Color::Tag),
    ("entity.other.inherited-class", Color::Type),
    ("invalid", Color::Default),
    ("keyword", Color::Keyword),
    ("keyword.operator", Color::Default),
    ("keyword.operator.logical.python", Color::Keyword),
    ("markup.bold", Color::Type),
    ("markup.deleted", Color::Removed),
    ("markup.heading", Color::Heading),
    ("markup.inserted", Color::Added),
    ("markup.raw", Color::Code),
    ("meta.annotation", Color::Tag),
    ("meta.interpolation", Color::Default),
    ("storage", Color::Keyword),
    ("storage.type.numeric", Color::Type),
    ("string", Color::String),
    ("support.class", Color::Type),
    ("support.constant", Color::Constant),
    ("support.function", Color::Function),
    ("support.macro", Color::Function),
    ("support.type", Color::Type),
    ("support.type.property-name", Color::Tag),
    ("variable.function", Color::Function),
    ("variable.language", Color::Constant),
];

/// Colours lines until none have come for some time.
pub(super) fn run(exchange: &Exchange, idle: Duration, wake: &Wake) {
    let mut colors = Colorer::new();
    while let Some(job) = next_job(exchange, idle) {
        let (block, first) = (job.block, job.first);
        // The lines of a block in which a grammar panics stay as they are.
        let outcome = catch_unwind(AssertUnwindSafe(|| colors.color(job))).unwrap_or(Outcome::Unknown);
        exchange.lock().results.push(Colored { block, first, outcome });
        wake();
    }
}

fn next_job(exchange: &Exchange, idle: Duration) -> Option<Job> {
    let waits = |shared: &mut Shared| shared.jobs.is_empty() && !shared.is_closed;
    let waited = exchange.changed.wait_timeout_while(exchange.lock(), idle, waits);
    let (mut shared, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
    let job = shared.jobs.pop_front().filter(|_| !shared.is_closed);
    shared.is_running = job.is_some();
    if job.is_none() {
        exchange.changed.notify_all();
    }
    job
}

struct Colorer {
    syntaxes: SyntaxSet,
    scopes: Vec<(Scope, Color)>,
    blocks: HashMap<u64, Block>,
    /// Counts the jobs.
    now: u64,
}

/// The state after the lines that were coloured.
struct Block {
    parser: ParseState,
    scopes: ScopeStack,
    /// The colour within each of the scopes: nested code does not cost a walk through all of them at each token.
    colors: Vec<Color>,
    lines: usize,
    used: u64,
}

impl Colorer {
    fn new() -> Self {
        let scopes = COLORS.iter().filter_map(|(name, color)| Some((Scope::new(name).ok()?, *color))).collect();
        Self { syntaxes: two_face::syntax::extra_newlines(), scopes, blocks: HashMap::new(), now: 0 }
    }

    fn color(&mut self, job: Job) -> Outcome {
        self.now += 1;
        let known = self.blocks.remove(&job.block).filter(|block| block.lines == job.first);
        let Some(syntax) = self.syntax(&job.language) else { return Outcome::Unknown };
        let begin = || Block {
            parser: ParseState::new(syntax),
            scopes: ScopeStack::new(),
            colors: Vec::new(),
            lines: 0,
            used: 0,
        };
        let Some(mut block) = known.or_else(|| (job.first == 0).then(begin)) else { return Outcome::Forgotten };
        let lines = job.lines.iter().map(|line| self.color_line(&mut block, line)).collect();
        (block.lines, block.used) = (job.first + job.lines.len(), self.now);
        if self.blocks.len() >= BLOCKS {
            let oldest = self.blocks.iter().min_by_key(|(_, block)| block.used).map(|(id, _)| *id);
            oldest.map(|oldest| self.blocks.remove(&oldest));
        }
        self.blocks.insert(job.block, block);
        Outcome::Lines(lines)
    }

    fn syntax(&self, language: &str) -> Option<&SyntaxReference> {
        let language = language.trim_matches(['{', '}', '.']).to_ascii_lowercase();
        let alias = ALIASES.iter().find(|(name, _)| *name == language).map(|(_, extension)| *extension);
        let syntax = self.syntaxes.find_syntax_by_token(alias.unwrap_or(&language))?;
        (syntax.name != "Plain Text").then_some(syntax)
    }

    /// The coloured parts of a line. A line in which a grammar fails has no colours.
    fn color_line(&self, block: &mut Block, line: &str) -> Vec<(Range<usize>, Color)> {
        let with_end = format!("{line}\n");
        let Ok(changes) = block.parser.parse_line(&with_end, &self.syntaxes) else { return Vec::new() };
        let (mut parts, mut begin) = (Vec::new(), 0);
        for (at, change) in changes {
            add(&mut parts, begin..at.min(line.len()), &block.colors);
            begin = at.min(line.len());
            let Block { scopes, colors, .. } = &mut *block;
            let follow = |basic: BasicScopeStackOp, _: &[Scope]| match basic {
                BasicScopeStackOp::Push(scope) => {
                    let around = colors.last().copied().unwrap_or_default();
                    colors.push(self.color_of(scope).unwrap_or(around));
                }
                BasicScopeStackOp::Pop => drop(colors.pop()),
            };
            if scopes.apply_with_hook(&change, follow).is_err() {
                return Vec::new();
            }
        }
        add(&mut parts, begin..line.len(), &block.colors);
        parts
    }

    fn color_of(&self, scope: Scope) -> Option<Color> {
        let matching = self.scopes.iter().filter(|(known, _)| known.is_prefix_of(scope));
        matching.max_by_key(|(known, _)| known.len()).map(|(_, color)| *color)
    }
}

fn add(parts: &mut Vec<(Range<usize>, Color)>, range: Range<usize>, colors: &[Color]) {
    let color = colors.last().copied().unwrap_or_default();
    match parts.last_mut() {
        _ if range.is_empty() || color == Color::Default => {}
        Some((last, known)) if last.end == range.start && *known == color => last.end = range.end,
        _ => parts.push((range, color)),
    }
}
