//! What the README and the manual page tell is what the program has.

use std::process::Command;

use polylogue::commands::{COMMANDS, KEYS};

/// What the program prints about itself.
fn told(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_polylogue")).args(words).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

// The README describes the default build.
#[cfg(feature = "coordinator")]
#[test]
fn the_readme_lists_every_command_as_help_does_and_no_other() {
    let rows: Vec<String> = COMMANDS
        .iter()
        .map(|spec| {
            let arguments = spec.arguments.replace('|', "\\|");
            format!("| `{}` | {} |", format!("/{} {arguments}", spec.name).trim_end(), spec.about)
        })
        .collect();
    let told: Vec<&str> = include_str!("../README.md").lines().filter(|line| line.starts_with("| `/")).collect();
    assert_eq!(told, rows);
}

#[test]
fn the_manual_page_tells_of_every_option_command_key_and_setting() {
    let page = told(&["man"]).replace("\\-", "-").replace("\\e", "\\");
    let help = told(&["--help"]);
    let options = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned);
    let shown = told(&["config", "show", "--config", "/dev/null"]);
    let names = shown.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" = ")).map(|(name, _)| name);
    let commands = COMMANDS.iter().map(|spec| format!(".B /{} {}", spec.name, spec.arguments).trim_end().to_owned());
    let keys = KEYS.iter().map(|(keys, _)| format!(".B {keys}"));
    let wanted: Vec<String> = options.chain(names.map(str::to_owned)).chain(commands).chain(keys).collect();
    assert!(wanted.len() > 60, "{wanted:?}");
    let missing: Vec<&String> =
        wanted.iter().filter(|word| !page.contains(word.trim_end_matches([',', '.']))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_file_and_folder_that_the_readme_leads_to_is_there() {
    let readme = include_str!("../README.md");
    let order = readme.split("A good order:").nth(1).and_then(|rest| rest.split("## ").next()).expect("an order");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folder = root.to_owned();
    let mut seen = 0;
    for name in order.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") || name.ends_with('/')) {
        let path =
            if name.starts_with("src/") || name.starts_with("tests/") { root.join(name) } else { folder.join(name) };
        assert!(path.exists(), "{name}: {}", path.display());
        if name.starts_with("src/") {
            folder = if name.ends_with('/') { path } else { path.parent().expect("a folder").to_owned() };
        }
        seen += 1;
    }
    assert!(seen > 15, "{seen}");
}
