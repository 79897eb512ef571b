//! Small problems of every kind, compared with every combination of settings.

use rand::{RngExt, SeedableRng};

use super::*;
use crate::Check;

const CASES: u64 = 12_000;

/// n, c, b of a stage, and from the latency model itself: n·c, l + q, n·b/l.
type Option1 = (u32, u32, u32, u64, f64, f64);

/// Best of all combinations: cores, batches, ms, and the number with equal cores and batches.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Best {
    cores: u64,
    batches: u64,
    ms: f64,
    ties: u32,
}

/// Best effort: the greatest load that can be carried, and the least latency with it.
#[derive(Debug, Clone, Copy)]
struct Effort {
    rps: f64,
    ms: f64,
    cores: u64,
}

fn options(input: &Input, phase: Phase) -> Vec<Vec<Option1>> {
    let of = |stage: &StageInput| {
        let (instances, cores) = match phase {
            Phase::Vertical => {
                let running = stage.running.instances;
                (running..=running, 1..=stage.cores_max)
            }
            Phase::Horizontal => {
                let cores = input.horizontal_cores;
                (1..=stage.instances_max, cores..=cores)
            }
        };
        let mut all = Vec::new();
        for n in instances {
            for c in cores.clone() {
                for b in 1..=stage.batch_max {
                    let l = stage.latency.ms(b, f64::from(c));
                    let fill_ms = f64::from(b - 1) / input.load_rps * 1000.0;
                    let q = stage.wait_ms.unwrap_or(fill_ms);
                    let rps = f64::from(n) * f64::from(b) / l * 1000.0;
                    if n > 0 && l.is_finite() {
                        all.push((n, c, b, u64::from(n * c), l + q, rps));
                    }
                }
            }
        }
        all
    };
    input.stages.iter().map(of).collect()
}

/// Visits every combination: cores, batches, ms, the narrowest stage's requests/s.
fn visit(
    options: &[Vec<Option1>],
    at: (u64, u64, f64, f64),
    with: &mut impl FnMut((u64, u64, f64, f64)),
) {
    let Some((first, rest)) = options.split_first() else {
        return with(at);
    };
    for (_, _, b, cost, ms, rps) in first {
        let next = (at.0 + cost, at.1 + u64::from(*b), at.2 + ms, at.3.min(*rps));
        visit(rest, next, with);
    }
}

const NOTHING: (u64, u64, f64, f64) = (0, 0, 0.0, f64::INFINITY);

fn best(input: &Input, phase: Phase) -> Option<Best> {
    let mut best: Option<Best> = None;
    visit(&options(input, phase), NOTHING, &mut |(
        cores,
        batches,
        ms,
        rps,
    )| {
        let (late, less) = (
            ms > input.slo_ms * (1.0 + 1e-9),
            rps < input.load_rps * (1.0 - 1e-9),
        );
        if late || less || cores > u64::from(input.budget_cores) {
            return;
        }
        let this = (cores, batches);
        let found = best.get_or_insert(Best {
            cores,
            batches,
            ms,
            ties: 0,
        });
        let that = (found.cores, found.batches);
        if this < that || this == that && ms < found.ms {
            let ties = if this == that { found.ties } else { 0 };
            *found = Best {
                cores,
                batches,
                ms,
                ties,
            };
        }
        found.ties += u32::from(this <= that);
    });
    best
}

fn effort(input: &Input, phase: Phase) -> Option<Effort> {
    let options = options(input, phase);
    let mut most: Option<f64> = None;
    visit(&options, NOTHING, &mut |(cores, _, _, rps)| {
        if cores <= u64::from(input.budget_cores) {
            most = Some(most.unwrap_or(0.0).max(rps.min(input.load_rps)));
        }
    });
    let most = most?;
    let mut best: Option<Effort> = None;
    visit(&options, NOTHING, &mut |(cores, _, ms, rps)| {
        let carries = cores <= u64::from(input.budget_cores) && rps >= most * (1.0 - 1e-9);
        if carries && best.is_none_or(|b| (ms, cores) < (b.ms, b.cores)) {
            best = Some(Effort {
                rps: most,
                ms,
                cores,
            });
        }
    });
    best
}

fn same(found: Option<&Scaling>, best: Option<Best>, what: &str) {
    let batches = |s: &Scaling| s.stages.iter().map(|stage| u64::from(stage.batch)).sum();
    let found = found.map(|s| (u64::from(s.cores), batches(s), s.latency_ms));
    let expected = best.map(|b| (b.cores, b.batches, b.ms));
    match (found, expected) {
        (Some(a), Some(b)) => {
            let near = (a.2 - b.2).abs() <= 1e-9 * b.2;
            assert!(
                (a.0, a.1) == (b.0, b.1) && near,
                "{what}: {a:?}, best is {b:?}"
            );
        }
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 3e-9 * b.abs()
}

fn same_effort(input: &Input, found: Option<&Plan>, seed: u64) {
    let (vertical, horizontal) = (
        effort(input, Phase::Vertical),
        effort(input, Phase::Horizontal),
    );
    let expected = match (vertical, horizontal) {
        (Some(v), Some(h)) if near(v.rps, h.rps) => {
            let quicker = h.ms < v.ms * (1.0 - 1e-9);
            Some(if quicker {
                (Phase::Horizontal, h)
            } else {
                (Phase::Vertical, v)
            })
        }
        (Some(v), Some(h)) if v.rps > h.rps => Some((Phase::Vertical, v)),
        (v, None) => v.map(|v| (Phase::Vertical, v)),
        (_, h) => h.map(|h| (Phase::Horizontal, h)),
    };
    assert_eq!(
        found.is_some(),
        expected.is_some(),
        "seed {seed}: {found:?} {expected:?}"
    );
    if let (Some(found), Some((phase, expected))) = (found, expected) {
        assert_eq!(found.phase, phase, "seed {seed}: {found:?} {expected:?}");
        let scaling = match phase {
            Phase::Vertical => found.vertical.as_ref().unwrap(),
            Phase::Horizontal => found.horizontal.as_ref().unwrap(),
        };
        let rps = scaling
            .stages
            .iter()
            .map(|s| s.throughput_rps)
            .fold(input.load_rps, f64::min);
        assert!(
            near(rps, expected.rps),
            "seed {seed}: {found:?} {expected:?}"
        );
        assert!(
            near(scaling.latency_ms, expected.ms),
            "seed {seed}: {found:?} {expected:?}"
        );
        assert!(
            u64::from(scaling.cores) <= expected.cores,
            "seed {seed}: {found:?} {expected:?}"
        );
    }
}

#[test]
fn programmes_equal_exhaustive_search() {
    let mut kinds = [0_u32; 8];
    for seed in 0..CASES {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let scale = [1.0, 1.0, 1.0, 1000.0, 0.001][chance.random_range(0..5_usize)];
        let input = any_input(&mut chance, (3, 4, 4, 5), scale);
        let problem = Problem::try_from(input.clone()).unwrap();
        let (vertical, horizontal) = (
            best(&input, Phase::Vertical),
            best(&input, Phase::Horizontal),
        );
        match at_leisure(&problem) {
            Outcome::Optimal(plan) => {
                same(
                    plan.vertical.as_ref(),
                    vertical,
                    &format!("vertical, seed {seed}"),
                );
                same(
                    plan.horizontal.as_ref(),
                    horizontal,
                    &format!("horizontal, seed {seed}"),
                );
                problem.check(&plan).unwrap();
                let stays = vertical.is_some() && (!input.lasting || horizontal.is_none());
                assert_eq!(plan.phase == Phase::Vertical, stays, "seed {seed}");
                let fits = plan.handover.as_ref().map(|handover| handover.fits);
                kinds[0] += u32::from(vertical.is_some());
                kinds[1] += u32::from(horizontal.is_some());
                kinds[2] += u32::from(vertical.is_some() && horizontal.is_some());
                kinds[3] += u32::from([vertical, horizontal].iter().flatten().any(|b| b.ties > 1));
                kinds[4] += u32::from(fits == Some(Fits::Sequential));
                kinds[5] += u32::from(fits == Some(Fits::Never));
            }
            Outcome::Infeasible { why, best_effort } => {
                assert_eq!((vertical, horizontal), (None, None), "seed {seed}: {why}");
                same_effort(&input, best_effort.as_ref(), seed);
                kinds[6] += 1;
                kinds[7] += u32::from(best_effort.is_none());
            }
            outcome => panic!("seed {seed}: {outcome:?}"),
        }
    }
    println!("vertical, horizontal, both, ties, in turn, never, infeasible, no effort: {kinds:?}");
    assert!(kinds.iter().all(|kind| *kind >= 40), "{kinds:?}");
}
