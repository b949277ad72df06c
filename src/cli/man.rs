//! `polylogue man`: the manual page. Options come from the command line's table through clap_mangen, the reference from the
//! help topics.

use std::io::{self, Write as _};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::arguments;
use super::topics::topics;

/// The page in roff (man(7)).
pub fn page() -> String {
    let mut page = Vec::new();
    write_page(&mut page).expect("writing into memory cannot fail");
    let page = String::from_utf8_lossy(&page);
    // Each part begins with the same requests that define the apostrophe; they are needed only once.
    let (preamble, rest) = page.split_at(page.find(".TH").unwrap_or(0));
    let lines = rest.lines().filter(|line| !preamble.lines().any(|other| other == *line));
    preamble.lines().chain(lines).map(|line| format!("{line}\n")).collect()
}

fn write_page(page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(arguments::command());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    Roff::new().control("SH", ["SUBCOMMANDS"]).to_writer(page)?;
    write_subcommands(page, "polylogue", &arguments::command())?;
    topics().try_for_each(|topic| topic_section(topic.about, &topic.text()).to_writer(page))
}

fn write_subcommands(page: &mut Vec<u8>, path: &str, command: &Command) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        let path = format!("{path} {}", inner.get_name());
        if inner.has_subcommands() {
            write_subcommands(page, &path, inner)?;
            continue;
        }
        let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
        Roff::new().control("SS", [path.as_str()]).text([roman(about)]).to_writer(page)?;
        let mut options = Vec::new();
        Man::new(inner.clone().disable_help_flag(true)).render_options_section(&mut options)?;
        for line in String::from_utf8_lossy(&options).lines().filter(|line| !line.starts_with(".SH")) {
            writeln!(page, "{line}")?;
        }
    }
    Ok(())
}

/// A help topic, whose form is described in [`super::topics`].
fn topic_section(title: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title.to_uppercase().as_str()]);
    let mut is_verbatim = false;
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if indent == 4 && !is_verbatim {
            roff.control("PP", []).control("nf", []);
            is_verbatim = true;
        } else if is_verbatim && indent < 4 && !line.is_empty() {
            roff.control("fi", []);
            is_verbatim = false;
        }
        if is_verbatim {
            roff.text([roman(line)]);
        } else if line.is_empty() {
            roff.control("PP", []);
        } else if indent == 2 {
            let (term, about) = content.split_once("  ").unwrap_or((content, ""));
            roff.control("TP", []).text([bold(term)]);
            if !about.is_empty() {
                roff.text([roman(about.trim_start())]);
            }
        } else {
            roff.text([roman(content)]);
        }
    }
    if is_verbatim {
        roff.control("fi", []);
    }
    roff
}
