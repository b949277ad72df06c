//! Reading the registry of agents.

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension as _, Row, params};

use super::database::Store;
use super::error::store_error;
use super::numbers::NUMBERED;
use super::row;
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::called::{Found, Known, find_called, label, number_in};
use crate::domain::flow::TurnEnd;
use crate::domain::limits::MadeBy;
use crate::domain::stream::Usage;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    pub id: AgentId,
    /// The order of creation, from 0, the root.
    pub ordinal: i64,
    /// The number by which people call it, if it has one (`numbers`).
    pub number: Option<i64>,
    /// Its name, unique among the running agents.
    pub name: Option<String>,
    /// The agent that forked it, running or killed; never changes.
    pub parent: Option<AgentId>,
    /// The last of the parent's own messages that it inherits; 0 for none.
    pub fork_point: MessageId,
    /// It was started as a new conversation, not forked.
    pub is_begun: bool,
    pub is_running: bool,
    /// Whether it was in the middle of a turn when the row was last written.
    pub was_busy: bool,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// When it was killed, in milliseconds since 1970.
    pub ended_at: Option<i64>,
    /// `provider/model`.
    pub endpoint: Option<String>,
    /// Its thinking level, as it was typed.
    pub thinking: Option<String>,
    pub environment: Option<String>,
    /// Its own system prompt, in place of the default one.
    pub system: Option<String>,
    pub made_by: MadeBy,
    /// The command that says whether it is done, if a person set one; empty for none.
    pub done: Option<String>,
    /// The policy that a person set.
    pub policy: Option<String>,
    /// The rules that a person gave it, as JSON.
    pub rules: Option<String>,
    /// Whether its turn waits for the answer to a question.
    pub is_asking: bool,
    /// The parameters of its requests, as JSON.
    pub parameters: Option<String>,
    /// When it was archived, in milliseconds since 1970.
    pub archived_at: Option<i64>,
    /// It was made for one `--print` run.
    pub is_print_run: bool,
    /// The task of a team that it was made for.
    pub team_run: Option<String>,
    pub title: Option<String>,
    /// The title, or else the beginning of what the user said first.
    pub said: String,
    /// Where it works; `None`: where the program was started.
    pub directory: Option<String>,
    /// How its last turn ended, if that is known.
    pub last_end: Option<TurnEnd>,
    /// When its last turn ended, in milliseconds since 1970, if no terminal has shown the end.
    pub unseen_since: Option<i64>,
    /// The usage of its requests.
    pub used: Usage,
}

impl AgentRow {
    /// Whether it is in lists: neither killed nor archived.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_running && self.archived_at.is_none()
    }

    pub(crate) fn label(&self) -> String {
        label(self.name.as_deref(), self.number, self.id)
    }
}

/// The agents that were asked for, and the rows that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registry {
    /// In order of creation.
    pub agents: Vec<AgentRow>,
    /// A message for each row that was skipped.
    pub damaged: Vec<String>,
}

const SELECT: &str = "SELECT ordinal, uuid, name, parent_uuid, fork_message_id, status, activity, created_at, ended_at,
    endpoint, thinking, environment, system, made_by, policy, rules, asking, parameters,
    archived_at, is_print_run, title, directory, last_end, unseen_since, used_input, used_output, used_cost,
    (SELECT runs.run FROM runs WHERE runs.id = agents.run), number, done,
    coalesce(title, said, '') FROM agents";

#[doc(hidden)]
impl Store {
    /// The running agents that are not archived, in order of creation.
    pub fn load_agents(&self) -> Result<Registry> {
        self.registry("status = 'running' AND archived_at IS NULL")
    }

    /// The archived agents, in order of creation.
    pub fn archived_agents(&self) -> Result<Registry> {
        self.registry("status = 'running' AND archived_at IS NOT NULL")
    }

    /// The agents that were killed and not deleted, in order of creation.
    pub(crate) fn killed_agents(&self) -> Result<Registry> {
        self.registry("status = 'dead' AND deleted_at IS NULL")
    }

    fn registry(&self, condition: &str) -> Result<Registry> {
        let sql = format!("{SELECT} WHERE {condition} ORDER BY ordinal");
        let mut registry = Registry::default();
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match agent_row(row) {
                Ok(agent) => registry.agents.push(agent),
                Err(message) => registry.damaged.push(message),
            }
        }
        Ok(registry)
    }

    /// One agent, running or killed.
    pub fn agent(&self, agent: AgentId) -> Result<Option<AgentRow>> {
        let mut statement = self.conn.prepare_cached(&format!("{SELECT} WHERE uuid = ?1"))?;
        let mut rows = statement.query([agent])?;
        rows.next()?.map(|row| agent_row(row).map_err(store_error)).transpose()
    }

    /// Finds an agent by name, number or id. A killed one, which has neither a name nor a number, is found by its uuid
    /// or, if no running agent has this name, by the beginning of that.
    pub fn find(&self, text: &str) -> Result<Found> {
        if text.is_empty() {
            return Ok(Found::None);
        }
        let id = text.parse::<AgentId>().map(|id| id.to_string());
        let text = id.as_deref().unwrap_or(text);
        // The greatest character of base64url is `z`; `{` follows it.
        let sql = format!(
            "SELECT uuid, iif({NUMBERED}, number, NULL) AS its_number, name, status = 'running' FROM agents
            WHERE deleted_at IS NULL AND (uuid >= ?1 AND uuid < ?1 || '{{'
                OR status = 'running' AND (name = ?1 OR its_number = ?2)) ORDER BY ordinal"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        // An agent with a damaged uuid cannot be returned.
        let of_row = |row: &Row<'_>| match row.get::<_, AgentId>(0) {
            Ok(id) => {
                Ok(Some((id, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<String>>(2)?, row.get::<_, bool>(3)?)))
            }
            Err(_) => Ok(None),
        };
        let rows = statement.query_map(params![text, number_in(text)], of_row)?;
        let rows: Vec<_> = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect();
        let running = rows.iter().filter(|(.., is_running)| *is_running);
        let running = running.map(|(id, number, name, _)| Known { id: *id, number: *number, name: name.as_deref() });
        let any = rows.iter().map(|(id, ..)| Known { id: *id, number: None, name: None });
        Ok(match find_called(&running.collect::<Vec<_>>(), text) {
            Found::None => find_called(&any.collect::<Vec<_>>(), text),
            found => found,
        })
    }

    /// The running agent that got the newest message of the user, perhaps only of those that work in a directory; agents
    /// from before directories were stored work in every one. Of the archived ones only those of `--print` runs count, which
    /// no person has archived.
    pub(crate) fn last_addressed(&self, directory: Option<&str>) -> Result<Option<AgentId>> {
        // Searches backwards from the newest message, which ends after one turn in most cases.
        let sql = "SELECT uuid FROM messages CROSS JOIN agents ON agents.ordinal = messages.agent
            WHERE kind = 'user' AND status = 'running' AND (archived_at IS NULL OR is_print_run)
                AND (?1 IS NULL OR directory IS NULL OR directory = ?1)
            ORDER BY messages.id DESC LIMIT 1";
        Ok(self.conn.prepare_cached(sql)?.query_row([directory], |row| row.get(0)).optional()?)
    }

    /// The title of a conversation, or else the first message of the user, and the time of the last message.
    pub(crate) fn conversation(&self, agent: AgentId) -> Result<(String, i64)> {
        let sql = "SELECT coalesce(title, said, ''),
                   coalesce((SELECT created_at FROM messages WHERE agent = ordinal ORDER BY id DESC LIMIT 1), created_at)
                   FROM agents WHERE uuid = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row([agent], |row| Ok((row::text(row, 0)?, row.get(1)?)))?)
    }

    /// The beginning of the last reply or error of an agent, if there is one.
    pub(crate) fn last_said(&self, agent: AgentId) -> Result<Option<String>> {
        let sql = "SELECT substr(content, 1, 400) FROM messages WHERE kind IN ('assistant', 'error') AND content <> ''
                AND agent = (SELECT ordinal FROM agents WHERE uuid = ?1)
            ORDER BY id DESC LIMIT 1";
        Ok(self.conn.prepare_cached(sql)?.query_row([agent], |row| row::text(row, 0)).optional()?)
    }

    /// The nearest running ancestor that is not archived and whose row can be read, `None` for the root; and whether a begun
    /// conversation is between the two.
    pub fn living_ancestor(&self, agent: AgentId) -> Result<(Option<AgentId>, bool)> {
        let sql = "SELECT parent_uuid IS NOT NULL AND fork_message_id IS NULL FROM agents WHERE uuid = ?1";
        let (mut next, mut is_below_begun) = (self.parent(agent)?, false);
        while let Some(id) = next {
            // A damaged row is skipped, but may still name its own parent.
            if self.agent(id).is_ok_and(|row| row.is_some_and(|row| row.is_listed())) {
                break;
            }
            is_below_begun |=
                self.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()? == Some(true);
            next = self.parent(id)?;
        }
        Ok((next, is_below_begun))
    }

    /// Ordinals decrease towards the root, so even a damaged registry has no cycle.
    fn parent(&self, agent: AgentId) -> Result<Option<AgentId>> {
        let sql = "SELECT parent.uuid FROM agents child JOIN agents parent
                       ON parent.uuid = child.parent_uuid AND parent.ordinal < child.ordinal WHERE child.uuid = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row([agent], |row| Ok(row.get(0).ok())).optional()?.flatten())
    }
}

fn agent_row(row: &Row<'_>) -> std::result::Result<AgentRow, String> {
    let ordinal: i64 = row.get(0).unwrap_or(-1);
    read_agent(row).map_err(|error| format!("agent {ordinal} is damaged and left out: {error}"))
}

fn read_agent(row: &Row<'_>) -> rusqlite::Result<AgentRow> {
    let agent = AgentRow {
        ordinal: row.get(0)?,
        // Without it the agent is called by its id.
        number: row.get(28).unwrap_or_default(),
        id: row.get(1)?,
        name: row.get(2)?,
        parent: row.get(3)?,
        fork_point: MessageId(row.get::<_, Option<i64>>(4)?.unwrap_or(0)),
        is_begun: row.get_ref(3)? != ValueRef::Null && row.get_ref(4)? == ValueRef::Null,
        is_running: row.get_ref(5)?.as_str()? == "running",
        was_busy: row.get_ref(6)?.as_str()? == "running",
        created_at: row.get(7)?,
        ended_at: row.get(8)?,
        endpoint: row.get(9)?,
        thinking: row.get(10)?,
        environment: row.get(11)?,
        system: row.get(12)?,
        made_by: MadeBy::of_code(row.get(13)?),
        policy: row.get(14)?,
        rules: row.get(15)?,
        is_asking: row.get(16)?,
        parameters: row.get(17)?,
        archived_at: row.get(18)?,
        is_print_run: row.get(19)?,
        title: row.get(20)?,
        said: row::text(row, 30)?,
        directory: row.get(21)?,
        last_end: row.get_ref(22)?.as_str_or_null()?.and_then(TurnEnd::find),
        unseen_since: row.get(23)?,
        used: Usage { input: count(row, 24)?, output: count(row, 25)?, cost: cost(row, 26)?, ..Usage::default() },
        team_run: row.get(27)?,
        done: row.get(29)?,
    };
    let is_numbered = agent.is_listed() && !agent.is_print_run && agent.team_run.is_none();
    Ok(AgentRow { number: agent.number.filter(|_| is_numbered), ..agent })
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(|count: i64| u64::try_from(count).unwrap_or_default())
}

fn cost(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    let cost: Option<i64> = row.get(column)?;
    Ok(cost.and_then(|cost| u64::try_from(cost).ok()))
}
