//! What the project's own ignore files leave out: `.gitignore` and `.ignore`, read as gitignore(5) says.
//!
//! The file that is nearest to an entry decides, in a file the last rule that fits; what any `.ignore` says goes before
//! every `.gitignore`. Rules of a repository end where the repository does: a `.gitignore` further up than a directory
//! with a `.git` says nothing about what is in there.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::opening::open;
use super::wildcard::{Braces, Wildcard};

/// What git reads.
pub const GITIGNORE: &str = ".gitignore";
/// What only search tools read.
pub const IGNORE: &str = ".ignore";
/// How large an ignore file may be, in bytes: it is read whole.
pub const LARGEST: u64 = 1 << 20;

/// The ignore files of one directory and of all around it.
pub struct Ignoring {
    /// From the outermost directory on.
    levels: Vec<Level>,
}

struct Level {
    directory: PathBuf,
    gitignore: Vec<Rule>,
    ignore: Vec<Rule>,
    is_repository: bool,
}

/// One line of an ignore file.
struct Rule {
    wildcard: Wildcard,
    /// It begins with `!`: what it fits is not left out.
    is_exception: bool,
    /// It ends in a slash.
    is_for_directories: bool,
    /// A slash within it makes it start where its file lies; else it is for names at every depth.
    is_anchored: bool,
}

impl Ignoring {
    /// What holds in the directory around this one.
    pub fn above(directory: &Path) -> Self {
        let mut around: Vec<&Path> = directory.ancestors().skip(1).collect();
        around.reverse();
        Self { levels: around.into_iter().map(Level::of).collect() }
    }

    /// Goes into a directory.
    pub fn enter(&mut self, directory: &Path) {
        self.levels.push(Level::of(directory));
    }

    /// Goes back to the directory around.
    pub fn leave(&mut self) {
        self.levels.pop();
    }

    /// Whether an entry of the innermost directory is left out.
    pub fn is_ignored(&self, path: &Path, is_directory: bool) -> bool {
        let ignore = self.levels.iter().rev().find_map(|level| level.verdict(&level.ignore, path, is_directory));
        ignore.or_else(|| self.verdict_of_git(path, is_directory)).unwrap_or(false)
    }

    fn verdict_of_git(&self, path: &Path, is_directory: bool) -> Option<bool> {
        for level in self.levels.iter().rev() {
            let verdict = level.verdict(&level.gitignore, path, is_directory);
            if verdict.is_some() || level.is_repository {
                return verdict;
            }
        }
        None
    }
}

impl Level {
    fn of(directory: &Path) -> Self {
        Self {
            directory: directory.into(),
            gitignore: rules(&directory.join(GITIGNORE)),
            ignore: rules(&directory.join(IGNORE)),
            is_repository: directory.join(".git").exists(),
        }
    }

    /// Whether the last rule that fits leaves an entry out, if there is one.
    fn verdict(&self, rules: &[Rule], path: &Path, is_directory: bool) -> Option<bool> {
        if rules.is_empty() {
            return None;
        }
        let path = path.strip_prefix(&self.directory).ok()?.to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or_default();
        let fits = |rule: &&Rule| {
            (is_directory || !rule.is_for_directories)
                && rule.wildcard.is_match(if rule.is_anchored { &path } else { name })
        };
        rules.iter().rev().find(fits).map(|rule| !rule.is_exception)
    }
}

/// The rules in a file; none, if it cannot be read.
fn rules(path: &Path) -> Vec<Rule> {
    let mut bytes = Vec::new();
    // Most directories have none: to look is cheaper than to fail.
    if path.exists()
        && let Ok(file) = open(path)
        && file.take(LARGEST).read_to_end(&mut bytes).is_err()
    {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    text.trim_start_matches('\u{feff}').lines().filter_map(Rule::read).collect()
}

impl Rule {
    /// Reads a line. Comments and what is no pattern are no rules.
    fn read(line: &str) -> Option<Self> {
        let line = if line.starts_with('#') { "" } else { without_trailing_blanks(line) };
        let (is_exception, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (is_for_directories, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let is_anchored = line.contains('/');
        let pattern = line.strip_prefix('/').unwrap_or(line);
        let wildcard = Wildcard::new(pattern, Braces::Plain).ok().filter(|_| !pattern.is_empty())?;
        Some(Self { wildcard, is_exception, is_for_directories, is_anchored })
    }
}

/// Blanks at the end do not count, unless a backslash stands before them.
fn without_trailing_blanks(line: &str) -> &str {
    let kept = line.trim_end_matches(' ');
    let backslashes = kept.len() - kept.trim_end_matches('\\').len();
    if backslashes % 2 == 1 && kept.len() < line.len() { &line[..=kept.len()] } else { kept }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether files at `path` (with a slash at its end: directories) are left out by one file of these lines.
    fn leaves_out(lines: &str, path: &str) -> bool {
        let rules = lines.lines().filter_map(Rule::read).collect();
        let level = Level { directory: "/p".into(), gitignore: rules, ignore: Vec::new(), is_repository: false };
        let ignoring = Ignoring { levels: vec![level] };
        ignoring.is_ignored(&Path::new("/p").join(path.trim_end_matches('/')), path.ends_with('/'))
    }

    #[test]
    fn lines_mean_what_gitignore_says_they_mean() {
        for (lines, yes, no) in [
            ("*.log\n", &["a.log", "x/y/a.log", "a.log/"][..], &["a.logs"][..]),
            ("target/\n", &["target/", "x/target/"], &["target", "targets/"]),
            ("/a\n", &["a", "a/"], &["x/a"]),
            ("x/a\n", &["x/a"], &["y/x/a", "a"]),
            ("x/a/\n", &["x/a/"], &["x/a", "y/x/a/"]),
            ("**/x/a\n", &["x/a", "y/x/a"], &["yx/a"]),
            ("x/**\n", &["x/a", "x/y/a"], &["x/", "y/x/a"]),
            ("x/**/a\n", &["x/a", "x/y/z/a"], &["x/ya"]),
            ("x/*\n", &["x/a"], &["x/y/a"]),
            ("# a\n\n\\#b\n", &["#b"], &["# a", "a"]),
            ("*\n!a\n!b/\n", &["x", "b"], &["a", "b/", "y/a"]),
            ("!a\na\n", &["a"], &[]),
            ("\\!a\n", &["!a"], &["a"]),
            ("a  \nb\\ \n", &["a", "b "], &["a  ", "b"]),
            ("a\r\nb", &["a", "b"], &["a\r"]),
            ("{a,b}\n[ab\n/\n", &["{a,b}"], &["a", "b", "[ab"]),
            ("[!a]?.c", &["bb.c"], &["ab.c"]),
        ] {
            for path in yes {
                assert!(leaves_out(lines, path), "{lines:?} {path}");
            }
            for path in no {
                assert!(!leaves_out(lines, path), "{lines:?} {path}");
            }
        }
    }

    #[test]
    fn the_nearest_file_decides_and_an_ignore_before_every_gitignore() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("project/inner");
        fs::create_dir_all(inner.join("deep")).unwrap();
        fs::create_dir(place.path().join("project/.git")).unwrap();
        for (path, lines) in [
            (".gitignore", "outside\n"),
            (".ignore", "outside-too\n"),
            ("project/.gitignore", "*.log\n*.tmp\n/inner/here\nsaid\n"),
            ("project/.ignore", "!said\n"),
            ("project/inner/.gitignore", "!kept.log\nsaid\n"),
        ] {
            fs::write(place.path().join(path), lines).unwrap();
        }
        let mut ignoring = Ignoring::above(&inner);
        ignoring.enter(&inner);
        for (name, expected) in [
            ("a.log", true),
            ("kept.log", false),
            ("here", true),
            ("outside", false),
            ("outside-too", true),
            ("said", false),
        ] {
            assert_eq!(ignoring.is_ignored(&inner.join(name), false), expected, "{name}");
        }
        fs::write(inner.join("deep/.gitignore"), "!a.tmp\n").unwrap();
        ignoring.enter(&inner.join("deep"));
        assert!(!ignoring.is_ignored(&inner.join("deep/a.tmp"), false));
        ignoring.leave();
        assert!(ignoring.is_ignored(&inner.join("a.tmp"), false));
    }
}
