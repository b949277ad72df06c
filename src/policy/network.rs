//! The verdict on a host that a command is to reach.

use super::{Permissions, Verdict, asks_for, refuse_by_rule};
use crate::domain::approval::Policy;
use crate::domain::host::HostPattern;
use crate::domain::rule::Rule;

impl Permissions<'_> {
    /// A deny rule about a part of the hosts is left to the proxy. Hosts that are not public need a rule that names
    /// them, or a person's answer: a model must not reach them by naming them itself.
    pub(super) fn network(&self, wanted: &str) -> Verdict {
        let Ok(wanted) = wanted.parse::<HostPattern>() else {
            return Verdict::Refuse(format!("{wanted} is no host"));
        };
        let find = |rules: &[Rule], fits: &dyn Fn(&HostPattern) -> bool| {
            rules.iter().find(|rule| rule.hosts().as_ref().is_some_and(fits)).cloned()
        };
        if let Some(rule) = find(&self.rules.deny, &|pattern| pattern.forbids_all_of(&wanted)) {
            return refuse_by_rule(&rule);
        }
        if let Some(rule) = find(&self.rules.ask, &|pattern| pattern.forbids_some_of(&wanted)) {
            return self.ask(asks_for(&rule));
        }
        let is_allowed =
            self.policy == Policy::Yolo || find(&self.rules.allow, &|pattern| pattern.allows_all_of(&wanted)).is_some();
        let names = |pattern: &HostPattern| pattern.host().is_some() && pattern.allows_all_of(&wanted);
        match is_allowed {
            true if !wanted.is_private() || find(&self.rules.allow, &names).is_some() => Verdict::Free,
            true => self.ask(format!("no rule names net({wanted}), which is this machine or a private network")),
            false => self.ask(format!("no rule allows net({wanted})")),
        }
    }
}
