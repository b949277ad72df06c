//! Precedence: all settings with all pairs of sources.

use super::*;

/// Values of a setting in the form of a file.
fn samples(setting: &Setting) -> [&'static str; 5] {
    match setting.kind {
        Kind::Model | Kind::OtherModel(_) => ["\"echo/a\"", "\"echo/b\"", "\"echo/c\"", "\"echo/d\"", "\"echo/e\""],
        Kind::Ephemeral | Kind::Bool(_) => ["true", "false", "true", "false", "true"],
        Kind::Thinking(_) => ["\"low\"", "\"high\"", "\"off\"", "77", "\"medium\""],
        // A project cannot set more than the user.
        Kind::Policy(_) => ["\"never\"", "\"plan\"", "\"never\"", "\"plan\"", "\"never\""],
        Kind::Path(_) => ["\"/a\"", "\"/b\"", "\"/c\"", "\"/d\"", "\"/e\""],
        // A project may only lower them: below the defaults, and none above the one before it.
        Kind::Count(..) | Kind::OptionalCount(..) | Kind::SizeOrUnlimited(_) => ["3", "2", "1", "1", "1"],
        Kind::Size(..) => ["2005", "2004", "2003", "2002", "2001"],
        Kind::Seconds(_, min) if min < 0.001 => ["0.25", "0.2", "0.15", "0.1", "0.05"],
        Kind::Seconds(..) => ["6", "5", "4", "3", "2.5"],
        Kind::Network(_) => ["\"off\"", "\"host\"", "\"off\"", "\"host\"", "\"off\""],
        Kind::Name(_, names) if names().contains(&"vote") => {
            ["\"vote\"", "\"merge\"", "\"select_best\"", "\"concatenate\"", "\"first_success\""]
        }
        Kind::Name(_, names) if names().contains(&"vi") => ["\"vi\"", "\"emacs\"", "\"vi\"", "\"emacs\"", "\"vi\""],
        Kind::Name(_, names) if names().contains(&"all") => {
            ["\"all\"", "\"none\"", "\"screens\"", "\"all\"", "\"none\""]
        }
        Kind::Name(_, names) if names().contains(&"dark") => {
            ["\"dark\"", "\"light\"", "\"16\"", "\"auto\"", "\"colorblind_dark\""]
        }
        Kind::Name(..) => ["\"pipeline\"", "\"parallel\"", "\"adaptive\"", "\"sequential\"", "\"pipeline\""],
        Kind::Percent(_) => ["10", "20", "30", "40", "50"],
        Kind::Fraction(_) => ["0.1", "0.2", "0.3", "0.4", "0.5"],
        Kind::Words(_) => ["\"a\"", "\"b\"", "\"c\"", "\"d\"", "\"e\""],
        Kind::Color(_) => ["\"red\"", "\"bright-blue\"", "\"#0a0b0c\"", "\"7\"", "\"default\""],
        Kind::Fields(_) => ["\"model\"", "\"branch\"", "\"thinking\"", "\"context\"", "\"tokens\""],
        // A project may only lower them.
        Kind::Limit(_) => ["7", "6", "5", "4", "3"],
    }
}

/// Sets a value in a source, by precedence: the user's file, the project's, a variable, the command line.
fn set_in(level: usize, setting: &Setting, value: &str, scene: Scene) -> Scene {
    let plain = value.trim_matches('"');
    let text = match setting.key.split_once('.') {
        Some((table, key)) => format!("[{table}]\n{key} = {value}\n"),
        None => format!("{} = {value}\n", setting.key),
    };
    match (level, setting.flag) {
        (0, _) => scene.user(text),
        (1, _) => scene.project(&text),
        (2, _) => scene.set(&setting.variable(), plain),
        (_, Some(("--stay", _))) => scene.arguments(&["--stay"]),
        (
            _,
            Some((flag @ ("--ephemeral" | "--trace-stable" | "--plain" | "--inline" | "--dangerously-no-sandbox"), _)),
        ) => scene.arguments(&[flag]),
        (_, Some((flag, _))) => scene.arguments(&[flag, plain]),
        (_, None) => unreachable!("this setting has no option"),
    }
}

/// The sources in which a setting can be set.
fn levels(setting: &Setting) -> Vec<usize> {
    let is_possible = [setting.files != Files::None, setting.files == Files::All, true, setting.flag.is_some()];
    (0..4).filter(|level| is_possible[*level]).collect()
}

/// The resulting value: two options take no value.
fn effective<'a>(level: usize, setting: &Setting, value: &'a str) -> &'a str {
    match (level, setting.flag) {
        (3, Some(("--stay" | "--dangerously-no-sandbox", _))) => "false",
        (3, Some(("--ephemeral" | "--trace-stable" | "--plain" | "--inline", _))) => "true",
        _ => value,
    }
}

#[test]
fn the_source_with_the_higher_precedence_wins_for_every_setting() {
    let name_of = |source: &Source| match source {
        Source::Default => None,
        Source::User(_) => Some(0),
        Source::Project(_) => Some(1),
        Source::Variable(_) => Some(2),
        Source::Flag(_) => Some(3),
    };
    let mut pairs = 0;
    for (index, setting) in SETTINGS.iter().enumerate() {
        let samples = samples(setting);
        for high in levels(setting) {
            for low in levels(setting).into_iter().filter(|low| *low < high) {
                // An option without a value needs the other value in the lower source.
                let below = if effective(high, setting, samples[1]) == samples[0] { samples[1] } else { samples[0] };
                let scene = set_in(low, setting, below, Scene::new());
                let value = if below == samples[0] { samples[1] } else { samples[0] };
                let scene = set_in(high, setting, value, scene);
                let loaded = scene.load();
                // No model is configured, so there is no price.
                let is_expected = |error: &Error| error.message.contains("limits.max_usd needs the price of none/none");
                assert!(loaded.diagnostics.errors.iter().all(is_expected), "{}: {:?}", setting.key, loaded.diagnostics);
                let expected = effective(high, setting, value).trim_matches('"');
                let shown = setting.display_value(&loaded.values);
                if !(setting.key == "data_dir" && shown.is_none()) {
                    assert_eq!(shown.unwrap().trim_matches(['"', '[', ']']), expected, "{} {low} {high}", setting.key);
                }
                assert_eq!(name_of(&loaded.sources[index]), Some(high), "{}", setting.key);
                pairs += 1;
            }
        }
        for level in levels(setting) {
            let loaded = set_in(level, setting, samples[0], Scene::new()).load();
            assert_eq!(name_of(&loaded.sources[index]), Some(level), "{} beats the default", setting.key);
        }
    }
    assert!(pairs > 50, "only {pairs} pairs");
}

#[test]
fn a_project_lowers_limits_and_never_raises_them() {
    let agents = |scene: Scene| {
        let loaded = scene.load();
        (loaded.values.config.tree_limits[LimitName::Agents], loaded.diagnostics.warnings)
    };
    let (most, warnings) = agents(Scene::new().project("[limits]\nmax_agents = 3\n"));
    assert_eq!((most, warnings), (Some(3), Vec::new()));
    for wider in ["65", "\"none\""] {
        let (most, warnings) = agents(Scene::new().project(&format!("[limits]\nmax_agents = {wider}\n")));
        assert_eq!(most, Some(64));
        assert!(warnings[0].ends_with("ignored: a project may only lower a limit"), "{warnings:?}");
    }
    let user = "[limits]\nmax_agents = \"none\"\nmax_usd = 2.5\n";
    let (most, _) = agents(Scene::new().user(user).project("[limits]\nmax_agents = 1000\n"));
    assert_eq!(most, Some(1000));
}

/// A project that raised them could keep agents of the user at work, or waiting, for a year.
#[test]
fn a_project_lowers_counts_sizes_and_times_and_never_raises_them() {
    let project = |key: &str, value: &str| {
        let (table, key) =
            key.split_once('.').map_or((String::new(), key), |(table, key)| (format!("[{table}]\n"), key));
        format!("{table}{key} = {value}\n")
    };
    let mut checked = 0;
    for setting in SETTINGS.iter().filter(|setting| setting.files == Files::All) {
        let (lower, wider) = match setting.kind {
            Kind::Count(..) => ("1", vec!["1000"]),
            Kind::Size(..) => ("1024", vec!["1000000000"]),
            Kind::SizeOrUnlimited(_) => ("1", vec!["0", "11", "1000000000"]),
            Kind::Seconds(..) => (samples(setting)[4], vec!["86400"]),
            _ => continue,
        };
        checked += 1;
        let loaded = Scene::new().project(&project(setting.key, lower)).load();
        assert_eq!(setting.display_value(&loaded.values).as_deref(), Some(lower), "{}", setting.key);
        assert_eq!(loaded.diagnostics.warnings, Vec::<String>::new());
        for value in wider {
            let loaded = Scene::new().project(&project(setting.key, value)).load();
            assert_eq!(
                setting.display_value(&loaded.values),
                setting.display_value(&Values::default()),
                "{} = {value}",
                setting.key
            );
            let warning = format!("{}: ignored: a project may only lower a limit", setting.key);
            assert!(loaded.diagnostics.warnings[0].ends_with(&warning), "{:?}", loaded.diagnostics.warnings);
        }
    }
    assert!(checked > 12, "only {checked}");
    let limit = |user: &str, theirs: &str| {
        let scene = Scene::new().user(format!("working_limit = {user}")).project(&format!("working_limit = {theirs}"));
        scene.load().values.config.working_limit
    };
    assert_eq!([limit("0", "1000"), limit("3", "0"), limit("3", "4"), limit("3", "2")], [1000, 3, 3, 2]);
    let iterations = Scene::new().project("[limits]\ntool_iterations = 0\n").load();
    assert_eq!(iterations.values.config.settings.tool_iterations, 0, "here 0 is the strictest");
}

#[test]
fn a_limit_of_dollars_is_refused_on_the_command_line_without_a_price() {
    let unpriced = Scene::new().arguments(&["--max-usd", "1"]).load();
    let message = &unpriced.diagnostics.errors[0].message;
    assert!(message.contains("limits.max_usd") && message.contains("input_price"), "{message}");
    let provider = "model = \"box/big\"\n[providers.box]\nkind = \"openai\"\nbase_url = \"http://localhost:1/v1\"\n\
        models = [{ name = \"big\", input_price = 1, output_price = 2 }]\n";
    let priced = Scene::new().user(provider).arguments(&["--max-usd", "1"]).load();
    assert_eq!(priced.diagnostics.errors, []);
    assert_eq!(priced.values.config.tree_limits[LimitName::Usd], Some(1_000_000_000));
    assert!(priced.values.config.counts_usd_from_start);
    let in_file = Scene::new().user("[limits]\nmax_usd = 1\n").load();
    assert_eq!(in_file.diagnostics.errors, []);
    assert!(in_file.diagnostics.warnings[0].contains("needs the price"), "{:?}", in_file.diagnostics.warnings);
}
