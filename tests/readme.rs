//! What the README tells is what the program has.

use polylogue::commands::COMMANDS;

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
