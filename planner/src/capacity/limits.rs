//! Resources of replicas besides cores, such as memory and GPUs, and their limits. Cores change at any time; these
//! are occupied as long as a replica exists, so they limit the number of replicas. Pure.

use std::fmt;

/// Maximum number of limited resources of a service.
pub const LIMITS_MAX: usize = 4;

/// Limit of one resource, by its name in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Name, such as `memory` or `nvidia.com/gpu`.
    pub name: String,
    /// Maximum that all replicas may occupy together, in bytes or pieces.
    pub most: u64,
    /// Amount that each replica occupies, in the variants' order.
    pub each: Vec<u64>,
}

/// Limited resources of a service; empty if its budget is cores alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceLimits(pub Vec<ResourceLimit>);

impl ResourceLimit {
    /// Returns the amount that these replicas occupy.
    pub fn used(&self, replicas: &[u32]) -> u64 {
        let each = self.each.iter().zip(replicas);
        each.fold(0, |used: u64, (each, replicas)| {
            used.saturating_add(each.saturating_mul(u64::from(*replicas)))
        })
    }

    /// Returns the amount by which these replicas exceed the limit.
    pub fn excess(&self, replicas: &[u32]) -> u64 {
        self.used(replicas).saturating_sub(self.most)
    }

    /// Returns how many replicas of a variant fit beside those of the others.
    fn max_replicas(&self, variant: usize, replicas: &[u32]) -> u32 {
        let each = self.each.get(variant).copied().unwrap_or(0);
        let own = replicas.get(variant).copied().unwrap_or(0);
        let others = self
            .used(replicas)
            .saturating_sub(each.saturating_mul(u64::from(own)));
        let free = self.most.saturating_sub(others);
        free.checked_div(each)
            .map_or(u32::MAX, |count| u32::try_from(count).unwrap_or(u32::MAX))
    }
}

impl ResourceLimits {
    /// Whether no resource is limited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these replicas fit within all limits.
    pub fn fit(&self, replicas: &[u32]) -> bool {
        self.0.iter().all(|limit| limit.excess(replicas) == 0)
    }

    /// Returns how many replicas of a variant fit beside those of the others.
    pub fn max_replicas(&self, variant: usize, replicas: &[u32]) -> u32 {
        let each = self
            .0
            .iter()
            .map(|limit| limit.max_replicas(variant, replicas));
        each.min().unwrap_or(u32::MAX)
    }

    /// Whether any resource limits a variant's replicas.
    pub fn is_limited(&self, variant: usize) -> bool {
        let limits = |limit: &ResourceLimit| limit.each.get(variant).is_some_and(|each| *each > 0);
        self.0.iter().any(limits)
    }
}

/// Amount in Kubernetes notation: `64Gi`, `4`.
#[derive(Debug, Clone, Copy)]
pub struct Amount(pub u64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
        let whole = |(_, shift): &(&str, u32)| self.0 > 0 && self.0.trailing_zeros() >= *shift;
        match units.into_iter().find(whole) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_replicas_is_what_other_variants_leave() {
        let limit = |most, each: &[u64]| ResourceLimit {
            name: String::new(),
            most,
            each: each.to_vec(),
        };
        let limits = ResourceLimits(vec![limit(16, &[4, 6, 0]), limit(2, &[0, 1, 0])]);
        for (replicas, fits, max_replicas) in [
            ([0, 0, 0], true, [4, 2, u32::MAX]),
            ([1, 2, 9], true, [1, 2, u32::MAX]),
            ([2, 1, 0], true, [2, 1, u32::MAX]),
            ([2, 2, 0], false, [1, 1, u32::MAX]),
            ([9, 0, 0], false, [4, 0, u32::MAX]),
            ([0, 3, 0], false, [0, 2, u32::MAX]),
        ] {
            assert_eq!(limits.fit(&replicas), fits, "{replicas:?}");
            let got = [0, 1, 2].map(|variant| limits.max_replicas(variant, &replicas));
            assert_eq!(got, max_replicas, "{replicas:?}");
        }
        assert_eq!([0, 1, 2].map(|v| limits.is_limited(v)), [true, true, false]);
        assert!(
            ResourceLimits::default().fit(&[u32::MAX]) && !ResourceLimits::default().is_limited(0)
        );
    }

    #[test]
    fn overflowing_amount_exceeds_limit() {
        let limits = ResourceLimits(vec![ResourceLimit {
            name: "memory".to_owned(),
            most: 1 << 60,
            each: vec![u64::MAX, 1],
        }]);
        assert!(!limits.fit(&[2, 1]));
        assert_eq!(limits.max_replicas(1, &[2, 1]), 0);
    }

    #[test]
    fn amounts_are_formatted_in_kubernetes_notation() {
        for (amount, text) in [
            (0, "0"),
            (4, "4"),
            (64 << 30, "64Gi"),
            (1536 << 20, "1536Mi"),
            (1 << 40, "1Ti"),
            (1000, "1000"),
        ] {
            assert_eq!(Amount(amount).to_string(), text);
        }
    }
}
