//! What every layer returns: what happened, and what is to happen next. No flag is set here and read elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::error::Error;
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::domain::mail::MailId;
use crate::domain::slice::SliceSpec;
use crate::domain::thinking::Thinking;

/// What came of one line that a person entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputResult {
    /// Leave: the program ends, or where it goes on without this terminal, the terminal is let go.
    Exit,
    /// Let this terminal go, and only if everything goes on without it.
    Detach,
    /// Nothing changes; perhaps something is to be said.
    Continue(Option<String>),
    /// The house is to change; the note is shown when it has.
    NewState(Change, Option<String>),
    /// The line is for the model.
    Message(String),
}

/// Where a change came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A person at this terminal.
    Terminal(TerminalId),
    /// A client of the server.
    Client(ClientId),
    /// The program that hosts the loop.
    Library,
    /// polylogue itself.
    Internal,
}

impl Origin {
    /// The terminal, if it was one.
    pub const fn terminal(self) -> Option<TerminalId> {
        if let Self::Terminal(id) = self { Some(id) } else { None }
    }
}

/// How an agent's turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    /// The model has said what it wanted.
    Completed,
    /// A person cut the turn; `partial` tells whether something of the reply is kept.
    Interrupted {
        /// Some of the reply is kept.
        partial: bool,
    },
    /// The program is left.
    Exited,
    /// The turn failed.
    Error(Error),
}

/// What a person or a tool asks of the house. Only `apply` carries it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A child of the agent, with its history.
    Fork {
        /// The child's first own message, sent at once; without it the child waits for input.
        prompt: Option<String>,
        /// Its name.
        name: Option<String>,
        /// Its model, as `provider/model`; the parent's if none is named.
        model: Option<String>,
    },
    /// A child with the agent's history in the environment of this specification.
    Environment(String),
    /// The agent dies, for good; with all its descendants, if told so.
    Kill {
        /// Who.
        agent_id: AgentId,
        /// The descendants too.
        cascade: bool,
    },
    /// The agent has another name, or none.
    Name(Option<String>),
    /// Everything so far is forgotten by the model.
    Clear,
    /// A place to come back to.
    Mark(String),
    /// Back to the newest mark of this label, or to the newest of all.
    Rewind(Option<String>),
    /// A child whose conversation is a cut of this one.
    Slice(SliceSpec),
    /// Children of the agent work on a task together: what was typed behind `/team`.
    Team(String),
    /// Tell which tasks are worked on, what became of the last ones, and how their members have fared.
    ShowTeam,
    /// A letter to another agent.
    Send {
        /// To whom.
        to: AgentId,
        /// What it says.
        body: String,
    },
    /// Show a letter and mark it read: this one, or the oldest unread.
    ReadMail(Option<MailId>),
    /// Throw a letter away.
    DeleteMail(MailId),
    /// Another agent on the screen.
    Switch(AgentId),
    /// Text for the model; queued while the agent works.
    Submit(String),
    /// The line of a command waits its turn behind what is queued.
    Enqueue(String),
    /// The queue is to be another one.
    EditQueue(QueueEdit),
    /// Another model, as `provider/model`, from the next request on.
    Model(String),
    /// Another amount of thinking, from the next request on.
    Thinking(Thinking),
    /// Instructions of the agent's own, from the next request on; `None`: the usual ones.
    System(Option<String>),
    /// A text for the clipboard of whoever sits at the terminal.
    Copy(String),
    /// A text for a new file.
    Export {
        /// Where; relative to the agent's working directory.
        path: PathBuf,
        /// What.
        text: String,
    },
    /// Stop what the agent does.
    Interrupt,
    /// The answer to the question with this number.
    Answer {
        /// Which question; an answer to one that is gone changes nothing.
        question: u64,
        /// Whether the call may run.
        allowed: bool,
    },
    /// Take the newest queued text back into the draft.
    Unqueue,
    /// Send the oldest queued text of an idle agent.
    Resume,
    /// Send at once what waits for a retry or for the end of its provider's pause.
    TryNow,
}

/// What becomes of an agent's queue. Places are counted from 0, the next one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueEdit {
    /// The entry at this place becomes the draft.
    TakeBack(usize),
    /// The entry at this place is thrown away.
    Drop(usize),
    /// All are thrown away.
    Clear,
    /// The entry at one place goes before the one at another.
    Move {
        /// The place at which it is.
        from: usize,
        /// The place at which it will be.
        to: usize,
    },
}

impl Change {
    /// Whether it leaves everything that is stored as it is.
    pub const fn is_read_only_change(&self) -> bool {
        matches!(
            self,
            Self::ShowTeam
                | Self::Switch(_)
                | Self::Interrupt
                | Self::Answer { .. }
                | Self::Copy(_)
                | Self::Export { .. }
        )
    }

    /// Whether only the terminal from which it is asked for is another one afterwards: what somebody may ask for who only
    /// watches.
    pub const fn is_local_to_terminal(&self) -> bool {
        matches!(self, Self::Switch(_) | Self::Copy(_) | Self::ShowTeam)
    }

    /// A stable name, for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fork { .. } => "fork",
            Self::Environment(_) => "env",
            Self::Kill { .. } => "kill",
            Self::Name(_) => "name",
            Self::Clear => "clear",
            Self::Mark(_) => "mark",
            Self::Rewind(_) => "rewind",
            Self::Slice(_) => "slice",
            Self::Team(_) => "team",
            Self::ShowTeam => "show_team",
            Self::Send { .. } => "send",
            Self::ReadMail(_) => "read_mail",
            Self::DeleteMail(_) => "delete_mail",
            Self::Switch(_) => "switch",
            Self::Submit(_) => "submit",
            Self::Enqueue(_) => "enqueue",
            Self::EditQueue(_) => "edit_queue",
            Self::Model(_) => "model",
            Self::Thinking(_) => "thinking",
            Self::System(_) => "system",
            Self::Copy(_) => "copy",
            Self::Export { .. } => "export",
            Self::Interrupt => "interrupt",
            Self::Answer { .. } => "answer",
            Self::Unqueue => "unqueue",
            Self::Resume => "resume",
            Self::TryNow => "try now",
        }
    }
}

/// What a model asks of the house through a tool. Agents are named as a model names them: by name or id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolRequest {
    /// A child that starts at once with this prompt.
    Fork {
        /// What the child is to do.
        prompt: String,
        /// Its name.
        name: Option<String>,
        /// Its model, as `provider/model`.
        model: Option<String>,
    },
    /// An agent dies.
    Kill {
        /// Who.
        agent_id: String,
        /// The descendants too.
        cascade: bool,
    },
    /// A letter.
    SendMail {
        /// To whom.
        to: String,
        /// What it says.
        body: String,
    },
    /// What letters there are.
    CheckMail,
    /// A letter: this one, or the oldest unread.
    ReadMail(Option<MailId>),
    /// Until letters come.
    Wait {
        /// The longest wait.
        timeout: Duration,
        /// Until each of these has written, gone idle or died; empty: until any letter comes.
        from: Vec<String>,
    },
    /// Who there is.
    Agents,
}
