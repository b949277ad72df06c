//! The data directory as the modes need it: which one, how to name it again, and whether it is still there.

use std::path::{Path, PathBuf};

use super::arguments::Arguments;
use super::config::{self, ProcessEnvironment};
use crate::base::error::{Error, Result};
use crate::store::Store;

/// The data directory whose server is used. Other errors in the configuration are left to the server.
pub fn required(arguments: &Arguments, env: &ProcessEnvironment) -> Result<PathBuf> {
    let loaded = config::load(arguments, env);
    if let Some(directory) = &loaded.config().data_directory {
        return Ok(directory.clone());
    }
    loaded.into_config()?;
    Err(Error::usage("there is no server with --ephemeral: a server stores its agents"))
}

/// The options that select the same configuration and data directory, each after a space. `explicit` is the data
/// directory if the command line or the environment named it.
pub fn options(arguments: &Arguments, explicit: Option<&Path>) -> String {
    let option = |name: &str, path: &Path| format!(" {name} {}", quote_word(&path.display().to_string()));
    let entered = arguments.cwd.as_ref().and_then(|_| std::env::current_dir().ok());
    let entered = entered.map(|directory| option("-C", &directory)).unwrap_or_default();
    let config = arguments.config.as_deref().map(|file| option("--config", file)).unwrap_or_default();
    let directory = explicit.map(|directory| option("--data-dir", directory)).unwrap_or_default();
    format!("{entered}{config}{directory}")
}

/// Says what could not be stored: that the directory is gone, or else the message of the loop.
pub fn loss(directory: Option<&Path>, of_loop: Option<String>) -> Option<String> {
    if let Some(removed) = directory.filter(|directory| !Store::exists(directory)) {
        return Some(format!("{} was removed while it was in use: nothing was stored", removed.display()));
    }
    of_loop
}

fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_can_be_copied_into_a_shell() {
        let options = |directory: &str| options(&Arguments::default(), Some(Path::new(directory)));
        assert_eq!(options("/a/b-c"), " --data-dir /a/b-c");
        assert_eq!(options("/a b/it's"), r" --data-dir '/a b/it'\''s'");
    }
}
