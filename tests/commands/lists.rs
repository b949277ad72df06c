//! Lists of commands on terminals of any width.

use crate::support::harness::{Harness, Plan};

/// What the lines of a list look like on a terminal of this size.
fn listed(line: &str, size: (u16, u16)) -> Vec<String> {
    let mut app = Harness::new(Plan { size: Some(size), ..Plan::default() });
    app.enter("/fork --name kid");
    app.enter("/switch 0");
    app.enter(line);
    app.screen_text().lines().map(str::to_owned).collect()
}

#[test]
fn lists_of_two_columns_stay_lists_of_two_columns_on_a_narrow_terminal() {
    for (line, first, second) in [
        ("/agents", "> 0   agent 0", "idle"),
        ("/tools", "read_file", "Reads a text file"),
        ("/env list", "readonly", ""),
        ("/approval", "> ask", ""),
        ("/limit", "agents            0 of 64", "living agents that models made"),
    ] {
        let begins = |row: &String| row.trim_start().starts_with(first);
        let wide = listed(line, (120, 200));
        let at = wide.iter().position(begins).unwrap_or_else(|| panic!("{line}: {wide:#?}"));
        assert!(wide[at].contains(second), "{line}: {wide:#?}");
        let narrow = listed(line, (40, 200));
        let at = narrow.iter().position(begins).unwrap_or_else(|| panic!("{line}: {narrow:#?}"));
        let indent = narrow[at].len() - narrow[at].trim_start().len();
        // What continues an entry is indented more than where it begins.
        let rest: Vec<&str> =
            narrow[at + 1..].iter().take_while(|row| row.starts_with("      ")).map(|row| row.trim()).collect();
        let whole = format!("{} {}", narrow[at].trim(), rest.join(" "));
        assert!(indent < 6 && whole.contains(second), "{line}: {whole:?} in {narrow:#?}");
    }
}

#[test]
fn an_agent_that_lists_agents_does_not_find_itself_waiting_for_mail() {
    let mut app = Harness::new(Plan::default());
    app.say(0, "%tool agents {}");
    app.turn_until_idle();
    let listed = &app.tool_results(0)[0].content;
    assert!(listed.starts_with("> 0 ") && listed.contains("running a tool"), "{listed}");
}
