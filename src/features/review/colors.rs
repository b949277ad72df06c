//! The colours of the code in the marked file: the lines before the change are one block of code, those after it another.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use crate::domain::diff::{CodeColor, FileDiff, hunk};
use crate::domain::scrollback::{Code, CodeLines, LINE_BYTES, LINES};

/// The signs of the lines before and after the change.
const SIGNS: [[char; 2]; 2] = [[' ', '-'], [' ', '+']];

pub(super) struct Colors {
    /// Tells the file and its lines from others.
    of: u64,
    /// The code before and after the change.
    sides: [Rc<Code>; 2],
    /// They were not handed out for colouring yet.
    uncoloured: Vec<CodeLines>,
}

impl Colors {
    pub fn of(file: &FileDiff) -> Self {
        let name = file.path.extension().or(file.path.file_name()).unwrap_or_default().to_string_lossy();
        let sides = [Code::new(&name), Code::new(&name)];
        let lines = |signs: [char; 2]| {
            let lines = file
                .lines
                .iter()
                .filter_map(move |line| Some(line.strip_prefix(signs)?).filter(|_| hunk(line).is_none()));
            lines
                .map(|line| if line.len() <= LINE_BYTES { line.to_owned() } else { String::new() })
                .take(LINES)
                .collect()
        };
        let code = sides.iter().zip(SIGNS);
        let uncoloured = code.map(|(code, signs)| CodeLines { code: Rc::clone(code), first: 0, lines: lines(signs) });
        Self { of: identity(file), uncoloured: uncoloured.collect(), sides }
    }

    /// Whether they are those of this file as it is now.
    pub fn are_of(&self, file: &FileDiff) -> bool {
        self.of == identity(file)
    }

    /// How many lines have their colours.
    pub fn count(&self) -> usize {
        self.sides.iter().map(|code| code.colored()).sum()
    }

    pub fn take_uncoloured(&mut self) -> Vec<CodeLines> {
        std::mem::take(&mut self.uncoloured)
    }

    /// The colours of each line of the file.
    pub fn of_lines(&self, file: &FileDiff) -> Vec<Vec<CodeColor>> {
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
        file.lines.iter().map(of_line).collect()
    }
}

fn identity(file: &FileDiff) -> u64 {
    let mut hash = DefaultHasher::new();
    (&file.path, &file.lines).hash(&mut hash);
    hash.finish()
}
