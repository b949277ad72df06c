//! From an agent's uuid to its ordinal, by which all other tables refer to it.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _};

use super::error::store_error;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;

/// The root's ordinal. Every other agent has a greater one than its parent.
pub(super) const ROOT: i64 = 0;

/// The ordinal of a running agent. Nothing is ever written for one that was killed.
pub(super) fn running(conn: &Connection, agent: AgentId) -> Result<i64> {
    let sql = "SELECT ordinal FROM agents WHERE uuid = ?1 AND status = 'running'";
    let found = conn.prepare_cached(sql)?.query_row([agent], |row| row.get(0)).optional()?;
    found.ok_or_else(|| not_running(conn, agent))
}

/// The ordinal of an agent, running or killed.
pub(super) fn known(conn: &Connection, agent: AgentId) -> Result<i64> {
    let sql = "SELECT ordinal FROM agents WHERE uuid = ?1";
    let found = conn.prepare_cached(sql)?.query_row([agent], |row| row.get(0)).optional()?;
    found.ok_or_else(|| unknown(agent))
}

pub(super) fn not_running(conn: &Connection, agent: AgentId) -> Error {
    match known(conn, agent) {
        Ok(_) => store_error(format!("agent {} was killed", agent.short())),
        Err(error) => error,
    }
}

pub(super) fn unknown(agent: AgentId) -> Error {
    store_error(format!("there is no agent {agent}"))
}

/// An id is stored as the 22 characters of its uuid.
impl FromSql for AgentId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(|_| FromSqlError::Other("not a uuid".into()))
    }
}

impl ToSql for AgentId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}
