//! The colours of the code in the diff of a file: the lines before the change are one block of code, those after it another.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::rc::Rc;

use super::{CodeColor, draw_code, hunk};
use crate::domain::frame::StyledLine;
use crate::domain::scrollback::{Code, CodeLines, LINE_BYTES, LINES};

/// The signs of the lines before and after the change.
const SIGNS: [[char; 2]; 2] = [[' ', '-'], [' ', '+']];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffColors {
    /// Tells the file and its lines from others.
    of: u64,
    /// The code before and after the change.
    sides: [Rc<Code>; 2],
    /// They were not handed out for colouring yet.
    uncoloured: RefCell<Vec<CodeLines>>,
}

impl DiffColors {
    /// Of the lines of a diff of this file.
    pub fn of(path: &Path, diff: &[String]) -> Self {
        let language = language_of(path);
        let sides = [Code::new(&language), Code::new(&language)];
        let lines = |signs: [char; 2]| {
            let lines =
                diff.iter().filter_map(move |line| Some(line.strip_prefix(signs)?).filter(|_| hunk(line).is_none()));
            lines
                .map(|line| if line.len() <= LINE_BYTES { line.to_owned() } else { String::new() })
                .take(LINES)
                .collect()
        };
        let code = sides.iter().zip(SIGNS);
        let uncoloured = code.map(|(code, signs)| CodeLines { code: Rc::clone(code), first: 0, lines: lines(signs) });
        Self { of: identity(path, diff), uncoloured: RefCell::new(uncoloured.collect()), sides }
    }

    /// Whether they are those of these lines.
    pub fn are_of(&self, path: &Path, diff: &[String]) -> bool {
        self.of == identity(path, diff)
    }

    /// How many lines have their colours.
    pub fn count(&self) -> usize {
        self.sides.iter().map(|code| code.colored()).sum()
    }

    /// The lines that need colours. They are returned once.
    pub fn take_uncoloured(&self) -> Vec<CodeLines> {
        self.uncoloured.take()
    }

    /// The lines of the diff with their colours.
    pub fn draw(&self, diff: &[String]) -> Vec<StyledLine> {
        let colors = self.of_lines(diff);
        draw_code(diff.iter().map(String::as_str).zip(colors.iter().map(Vec::as_slice)))
    }

    /// The colours of each line of the diff.
    pub fn of_lines(&self, diff: &[String]) -> Vec<Vec<CodeColor>> {
        let mut counts = [0, 0];
        let of_line = |line: &String| {
            let mut colors = Vec::new();
            for (side, signs) in SIGNS.iter().enumerate() {
                if let Some(code) = line.strip_prefix(*signs) {
                    colors = self.sides[side].parts(counts[side], code.len());
                    counts[side] += 1;
                }
            }
            colors
        };
        diff.iter().map(of_line).collect()
    }
}

/// The name by which the colours of the code in a file are found.
pub fn language_of(path: &Path) -> Box<str> {
    path.extension().or(path.file_name()).unwrap_or_default().to_string_lossy().into()
}

fn identity(path: &Path, diff: &[String]) -> u64 {
    let mut hash = DefaultHasher::new();
    (path, diff).hash(&mut hash);
    hash.finish()
}
