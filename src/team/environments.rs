//! From the specification of an environment to the environment: its tools, its directory, what the model is told of it.
//!
//! The one form in which a specification is stored and compared leaves the directory out where it is the one that goes
//! without saying: the environment's own, else the one in which the program was started. So an agent that was told
//! nothing of directories works wherever the program is started next.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::domain::environment::{EnvironmentEntry, EnvironmentNames, EnvironmentSpec, ResolvedSpec, USUAL, WORKTREE};
use crate::team::instructions;
use crate::tools::{self, Environment};

/// Where agents can live.
pub struct Environments {
    entries: Vec<EnvironmentEntry>,
    /// The limits, and what all environments share.
    model: Environment,
    /// Where worktrees of our own are; `None`: nothing is kept, so there are none.
    worktrees: Option<PathBuf>,
    /// Those of the agents that were read from the store: many share one, and its files are read once.
    known: HashMap<String, ResolvedEnvironment>,
}

/// An environment, and what a model is told of it.
#[derive(Debug, Clone)]
pub struct ResolvedEnvironment {
    /// Tools and directory.
    pub environment: Arc<Environment>,
    /// The instructions before everything.
    pub system: Rc<str>,
}

/// What a specification leads to.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// An environment.
    Ready(ResolvedEnvironment),
    /// A worktree that has to be made first, of the repository around this directory.
    Worktree(EnvironmentSpec, PathBuf),
}

impl Environments {
    /// What the configuration says.
    pub fn new(config: &Config) -> Self {
        let data = config.data_directory.as_ref();
        let working_directory =
            fs::canonicalize(&config.working_directory).unwrap_or_else(|_| config.working_directory.clone());
        let model = Environment {
            output_directory: data.map_or_else(std::env::temp_dir, |data| data.join("outputs")),
            supervisor: config.supervisor.clone(),
            bash_timeout: config.settings.bash_timeout,
            output_cap: config.settings.output_cap,
            ..Environment::at(working_directory)
        };
        let worktrees = data.map(|data| fs::canonicalize(data).unwrap_or_else(|_| data.clone()).join("worktrees"));
        Self { entries: config.environments.clone(), model, worktrees, known: HashMap::new() }
    }

    /// The usual one.
    ///
    /// # Panics
    /// Never: it is built in.
    pub fn usual(&mut self) -> ResolvedEnvironment {
        self.remembered(USUAL).expect("the usual environment is built in, and its directory need not be there")
    }

    /// What a person means who is in this environment.
    ///
    /// # Errors
    /// The specification makes no sense, or its directory is not there.
    pub fn find(&self, text: &str, here: &Environment) -> Result<Resolution> {
        let spec: EnvironmentSpec = text.parse()?;
        let meaning = self.resolve(&spec)?;
        let directory = match (&spec.directory, &meaning.directory) {
            (Some(written), _) => real_directory(&here.working_directory, Path::new(written))?,
            (None, Some(own)) => real_directory(&self.model.working_directory, own)?,
            (None, None) => here.working_directory.clone(),
        };
        if meaning.has_worktree && self.worktree_around(&directory).is_none() {
            return Ok(Resolution::Worktree(spec, directory));
        }
        Ok(Resolution::Ready(self.build(&spec, &meaning, directory)))
    }

    fn resolve(&self, spec: &EnvironmentSpec) -> Result<ResolvedSpec> {
        let tools: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.declaration.name).collect();
        EnvironmentNames { entries: &self.entries, tools: &tools }.resolve(spec)
    }

    fn build(&self, spec: &EnvironmentSpec, meaning: &ResolvedSpec, directory: PathBuf) -> ResolvedEnvironment {
        let own = meaning.directory.as_ref().and_then(|own| real_directory(&self.model.working_directory, own).ok());
        let is_expected = directory == own.unwrap_or_else(|| self.model.working_directory.clone());
        let spec = spec.in_directory((!is_expected).then_some(&*directory));
        let has = |tool: &&&tools::ToolSpec| meaning.tools.iter().any(|name| name == tool.declaration.name);
        let tools: Vec<_> = tools::TOOLS.iter().filter(has).copied().collect();
        let (instructions, sources) = instructions::write(&tools, &directory, meaning.system.as_deref());
        let system: Rc<str> = instructions.as_str().into();
        let environment = Environment {
            spec: spec.to_string(),
            tools,
            instructions: instructions.into(),
            sources,
            worktree: self.worktree_around(&directory),
            working_directory: directory,
            ..self.model.clone()
        };
        ResolvedEnvironment { environment: Arc::new(environment), system }
    }

    /// What an agent had when the program ended. Where that is not to be had any more: what comes closest, and words for
    /// the person.
    pub fn restore(&mut self, stored: Option<&str>) -> (ResolvedEnvironment, Option<String>) {
        // Programs before environments wrote the directory alone.
        let Some(text) = stored.filter(|text| !text.starts_with('/')) else { return (self.usual(), None) };
        match self.remembered(text) {
            Ok(resolved) => (resolved, None),
            Err(error) => {
                let resolved = self.next_best(text);
                let words = format!(
                    "the environment {text} cannot be had any more ({}); this agent is in {} now",
                    error.message, resolved.environment.spec
                );
                (resolved, Some(words))
            }
        }
    }

    fn remembered(&mut self, text: &str) -> Result<ResolvedEnvironment> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        let resolved = match self.find(text, &self.model)? {
            Resolution::Ready(resolved) => resolved,
            Resolution::Worktree(..) => return Err(Error::new(ErrorKind::Usage, "its worktree is gone")),
        };
        self.known.insert(text.to_owned(), resolved.clone());
        Ok(resolved)
    }

    /// The same tools where the program was started, if only the directory is gone; else the usual ones.
    fn next_best(&mut self, text: &str) -> ResolvedEnvironment {
        let elsewhere = text.parse::<EnvironmentSpec>().map(|spec| spec.in_directory(None).to_string());
        elsewhere.and_then(|text| self.remembered(&text)).unwrap_or_else(|_| self.usual())
    }

    /// Where the worktree of a new agent is to be.
    ///
    /// # Errors
    /// Nothing is kept.
    pub fn place_for_worktree(&self, agent: AgentId) -> Result<PathBuf> {
        let words = format!("{WORKTREE} needs a place that is kept, and this chat keeps nothing");
        let worktrees = self.worktrees.as_ref().ok_or_else(|| Error::new(ErrorKind::Usage, words))?;
        Ok(worktrees.join(agent.to_string()))
    }

    /// The worktrees of our own that are on the disk, with the agents that they were made for.
    pub fn worktrees(&self) -> Vec<(AgentId, PathBuf)> {
        let listed = self.worktrees.as_ref().and_then(|place| fs::read_dir(place).ok());
        let one = |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()));
        listed.into_iter().flatten().flatten().filter_map(one).collect()
    }

    /// The worktree of our own in which a directory lies.
    pub fn worktree_around(&self, directory: &Path) -> Option<PathBuf> {
        let worktrees = self.worktrees.as_ref()?;
        let name = directory.strip_prefix(worktrees).ok()?.components().next()?;
        Some(worktrees.join(name))
    }
}

/// The directory that is meant, as the kernel calls it.
fn real_directory(from: &Path, written: &Path) -> Result<PathBuf> {
    let resolved = |rest: &Path| std::env::home_dir().map(|resolved| resolved.join(rest));
    let expanded = written.strip_prefix("~").ok().and_then(resolved).unwrap_or_else(|| from.join(written));
    let shown = expanded.display();
    let wrong = |words: String| Error::new(ErrorKind::Usage, words);
    let real = fs::canonicalize(&expanded).map_err(|error| wrong(format!("{shown} is no directory: {error}")))?;
    if real.is_dir() { Ok(real) } else { Err(wrong(format!("{shown} is no directory"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environments(directory: &Path) -> Environments {
        let review = EnvironmentEntry {
            name: "review".into(),
            tools: vec!["readonly".into()],
            directory: Some("there".into()),
            system: Some("You review.".into()),
        };
        let config = Config {
            working_directory: directory.into(),
            data_directory: Some(directory.join("data")),
            environments: vec![review],
            ..Config::default()
        };
        Environments::new(&config)
    }

    fn found(environments: &Environments, text: &str, here: &ResolvedEnvironment) -> ResolvedEnvironment {
        match environments.find(text, &here.environment).unwrap() {
            Resolution::Ready(resolved) => resolved,
            Resolution::Worktree(..) => panic!("{text} is no worktree"),
        }
    }

    #[test]
    fn the_directory_is_kept_until_another_is_named_and_is_left_out_where_it_goes_without_saying() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("there/deep")).unwrap();
        let mut environments = environments(&top);
        let usual = environments.usual();
        let spec = |text: &str, here: &ResolvedEnvironment| found(&environments, text, here).environment.spec.clone();
        assert_eq!(spec("readonly", &usual), "readonly");
        assert_eq!(spec("coding@.", &usual), usual.environment.spec);
        let there = found(&environments, "coding@there", &usual);
        assert_eq!(there.environment.spec, format!("coding@{}/there", top.display()));
        assert_eq!(spec("coding", &there), there.environment.spec);
        assert_eq!(spec("readonly", &there), format!("readonly@{}/there", top.display()));
        assert_eq!(spec("readonly@deep", &there), format!("readonly@{}/there/deep", top.display()));
        assert_eq!(spec("readonly@..", &there), "readonly");
        let review = found(&environments, "review", &usual);
        assert_eq!((review.environment.spec.as_str(), &*review.system), ("review", "You review."));
        assert_eq!(review.environment.working_directory, top.join("there"));
        for text in ["coding@nowhere", "coding@/dev/null", "nonsense"] {
            assert!(environments.find(text, &usual.environment).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_gone_at_the_start_is_replaced_by_what_comes_closest_and_told() {
        let top = tempfile::tempdir().unwrap();
        let mut environments = environments(top.path());
        for (stored, expected) in [
            ("readonly@/gone", "readonly"),
            ("mine", "coding"),
            ("worktree@/gone", "coding"),
            ("review", "coding"),
            ("?", "coding"),
        ] {
            let (resolved, words) = environments.restore(Some(stored));
            assert_eq!(resolved.environment.spec, expected, "{stored}");
            assert!(words.is_some_and(|words| words.contains(stored)), "{stored}");
        }
        for stored in [None, Some("/where/it/worked"), Some("coding"), Some("chat")] {
            assert_eq!(environments.restore(stored).1, None, "{stored:?}");
        }
    }

    #[test]
    fn a_worktree_of_our_own_is_joined_and_another_place_has_to_be_made_into_one() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("data/worktrees/abc/src")).unwrap();
        let mut environments = environments(top.path());
        let usual = environments.usual();
        assert!(matches!(environments.find("worktree", &usual.environment), Ok(Resolution::Worktree(..))));
        let inside = found(&environments, "worktree@data/worktrees/abc/src", &usual);
        assert!(inside.environment.worktree.as_ref().is_some_and(|root| root.ends_with("worktrees/abc")));
        assert_eq!(found(&environments, "worktree", &inside).environment.spec, inside.environment.spec);
        assert!(found(&environments, "chat", &inside).environment.worktree.is_some());
    }
}
