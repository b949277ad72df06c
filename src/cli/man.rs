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

/// What `--print` reads and writes; the whole of it stands in [`crate::cli::print`].
const SCRIPTS: &str = "\
With --print the answer goes to standard output and everything else to standard error. A standard input that is no \
terminal is read to its end (16 MiB at most) and joined to the prompt: with < /dev/null there is none. Calls of tools that \
a person would have to allow are refused. --output-format json is one object: v, type (result), agent, outcome (completed, \
failed, interrupted, limit), text (of the last turn), usage, cost (billionths of a US dollar), error (null, or kind and \
text), turns (requests), ms. stream-json is one object a line, as things happen (see JSON LINES); the object of json is the last \
line. --input-format stream-json reads one object a line: {\"type\":\"user\",\"text\":...} is a turn, \
{\"type\":\"interrupt\"} cuts the one that is under way.

Where a server holds the data directory, any number of runs go through it at once: each agent is the server's, which has settings of \
its own, and --max-turns counts the requests of that agent alone. A signal that ends the run, a limit or a reader who leaves cuts \
its turn; a run that is killed leaves the turn as it is, and one whose server is lost fails (1). Behind the texts of others a run waits until \
its turn comes, and goes on with a queue that would wait for a person. Where a chat or another run holds the directory, that \
is an error (1).";

/// How several agents work on one task; the whole of it stands in [`crate::team::coordinator`].
const TEAMS: &str = "\
polylogue multi-agent run sets members on one task: those of --template, of --agents, or --count many. They work one after \
the other (sequential), all at once (parallel), each on the answer of the one before (pipeline), or all at once if there \
are more than two and the task is short (adaptive). Their answers are put behind one another (concatenate), or the one \
with most votes is taken (vote), the best by a formula or by --judge (select_best), each section once (merge), or the first \
(first_success: the others are stopped). The answer goes to standard output, progress to standard error, and calls of \
tools that a person would have to allow are refused. A member that takes longer than --timeout is cancelled.

templates/*.toml and workflows/*.toml (or .json) beside config.toml are your own, those in .polylogue of a project are read \
once it is trusted. show prints one as a file. The steps of a workflow work in layers; each has a name, and agent \
(TEMPLATE/MEMBER), prompt, model, depends_on (whose answers it is given) and critical (without its answer those who depend \
on it are skipped).

With --json each event is an object a line: v (1), run, n (from 1), at_ms, type and the fields of the type: task_started \
(task, strategy, schedule, aggregation, members), agent_started (member, model), agent_finished (member, success, timed_out, \
skipped, cancelled, attempts, duration_ms, tokens, and answer, or error and kind), agent_skipped (member, reason), \
aggregation_completed (aggregation, answers, chosen, notes), and as the last line task_completed (answer, failures, tokens) \
or task_failed (error, kind, interrupted, answer, failures, tokens).";

/// What a server is, and how it is reached.
const SESSIONS: &str = "\
Agents live as long as the process that runs them. polylogue serve --background starts one without a terminal, which \
they outlive; it holds the data directory, and whoever may read that may reach it: DATA/server/socket is yours alone. \
polylogue attach, or polylogue alone, brings a terminal to it; any number of them, each with its own size and looking at its \
own agent. /detach or Ctrl+C leaves, and so does a terminal that is lost: agents go on. What the server has to say \
while nobody looks is in DATA/server.log; polylogue stop or SIGTERM ends it, SIGHUP does not. Settings are read when it \
starts.

For scripts: ps and sessions list, one object of JSON a line with --json; send queues a text and returns; wait \
returns when the agent is at rest with nothing queued and prints its status (idle, interrupted, dead); logs prints \
what was said, and goes on with --follow; kill, interrupt and stop do what they are called. WHO is a name, a number or the \
first four or more characters of an id, behind -- if that begins with a hyphen. Where no \
server runs, ps and logs tell what is kept.

polylogue send 0 'what is new?' && polylogue wait 0 --timeout 60 && polylogue logs 0 --last 5";

/// What a line of JSON is.
const LINES: &str = "\
logs --json and --output-format stream-json print an object a line: v (the version of this form: 1), agent (its id), epoch (of the process that gave the \
number), n (grows by one from line to line within an epoch), type, and the fields of the type. --from EPOCH:N goes on at \
the number N; with the epoch of another process it begins at the oldest that is kept. Consecutive text is one text, cut \
anywhere. Types and fields may be added; what there is keeps its meaning as long as v is 1.";

/// The types of those objects, with their fields.
const CHUNKS: &[(&str, &str)] = &[
    ("user, text, thinking, note, mark", "text"),
    ("tool_call", "id, name, arguments (JSON text as the model wrote it), title"),
    ("tool_result", "id, name, text, is_error, ms"),
    ("question", "number, title, detail (lines)"),
    ("status", "status: idle, running, awaiting_approval, interrupted or dead"),
    ("usage", "input, cached, written, output (tokens), cost (billionths of a US dollar, or null)"),
    ("error", "kind, text"),
    ("mail", "from (an id), id"),
];

/// How the program ends.
const EXITS: &[(&str, &str)] = &[
    ("0", "It is done."),
    ("1", "It failed, or the agent that was waited for is dead."),
    ("2", "Wrong use: the words, or an agent that there is not."),
    ("3", "The provider: its key, the connection, a request or a reply."),
    ("4", "A limit was reached, such as that of wait --timeout."),
    ("130", "It was interrupted, or the agent that was waited for was."),
    ("129, 143", "SIGHUP or SIGTERM ended it."),
    ("141", "Nobody reads the output any more."),
];

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
    page.section("Several agents on one task", TEAMS);
    page.section("Sessions", SESSIONS);
    page.section("Scripts", SCRIPTS);
    page.section("JSON lines", LINES);
    CHUNKS.iter().for_each(|(kinds, fields)| page.item(kinds, fields));
    page.section("Exit status", "");
    EXITS.iter().for_each(|(code, about)| page.item(code, about));
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
            let is_own = |one: &&clap::Arg| !one.is_global_set() && one.get_id() != "help" && !one.is_hide_set();
            let own: String = inner.get_arguments().filter(is_own).map(|one| format!(" {}", as_used(one))).collect();
            self.item(&format!("{name}{own}"), &inner.get_about().map(ToString::to_string).unwrap_or_default());
            for one in inner.get_arguments().filter(is_own).filter(|one| !one.is_positional()) {
                let about = one.get_help().map(ToString::to_string).unwrap_or_default();
                // On the same level as the subcommand's own words.
                let _ = writeln!(self.0, ".br\n{}: {}", escaped(&one.to_string()), escaped(&about));
            }
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

/// An argument as it stands in a line of usage: in brackets, if it may be left out.
fn as_used(one: &clap::Arg) -> String {
    let word = one.to_string();
    if one.is_required_set() || word.starts_with('[') { word } else { format!("[{word}]") }
}

/// Text as roff takes it: nothing in it begins a request, and a hyphen can be copied.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line {
        "" => ".PP".to_owned(),
        _ if line.starts_with(['.', '\'']) => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<String>>().join("\n")
}
