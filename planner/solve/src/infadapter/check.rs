//! Check of an allocation against the problem, in plain arithmetic.

use super::{Allocation, Problem};
use crate::Check;

/// Relative tolerance of a sum: HiGHS' own.
pub const TOLERANCE: f64 = 1e-6;

impl Check for Problem {
    type Plan = Allocation;

    /// Checks that every number of cores is an option, the budget holds, the shares are a
    /// distribution, and each variant's share stays within its capacity.
    fn check(&self, plan: &Allocation) -> Result<(), String> {
        self.check_best_effort(plan)?;
        for (index, (variant, share)) in self.variants.iter().zip(&plan.shares).enumerate() {
            let cores = plan.cores.get(index).copied().unwrap_or_default();
            let (load, capacity) = (share * self.demand_rps, self.capacity(index, cores));
            if load > capacity + TOLERANCE * self.demand_rps {
                return Err(format!(
                    "{}: {load} requests/s on {cores} cores that carry {capacity}",
                    variant.name
                ));
            }
        }
        Ok(())
    }

    /// Checks all rules except that each variant's share stays within its capacity.
    fn check_best_effort(&self, plan: &Allocation) -> Result<(), String> {
        let (cores, shares) = (&plan.cores, &plan.shares);
        let count = self.variants.len();
        if cores.len() != count || shares.len() != count {
            return Err(format!(
                "{} cores and {} shares for {count} variants",
                cores.len(),
                shares.len()
            ));
        }
        for (variant, cores) in self.variants.iter().zip(cores) {
            if !variant.options.iter().any(|option| option.cores == *cores) {
                return Err(format!(
                    "{}: {cores} cores are none of its options",
                    variant.name
                ));
            }
        }
        let used: u32 = cores.iter().sum();
        if used > self.budget {
            return Err(format!("{used} cores exceed the budget of {}", self.budget));
        }
        let within = |share: &&f64| !(0.0..=1.0 + TOLERANCE).contains(*share);
        if let Some(share) = shares.iter().find(within) {
            return Err(format!("a share of {share}"));
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > TOLERANCE {
            return Err(format!("shares sum to {sum}"));
        }
        Ok(())
    }
}

/// α·AA − (β·RC + γ·LC), from the cores and shares alone.
pub fn objective(problem: &Problem, cores: &[u32], shares: &[f64]) -> f64 {
    let variants = &problem.variants;
    let accuracy: f64 = variants
        .iter()
        .zip(shares)
        .map(|(variant, share)| variant.accuracy * share)
        .sum();
    let used = f64::from(cores.iter().sum::<u32>());
    let loaded = variants.iter().zip(cores).filter(|(_, cores)| **cores > 0);
    let loading = loaded
        .map(|(variant, _)| problem.loading_cost(variant))
        .fold(0.0, f64::max);
    problem.value_of(accuracy) - (used * problem.core_cost() + loading)
}

#[cfg(test)]
mod tests {
    use super::super::tests::problem;
    use super::*;
    use crate::Check;

    #[test]
    fn broken_rule_is_refused() {
        let problem = problem(60.0, 6, &[(0.7, 20.0, 1, 6), (0.8, 10.0, 0, 6)]);
        let good = Allocation {
            cores: vec![3, 1],
            shares: vec![0.9, 0.1],
            objective: 0.0,
        };
        assert_eq!(problem.check(&good), Ok(()));
        type Break = fn(&mut Allocation);
        let table: &[(Break, &str)] = &[
            (|a| a.cores = vec![3], "1 cores and 2 shares"),
            (|a| a.cores[0] = 0, "0 cores are none"),
            (|a| a.cores[1] = 7, "7 cores are none"),
            (|a| a.cores = vec![4, 3], "7 cores exceed the budget of 6"),
            (|a| a.shares = vec![1.1, -0.1], "a share of"),
            (|a| a.shares[0] = f64::NAN, "a share of NaN"),
            (|a| a.shares[0] = 0.8, "shares sum to 0.9"),
            (
                |a| a.cores[1] = 0,
                "v1: 6 requests/s on 0 cores that carry 0",
            ),
        ];
        for (breaks, message) in table {
            let mut allocation = good.clone();
            breaks(&mut allocation);
            let error = problem.check(&allocation).unwrap_err();
            assert!(error.contains(message), "'{error}' is not '{message}'");
        }
    }

    #[test]
    fn objective_follows_infadapters_equation() {
        let mut problem = problem(60.0, 10, &[(0.7, 20.0, 1, 6), (0.8, 10.0, 0, 6)]);
        let shares = [0.5, 0.5];
        let objective_of = |problem: &Problem, cores: &[u32]| objective(problem, cores, &shares);
        assert!((objective_of(&problem, &[3, 2]) - (0.75 - 0.05 * 0.5)).abs() < 1e-12);
        // Variant 1 is loaded anew in 4 s; the longest takes 8 s.
        problem.variants[1].loaded = false;
        problem.variants[1].readiness = std::time::Duration::from_secs(4);
        problem.variants[0].readiness = std::time::Duration::from_secs(8);
        assert!(
            (objective_of(&problem, &[3, 2]) - (0.75 - 0.05 * 0.5 - 0.001 * 0.5)).abs() < 1e-12
        );
        assert!((objective_of(&problem, &[3, 0]) - (0.75 - 0.05 * 0.3)).abs() < 1e-12);
    }
}
