//! The command line, as a table.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// One person, many agents: a terminal chat with language models.
///
/// Without a configured provider the built-in `echo` answers. For a real model set OPENAI_API_KEY, ANTHROPIC_API_KEY or
/// GEMINI_API_KEY, or OPENAI_BASE_URL for any compatible server (llama.cpp, Ollama, vLLM, ...), and choose with --model
/// openai/NAME, anthropic/NAME or google/NAME; or write a configuration (`polylogue config edit`). `polylogue doctor`
/// looks whether everything works, `polylogue man` tells the rest. Words that are the name of a subcommand are sent with
/// `polylogue -- doctor`.
#[derive(Debug, Default, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// Start the chat and send this
    prompt: Vec<String>,
    /// Which model new agents talk to [env: POLYLOGUE_MODEL]
    #[arg(short, long, global = true, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// The configuration [env: POLYLOGUE_CONFIG] [default: $XDG_CONFIG_HOME/polylogue/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where conversations are kept [env: POLYLOGUE_DATA_DIR] [default: $XDG_DATA_HOME/polylogue]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Look at what is kept there, even while another polylogue holds it; send and change nothing
    #[arg(long, conflicts_with_all = ["ephemeral", "prompt"])]
    pub read_only: bool,
    /// Keep nothing [env: POLYLOGUE_EPHEMERAL]
    #[arg(long)]
    pub ephemeral: bool,
    /// How many agents may work at once; 0 is no limit [env: POLYLOGUE_WORKING_LIMIT] [default: 10]
    #[arg(long, value_name = "N")]
    pub working_limit: Option<String>,
    /// Stay with the parent when a child is forked [env: POLYLOGUE_FOLLOW_FORKS=false]
    #[arg(long)]
    pub stay: bool,
    /// Write down every turn of the loop, one JSON line each [env: POLYLOGUE_TRACE]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// What else than to chat
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What else than to chat.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Look at the configuration, or change it
    #[command(subcommand, disable_help_subcommand = true)]
    Config(ConfigCommand),
    /// Look whether everything is there and works
    Doctor {
        /// Reach for no provider
        #[arg(long)]
        offline: bool,
    },
    /// Print the manual page: polylogue man | man -l -
    Man,
}

/// What can be done with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigCommand {
    /// Where the files are, and which of them are read
    Path,
    /// Every setting, and where it came from
    Show,
    /// Write your own file in $VISUAL, $EDITOR or vi
    Edit,
    /// Trust what the project of this directory brings along, as it is now
    Trust {
        /// Any directory of the project [default: the working directory]
        directory: Option<PathBuf>,
    },
}

impl Arguments {
    /// The words behind the options, if there are any.
    pub fn prompt(&self) -> Option<String> {
        (!self.prompt.is_empty()).then(|| self.prompt.join(" "))
    }
}
