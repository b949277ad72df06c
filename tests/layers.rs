//! The layers of the program: imports go down only. The table of layers is only here.

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest to the highest. Modules of one layer do not import each other.
const LAYERS: &[&[&str]] = &[
    &["base"],
    &["domain"],
    &["reactor", "net", "provider", "policy", "sandbox", "proxy", "store", "syntax", "terminal", "socket"],
    &["tools"],
    &["agent"],
    &["team"],
    &["commands"],
    &["repl"],
    &["features"],
    &["replay"],
    &["cli"],
    &["testing"],
];

/// Crates that only these modules may use.
const OWNED_CRATES: &[(&str, &[&str])] = &[
    ("curl", &["net"]),
    ("mio", &["reactor"]),
    ("rusqlite", &["store"]),
    ("crossterm", &["terminal"]),
    ("two_face", &["syntax"]),
    // Each command says what its arguments are.
    ("clap", &["cli", "commands", "features"]),
];

/// What every component of the loop may import of `repl`, besides itself.
const COMPONENT_MAY_IMPORT: &[&str] = &["core", "event", "component", "timeout"];
const CORE_MAY_IMPORT: &[&str] = &["core", "event"];

/// What reads a file without looking at what it is.
const READS: &[&str] = &["fs::read(", "fs::read_to_string(", "fs::copy(", "File::open(", ".read(true)"];
/// Modules that read what commands can write: the reader of `base::beneath` opens only regular files, follows no link unseen,
/// and has a limit. Files of the kernel may be read in any way.
const READ_WORKSPACES: &[&str] = &["sandbox", "tools", "team"];
const MAY_READ: &[(&str, &str)] = &[("tools/linux/process_tree.rs", "reads /proc only")];

/// What other modules may import of the features: the table, from any layer.
const TABLE_OF_FEATURES: &str = "FEATURES";

/// Imports that break a rule and are to go: the file, what it imports, and why it still does.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("repl/coordinator/api.rs", "Repl", "the library's methods for tasks are compiled with the coordinator only")];

/// A module and its source without comments.
struct Source {
    file: String,
    /// Its place in the tree of modules, for example `["repl", "core", "mail"]`.
    module: Vec<String>,
    text: String,
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let file = path.strip_prefix(root).expect("a file below src").to_str().expect("UTF-8").to_owned();
        let mut module: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        let text = fs::read_to_string(path).expect("a source file");
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let text = text.lines().filter(is_code).collect::<Vec<_>>().join("\n");
        Self { file, module, text }
    }

    /// The source without its inline test module, where `super` means something else.
    fn without_tests(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// The part of `repl` that it belongs to: `core` for `repl/core/mail.rs`.
    fn part_of_repl(&self) -> Option<&str> {
        (self.module.first()? == "repl").then_some(self.module.get(1)?)
    }

    /// The first segment below `repl` of everything that is imported from there.
    fn imports_of_repl(&self) -> Vec<String> {
        let mut paths = paths_behind("crate::", self.without_tests(), &[]);
        for depth in 1..self.module.len() {
            let base: Vec<&str> = self.module[..self.module.len() - depth].iter().map(String::as_str).collect();
            let supers = "super::".repeat(depth);
            paths.extend(paths_behind(&supers, self.without_tests(), &base));
        }
        let of_repl = paths.into_iter().filter(|path| path.first().is_some_and(|first| first == "repl"));
        of_repl.filter_map(|path| path.into_iter().nth(1)).collect()
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the source").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(Source::read(&root, &path));
            }
        }
    }
    found.sort_by(|one, other| one.file.cmp(&other.file));
    found
}

/// All paths that begin with `prefix`, which means the module `base`; groups in braces are taken apart.
fn paths_behind(prefix: &str, text: &str, base: &[&str]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && !"_:$".contains(c)) {
            read_tree(&text[at + prefix.len()..], base, &mut paths);
        }
    }
    // One more `super` is another module.
    paths.retain(|path| !path.contains(&"super"));
    paths.into_iter().map(|path| path.into_iter().map(str::to_owned).collect()).collect()
}

/// Reads `a::b::{c, d::e as f}` and returns what follows it.
fn read_tree<'a>(text: &'a str, base: &[&'a str], paths: &mut Vec<Vec<&'a str>>) -> &'a str {
    let mut path = base.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            rest = group.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                rest = read_tree(rest, &path, paths).trim_start();
                rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
            }
            return rest.get(1..).unwrap_or_default();
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 {
            paths.push(path);
            return rest.get(1..).unwrap_or_default();
        }
        path.push(&rest[..end]);
        rest = &rest[end..];
        let Some(next) = rest.strip_prefix("::") else {
            paths.push(path);
            return after_rename(rest);
        };
        rest = next;
    }
}

fn after_rename(rest: &str) -> &str {
    let Some(name) = rest.trim_start().strip_prefix("as ") else { return rest };
    name.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Imports of the same or a higher layer.
fn upward_imports(sources: &[Source]) -> Vec<(String, String)> {
    let mut broken = Vec::new();
    for source in sources {
        let Some(own) = source.module.first() else { continue };
        let layer = layer_of(own).unwrap_or_else(|| panic!("{}: the module is in no layer", source.file));
        for path in paths_behind("crate::", &source.text, &[]) {
            let Some(import) = path.first().filter(|import| *import != own) else { continue };
            if import == "features" && path.get(1).is_some_and(|part| part == TABLE_OF_FEATURES) {
                continue;
            }
            if layer_of(import).is_none_or(|imported| imported >= layer) {
                broken.push((source.file.clone(), import.clone()));
            }
        }
    }
    broken
}

/// Uses of a crate that belongs to another module.
fn strayed_crates(sources: &[Source]) -> Vec<(String, String)> {
    let mut broken = Vec::new();
    for source in sources {
        for (name, owners) in OWNED_CRATES {
            let is_owner = source.module.first().is_some_and(|own| owners.contains(&own.as_str()));
            if !is_owner && !paths_behind(&format!("{name}::"), &source.text, &[]).is_empty() {
                broken.push((source.file.clone(), (*name).to_owned()));
            }
        }
    }
    broken
}

/// What Core imports of the loop, and a component of the loop or of another component.
fn imports_of_the_loop(sources: &[Source]) -> Vec<(String, String)> {
    let is_component = |part: &str| {
        let mut own = sources.iter().filter(|source| source.part_of_repl() == Some(part));
        own.any(|source| source.text.contains("impl Component for"))
    };
    let mut broken = Vec::new();
    for source in sources {
        let Some(part) = source.part_of_repl() else { continue };
        let allowed = match part {
            "core" => CORE_MAY_IMPORT,
            part if is_component(part) => COMPONENT_MAY_IMPORT,
            _ => continue,
        };
        let imports = source.imports_of_repl().into_iter();
        let forbidden = imports.filter(|import| import != part && !allowed.contains(&import.as_str()));
        broken.extend(forbidden.map(|import| (source.file.clone(), import)));
    }
    broken
}

/// What is imported of a feature by another module or another feature.
fn imports_of_features(sources: &[Source]) -> Vec<(String, String)> {
    let mut broken = Vec::new();
    // What tests reach of the inside of the program.
    for source in sources.iter().filter(|source| source.file != "testing.rs") {
        let is_inside = source.module.first().is_some_and(|own| own == "features");
        let own = source.module.get(1).filter(|_| is_inside);
        let paths = paths_behind("crate::", &source.text, &[]).into_iter();
        let imports = paths.filter(|path| path.first().is_some_and(|first| first == "features"));
        let imports = imports.filter_map(|path| path.into_iter().nth(1));
        let is_allowed = |import: &String| match own {
            Some(own) => import == own || ["Feature", "Helper", "ViewSpec"].contains(&import.as_str()),
            None => import == TABLE_OF_FEATURES,
        };
        broken.extend(imports.filter(|import| !is_allowed(import)).map(|import| (source.file.clone(), import)));
    }
    broken
}

/// The core knows features only as rows, and a feature knows no other.
#[test]
fn a_feature_is_named_in_its_folder_only() {
    let sources = sources();
    let broken = imports_of_features(&sources);
    assert!(broken.is_empty(), "{broken:#?}");
    let is_row = |source: &&Source| source.file == "features/mod.rs";
    let table = sources.iter().find(is_row).expect("the table of features");
    for folder in sources.iter().filter(|source| source.module.len() == 2 && source.module[0] == "features") {
        let row = format!("{}::FEATURE", folder.module[1]);
        assert!(table.text.contains(&row), "{row} has no row");
    }
}

fn assert_only_exceptions(broken: &[(String, String)]) {
    let is_exception = |file: &str, import: &str| EXCEPTIONS.iter().any(|(at, of, _)| (*at, *of) == (file, import));
    let new: Vec<_> = broken.iter().filter(|(file, import)| !is_exception(file, import)).collect();
    assert!(new.is_empty(), "{new:#?}");
}

#[test]
fn a_module_imports_only_lower_layers() {
    assert_only_exceptions(&upward_imports(&sources()));
}

#[test]
fn a_heavy_crate_is_used_by_one_module() {
    assert_only_exceptions(&strayed_crates(&sources()));
}

/// Core does not know the loop; a component knows Core, and neither the loop nor another component.
#[test]
fn core_and_the_components_of_the_loop_import_neither_the_loop_nor_each_other() {
    assert_only_exceptions(&imports_of_the_loop(&sources()));
}

/// The rest of the program changes the state of Core by its operations.
#[test]
fn core_has_no_open_fields() {
    let sources = sources();
    let core = sources.iter().find(|source| source.file == "repl/core/mod.rs").expect("the source of Core");
    let fields = core.text.split("pub struct Core {\n").nth(1).and_then(|rest| rest.split("\n}").next());
    let fields: Vec<&str> = fields.expect("its fields").lines().filter(|line| line.contains(':')).collect();
    assert!(fields.len() > 10, "{fields:#?}");
    let open: Vec<&&str> = fields.iter().filter(|field| field.trim_start().starts_with("pub")).collect();
    assert!(open.is_empty(), "{open:#?}");
}

/// What one component alone calls belongs to that component, and what only the loop calls is a function over Core.
#[test]
fn core_has_at_most_60_methods() {
    let is_method = |line: &&str| line.starts_with("    fn ") || line.starts_with("    pub") && line.contains(" fn ");
    let methods_in = |text: &str| -> usize {
        let blocks = text.split("\nimpl Core {\n").skip(1);
        blocks.map(|block| block.lines().take_while(|line| *line != "}").filter(is_method).count()).sum()
    };
    let sources = sources();
    let core = sources.iter().filter(|source| source.part_of_repl() == Some("core"));
    let methods: usize = core.map(|source| methods_in(&source.text)).sum();
    assert!((40..=60).contains(&methods), "{methods} methods");
}

/// Where a module reads files that a command may have written, otherwise than by the one reader.
fn unguarded_reads(sources: &[Source]) -> Vec<(String, String)> {
    let reads = |source: &Source, line: &str| {
        let read = READS.iter().find(|read| line.contains(*read) && !line.contains(&format!("{read}\"/proc/")))?;
        Some((source.file.clone(), (*read).to_owned()))
    };
    let of_workspaces = sources
        .iter()
        .filter(|source| source.module.first().is_some_and(|own| READ_WORKSPACES.contains(&own.as_str())));
    of_workspaces
        .flat_map(|source| source.without_tests().lines().filter_map(|line| reads(source, line)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn what_commands_can_write_is_read_by_the_one_reader() {
    let found = unguarded_reads(&sources());
    let (allowed, broken): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(file, _)| MAY_READ.iter().any(|(allowed, _)| allowed == file));
    assert!(broken.is_empty(), "use base::beneath: {broken:#?}");
    for (file, reason) in MAY_READ {
        assert!(allowed.iter().any(|(found, _)| found == file), "the exception can go: {file} ({reason})");
    }
}

#[test]
fn every_exception_is_needed() {
    let sources = sources();
    let broken = [upward_imports(&sources), strayed_crates(&sources), imports_of_the_loop(&sources)].concat();
    for (file, import, reason) in EXCEPTIONS {
        let is_needed = broken.iter().any(|(at, of)| (at.as_str(), of.as_str()) == (*file, *import));
        assert!(is_needed, "the exception can go: {file} imports {import} ({reason})");
    }
}

#[test]
fn imports_are_read_in_every_form() {
    let text = "use crate::a::b;\nuse crate::{c::{d, e::*}, f as g, h};\nlet x = crate::i::j(k);\nmacro_crate::l;";
    let paths: Vec<String> = paths_behind("crate::", text, &[]).iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["a::b", "c::d", "c::e", "f", "h", "i::j"]);
    let supers = "use super::a;\nuse super::super::b::{c, d};";
    let path = |depth, base| -> Vec<String> {
        paths_behind(&"super::".repeat(depth), supers, base).iter().map(|path| path.join("::")).collect()
    };
    assert_eq!(path(1, &["repl", "x"]), ["repl::x::a"]);
    assert_eq!(path(2, &["repl"]), ["repl::b::c", "repl::b::d"]);
}
