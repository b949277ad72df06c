//! Who wins: a table of all settings and all pairs of levels.

use super::*;

/// Values of a setting, as a file has them.
fn samples(setting: &Setting) -> [&'static str; 5] {
    match setting.slot {
        Slot::Model => ["\"echo/a\"", "\"echo/b\"", "\"echo/c\"", "\"echo/d\"", "\"echo/e\""],
        Slot::Ephemeral | Slot::Truth(_) => ["true", "false", "true", "false", "true"],
        Slot::Thinking(_) => ["\"low\"", "\"high\"", "\"off\"", "77", "\"medium\""],
        Slot::Path(_) => ["\"/a\"", "\"/b\"", "\"/c\"", "\"/d\"", "\"/e\""],
        Slot::Count(..) | Slot::Size(..) => ["2001", "2002", "2003", "2004", "2005"],
        Slot::Seconds(..) => ["2.5", "3", "4", "5", "6"],
        Slot::Name(_, names) if names().contains(&"vote") => {
            ["\"vote\"", "\"merge\"", "\"select_best\"", "\"concatenate\"", "\"first_success\""]
        }
        Slot::Name(..) => ["\"pipeline\"", "\"parallel\"", "\"adaptive\"", "\"sequential\"", "\"pipeline\""],
        Slot::Share(_) => ["0.1", "0.2", "0.3", "0.4", "0.5"],
    }
}

/// Says a value at a level, from the lowest: the user's file, the project's, a variable, the command line.
fn say_at(level: usize, setting: &Setting, value: &str, scene: Scene) -> Scene {
    let plain = value.trim_matches('"');
    let text = match setting.key.split_once('.') {
        Some((table, key)) => format!("[{table}]\n{key} = {value}\n"),
        None => format!("{} = {value}\n", setting.key),
    };
    match (level, setting.flag) {
        (0, _) => scene.user(text),
        (1, _) => scene.project(&text),
        (2, _) => scene.set(&setting.variable(), plain),
        (_, Some(("--stay", _))) => scene.say(&["--stay"]),
        (_, Some((flag @ ("--ephemeral" | "--trace-stable"), _))) => scene.say(&[flag]),
        (_, Some((flag, _))) => scene.say(&[flag, plain]),
        (_, None) => unreachable!("this setting has no option"),
    }
}

/// The levels at which a setting can be said.
fn levels(setting: &Setting) -> Vec<usize> {
    let is_there = [setting.files != Files::None, setting.files == Files::All, true, setting.flag.is_some()];
    (0..4).filter(|level| is_there[*level]).collect()
}

/// What a level makes of a setting: some options can only be said, not given a value.
fn meant<'a>(level: usize, setting: &Setting, value: &'a str) -> &'a str {
    match (level, setting.flag) {
        (3, Some(("--stay", _))) => "false",
        (3, Some(("--ephemeral" | "--trace-stable", _))) => "true",
        _ => value,
    }
}

#[test]
fn for_every_setting_and_every_two_levels_the_higher_one_wins() {
    let name_of = |source: &Source| match source {
        Source::Default => None,
        Source::User(_) => Some(0),
        Source::Project(_) => Some(1),
        Source::Variable(_) => Some(2),
        Source::Flag(_) => Some(3),
    };
    let mut pairs = 0;
    for (number, setting) in SETTINGS.iter().enumerate() {
        let samples = samples(setting);
        for high in levels(setting) {
            for low in levels(setting).into_iter().filter(|low| *low < high) {
                // What can only be switched is said the other way round below.
                let below = if meant(high, setting, samples[1]) == samples[0] { samples[1] } else { samples[0] };
                let scene = say_at(low, setting, below, Scene::new());
                let value = if below == samples[0] { samples[1] } else { samples[0] };
                let scene = say_at(high, setting, value, scene);
                let loaded = scene.load();
                assert!(loaded.complaints.errors.is_empty(), "{}: {:?}", setting.key, loaded.complaints);
                let expected = meant(high, setting, value).trim_matches('"');
                let found = setting.shown(&loaded.wanted);
                if !(setting.key == "data_dir" && found.is_none()) {
                    assert_eq!(found.unwrap().trim_matches('"'), expected, "{} {low} {high}", setting.key);
                }
                assert_eq!(name_of(&loaded.sources[number]), Some(high), "{}", setting.key);
                pairs += 1;
            }
        }
        for level in levels(setting) {
            let loaded = say_at(level, setting, samples[0], Scene::new()).load();
            assert_eq!(name_of(&loaded.sources[number]), Some(level), "{} beats the default", setting.key);
        }
    }
    assert!(pairs > 50, "only {pairs} pairs");
}
