//! Parts of the program that were left out of this build: what asks for one says what to build. With everything in, which
//! is how it is built unless somebody says otherwise, there is nothing to see here but that nothing says so.

use polylogue::base::clock::Clock;
use polylogue::base::error::ErrorKind;
use polylogue::domain::config::Config;
use polylogue::domain::flow::Change;
use polylogue::repl::Repl;
use polylogue::store::Store;

use crate::support::program::Home;

/// The parts that are in this build.
const IN: &[&str] = &[
    #[cfg(feature = "coordinator")]
    "coordinator",
];

/// Words behind the program, and the part that they need.
const ASK: [(&str, &str); 3] = [
    ("multi-agent run hello --count 0", "coordinator"),
    ("multi-agent run-workflow ./none.toml", "coordinator"),
    ("multi-agent show none", "coordinator"),
];

#[test]
fn a_subcommand_of_a_part_that_was_left_out_says_what_to_build() {
    let home = Home::new();
    for (line, part) in ASK {
        let is_in = IN.contains(&part);
        let told = home.run(&line.split(' ').collect::<Vec<_>>());
        let words = format!("this polylogue was built without the {part}: build it with --features {part}");
        assert_eq!(told.err.contains(&words), !is_in, "{line}: {told:?}");
        assert!(is_in || told.code == 2, "{line}: {told:?}");
    }
}

#[test]
fn a_task_in_the_chat_is_refused_likewise_and_the_chat_goes_on() {
    let store = Store::in_memory().expect("a store");
    let mut repl = Repl::open(Config::default(), store, Clock::system(), None).expect("an open program");
    let root = repl.roster().nth(0).expect("agent 0");
    let asked = repl.ask(root, Change::Team("parallel \"hello\"".into()));
    let refused = asked.err().filter(|error| error.kind == ErrorKind::Usage && error.message.contains("--features"));
    assert_eq!(refused.is_none(), cfg!(feature = "coordinator"));
    repl.send(root, "hello").expect("it goes on");
}

#[test]
fn what_needs_no_part_works_without_any() {
    let home = Home::new();
    assert_eq!(home.run(&["-p", "hello"]).out, "hello\n");
    assert_eq!(home.run(&["doctor", "--offline"]).code, 0);
    assert!(home.run(&["--help"]).out.contains("multi-agent"), "what is left out is still told of");
    assert!(home.run(&["man"]).out.contains("attach"));
}
