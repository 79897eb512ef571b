//! Several services in one budget.

use super::*;

/// Experiment of two services of 20 requests/s a core, under 10 and 60 requests/s.
const SEVERAL: &str = "
name: several
scenario:
  name: several
  length_s: 20
  budget: { cores: 8 }
  services:
    - name: a
      scenario: &one
        service:
          service: demo
          policy: infaas
          slo: 1s
          mode: active
          variants:
            - name: only
              cluster: only
              accuracy: 70
              price: 2
              cores: { initial: 1, min: 0 }
              capacity: { slopeRps: 20, interceptRps: 0 }
              latency: { gammaMs: 50, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core }
        load: { generator: poisson, rps: 10 }
    - { name: b, scenario: *one }
cases:
  - { name: usual, set: { services.b.scenario.load.rps: 60 } }
rows:
  - { name: two cores, kind: baseline, contender: { plane: weir, control: static } }
  - { name: four cores, kind: baseline, contender: { plane: weir, control: static },
      set: { services.*.scenario.service.variants.only.cores.initial: 2 } }
  - { name: Weir, kind: weir, contender: { plane: weir, control: planner } }
columns: [lost-percent, mean-cores, mean-cost]
";

#[test]
fn several_services_count_together() {
    let experiment = checked(SEVERAL).unwrap();
    let results = experiment.play(1, &|_| {}).unwrap();
    let cell = |row, column| results.cell("usual", row, &column).unwrap().mean;
    for (row, cores) in [("two cores", 2.0), ("four cores", 4.0)] {
        assert_eq!(cell(row, Column::MeanCores), cores);
        assert_eq!(cell(row, Column::MeanCost), 2.0 * cores);
    }
    // Of 70 requests/s b's only core executes 20, and the other 40 are late: four sevenths.
    let lost = |row| cell(row, Column::LostPercent);
    assert!((50.0..63.0).contains(&lost("two cores")), "{results:?}");
    assert!(lost("Weir") < lost("four cores"), "{results:?}");
    let bounds = results.cases[0].bounds.unwrap();
    assert!(bounds.lost_percent <= lost("Weir"), "{bounds:?}");
    assert_eq!(bounds.mean_cores, None);
    assert_eq!(results, experiment.play(2, &|_| {}).unwrap());
}

#[test]
fn several_services_are_refused_where_they_have_no_value() {
    for (good, bad, complaint) in [
        (
            "mean-cost]",
            "p99-ms]",
            "columns[2]: p99 ms; it must be lost-percent, mean-cores, mean-cost or plans with several services",
        ),
        (
            "control: planner",
            "control: vpa",
            "rows[2].contender.control",
        ),
        (
            "services.*.scenario.service.variants.only",
            "services.*.scenario.service.variants.other",
            "rows[1].set: services.*.scenario.service.variants.other.cores.initial: other; it must be the name",
        ),
        (
            "budget: { cores: 8 }",
            "budget: { cores: 3 }",
            "scenario.budget.cores: 3; it must be at least 4",
        ),
    ] {
        assert!(SEVERAL.contains(good), "{good}");
        let error = checked(&SEVERAL.replace(good, bad)).unwrap_err();
        assert!(error.starts_with(complaint), "{bad}: {error}");
    }
}
