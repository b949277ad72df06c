//! Context lengths learned from servers, in errors or in their lists of models, for later runs.

use super::database::Store;
use crate::base::error::Result;

/// Where a server reported the context length of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    InError,
    InList,
}

impl Told {
    const ALL: [Self; 2] = [Self::InError, Self::InList];

    /// Begin the keys of `meta` that belong to this module; the name of the model and the URL of its server follow.
    const fn words(self) -> &'static str {
        match self {
            Self::InError => "context",
            Self::InList => "listed context",
        }
    }
}

/// A context length that the server at `base_url` reported for a model, at a time in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LearnedContext {
    /// With its provider.
    pub model: String,
    pub base_url: String,
    pub told: Told,
    pub limit: u64,
    pub at: i64,
}

impl Store {
    /// Replaces the context length of this model at this server.
    pub(crate) fn keep_context(&self, learned: &LearnedContext) -> Result<()> {
        let LearnedContext { model, base_url, told, limit, at } = learned;
        self.set_meta(&format!("{} {model} {base_url}", told.words()), &format!("{limit} {at}"))
    }

    /// All stored context lengths. Rows that cannot be read are left out.
    pub(crate) fn kept_contexts(&self) -> Result<Vec<LearnedContext>> {
        let mut kept = Vec::new();
        for told in Told::ALL {
            let rows = self.meta_of(told.words())?;
            kept.extend(rows.into_iter().filter_map(|(server, value)| parse(told, &server, &value)));
        }
        Ok(kept)
    }
}

fn parse(told: Told, server: &str, value: &str) -> Option<LearnedContext> {
    let (model, base_url) = server.rsplit_once(' ')?;
    let (limit, at) = value.split_once(' ')?;
    Some(LearnedContext {
        model: model.into(),
        base_url: base_url.into(),
        told,
        limit: limit.parse().ok()?,
        at: at.parse().ok()?,
    })
}
