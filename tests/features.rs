//! Builds without optional features: what needs a missing feature says what to build.

use polylogue::{Change, Error, ErrorKind, TeamStart};

use crate::support::harness::{Harness, Plan};
use crate::support::program::Home;

/// Command lines of the feature `coordinator`.
const COORDINATOR: [&str; 3] =
    ["multi-agent run hello --count 0", "multi-agent run-workflow ./none.toml", "multi-agent show none"];
const NOT_BUILT_IN: &str = "the coordinator is not built in: rebuild with --features coordinator";

#[test]
fn a_subcommand_of_a_missing_feature_names_the_feature_to_build() {
    let home = Home::new();
    for line in COORDINATOR {
        let output = home.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.err.contains(NOT_BUILT_IN), cfg!(not(feature = "coordinator")), "{line}: {output:?}");
        assert!(cfg!(feature = "coordinator") || output.code == 2, "{line}: {output:?}");
    }
}

#[test]
fn a_chat_command_of_a_missing_feature_is_refused_and_the_chat_goes_on() {
    let mut app = Harness::new(Plan { size: Some((120, 40)), ..Plan::default() });
    let root = app.id(0);
    let refused = app.repl.apply(root, Change::Team(TeamStart::Task("parallel \"hello\"".into()))).err();
    let expected = cfg!(not(feature = "coordinator")).then(|| Error::new(ErrorKind::Usage, NOT_BUILT_IN));
    assert_eq!(refused, expected);
    app.enter("/team parallel \"hello\"");
    assert_eq!(app.screen_text().contains("--features coordinator"), cfg!(not(feature = "coordinator")));
    app.repl.send(root, "hello").expect("it goes on");
}

#[test]
fn the_rest_works_without_optional_features() {
    let home = Home::new();
    assert_eq!(home.run(&["-p", "hello"]).out, "hello\n");
    assert_eq!(home.run(&["doctor", "--offline"]).code, 0);
    assert!(home.run(&["--help"]).out.contains("multi-agent"), "subcommands of missing features are listed, too");
    assert!(home.run(&["man"]).out.contains("attach"));
}
