//! The login at a server over HTTP. Its token is read, and renewed once the server has refused it, on a thread.

use std::time::SystemTime;

use crate::base::error::{ErrorKind, Result};
use crate::base::job::{Job, JobThread, Wake};
use crate::net::oauth::Logins;

pub(super) struct Login {
    logins: Logins,
    url: String,
    token: Option<String>,
    /// Counts the tokens.
    number: u64,
    /// When logins had changed as the token was read.
    seen: Option<SystemTime>,
    /// Reads or renews the token.
    job: Option<Result<JobThread<Result<Option<String>>>>>,
}

impl Login {
    /// Begins to read the token for the server with this URL, if there is any login.
    pub(super) fn at(logins: Logins, url: &str, wake: &Wake) -> Self {
        let url = url.to_owned();
        let mut login = Self { logins, url, token: None, number: 0, seen: None, job: None };
        login.notice_changes(wake);
        login
    }

    /// Reads the token again if a person has logged in or out since.
    pub(super) fn notice_changes(&mut self, wake: &Wake) {
        if self.job.is_none() && self.logins.changed_at() != self.seen {
            self.ask(None, wake.clone());
        }
    }

    fn ask(&mut self, refused: Option<String>, wake: Wake) {
        let (logins, url) = (self.logins.clone(), self.url.clone());
        let work = move |_: &Job| Ok(logins.token(&url, refused.as_deref()));
        self.job = Some(JobThread::spawn("login".into(), work, wake));
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Tells the present token from earlier ones.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the token is being read or renewed.
    pub(super) fn is_pending(&self) -> bool {
        matches!(&self.job, Some(Ok(job)) if !job.is_complete())
    }

    /// Takes the token for the server of this name once it is there.
    ///
    /// # Errors
    /// It cannot be had, in words for a line about the server.
    pub(super) fn take_token(&mut self, server: &str) -> std::result::Result<(), String> {
        let outcome = match self.job.take() {
            None => return Ok(()),
            Some(job) => job.map(JobThread::collect),
        };
        self.seen = self.logins.changed_at();
        match outcome {
            Ok(Ok(Ok(token))) => {
                self.number += u64::from(self.token != token);
                self.token = token;
                Ok(())
            }
            Ok(Ok(Err(error))) if error.kind == ErrorKind::Auth => {
                Err(format!("its login has ended ({error}): polylogue mcp login {server}"))
            }
            Ok(Ok(Err(error))) | Err(error) => Err(format!("its login cannot be used: {error}")),
            Ok(Err(panic)) => Err(format!("its login cannot be used: {panic}")),
        }
    }

    /// The server has refused the token with this number. Returns whether there is another one, or will be.
    pub(super) fn renew(&mut self, refused: u64, wake: Wake) -> bool {
        if self.job.is_some() || refused != self.number {
            return true;
        }
        let token = self.token.clone();
        if token.is_some() {
            self.ask(token.clone(), wake);
        }
        token.is_some()
    }
}
