//! Ownership of a variant's slots: by role, and for a gate by the variant it fronts. Slots are not counted
//! here.
//!
//! A variant is owned by the gates that front it: those whose polls name it, and those whose polls name no
//! variant, which front all. If no live gate fronts it, the combined proxies own it. A router owns nothing.
//! A proxy that is no gate and does not own a variant's slots only routes to the variant: it gets the slots
//! unchanged.

use serde::{Deserialize, Serialize};

/// Function of a proxy's filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
pub(super) struct Stand<'a> {
    pub(super) role: Role,
    /// The one variant that a gate fronts; `None` for all.
    pub(super) variant: Option<&'a str>,
    /// Whether the proxy is alive.
    pub(super) live: bool,
}

impl Stand<'_> {
    fn fronts(&self, variant: &str) -> bool {
        self.role == Role::Gate && self.variant.is_none_or(|own| own == variant)
    }
}

/// Relation of a proxy to one variant's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// It owns a part of them.
    Owns,
    /// It would own a part if it were alive.
    Would,
    /// Others own them, and it routes to the variant: it gets them unchanged.
    Chooses,
    /// It is a gate of other variants.
    None,
}

/// Returns, by proxy, its relations to `variants`.
pub(super) fn ties(variants: &[&str], stands: &[Stand<'_>]) -> Vec<Vec<Tie>> {
    let fronted = |variant: &&str| {
        let fronts = |stand: &Stand<'_>| stand.live && stand.fronts(variant);
        stands.iter().any(fronts)
    };
    let fronted: Vec<bool> = variants.iter().map(fronted).collect();
    let tie = |stand: &Stand<'_>, variant: &str, fronted: bool| {
        let owner = match stand.role {
            Role::Router => false,
            Role::Gate => stand.fronts(variant),
            Role::Both => !fronted,
        };
        match (owner, stand.live) {
            (true, true) => Tie::Owns,
            (true, false) => Tie::Would,
            (false, _) if stand.role == Role::Gate => Tie::None,
            (false, _) => Tie::Chooses,
        }
    };
    let of = |stand: &Stand<'_>| {
        let each = variants.iter().zip(&fronted);
        each.map(|(variant, fronted)| tie(stand, variant, *fronted))
            .collect()
    };
    stands.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proxies → owners of "a", owners of "b", by index.
    #[track_caller]
    fn check(stands: &[(Role, Option<&'static str>)], a: &[usize], b: &[usize]) {
        let stand = |(role, variant): &(Role, Option<&'static str>)| Stand {
            role: *role,
            variant: *variant,
            live: true,
        };
        let stands: Vec<_> = stands.iter().map(stand).collect();
        let ties = ties(&["a", "b"], &stands);
        let owners = |variant: usize| -> Vec<usize> {
            let owns = |place: &usize| ties[*place][variant] == Tie::Owns;
            (0..stands.len()).filter(owns).collect()
        };
        assert_eq!(
            (owners(0).as_slice(), owners(1).as_slice()),
            (a, b),
            "{stands:?}"
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
        let stand = |role, variant, live| Stand {
            role,
            variant,
            live,
        };
        let stands = [
            stand(Role::Gate, Some("a"), true),
            stand(Role::Gate, Some("b"), false),
            stand(Role::Both, None, true),
            stand(Role::Router, None, true),
            stand(Role::Gate, Some("none-such"), true),
        ];
        use Tie::{Chooses, Owns, Would};
        let apart = Tie::None;
        let expected = [
            [Owns, apart],
            [apart, Would],
            [Chooses, Owns],
            [Chooses, Chooses],
            [apart, apart],
        ];
        let ties = ties(&["a", "b"], &stands);
        for (ties, expected) in ties.iter().zip(expected) {
            assert_eq!(ties.as_slice(), expected);
        }
    }
}
