//! Fish: a line for every word that can follow, with the condition under which it can.

use super::{AGENTS, Kind, Room};

/// For fish.
pub fn script(rooms: &[Room]) -> String {
    let mut out = "# Completion of polylogue for fish, made by: polylogue completions fish\n".to_owned();
    out += &format!("function __polylogue_agents\n    {AGENTS}\nend\n");
    out += "complete -c polylogue -f\n";
    for room in rooms {
        let condition = condition(room);
        for (name, about) in &room.subcommands {
            out += &format!("complete -c polylogue {condition} -a {name} -d '{about}'\n");
        }
        for option in &room.options {
            let short = option.short.map(|short| format!(" -s {short}")).unwrap_or_default();
            let long = option.long.as_ref().map(|long| format!(" -l {long}")).unwrap_or_default();
            let value = option.value.as_ref().map(|kind| format!(" -r{}", offer(kind))).unwrap_or_default();
            out += &format!("complete -c polylogue {condition}{short}{long}{value} -d '{}'\n", option.about);
        }
        if room.words != Kind::Anything {
            out += &format!("complete -c polylogue {condition}{} -d '{}'\n", offer(&room.words), room.about);
        }
    }
    out
}

/// Under which its words can follow: all subcommands on the way were seen, and none that goes on from there.
fn condition(room: &Room) -> String {
    let mut tests: Vec<String> =
        room.path.split_whitespace().map(|name| format!("__fish_seen_subcommand_from {name}")).collect();
    if tests.is_empty() {
        tests.push("__fish_use_subcommand".into());
    } else if !room.subcommands.is_empty() {
        let names: Vec<&str> = room.subcommands.iter().map(|(name, _)| name.as_str()).collect();
        tests.push(format!("not __fish_seen_subcommand_from {}", names.join(" ")));
    }
    format!("-n '{}'", tests.join("; and "))
}

fn offer(kind: &Kind) -> String {
    match kind {
        Kind::Anything => String::new(),
        Kind::File => " -F".into(),
        Kind::Directory => " -a '(__fish_complete_directories)'".into(),
        Kind::Agent => " -a '(__polylogue_agents)'".into(),
        Kind::OneOf(words) => format!(" -a '{}'", words.join(" ")),
    }
}
