//! Asks once, at the start of a chat, about contents of a project that the user has not judged yet.

use std::io::{IsTerminal as _, Write as _};

use super::environment::ProcessEnvironment;
use super::show::print;
use super::trust::{Contents, is_put_off, put_off};
use crate::base::error::Result;
use crate::base::project::ProjectDirectories;

/// Asks whether new or changed contents of the project are trusted, if a person is there to answer and was not asked about
/// them before.
pub fn ask(env: &ProcessEnvironment) -> Result<()> {
    let Some(config) = env.config_directory() else { return Ok(()) };
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    let contents = Contents::of(&ProjectDirectories::of(&env.directory), &env.skill_directories());
    if contents.is_empty() || contents.is_trusted(&config) || is_put_off(&contents, &config) {
        return Ok(());
    }
    let names = contents.untrusted_names(&config).join(", ");
    print(&format!("new in this project: {names}\nagents use it only once you trust it\n"));
    loop {
        print("[s]how, [t]rust, [n]ot now: ");
        std::io::stdout().flush()?;
        let mut answer = String::new();
        let is_end = std::io::stdin().read_line(&mut answer)? == 0;
        match answer.trim() {
            "s" | "show" => print(&(contents.describe_contents(&config) + &contents.shown_providers())),
            "t" | "trust" => return contents.trust(&config),
            "n" | "not now" | "" => {
                print("to trust it later: polylogue config trust\n");
                return put_off(&contents, &config);
            }
            _ if is_end => return Ok(()),
            _ => {}
        }
    }
}
