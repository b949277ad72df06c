//! HTML to Markdown. Pages are written by strangers: deep nesting would overflow the stack of a converter, and some take
//! it far more memory than their size. So it runs in a process of its own with bounded memory and time: our own binary in
//! the mode `polylogue --html-to-markdown`. Only this module uses `htmd`.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};

/// The first argument that selects this mode.
pub const FLAG: &str = "--html-to-markdown";

/// Of the address space of the converter, in bytes.
const MAX_MEMORY: u64 = 1 << 30;
/// Of its processor time, in seconds.
const MAX_TIME: u64 = 3;
/// Of its result, in bytes.
const MAX_RESULT: u64 = 16 << 20;
/// Elements without text for a reader.
const SKIPPED: [&str; 7] = ["script", "style", "noscript", "template", "svg", "iframe", "head"];

/// Reads HTML from standard input and writes Markdown to standard output.
pub fn main() -> ExitCode {
    let limits = [(Resource::As, MAX_MEMORY), (Resource::Cpu, MAX_TIME), (Resource::Core, 0)];
    for (resource, limit) in limits {
        if setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) }).is_err() {
            return ExitCode::FAILURE;
        }
    }
    let mut html = String::new();
    let converter = htmd::HtmlToMarkdown::builder().skip_tags(SKIPPED.to_vec()).build();
    let converted = io::stdin().read_to_string(&mut html).and_then(|_| converter.convert(&html));
    let written = converted.and_then(|markdown| io::stdout().write_all(markdown.as_bytes()));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Converts a page. Blocks until the converter has ended, at most for a few seconds.
pub fn to_markdown(html: &str, program: &Path) -> io::Result<String> {
    let mut command = Command::new(program);
    command.arg(FLAG).env_clear().current_dir("/");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    // It reads everything before it writes, so that neither waits for the other.
    let sent = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(html.as_bytes()));
    let mut markdown = Vec::new();
    let output = child.stdout.take().map(|output| output.take(MAX_RESULT).read_to_end(&mut markdown));
    let status = child.wait()?;
    sent.and(output.unwrap_or(Ok(0)))?;
    match String::from_utf8(markdown) {
        Ok(markdown) if status.success() => Ok(markdown),
        _ => Err(io::Error::other("the page could not be converted")),
    }
}
