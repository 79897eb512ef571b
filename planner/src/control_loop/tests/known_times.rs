//! Service times that a planner measured, and the next one of its service.

use weir_api::moments::Moments;

use super::slow::execute;
use super::*;
use crate::profile::Correction;
use crate::state::StateFile;

/// A bed whose variant b takes three times its profile's time, with groups at a; after twenty cycles.
async fn measured() -> Bed {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    for _ in 0..20 {
        execute(&bed, 20, 168.0);
        bed.run_cycle(20.0).await;
    }
    // Proxies report thousandths, and millionths of squares.
    let sums = |mean| {
        let ones = Moments::with(40.0, mean, 0.1);
        Moments {
            sum: 1e3 * ones.sum,
            squares: 1e6 * ones.squares,
            ..ones
        }
    };
    let classes = [("class-long", 3.0), ("class-short", 0.5)];
    let of_a = classes.map(|(class, mean)| (class.to_owned(), sums(mean)));
    *bed.sim.groups.lock().unwrap() = [("a".to_owned(), of_a.into())].into();
    execute(&bed, 20, 168.0);
    bed.run_cycle(20.0).await;
    bed
}

/// Report of the first cycle of a planner that starts with a file `age` after the last cycle of the one before it.
async fn restarted(before: &Bed, service: Service, age: Duration) -> CycleReport {
    let folder = tempfile::tempdir().unwrap();
    let file = StateFile::new(folder.path(), "demo");
    let end = Duration::from_secs(before.second - 1);
    let known = before.planner.known_times(end).unwrap();
    file.write_times(&file.times_text(known, now(end)).unwrap())
        .unwrap();
    let mut anew = Bed::new(service, &[2, 2]);
    *anew.sim.real.lock().unwrap() = before.sim.real.lock().unwrap().clone();
    *anew.sim.groups.lock().unwrap() = before.sim.groups.lock().unwrap().clone();
    if let Some((times, age)) = file.read_times(now(end + age)).unwrap() {
        anew.planner.restore_times(Duration::ZERO, &times, age);
    }
    anew.warm_up().await;
    anew.run_cycle(20.0).await
}

#[tokio::test]
async fn restarted_planner_plans_with_the_times_that_were_measured() {
    let mut bed = measured().await;
    execute(&bed, 20, 168.0);
    let before = bed.run_cycle(20.0).await;
    assert_eq!(before.variants["b"].service_time.correction, 3.0);
    let groups = "; a: times by group, × planned: class-long 3.00, class-short 0.50";
    assert!(before.why.contains(groups), "{}", before.why);
    let report = async |service, age| restarted(&bed, service, Duration::from_secs(age)).await;
    let soon = report(service(8), 10).await;
    assert_eq!(soon.variants["b"].service_time.correction, 3.0);
    assert_eq!(requested(&soon), requested(&before));
    assert!(soon.why.contains(groups), "{}", soon.why);
    // It fades as it would have without a restart, and is forgotten.
    for (age, correction) in [(178, 2.0), (299, 1.0), (400, 1.0)] {
        let later = report(service(8), age).await;
        let b = &later.variants["b"].service_time;
        assert!((b.correction - correction).abs() < 0.06, "{age}: {b:?}");
    }
    let none = report(service(8), 400).await;
    assert!(!none.why.contains("by group"), "{}", none.why);
}

#[tokio::test]
async fn times_relative_to_another_profile_are_dropped() {
    let bed = measured().await;
    let mut other = service(8);
    other.variants[1].profile.latency.model.gamma_ms *= 1.01;
    let report = restarted(&bed, other, Duration::from_secs(1)).await;
    assert_eq!(report.variants["b"].service_time.correction, 1.0);
    assert!(report.why.contains("class-long"), "a's are the same");
    let mut renamed = service(8);
    renamed.variants[1].name = "c".to_owned();
    let report = restarted(&bed, renamed, Duration::from_secs(1)).await;
    assert_eq!(report.variants["c"].service_time.correction, 1.0);
}

/// Runs cycles in which b takes its profile's time again; returns its correction.
async fn recovered(mut bed: Bed) -> Correction {
    for _ in 0..30 {
        let cores = bed.sim.real.lock().unwrap()[1];
        let profile = bed.planner.service.variants[1].profile.uncorrected();
        execute(&bed, 20, profile.mean_ms(cores));
        bed.run_cycle(20.0).await;
    }
    bed.planner.service.variants[1].profile.correction
}

#[tokio::test]
async fn end_of_a_slow_episode_is_seen_across_a_restart() {
    let bed = measured().await;
    let known = bed.planner.known_times(Duration::from_secs(bed.second));
    let mut anew = Bed::new(service(8), &[2, 2]);
    *anew.sim.real.lock().unwrap() = bed.sim.real.lock().unwrap().clone();
    (anew.planner).restore_times(Duration::ZERO, &known.unwrap(), Duration::ZERO);
    anew.warm_up().await;
    let slow = bed.planner.service.variants[1].profile.correction;
    let after = recovered(anew).await;
    assert_ne!(after, slow);
    assert_eq!(after, recovered(bed).await);
}
