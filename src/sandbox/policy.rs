//! The person's decisions for all calls, and which level works on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::plan::{Places, Plan, Refusal, ResourceLimits};
use super::search::Index;
use super::{Level, variables};
use crate::base::process;
use crate::domain::sandbox::{Network, SandboxSettings};

/// Copies share the level and the knowledge about workspaces.
#[derive(Debug, Clone)]
pub struct Policy {
    pub settings: SandboxSettings,
    /// The home directory that `HOME` names.
    pub home: Option<PathBuf>,
    /// The home directory of the account, whatever `HOME` says, if it is not the one in the user database.
    pub account_home: Option<PathBuf>,
    pub limits: ResourceLimits,
    level: Arc<AtomicU8>,
    index: Index,
    gaps: Gaps,
}

/// Workspaces in which some protected files cannot be kept from commands, and why.
type Gaps = Arc<Mutex<BTreeMap<PathBuf, Vec<String>>>>;

/// The properties of the sandbox on which a question or a policy relies. A command is not started with less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    pub level: Level,
    /// Everything protected is kept from the command.
    pub has_no_gap: bool,
}

impl Promise {
    /// For programs that a person trusts.
    pub const NOTHING: Self = Self { level: Level::None, has_no_gap: false };
}

impl Policy {
    pub fn new(settings: SandboxSettings) -> Self {
        let first = if settings.is_enabled { Level::Namespaces } else { Level::None };
        Self {
            settings,
            home: std::env::home_dir(),
            account_home: None,
            limits: ResourceLimits::default(),
            level: Arc::new(AtomicU8::new(first as u8)),
            index: Index::default(),
            gaps: Gaps::default(),
        }
    }

    /// The same policy with a level of its own, to begin with.
    pub fn at_level(self, level: Level) -> Self {
        Self { level: Arc::new(AtomicU8::new(level as u8)), ..self }
    }

    /// The same policy for an agent that a person has started without restrictions.
    pub fn lifted(self) -> Self {
        let settings = SandboxSettings { is_enabled: false, asks_nothing: true, ..self.settings.clone() };
        Self { settings, ..self.at_level(Level::None) }
    }

    /// The level that the next call tries: the strongest that has not failed yet.
    pub fn level(&self) -> Level {
        Level::ALL[usize::from(self.level.load(Ordering::Relaxed))]
    }

    /// Whether the next command can neither leave the workspace nor change protected files in it, or does not run.
    pub fn is_whole(&self) -> bool {
        self.level().has_namespaces()
    }

    /// Remembers that a level cannot be built here. Returns the next one.
    pub fn falls_from(&self, level: Level) -> Level {
        let next = level.next().unwrap_or(Level::None);
        self.level.fetch_max(next as u8, Ordering::Relaxed);
        self.level()
    }

    pub fn account_home(&self) -> Option<&Path> {
        match &self.account_home {
            Some(home) => Some(home),
            None => process::account_home(),
        }
    }

    pub fn plan(&self, places: &Places<'_>) -> Result<Plan, Refusal> {
        let homes = [self.home.as_deref(), self.account_home()];
        let plan = Plan::new(places, &self.settings, homes, self.level(), self.limits, &self.index)?;
        if plan.level.has_namespaces() && !places.is_git {
            let mut all = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
            if plan.gaps.is_empty() {
                all.remove(places.workspace);
            } else {
                all.insert(places.workspace.to_owned(), plan.gaps.clone());
            }
        }
        Ok(plan)
    }

    /// Why a command in this workspace could change a protected file, as far as the last plan shows.
    pub fn gaps(&self, workspace: &Path) -> Vec<String> {
        let all = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(workspace).cloned().unwrap_or_default()
    }

    /// The promise that a question about a command in this workspace can make.
    pub fn promise(&self, workspace: &Path) -> Promise {
        let level = self.level();
        Promise { level, has_no_gap: level.has_namespaces() && self.gaps(workspace).is_empty() }
    }

    /// The variables that the helpers and the command get.
    pub fn variables(&self) -> impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)> {
        variables::given_variables(&self.settings.variables, &self.settings.withheld)
    }

    /// The permissions in the sandbox, in one line for the person who is asked.
    pub fn summary(&self) -> String {
        match &self.settings.network {
            // It cannot be restricted to them.
            Network::Hosts(_) if !self.level().has_namespaces() => self.summary_with(&Network::Off.about()),
            network => self.summary_with(&network.about()),
        }
    }

    /// The summary with this text about the network.
    pub fn summary_with(&self, network: &str) -> String {
        match self.level() {
            _ if !self.settings.is_enabled => "sandbox: off; the command can do whatever you can".into(),
            Level::None => "sandbox: not available here; the command can do whatever you can".into(),
            Level::Landlock => format!(
                "sandbox: incomplete here (see polylogue doctor): changes outside of the workspace fail or are discarded, \
                 but .git and AGENTS.md can be changed; {network}"
            ),
            Level::Namespaces | Level::SharedProc => {
                format!("sandbox: changes outside of the workspace fail or are discarded; {network}")
            }
        }
    }
}
