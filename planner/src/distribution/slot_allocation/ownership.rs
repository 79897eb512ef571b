//! Ownership of a variant's slots: by role, and for a gate by the variant it fronts. Slots are not counted
//! here.
//!
//! A variant is owned by the gates that front it: those whose polls name it, and those whose polls name no
//! variant, which front all. If no live gate fronts it, the combined proxies own it. A router owns nothing.
//! A proxy that is no gate and does not own a variant's slots only routes to the variant: it gets the slots
//! unchanged.

use serde::{Deserialize, Serialize};

/// Function of a proxy's filter.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Deadlines and choice of the variant.
    Router,
    /// Slots and order of requests.
    Gate,
    /// Router and gate in one.
    #[default]
    Both,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Router, Role::Gate, Role::Both];

    /// Returns the name used in polls and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Router => "router",
            Role::Gate => "gate",
            Role::Both => "both",
        }
    }
}

/// A proxy's properties that decide ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member<'a> {
    pub(super) role: Role,
    /// The one variant that a gate fronts; `None` for all.
    pub(super) variant: Option<&'a str>,
    /// Whether the proxy is alive.
    pub(super) live: bool,
}

impl Member<'_> {
    fn fronts(&self, variant: &str) -> bool {
        self.role == Role::Gate && self.variant.is_none_or(|own| own == variant)
    }
}

/// Relation of a proxy to one variant's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// It owns a part of them.
    Owns,
    /// It would own a part if it were alive.
    WouldOwn,
    /// Others own them, and it routes to the variant: it gets them unchanged.
    Chooses,
    /// It is a gate of other variants.
    None,
}

/// Returns, by proxy, its relations to `variants`.
pub(super) fn relations(variants: &[&str], members: &[Member<'_>]) -> Vec<Vec<Relation>> {
    let fronted = |variant: &&str| {
        let fronts = |member: &Member<'_>| member.live && member.fronts(variant);
        members.iter().any(fronts)
    };
    let fronted: Vec<bool> = variants.iter().map(fronted).collect();
    let relation = |member: &Member<'_>, variant: &str, fronted: bool| {
        let owner = match member.role {
            Role::Router => false,
            Role::Gate => member.fronts(variant),
            Role::Both => !fronted,
        };
        match (owner, member.live) {
            (true, true) => Relation::Owns,
            (true, false) => Relation::WouldOwn,
            (false, _) if member.role == Role::Gate => Relation::None,
            (false, _) => Relation::Chooses,
        }
    };
    let of = |member: &Member<'_>| {
        let each = variants.iter().zip(&fronted);
        each.map(|(variant, fronted)| relation(member, variant, *fronted))
            .collect()
    };
    members.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proxies → owners of "a", owners of "b", by index.
    #[track_caller]
    fn check(members: &[(Role, Option<&'static str>)], a: &[usize], b: &[usize]) {
        let member = |(role, variant): &(Role, Option<&'static str>)| Member {
            role: *role,
            variant: *variant,
            live: true,
        };
        let members: Vec<_> = members.iter().map(member).collect();
        let relations = relations(&["a", "b"], &members);
        let owners = |variant: usize| -> Vec<usize> {
            let owns = |place: &usize| relations[*place][variant] == Relation::Owns;
            (0..members.len()).filter(owns).collect()
        };
        assert_eq!(
            (owners(0).as_slice(), owners(1).as_slice()),
            (a, b),
            "{members:?}"
        );
    }

    #[test]
    fn variant_is_owned_by_its_gates_or_else_by_combined_proxies() {
        use Role::{Both, Gate, Router};
        check(&[(Both, None), (Both, None)], &[0, 1], &[0, 1]);
        check(&[(Router, None), (Both, None)], &[1], &[1]);
        check(&[(Gate, None), (Both, None)], &[0], &[0]);
        check(&[(Gate, Some("a")), (Both, None)], &[0], &[1]);
        check(&[(Gate, Some("a")), (Router, None)], &[0], &[]);
        check(
            &[(Gate, Some("a")), (Gate, Some("a")), (Gate, Some("b"))],
            &[0, 1],
            &[2],
        );
        check(
            &[(Gate, Some("a")), (Gate, None), (Both, None)],
            &[0, 1],
            &[1],
        );
    }

    #[test]
    fn non_owner_routes_to_variant_unless_gate() {
        let member = |role, variant, live| Member {
            role,
            variant,
            live,
        };
        let members = [
            member(Role::Gate, Some("a"), true),
            member(Role::Gate, Some("b"), false),
            member(Role::Both, None, true),
            member(Role::Router, None, true),
            member(Role::Gate, Some("none-such"), true),
        ];
        use Relation::{Chooses, Owns, WouldOwn};
        let apart = Relation::None;
        let expected = [
            [Owns, apart],
            [apart, WouldOwn],
            [Chooses, Owns],
            [Chooses, Chooses],
            [apart, apart],
        ];
        let relations = relations(&["a", "b"], &members);
        for (relations, expected) in relations.iter().zip(expected) {
            assert_eq!(relations.as_slice(), expected);
        }
    }
}
