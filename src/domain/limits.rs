//! Limits that hold for a tree of agents: an agent that a person made, with everything that models made below it.

use std::ops::{Index, IndexMut};

/// Who made an agent. An agent made by a person is the top of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MadeBy {
    #[default]
    Person,
    /// A run that a person started: it belongs to the tree, but does not count as an agent made by a model.
    Run,
    Model,
}

impl MadeBy {
    /// The number that is stored.
    pub const fn code(self) -> i64 {
        match self {
            Self::Person => 0,
            Self::Run => 1,
            Self::Model => 2,
        }
    }

    /// An unknown number counts as a model, which has the strictest limits.
    pub const fn of_code(code: i64) -> Self {
        match code {
            0 => Self::Person,
            1 => Self::Run,
            _ => Self::Model,
        }
    }

    pub const fn is_top(self) -> bool {
        matches!(self, Self::Person)
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitName {
    Agents,
    Depth,
    Creations,
    Requests,
    Tokens,
    /// In billionths of a US dollar.
    Usd,
    /// In milliseconds.
    Seconds,
}

const USD: f64 = 1e9;
const SECOND: f64 = 1e3;

impl LimitName {
    /// In the order of `/limit`.
    pub const ALL: [Self; 7] =
        [Self::Agents, Self::Depth, Self::Creations, Self::Requests, Self::Tokens, Self::Usd, Self::Seconds];

    /// As it is typed and stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Depth => "depth",
            Self::Creations => "creations",
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Usd => "usd",
            Self::Seconds => "seconds",
        }
    }

    /// The key in the configuration.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Agents => "limits.max_agents",
            Self::Depth => "limits.max_depth",
            Self::Creations => "limits.max_creations",
            Self::Requests => "limits.max_requests",
            Self::Tokens => "limits.max_tokens",
            Self::Usd => "limits.max_usd",
            Self::Seconds => "limits.max_seconds",
        }
    }

    pub const fn about(self) -> &'static str {
        match self {
            Self::Agents => "living agents that models made",
            Self::Depth => "generations of agents that models made",
            Self::Creations => "agents that models made in a minute",
            Self::Requests => "requests to models",
            Self::Tokens => "tokens of requests and replies",
            Self::Usd => "US dollars, where the price is known",
            Self::Seconds => "seconds in which an agent of the tree worked",
        }
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Whether it grows with use and never shrinks.
    pub const fn is_budget(self) -> bool {
        matches!(self, Self::Requests | Self::Tokens | Self::Usd | Self::Seconds)
    }

    /// A number as a person types it, in the unit of the limit.
    pub fn value_of(self, number: f64) -> Option<u64> {
        const MOST: f64 = 1e9;
        let number = Some(number).filter(|number| (0.0..=MOST).contains(number))?;
        match self {
            Self::Usd => Some((number * USD).round() as u64),
            Self::Seconds => Some((number * SECOND).round() as u64),
            _ => (number.fract() == 0.0).then_some(number as u64),
        }
    }

    /// The inverse of [`LimitName::value_of`].
    pub fn display_value(self, value: u64) -> String {
        match self {
            Self::Usd => (value as f64 / USD).to_string(),
            Self::Seconds => (value as f64 / SECOND).to_string(),
            _ => value.to_string(),
        }
    }

    /// The used amount, rounded for a person.
    pub fn shown_used(self, value: u64) -> String {
        match self {
            Self::Usd => format!("{:.4}", value as f64 / USD),
            Self::Seconds => format!("{:.1}", value as f64 / SECOND),
            _ => value.to_string(),
        }
    }
}

/// The limits of a tree for which nothing else is set; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLimits([Option<u64>; LimitName::ALL.len()]);

impl Default for TreeLimits {
    /// A person never meets them, and a model that creates agents without end soon does.
    fn default() -> Self {
        Self([Some(64), Some(8), Some(30), None, None, None, None])
    }
}

impl Index<LimitName> for TreeLimits {
    type Output = Option<u64>;
    fn index(&self, name: LimitName) -> &Option<u64> {
        &self.0[name as usize]
    }
}

impl IndexMut<LimitName> for TreeLimits {
    fn index_mut(&mut self, name: LimitName) -> &mut Option<u64> {
        &mut self.0[name as usize]
    }
}

/// The value of a limit as a person types it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitValue {
    /// In the unit of the limit.
    Most(u64),
    /// No limit.
    None,
    /// Remove what was set: the limit is inherited again.
    Default,
}

/// A limit that was set for one agent and its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetLimit {
    /// `None`: no limit.
    pub most: Option<u64>,
    /// What was used when the limit was set: a budget counts from there.
    pub base: u64,
}

/// What an agent used, without its descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub requests: u64,
    pub tokens: u64,
    /// In billionths of a US dollar.
    pub cost: u64,
}

impl Spent {
    pub fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = self.cost.saturating_add(other.cost);
    }

    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.saturating_sub(other.cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_are_typed() {
        for (name, typed, value) in [
            (LimitName::Agents, 64.0, Some(64)),
            (LimitName::Depth, 1.5, None),
            (LimitName::Requests, -1.0, None),
            (LimitName::Usd, 2.5, Some(2_500_000_000)),
            (LimitName::Seconds, 0.25, Some(250)),
            (LimitName::Tokens, f64::NAN, None),
        ] {
            assert_eq!(name.value_of(typed), value, "{}", name.name());
            if let Some(value) = value {
                assert_eq!(name.display_value(value), typed.to_string());
            }
        }
    }

    #[test]
    fn names_are_found_and_codes_read_back() {
        assert!(LimitName::ALL.iter().enumerate().all(|(at, name)| *name as usize == at));
        assert!(LimitName::ALL.into_iter().all(|name| LimitName::find(name.name()) == Some(name)));
        let all = [MadeBy::Person, MadeBy::Run, MadeBy::Model];
        assert_eq!(all.map(|made| MadeBy::of_code(made.code())), all);
        assert_eq!(MadeBy::of_code(77), MadeBy::Model);
    }
}
