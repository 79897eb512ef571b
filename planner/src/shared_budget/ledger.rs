//! Ledger of a shared budget: its members, what each has reserved and needs, and the division of the budget. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use weir_api::Cores;

use super::FLAG;
use crate::division::{CoreDemand, Division, Member, MemberState, SERVICES_MAX};
use crate::service::rule::{refusal, rule};
use crate::service::{BUDGET_MAX, ConfigError, Service};
use crate::telemetry::status::SharedBudgetReport;

/// Members, by name; the division has the same order.
#[derive(Debug)]
pub(super) struct Ledger {
    cores: Cores,
    /// Step of the cores of all members.
    step: Cores,
    budget: u32,
    division: Division,
    entries: BTreeMap<String, Entry>,
    /// Services that share the budget, members or not; `None` while these are not known.
    expected: Option<BTreeSet<String>>,
    /// Begin of the term in which the members' states were observed.
    term: Duration,
}

/// State of a member.
#[derive(Debug)]
struct Entry {
    member: Member,
    /// Cores reserved, in steps; `None` until they have been observed in this term.
    reserved: Option<u32>,
    demand: Option<CoreDemand>,
    /// Whether no tick is running.
    is_idle: bool,
}

impl Entry {
    /// Entry of servers that no member has: it wants nothing, and gets nothing.
    fn left(reserved: Option<u32>) -> Entry {
        let nothing = CoreDemand {
            need: 0,
            preferred: 0,
        };
        Entry {
            member: Member {
                weight: 1.0,
                min: 0,
                max: 0,
            },
            reserved,
            demand: Some(nothing),
            is_idle: true,
        }
    }
}

impl Ledger {
    pub(super) fn new(cores: Cores) -> Ledger {
        Ledger {
            cores,
            step: Cores::ZERO,
            budget: 0,
            division: Division::new(0, Vec::new(), &[]),
            entries: BTreeMap::new(),
            expected: Some(BTreeSet::new()),
            term: Duration::ZERO,
        }
    }

    /// Checks that a service fits beside the members, itself as it was before left out.
    pub(super) fn check(
        &self,
        budget: &str,
        service: &Service,
        member: Member,
    ) -> Result<(), ConfigError> {
        let (name, step) = (&service.name, service.step);
        let others = || self.entries.iter().filter(|(other, _)| *other != name);
        if let Some((other, _)) = others().next() {
            let right = format!("{}, as of {other}, which shares {budget}", self.step);
            rule(step == self.step, "budget.step", step, &right)?;
        }
        let flag = format!("{FLAG} {budget}");
        let fits = self.cores.is_multiple(step) && self.cores.count(step) <= BUDGET_MAX;
        let right = format!("1 to {BUDGET_MAX} steps, whole ones (budget.step of {name}: {step})");
        rule(fits, &flag, self.cores, &right)?;
        let right = format!(
            "at most {}, the cores of shared budget {budget}",
            self.cores
        );
        let own = service.budget_cores();
        rule(own <= self.cores, "budget.cores", own, &right)?;
        if others().count() >= SERVICES_MAX {
            let right = format!("another one: {SERVICES_MAX} services share it already, no more");
            return Err(refusal("budget.shared", budget, &right));
        }
        let floors: u32 = others().map(|(_, entry)| entry.member.min).sum();
        let min = step.times(floors.saturating_add(member.min));
        let right = format!("at least {min}, the minimum cores of all services with {name}");
        rule(min <= self.cores, flag, self.cores, &right)
    }

    pub(super) fn insert(&mut self, name: &str, member: Member, step: Cores) {
        let mut parts = self.parts();
        match self.entries.get_mut(name) {
            Some(entry) => entry.member = member,
            None => {
                let entry = Entry {
                    member,
                    reserved: None,
                    demand: None,
                    is_idle: true,
                };
                self.entries.insert(name.to_owned(), entry);
            }
        }
        if step != self.step {
            // All members have the same, so that this is the only one. Its cores are counted anew.
            parts.clear();
            for entry in self.entries.values_mut() {
                entry.reserved = None;
                entry.demand = None;
            }
        }
        self.step = step;
        let budget = self.cores.count(step);
        if budget != self.budget {
            self.budget = budget;
            self.division = Division::new(budget, Vec::new(), &[]);
        }
        parts.entry(name.to_owned()).or_default();
        self.set_parts(&parts);
    }

    pub(super) fn remove(&mut self, name: &str) {
        if self.entries.contains_key(name) {
            let parts = self.parts();
            self.entries.remove(name);
            self.set_parts(&parts);
        }
    }

    /// Removes a member whose control loop has ended, and counts on what it holds. Returns the name of that entry, and the
    /// steps that it holds at most, if they are known.
    pub(super) fn leave(&mut self, name: &str) -> Option<(String, Option<u32>)> {
        let (left, most) = self.left(name)?;
        let mut parts = self.parts();
        self.entries.remove(name);
        parts.remove(name);
        self.entries.insert(left.clone(), Entry::left(most));
        self.set_parts(&parts);
        Some((left, most))
    }

    /// Adds an entry for servers that a member has left out, of unknown cores. Returns its name, and the steps that the member
    /// held at most, if they are known. The member begins anew with what its other servers have: both together hold no
    /// more. Until both are known no part changes.
    pub(super) fn leave_out(&mut self, name: &str) -> Option<(String, Option<u32>)> {
        let (left, most) = self.left(name)?;
        let parts = self.parts();
        self.entries.get_mut(name)?.reserved = None;
        self.entries.insert(left.clone(), Entry::left(None));
        self.set_parts(&parts);
        Some((left, most))
    }

    pub(super) fn check_leave_out(&self, budget: &str) -> Result<(), ConfigError> {
        if self.entries.len() < SERVICES_MAX {
            return Ok(());
        }
        let right = format!(
            "one with a free place: {SERVICES_MAX} services and servers that were left out are in it, no more; stop these, \
             or leave out none"
        );
        Err(refusal("budget.shared", budget, &right))
    }

    /// Sets the steps that servers hold which have left; none ends their entry. Returns the new parts, for people, if they
    /// have changed.
    pub(super) fn count_left(&mut self, left: &str, reserved: Option<u32>) -> Option<String> {
        self.entries.get_mut(left)?.reserved = reserved;
        if reserved == Some(0) {
            self.remove(left);
        }
        self.update()
    }

    /// Returns the name of an entry for servers of a member, and the steps that the member holds at most.
    fn left(&self, name: &str) -> Option<(String, Option<u32>)> {
        let (entry, part) = (self.entries.get(name)?, self.part(name)?);
        // A tick that was cut off may have written up to its part.
        let most = entry.reserved.map(|reserved| reserved.max(part));
        let first = std::iter::once(format!("{name} (left)"));
        let mut names = first.chain((2..).map(|number| format!("{name} (left {number})")));
        let free = names.find(|left| !self.entries.contains_key(left))?;
        Some((free, most))
    }

    pub(super) fn expect(&mut self, expected: Option<BTreeSet<String>>) {
        self.expected = expected;
    }

    /// Services whose cores are not known, as no member or in this term.
    fn unknown(&self) -> impl Iterator<Item = &String> {
        let members = self.entries.iter();
        let members = members.filter(|(_, entry)| entry.reserved.is_none());
        let others = self.expected.iter().flatten();
        let others = others.filter(|name| !self.entries.contains_key(*name));
        members.map(|(name, _)| name).chain(others)
    }

    /// Begins a term, in which nothing is known of any member, unless it has begun.
    pub(super) fn begin_term(&mut self, term: Duration) {
        if self.term == term {
            return;
        }
        self.term = term;
        for entry in self.entries.values_mut() {
            entry.reserved = None;
            entry.demand = None;
            entry.is_idle = true;
        }
        self.set_parts(&BTreeMap::new());
    }

    pub(super) fn begin(&mut self, name: &str, term: Duration) -> Option<u32> {
        let part = self.part(name)?;
        let entry = self.entry(name, term)?;
        if entry.reserved.is_none() || part < entry.member.min {
            return None;
        }
        entry.is_idle = false;
        Some(part)
    }

    /// Returns the new parts, for people, if they have changed.
    pub(super) fn end(
        &mut self,
        name: &str,
        term: Duration,
        reserved: Option<u32>,
    ) -> Option<String> {
        let index = self.entries.keys().position(|other| other == name)?;
        let entry = self.entry(name, term)?;
        // A loop that knows nothing may follow one that ended in the middle of a tick: what that one wrote counts on.
        if let Some(reserved) = reserved {
            let is_new = entry.reserved.is_none();
            entry.is_idle = true;
            entry.reserved = Some(reserved);
            if is_new {
                self.division.set_part(index, reserved);
            }
        }
        self.update()
    }

    /// Returns the new parts, for people, if they have changed.
    pub(super) fn demand(
        &mut self,
        name: &str,
        term: Duration,
        demand: CoreDemand,
    ) -> Option<String> {
        self.entry(name, term)?.demand = Some(demand);
        self.update()
    }

    pub(super) fn report(&self, budget: &str, name: &str) -> Option<SharedBudgetReport> {
        let (part, entry) = (self.part(name)?, self.entries.get(name)?);
        let cores = |steps: u32| self.step.times(steps);
        let others = self.entries.iter().zip(self.division.parts());
        let others = others.filter(|((other, _), _)| *other != name);
        let unknown = self.unknown().filter(|other| *other != name);
        let need = entry.demand.map_or(0, |demand| demand.need);
        let is_short = part < need.max(entry.member.min);
        let above = others.filter(|((_, entry), part)| entry.reserved > Some(**part));
        let names = |((name, _), _): ((&String, &Entry), &u32)| name.clone();
        Some(SharedBudgetReport {
            name: budget.to_owned(),
            cores: self.cores,
            part: entry.reserved.map(|_| cores(part)),
            min: cores(entry.member.min),
            need: entry.demand.map(|demand| cores(demand.need)),
            preferred: entry.demand.map(|demand| cores(demand.preferred)),
            unknown: unknown.cloned().collect(),
            awaits: above.filter(|_| is_short).map(names).collect(),
        })
    }

    /// Changes the parts. While the cores of a service are not known, none changes: nothing could grow.
    fn update(&mut self) -> Option<String> {
        if self.expected.is_none() || self.unknown().next().is_some() {
            return None;
        }
        let states = self.entries.values().map(|entry| {
            Some(MemberState {
                demand: entry.demand,
                reserved: entry.reserved?,
                is_idle: entry.is_idle,
            })
        });
        let states: Vec<MemberState> = states.collect::<Option<_>>()?;
        let before = self.division.parts().to_vec();
        self.division.update(&states);
        (self.division.parts() != before).then(|| self.shown())
    }

    fn shown(&self) -> String {
        let each = self.entries.keys().zip(self.division.parts());
        each.fold(String::new(), |mut text, (name, part)| {
            // Writing into a string cannot fail.
            let _ = write!(text, " {name} {}", self.step.times(*part));
            text
        })
    }

    fn entry(&mut self, name: &str, term: Duration) -> Option<&mut Entry> {
        // A loop of an earlier term may end late.
        let is_current = self.term == term;
        self.entries.get_mut(name).filter(|_| is_current)
    }

    fn part(&self, name: &str) -> Option<u32> {
        let index = self.entries.keys().position(|other| other == name)?;
        self.division.parts().get(index).copied()
    }

    fn parts(&self) -> BTreeMap<String, u32> {
        let parts = self.division.parts().iter().copied();
        self.entries.keys().cloned().zip(parts).collect()
    }

    /// Sets the members of the division; one that is not in `parts` has none.
    fn set_parts(&mut self, parts: &BTreeMap<String, u32>) {
        let part = |name: &String| parts.get(name).copied().unwrap_or_default();
        let members = self.entries.values().map(|entry| entry.member).collect();
        let parts = self.entries.keys().map(part).collect();
        self.division.set_members(members, parts);
    }
}
