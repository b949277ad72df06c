//! `search`: messages of all agents from the shell, also of those that no chat has opened since.

use serde_json::Value;

use super::Home;

#[test]
fn messages_are_found_without_a_server_and_nothing_is_an_exit_code() {
    let home = Home::new();
    assert_eq!(home.run(&["-p", "mind the CSRF token", "-m", "echo/echo"]).code, 0);
    let table = home.run(&["search", "csrf", "is:prompt"]);
    assert_eq!(table.code, 0, "{table:?}");
    assert!(table.out.starts_with("AGENT") && table.out.contains("prompt  mind the CSRF token"), "{table:?}");
    let json = home.run(&["search", "--json", "--most", "1", "the csrf"]);
    let hits: Vec<Value> = json.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(hits.len(), 1, "{json:?}");
    assert_eq!((&hits[0]["kind"], &hits[0]["text"]), (&"assistant".into(), &"mind the CSRF token".into()));
    assert_eq!(home.run(&["search", "csrf", "the"]).code, 0, "words are in any order");
    assert_eq!(home.run(&["search", "csrf the"]).code, 1, "a phrase is not");
    let none = home.run(&["search", "zebra"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""));
    let wrong = home.run(&["search", "is:nonsense"]);
    assert!(wrong.code == 2 && wrong.err.contains("is:prompt, reply"), "{wrong:?}");
}
