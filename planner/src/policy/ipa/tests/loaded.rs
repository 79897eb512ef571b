//! Variants that stay loaded, and variants that grow before others load.

use super::*;

#[test]
fn loaded_variants_count_towards_budget_and_cost() {
    let mut optima = 0;
    for budget in [6, 9, 14, 20] {
        let mut service = pipeline(budget);
        (service.variants[0].min, service.variants[2].min) = (2, 1);
        for rps in [3.0, 10.0, 25.0, 60.0] {
            let decision = decided(&service, [2, 1, 1, 1], rps);
            let message = format!("{budget} {rps}: {}", decision.why);
            let sum: Cores = decision
                .targets
                .iter()
                .map(|target| target.cores(Allocation::NONE))
                .sum();
            assert!(sum <= Cores::whole(budget), "{message}");
            let Some((worth, desired)) = brute(&service, rps) else {
                continue;
            };
            let got = decision.optimum.unwrap();
            assert!(got <= worth + 1e-9, "{message}: {desired:?}");
            if !decision.kept {
                let min = [2, 0, 1, 0].map(Cores::whole);
                let mut each = decision.targets.iter().zip(min);
                assert!(each.all(|(target, min)| target.each >= min), "{message}");
            }
            optima += u32::from((got - worth).abs() < 1e-9);
        }
    }
    assert!(optima > 6, "{optima} were the best");
}

#[test]
fn serving_variants_grow_before_others_load() {
    let service = pipeline(20);
    // The fastest variants serve, but their actual capacity does not carry the load.
    let grows = decided(&service, [1, 0, 1, 0], 60.0);
    assert!(
        grows.why.contains("by those that are loaded"),
        "{}",
        grows.why
    );
    assert_eq!([1, 3].map(|n: usize| grows.targets[n].replicas), [0, 0]);
    // Once it is carried, all variants count.
    let carries: Vec<u32> = grows
        .targets
        .iter()
        .map(|target| target.each.millis() / 1000)
        .collect();
    let best = decided(&service, carries.try_into().unwrap(), 60.0);
    let (worth, _) = brute(&service, 60.0).unwrap();
    assert!((best.optimum.unwrap() - worth).abs() < 1e-9, "{}", best.why);
    // The loaded variants cannot carry it even on all cores, so others load.
    let most = decided(&pipeline(9), [0, 1, 0, 1], 60.0);
    assert!(
        !most.why.contains("by those that are loaded"),
        "{}",
        most.why
    );
}

#[test]
fn rising_load_keeps_serving_variants_and_grows_the_fastest() {
    let rises = |budget: u32, running: [u32; 4], rps: f64| {
        let mut forecast = forecast(rps, true);
        forecast.forecast.rises = true;
        decide(&pipeline(budget), &cores(running), Some(forecast))
    };
    // Capacity per core: m 10 to 12 requests/s, n 33 to 47; s 10 to 11, r 25 to 32.
    let grows = rises(20, [1, 4, 1, 4], 120.0);
    let each: Vec<u32> = grows
        .targets
        .iter()
        .map(|target| target.each.millis() / 1000)
        .collect();
    assert_eq!((each[1], each[3]), (4, 4), "{}", grows.why);
    assert!(
        each[0] > 1 && each[2] > 1 && each.iter().sum::<u32>() <= 20,
        "{each:?}"
    );
    // One core less would not carry it.
    for stage in [0, 2] {
        let mut less = each.clone();
        less[stage] -= 1;
        let fewer = rises(20, less.try_into().unwrap(), 120.0);
        assert_eq!(fewer.targets, grows.targets, "{}", fewer.why);
    }
    // Carried demand, a full budget, and a steady load are decided as usual.
    for other in [
        rises(20, each.try_into().unwrap(), 120.0),
        rises(11, [1, 4, 1, 4], 120.0),
        decided(&pipeline(20), [1, 4, 1, 4], 120.0),
    ] {
        assert!(!other.why.contains("rising"), "{}", other.why);
    }
}
