//! Choice of the phase, worked numbers, ties, and the time limit.

use std::cell::Cell as Counter;

use super::*;
use crate::Check;

/// Sponge's Table 1 (EuroMLSys '24): a ResNet under 100 requests/s and an SLO of 1000 ms.
fn sponges() -> Input {
    let measured = [
        (1, 1.0, 55.0),
        (2, 1.0, 97.0),
        (4, 2.0, 94.0),
        (8, 4.0, 92.0),
        (4, 8.0, 37.0),
        (8, 8.0, 62.0),
    ];
    let cells = measured.map(|(batch, cores, latency_ms)| Cell {
        batch,
        cores,
        latency_ms,
    });
    let latency = Latency::Table(Table::new(cells.to_vec()).unwrap());
    Input {
        load_rps: 100.0,
        lasting: false,
        slo_ms: 1000.0,
        budget_cores: 16,
        horizontal_cores: 1,
        stages: vec![stage("detect", latency, (1, 1), (8, 8, 10))],
    }
}

fn solved(input: Input) -> Plan {
    match at_leisure(&Problem::try_from(input).unwrap()) {
        Outcome::Optimal(plan) => plan,
        outcome => panic!("{outcome:?}"),
    }
}

/// n, c and b of each stage.
fn settings(scaling: Option<&Scaling>) -> Vec<(u32, u32, u32)> {
    let stages = scaling.map(|s| s.stages.as_slice()).unwrap_or_default();
    stages
        .iter()
        .map(|s| (s.instances, s.cores, s.batch))
        .collect()
}

#[test]
fn sponge_table_1_is_scaled_vertically_and_horizontally() {
    // Vertically the one instance takes batches of 8 on 6 cores, halfway between 92 ms on 4 and 62 ms on 8;
    // horizontally "we need five instances to process a batch of 2 requests" (there), of one core.
    let plan = solved(sponges());
    assert_eq!(plan.phase, Phase::Vertical);
    assert_eq!(settings(plan.vertical.as_ref()), [(1, 6, 8)]);
    assert_eq!(settings(plan.horizontal.as_ref()), [(5, 1, 2)]);
    let (vertical, horizontal) = (plan.vertical.unwrap(), plan.horizontal.unwrap());
    // 77 ms and 7 more requests at 10 ms each; 97 ms and 1 more.
    assert_eq!((vertical.latency_ms, horizontal.latency_ms), (147.0, 107.0));
    // The old instance on 6 cores and 4 new ones beside it.
    let handover = Handover {
        simultaneous_cores: 10,
        sequential_cores: 10,
        fits: Fits::Simultaneous,
    };
    assert_eq!(plan.handover, Some(handover));
    let mut lasting = sponges();
    lasting.lasting = true;
    assert_eq!(solved(lasting).phase, Phase::Horizontal);
    // Within 100 ms only 8 cores with batches of 4 suffice: 37 ms and 30 of waiting.
    let mut slow = sponges();
    slow.slo_ms = 100.0;
    assert_eq!(settings(solved(slow).vertical.as_ref()), [(1, 8, 4)]);
}

#[test]
fn only_feasible_phase_is_chosen() {
    // The load exceeds the instance even on its maximum of cores: horizontal at once, though not lasting.
    let mut input = sponges();
    input.load_rps = 150.0;
    let plan = solved(input.clone());
    assert_eq!((plan.phase, plan.vertical), (Phase::Horizontal, None));
    assert_eq!(settings(plan.horizontal.as_ref()), [(8, 1, 2)]);
    assert_eq!(plan.handover.unwrap().simultaneous_cores, 8);
    // Nothing runs yet.
    input.stages[0].running.instances = 0;
    assert_eq!(solved(input.clone()).phase, Phase::Horizontal);
    // Lasting, but too tight for one core.
    let mut input = sponges();
    (input.slo_ms, input.lasting) = (70.0, true);
    input.load_rps = 100.0;
    input.stages[0].instances_max = 5;
    let plan = solved(input);
    assert_eq!(
        (plan.phase, plan.horizontal, plan.handover),
        (Phase::Vertical, None, None)
    );
}

#[test]
fn handover_beyond_the_budget_is_reported() {
    let mut input = sponges();
    let mut second = input.stages[0].clone();
    second.name = "again".to_owned();
    input.stages.push(second);
    for (budget, fits) in [
        (20, Fits::Simultaneous),
        (19, Fits::Sequential),
        (16, Fits::Sequential),
        (15, Fits::Never),
    ] {
        input.budget_cores = budget;
        let plan = solved(input.clone());
        let handover = Handover {
            simultaneous_cores: 20,
            // 10 and the other's 6.
            sequential_cores: 16,
            fits,
        };
        assert_eq!(plan.handover, Some(handover), "{budget}");
    }
}

#[test]
fn infeasible_names_the_limit_and_gives_best_effort() {
    let but = |change: &dyn Fn(&mut Input)| {
        let mut input = sponges();
        change(&mut input);
        input
    };
    for (input, why, nearest) in [
        (
            but(&|i| i.load_rps = 1000.0),
            "vertically, a load of 1000.0 requests/s exceeds the 129.0 that stage 'detect' carries with 1 instances of 8 cores; horizontally, a load of 1000.0 requests/s exceeds the 206.2 that stage 'detect' carries with 10 instances of 1 cores",
            vec![(10, 1, 2)],
        ),
        (
            but(&|i| i.budget_cores = 4),
            "vertically, a load of 100.0 requests/s takes 6 cores, more than the budget of 4; horizontally, a load of 100.0 requests/s takes 5 cores, more than the budget of 4",
            vec![(1, 4, 8)],
        ),
        (
            but(&|i| i.slo_ms = 30.0),
            "vertically, the least latency within 16 cores is 67.0 ms, above the SLO of 30.0 ms; horizontally, the least latency within 16 cores is 55.0 ms, above the SLO of 30.0 ms",
            vec![(6, 1, 1)],
        ),
        (
            but(&|i| {
                i.stages[0].running.instances = 0;
                i.budget_cores = 1;
            }),
            "vertically, nothing runs at stage 'detect'; horizontally, a load of 100.0 requests/s takes 5 cores, more than the budget of 1",
            vec![(1, 1, 2)],
        ),
    ] {
        match at_leisure(&Problem::try_from(input).unwrap()) {
            Outcome::Infeasible {
                why: actual,
                best_effort,
            } => {
                assert_eq!(actual, why);
                let plan = best_effort.unwrap();
                let scaling = plan.vertical.as_ref().or(plan.horizontal.as_ref());
                assert_eq!(settings(scaling), nearest, "{why}");
            }
            outcome => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn tie_prefers_fewer_batches_then_less_latency_then_the_first_stage() {
    // l = 2 + 10/c: two stages within 21 ms take 3 cores, one of them 2: the first has fewer.
    let alike = |name: &str| stage(name, amdahl(2.0, 10.0), (1, 1), (4, 4, 4));
    let input = Input {
        load_rps: 80.0,
        lasting: false,
        slo_ms: 21.0,
        budget_cores: 8,
        horizontal_cores: 1,
        stages: vec![alike("a"), alike("b")],
    };
    assert_eq!(
        settings(solved(input.clone()).vertical.as_ref()),
        [(1, 1, 1), (1, 2, 1)]
    );
    let mut three = input.clone();
    three.stages.push(alike("c"));
    three.slo_ms = 26.0;
    assert_eq!(
        settings(solved(three).vertical.as_ref()),
        [(1, 1, 1), (1, 2, 1), (1, 2, 1)]
    );
    // Batches do not help here, so they stay 1, though larger ones are within the SLO.
    let mut slow = input.clone();
    slow.slo_ms = 1000.0;
    assert_eq!(
        settings(solved(slow).vertical.as_ref()),
        [(1, 1, 1), (1, 1, 1)]
    );
    // 3 cores either way; the second stage gains more by its second core.
    let mut uneven = input;
    uneven.stages[1].latency = amdahl(1.0, 11.0);
    uneven.stages[0].latency = amdahl(1.0, 11.0);
    uneven.stages[0].latency = amdahl(3.0, 9.0);
    assert_eq!(
        settings(solved(uneven).vertical.as_ref()),
        [(1, 1, 1), (1, 2, 1)]
    );
}

/// Irregular enough that fronts are large.
fn large() -> Problem {
    let stages = (0..10).map(|index| {
        let part = f64::from(index);
        let latency = Latency::Sponge(LatencyModel {
            gamma_ms: 9.1 + 3.7 * part,
            epsilon_ms: 6.3,
            delta_ms: 0.71 + 0.13 * part,
            eta_ms: 1.9,
        });
        stage(
            &format!("s{index}"),
            latency,
            (2 + index % 3, 1),
            (16, 16, 64),
        )
    });
    let input = Input {
        load_rps: 120.0,
        lasting: false,
        slo_ms: 450.0,
        budget_cores: 400,
        horizontal_cores: 1,
        stages: stages.collect(),
    };
    Problem::try_from(input).unwrap()
}

#[test]
fn expired_limit_stops_and_gap_covers_the_optimum() {
    let problem = large();
    let Outcome::Optimal(best) = at_leisure(&problem) else {
        panic!("not solved")
    };
    let best = best.vertical.unwrap().cores;
    let (mut late, mut good, mut optimal) = (0, 0, 0);
    for limit in 0..400 {
        // The clock advances by 1 ms at each reading.
        let readings = Counter::new(0);
        let clock = || {
            readings.set(readings.get() + 1);
            Duration::from_millis(readings.get())
        };
        let time_limit = TimeLimit::new(Duration::from_millis(limit), &clock);
        match solve(&problem, &time_limit) {
            Outcome::Optimal(plan) => {
                assert_eq!(plan.vertical.unwrap().cores, best);
                optimal += 1;
            }
            Outcome::Good { best: plan, gap } => {
                problem.check(&plan).unwrap();
                let cores = plan.vertical.unwrap().cores;
                assert!(
                    cores >= best && f64::from(cores) - gap <= f64::from(best) + 1e-9,
                    "{cores} {gap} {best}"
                );
                good += 1;
            }
            Outcome::OutOfTime { best: plan, .. } => {
                plan.iter().for_each(|plan| problem.check(plan).unwrap());
                late += 1;
            }
            outcome => panic!("{outcome:?}"),
        }
        assert!(
            readings.get() <= limit + 20,
            "{} looks of {limit}",
            readings.get()
        );
    }
    println!("late {late}, good {good}, optimal {optimal}");
    assert!(
        late > 2 && good > 2 && optimal > 2,
        "{late} {good} {optimal}"
    );
}

#[test]
fn first_stage_cores_break_ties_regardless_of_discovery_order() {
    // ms on 1, 2 and 3 cores. (2, 1, 2) and (1, 3, 1) both take 5 cores and 40 ms; nothing takes fewer.
    let stages = [
        ("a", [20.0, 10.0, 10.0]),
        ("b", [20.0, 20.0, 8.0]),
        ("c", [12.0, 10.0, 10.0]),
    ];
    let stages = stages.map(|(name, ms)| {
        let cells = ms.iter().zip([1.0, 2.0, 3.0]).map(|(ms, cores)| Cell {
            batch: 1,
            cores,
            latency_ms: *ms,
        });
        let latency = Latency::Table(Table::new(cells.collect()).unwrap());
        stage(name, latency, (1, 1), (3, 1, 4))
    });
    let input = Input {
        load_rps: 10.0,
        lasting: false,
        slo_ms: 40.0,
        budget_cores: 9,
        horizontal_cores: 1,
        stages: stages.to_vec(),
    };
    assert_eq!(
        settings(solved(input).vertical.as_ref()),
        [(1, 1, 1), (1, 3, 1), (1, 1, 1)]
    );
}
