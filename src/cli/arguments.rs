//! The command line, as a table.

use std::path::PathBuf;

use clap::Parser;

/// One person, many agents: a terminal chat with language models.
///
/// Without a configured provider the built-in `echo` answers. For a real model set OPENAI_API_KEY, or OPENAI_BASE_URL
/// for any compatible server (llama.cpp, Ollama, vLLM, ...), and choose with --model openai/NAME.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Arguments {
    /// Start the chat and send this
    prompt: Vec<String>,
    /// Which model new agents talk to
    #[arg(short, long, env = "POLYLOGUE_MODEL", value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Where conversations are kept [default: $XDG_DATA_HOME/polylogue]
    #[arg(long, env = "POLYLOGUE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Look at what is kept there, even while another polylogue holds it; send and change nothing
    #[arg(long, conflicts_with_all = ["ephemeral", "prompt"])]
    pub read_only: bool,
    /// Keep nothing
    #[arg(long, env = "POLYLOGUE_EPHEMERAL")]
    pub ephemeral: bool,
    /// How many agents may work at once; 0 is no limit
    #[arg(long, env = "POLYLOGUE_WORKING_LIMIT", value_name = "N", default_value_t = 10)]
    pub working_limit: usize,
    /// Stay with the parent when a child is forked
    #[arg(long, env = "POLYLOGUE_STAY")]
    pub stay: bool,
    /// Write down every turn of the loop, one JSON line each
    #[arg(long, env = "POLYLOGUE_TRACE", value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

impl Arguments {
    /// The words behind the options, if there are any.
    pub fn prompt(&self) -> Option<String> {
        (!self.prompt.is_empty()).then(|| self.prompt.join(" "))
    }
}
