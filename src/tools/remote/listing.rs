//! The entries below a remote directory, without those that `.gitignore` and `.ignore` exclude.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Remote;
use super::call::Request;
use super::fetch::problem;
use super::script::{self, Wanted};
use crate::policy::paths::Access;
use crate::tools::Job;

/// How long a search may take there.
pub const SEARCH_LIMIT: Duration = Duration::from_secs(120);

/// How much of a listing is read, in bytes.
const MAX_LISTING: usize = 32 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
    Link,
    Other,
}

/// One thing in a listing.
#[derive(Debug)]
pub struct Entry {
    pub path: PathBuf,
    pub kind: Kind,
    /// Of a symbolic link.
    pub target: String,
}

/// The entries below a path, sorted by name.
#[derive(Debug)]
pub struct Listing {
    /// Canonical.
    pub root: PathBuf,
    /// The start is a file.
    pub is_file: bool,
    pub entries: Vec<Entry>,
    /// There was more.
    pub is_cut: bool,
}

impl Listing {
    /// The path of an entry from the start; of a start that is a file, its name.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        let below = path.strip_prefix(&self.root).ok().filter(|below| !below.as_os_str().is_empty());
        below.or(path.file_name().map(Path::new)).unwrap_or(path)
    }
}

impl Remote {
    /// Lists the entries below a path that was judged.
    ///
    /// # Errors
    /// A message for the model that follows the path and `: `.
    pub fn list(&self, judged: &Path, wanted: &Wanted<'_>, job: &Job) -> Result<Listing, String> {
        let script = script::list(judged, &self.directory, wanted);
        let found = self.collect(&Request { script: &script, data: None, limit: SEARCH_LIMIT }, MAX_LISTING, job)?;
        let is_cut = match found.status.as_deref() {
            Some("ok") => false,
            Some(word) => return Err(problem(word)),
            None => true,
        };
        let parsed = parse(&found.output).ok_or("unexpected answer of the shell there")?;
        let Parsed { home, workspace, root, kind, mut entries, ignore_files } = parsed;
        self.require_workspace(&workspace)?;
        self.check(judged, &root, Access::List, &home)?;
        match kind.as_str() {
            "d" => {}
            "f" => entries.push(Entry { path: root.clone(), kind: Kind::File, target: String::new() }),
            "a" => return Err("does not exist".into()),
            _ => return Err("not a regular file".into()),
        }
        let ignored = Ignored::new(&ignore_files);
        entries.retain(|entry| !self.is_denied(&entry.path, &home));
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let entries = ignored.filter(entries, &root);
        Ok(Listing { root, is_file: kind == "f", entries, is_cut })
    }
}

struct Parsed {
    home: PathBuf,
    workspace: PathBuf,
    root: PathBuf,
    kind: String,
    entries: Vec<Entry>,
    ignore_files: Vec<(PathBuf, String)>,
}

fn parse(output: &[u8]) -> Option<Parsed> {
    let mut fields = output.split(|byte| *byte == 0);
    let mut text = || fields.next().map(|field| String::from_utf8_lossy(field).into_owned());
    let (home, workspace, root, kind) = (text()?, text()?, PathBuf::from(text()?), text()?);
    let (mut entries, mut ignore_files) = (Vec::new(), Vec::new());
    while let Some(record) = text() {
        let Some(sign) = record.chars().next() else { continue };
        let path = root.join(record[sign.len_utf8()..].trim_start_matches("./"));
        let kind = match sign {
            'i' => {
                ignore_files.push((path, text()?));
                continue;
            }
            'g' => {
                let names = text().unwrap_or_default();
                let file = |name: &str| Entry {
                    path: root.join(name.trim_start_matches("./")),
                    kind: Kind::File,
                    target: String::new(),
                };
                entries.extend(names.lines().filter(|name| name.starts_with("./")).map(file));
                continue;
            }
            'd' => Kind::Directory,
            'f' => Kind::File,
            'l' => Kind::Link,
            _ => Kind::Other,
        };
        let target = if kind == Kind::Link { text()? } else { String::new() };
        entries.push(Entry { path, kind, target });
    }
    Some(Parsed { home: home.into(), workspace: workspace.into(), root, kind, entries, ignore_files })
}

/// The ignore files of a tree, by directory. Those of one directory count more than those above it.
struct Ignored(HashMap<PathBuf, Gitignore>);

impl Ignored {
    fn new(files: &[(PathBuf, String)]) -> Self {
        let mut builders: HashMap<PathBuf, GitignoreBuilder> = HashMap::new();
        for (file, text) in files {
            let Some(directory) = file.parent() else { continue };
            let builder = builders.entry(directory.to_path_buf()).or_insert_with(|| GitignoreBuilder::new(directory));
            // An invalid pattern ignores nothing.
            text.lines().for_each(|line| drop(builder.add_line(None, line).map(|_| ())));
        }
        Self(builders.into_iter().filter_map(|(path, builder)| Some((path, builder.build().ok()?))).collect())
    }

    /// The entries that are not ignored. Everything in an ignored directory is ignored.
    fn filter(&self, entries: Vec<Entry>, root: &Path) -> Vec<Entry> {
        if self.0.is_empty() {
            return entries;
        }
        let mut known: HashMap<PathBuf, bool> = HashMap::new();
        let is_kept = |entry: &Entry| {
            let above: Vec<&Path> =
                entry.path.ancestors().skip(1).take_while(|above| above.starts_with(root)).collect();
            let is_above = above
                .iter()
                .rev()
                .filter(|above| **above != root)
                .any(|above| *known.entry(above.to_path_buf()).or_insert_with(|| self.is_ignored(above, true)));
            !is_above && (entry.path == root || !self.is_ignored(&entry.path, entry.kind == Kind::Directory))
        };
        entries.into_iter().filter(is_kept).collect()
    }

    fn is_ignored(&self, path: &Path, is_directory: bool) -> bool {
        for above in path.ancestors().skip(1) {
            let Some(file) = self.0.get(above) else { continue };
            match file.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_left_out_with_all_below_it() {
        let mut output = Vec::new();
        for field in [
            "/home/me",
            "/p",
            "/p/src",
            "d",
            "i/p/.gitignore",
            "*.log\n/src/out/\n",
            "i./sub/.ignore",
            "!keep.log",
            "d./sub",
            "f./sub/keep.log",
            "f./a.log",
            "d./out",
            "f./out/x",
            "f./b",
            "l./to",
            "b",
            "g",
            "./c\n./d.log\n",
        ] {
            output.extend_from_slice(field.as_bytes());
            output.push(0);
        }
        let parsed = parse(&output).unwrap();
        assert_eq!((parsed.home.to_str(), parsed.kind.as_str()), (Some("/home/me"), "d"));
        let kept = Ignored::new(&parsed.ignore_files).filter(parsed.entries, &parsed.root);
        let kept: Vec<String> = kept.iter().map(|entry| format!("{}{}", entry.path.display(), entry.target)).collect();
        assert_eq!(kept, ["/p/src/sub", "/p/src/sub/keep.log", "/p/src/b", "/p/src/tob", "/p/src/c"]);
    }
}
