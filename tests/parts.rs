//! Parts of the program that were left out of this build: what asks for one says what to build. With everything in, which
//! is how it is built unless somebody says otherwise, there is nothing to see here but that nothing says so.

use crate::support::program::Home;

/// Words behind the program, and the part that they need.
const ASK: [(&str, &str); 12] = [
    ("multi-agent run hello --count 0", "coordinator"),
    ("multi-agent run-workflow ./none.toml", "coordinator"),
    ("multi-agent show none", "coordinator"),
    ("attach nobody", "server"),
    ("ps", "server"),
    ("logs nobody", "server"),
    ("send nobody hello", "server"),
    ("kill nobody", "server"),
    ("interrupt nobody", "server"),
    ("wait nobody", "server"),
    ("sessions", "server"),
    ("stop", "server"),
];

#[test]
fn a_subcommand_of_a_part_that_was_left_out_says_what_to_build() {
    let home = Home::new();
    for (line, part) in ASK {
        let is_in = if part == "server" { cfg!(feature = "server") } else { cfg!(feature = "coordinator") };
        let told = home.run(&line.split(' ').collect::<Vec<_>>());
        let words = format!("this polylogue was built without the {part}: build it with --features {part}");
        assert_eq!(told.err.contains(&words), !is_in, "{line}: {told:?}");
        assert!(is_in || told.code == 2, "{line}: {told:?}");
    }
}

#[test]
fn what_needs_no_part_works_without_any() {
    let home = Home::new();
    assert_eq!(home.run(&["-p", "hello"]).out, "hello\n");
    assert_eq!(home.run(&["doctor", "--offline"]).code, 0);
    assert!(home.run(&["--help"]).out.contains("multi-agent"), "what is left out is still told of");
    assert!(home.run(&["man"]).out.contains("attach"));
}
