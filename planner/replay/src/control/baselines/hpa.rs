//! Kubernetes' HorizontalPodAutoscaler (autoscaling/v2) on CPU utilisation, with the documented defaults
//! ("Horizontal Pod Autoscaling" of the Kubernetes documentation, and `replica_calculator.go`):
//!
//! - desired = ⌈ready × ratio⌉, where ratio is the utilisation of the ready pods relative to the target; nothing
//!   within the tolerance of 0.1;
//! - where pods are not ready and the ratio is above 1, they count with no use; if that reverses the direction, or
//!   is within the tolerance, nothing changes;
//! - scale-down: the greatest recommendation of the last 300 s; 100 % each 15 s. The replicas at the start count as one
//!   (`recordInitialRecommendation`);
//! - scale-up: at once, at most 100 % or 4 pods each 15 s, whichever is more.
//!
//! The target has no default in autoscaling/v2; 70 % is used. A pod that is added begins without readiness, as in
//! Kubernetes; it becomes ready after the server's readiness time. The cycle is the period of the scaling
//! policies, so that no earlier scaling counts in it.

use std::collections::VecDeque;
use std::time::Duration;

/// `--horizontal-pod-autoscaler-sync-period`.
pub(super) const PERIOD: Duration = Duration::from_secs(15);
/// Target utilisation.
const UTILISATION: f64 = 0.7;
/// `--horizontal-pod-autoscaler-tolerance`.
const TOLERANCE: f64 = 0.1;
/// `behavior.scaleDown.stabilizationWindowSeconds`.
const STABILIZATION: Duration = Duration::from_secs(300);
/// `behavior.scaleUp.policies`: pods added each period at least.
const PODS_ADDED: u32 = 4;

/// Pods of a variant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pods {
    /// Replicas that were requested.
    pub(super) spec: u32,
    /// Pods of these that are ready.
    pub(super) ready: u32,
    /// Use of the ready pods together, in pods' requests.
    pub(super) used: f64,
    /// `minReplicas`.
    pub(super) min: u32,
    /// `maxReplicas`.
    pub(super) max: u32,
}

/// State of one HorizontalPodAutoscaler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hpa {
    /// Recommendations of the stabilization window with their times.
    recommendations: VecDeque<(Duration, u32)>,
}

impl Hpa {
    /// Replicas to have from now on.
    pub(super) fn desired(&mut self, now: Duration, pods: Pods) -> u32 {
        let recommended = recommended(pods);
        if self.recommendations.is_empty() {
            self.recommendations.push_back((now, pods.spec));
        }
        let since = now.saturating_sub(STABILIZATION);
        self.recommendations.push_back((now, recommended));
        let expired = |(at, _): &mut (Duration, u32)| now >= STABILIZATION && *at <= since;
        while self.recommendations.pop_front_if(expired).is_some() {}
        let all = self.recommendations.iter().map(|(_, pods)| *pods);
        let highest = all.max().unwrap_or(recommended);
        let rise = (pods.spec * 2).max(pods.spec + PODS_ADDED);
        let stabilised = match recommended >= pods.spec {
            true => recommended.min(rise),
            false => highest.min(pods.spec),
        };
        stabilised.clamp(pods.min.min(pods.max), pods.max)
    }
}

/// Recommendation of the replica calculator.
fn recommended(pods: Pods) -> u32 {
    let (spec, ready) = (f64::from(pods.spec), f64::from(pods.ready));
    if pods.ready == 0 {
        return pods.spec;
    }
    let tolerated = |ratio: f64| (1.0 - ratio).abs() <= TOLERANCE;
    let ratio = pods.used / ready / UTILISATION;
    if pods.ready == pods.spec || ratio <= 1.0 {
        return match tolerated(ratio) {
            true => pods.spec,
            false => replicas(ratio * ready),
        };
    }
    let with_unready = pods.used / spec / UTILISATION;
    if tolerated(with_unready) || with_unready < 1.0 {
        return pods.spec;
    }
    replicas(with_unready * spec).max(pods.spec)
}

/// Rounds up, but not for an error of the last digits.
fn replicas(exact: f64) -> u32 {
    (exact - 1e-9).ceil().max(0.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(spec: u32, ready: u32, used: f64) -> Pods {
        Pods {
            spec,
            ready,
            used,
            min: 1,
            max: 100,
        }
    }

    /// "Horizontal Pod Autoscaling", Algorithm details: twice the desired value doubles the replicas, half of it
    /// halves them, and a ratio within 0.1 of 1 changes nothing. The example of KEP-4951: 50 replicas at 90 % of
    /// 75 % become 60. `replica_calculator_test.go`: `TestReplicaCalcScaleUp` (0.3, 0.5, 0.7 of a target of 0.3:
    /// 3 → 5), `ScaleUpUnreadyLessScale` (the first not ready: 3 → 4), `ScaleUpUnreadyNoScale` (0.4, the others
    /// not ready: 3).
    #[test]
    fn replicas_follow_the_ratio_of_utilisation() {
        let of = |ratio: f64| UTILISATION * ratio;
        for (spec, ready, used, expected) in [
            (10, 10, 10.0 * of(2.0), 20),
            (10, 10, 10.0 * of(0.5), 5),
            (10, 10, 10.0 * of(1.09), 10),
            (10, 10, 10.0 * of(0.91), 10),
            (50, 50, 50.0 * of(90.0 / 75.0), 60),
            (3, 3, of((0.3 + 0.5 + 0.7) / 0.3), 5),
            (3, 2, of((0.5 + 0.7) / 0.3), 4),
            (3, 1, of(0.4 / 0.3), 3),
            (3, 0, 0.0, 3),
        ] {
            let got = recommended(pods(spec, ready, used));
            assert_eq!(got, expected, "{spec} {ready} {used}");
        }
    }

    /// Default scaling behaviour of the documentation: 100 % or 4 pods each 15 s; down after 300 s, then at once.
    #[test]
    fn scaling_follows_the_default_behaviour() {
        let mut hpa = Hpa::default();
        let at = Duration::from_secs;
        assert_eq!(hpa.desired(at(0), pods(1, 1, 30.0)), 5, "4 pods");
        assert_eq!(hpa.desired(at(15), pods(5, 5, 30.0)), 10, "100 %");
        assert_eq!(hpa.desired(at(30), pods(10, 10, 7.0)), 10);
        // The recommendation of 43 at 15 s counts until 315 s.
        assert_eq!(hpa.desired(at(314), pods(10, 10, 1.4)), 10);
        assert_eq!(hpa.desired(at(315), pods(10, 10, 1.4)), 10, "10 at 30 s");
        assert_eq!(hpa.desired(at(330), pods(10, 10, 1.4)), 2);
    }
    /// `horizontal.go`, `recordInitialRecommendation`: the replicas at the start are a recommendation.
    #[test]
    fn replicas_at_the_start_stay_for_the_stabilization() {
        let mut hpa = Hpa::default();
        let at = Duration::from_secs;
        for (second, expected) in [(0, 10), (15, 10), (285, 10), (300, 2)] {
            let got = hpa.desired(at(second), pods(10, 10, 1.4));
            assert_eq!(got, expected, "{second} s");
        }
    }
}
