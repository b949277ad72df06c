//! `undo`: brings files back, through the server or, without one, directly.

use std::path::Path;

use super::chat_command;
use super::stored::{find_or_last, open};
use crate::base::clock::unix_ms;
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::cli::arguments::Undo;
use crate::cli::client::Client;
use crate::cli::stdio::{print_line, print_note};
use crate::domain::file_change::UndoRequest;
use crate::domain::message::Body;
use crate::domain::wire::Request;
use crate::team::undo::{IN_SHELL, conclude, plan, take_up};
use crate::tools::snapshots::{self, Snapshots};

/// Prints what was done.
pub fn run(options: &Undo, directory: &Path) -> Result<()> {
    if let Some(mut client) = Client::connect(directory)? {
        client.wait_forever()?;
        let response = client.request(&request_of(options))?;
        print_line(response["text"].as_str().unwrap_or_default());
        return Ok(());
    }
    let Undo { agent, to, skip, redo } = options.clone();
    let store = open(directory)?;
    let kept = Snapshots::new(directory.canonicalize()?.join(snapshots::DIRECTORY));
    take_up(&store, &kept, IN_SHELL).iter().for_each(|(_, note)| print_note(note));
    let agent = find_or_last(&store, agent.as_deref())?;
    let undo = plan(&store, agent, UndoRequest::new(to, skip, redo))?;
    let before = MessageId(undo.message);
    let undone = conclude(&store, &kept, before, snapshots::undo(&kept, undo), IN_SHELL)?;
    if let Some(text) = undone.for_model {
        // A killed agent is not told.
        let _ = store.append(agent, vec![Body::System(text)], unix_ms());
    }
    print_line(&undone.text);
    Ok(())
}

fn request_of(Undo { agent, to, skip, redo }: &Undo) -> Request {
    let to = to.map(|message| message.to_string()).unwrap_or_default();
    let options = [(!to.is_empty(), "--to"), (!to.is_empty(), &to), (*skip, "--skip"), (*redo, "--redo")];
    let words: Vec<&str> = ["undo"].into_iter().chain(agent.as_deref()).collect();
    chat_command(None, &words, &options)
}
