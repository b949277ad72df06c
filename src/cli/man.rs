//! `polylogue man`: the manual page in roff (man(7)), from the same tables as the command line, `/help` and the
//! configuration, so that it cannot tell anything else than they do.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::arguments::Arguments;
use super::config::keys;
use super::config::providers;
use super::config::settings::{Files, SETTINGS};
use crate::commands::{COMMANDS, KEYS};
use crate::provider::PROVIDERS;

/// Which files there are, and which of them wins.
const FILES: &str = "\
config.toml in $XDG_CONFIG_HOME/polylogue, or what --config names, is in TOML; polylogue config edit opens it. \
commands/*.md in that directory, whatever --config names, are commands of your own: /NAME sends the text, in which \
$1 to $9 are the words that stand behind it and $@ is all of them. A project may bring the same along in .polylogue, which is read once you have said \
polylogue config trust, and again after each change. The command line wins over the environment, that over the \
project, and the project over your own file. These are the keys:";

/// The whole page.
pub fn page() -> String {
    let mut program = Arguments::command();
    program.build();
    let mut page = Page(format!(".TH POLYLOGUE 1 \"\" \"polylogue {}\"\n", env!("CARGO_PKG_VERSION")));
    page.section("Name", &format!("polylogue - {}", env!("CARGO_PKG_DESCRIPTION").to_lowercase()));
    let usage = program.render_usage().to_string();
    page.section("Synopsis", usage.trim_start_matches("Usage: "));
    page.section("Description", &program.get_long_about().map(ToString::to_string).unwrap_or_default());
    page.section("Options", "");
    page.options(&program);
    page.section("Subcommands", "");
    page.subcommands("", &program);
    page.section("Commands in the chat", "A line that begins with a slash; two slashes begin a message with one.");
    for spec in COMMANDS {
        page.item(&format!("/{} {}", spec.name, spec.arguments), spec.about);
    }
    page.section("Keys", "");
    KEYS.iter().for_each(|(keys, about)| page.item(keys, about));
    page.section("Configuration", FILES);
    page.settings();
    page.providers();
    page.section("Exit status", "0: all is well. 1: it failed. 2: wrong use. 3: a provider does not accept the key.");
    page.0
}

/// What is written so far, in lines of roff.
struct Page(String);

impl Page {
    fn section(&mut self, title: &str, text: &str) {
        // Writing into a `String` cannot fail.
        let _ = writeln!(self.0, ".SH {}\n{}", title.to_uppercase(), escaped(text));
    }

    fn item(&mut self, what: &str, about: &str) {
        let _ = writeln!(self.0, ".TP\n.B {}\n{}", escaped(what.trim_end()), escaped(about));
    }

    fn options(&mut self, command: &clap::Command) {
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let about = option.get_help().map(ToString::to_string).unwrap_or_default();
            let short = option.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
            self.item(&format!("{short}{option}"), &about);
        }
    }

    fn subcommands(&mut self, before: &str, command: &clap::Command) {
        for inner in command.get_subcommands() {
            let name = format!("{before}{}", inner.get_name());
            if inner.has_subcommands() {
                self.subcommands(&format!("{name} "), inner);
                continue;
            }
            let own = inner.get_arguments().filter(|one| !one.is_global_set() && one.get_id() != "help");
            let own: String = own.map(|one| format!(" [{}]", one.to_string().trim_matches(['[', ']']))).collect();
            self.item(&format!("{name}{own}"), &inner.get_about().map(ToString::to_string).unwrap_or_default());
        }
    }

    fn settings(&mut self) {
        for setting in SETTINGS {
            let place = match (setting.files, setting.flag) {
                (Files::None, Some((flag, _))) => format!("only {flag} and {}", setting.variable()),
                (_, Some((flag, _))) => format!("also {flag} and {}", setting.variable()),
                (_, None) => format!("also {}", setting.variable()),
            };
            self.item(setting.key, &format!("{}: {} ({place}).", setting.about, setting.slot.expected()));
        }
        self.item(
            "[environments.NAME]",
            &format!("What /env can name besides the usual: {}.", keys::ENVIRONMENT.join(", ")),
        );
    }

    fn providers(&mut self) {
        let about = format!("Models are then called NAME/MODEL: {}.", providers::KEYS.join(", "));
        self.item("[providers.NAME]", &about);
        let about = format!("A name, or a table of what is known of the model: {}.", providers::MODEL.join(", "));
        self.item("models", &about);
        for spec in PROVIDERS {
            let variables = spec.service.map_or_else(String::new, |service| {
                format!(
                    " Known by {}, and {} for another place.",
                    service.key_variables.join(" or "),
                    service.url_variable
                )
            });
            self.item(&format!("kind = {:?}", spec.kind), &format!("{}.{variables}", spec.about));
        }
    }
}

/// Text as roff takes it: nothing in it begins a request, and a hyphen can be copied.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.into() });
    lines.collect::<Vec<String>>().join("\n")
}
