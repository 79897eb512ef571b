//! Speed of the simulation, printed; run by hand: `cargo test --release -p weir-replay speed -- --ignored --nocapture`.
//! With the path of a trace in `WEIR_TRACE` it also plays its first hour.

use super::*;

fn load(seconds: u64, rps: u64, budget_ms: u64) -> Vec<Request> {
    let mut all = requests(&[]);
    let template = requests(&[(0, budget_ms)])[0];
    for id in 0..seconds * rps {
        let sent = Duration::from_micros(id * 1_000_000 / rps);
        // Different deadlines, so that queues have an order to keep.
        let budget = ms(budget_ms + id * 7919 % 97);
        all.push(Request {
            id: id as u32,
            sent,
            head: sent + ms(20),
            arrives: sent + ms(20),
            budget,
            ..template
        });
    }
    all
}

fn report(what: &str, scenario: &Scenario, requests: &[Request], contender: Contender) {
    let begin = tokio::time::Instant::now();
    let play = play(scenario, requests, contender, 1).unwrap();
    let took = begin.elapsed().as_secs_f64();
    let answered = play
        .outcomes
        .iter()
        .filter(|o| matches!(o.fate, Fate::Answered(_)))
        .count();
    println!(
        "{what}: {} requests ({answered} answered), {} events, {} plans in {took:.2} s: {:.0} requests/s",
        requests.len(),
        play.events,
        play.plans.len(),
        requests.len() as f64 / took
    );
}

#[test]
#[ignore = "prints figures"]
fn speed() {
    for (what, slots, rps) in [
        ("0.8 x capacity", [1, 40], 320),
        ("1.5 x", [1, 40], 600),
        ("3 x", [1, 40], 1200),
    ] {
        let mut scenario = scenario(slots);
        scenario.length = Duration::from_secs(1000);
        report(what, &scenario, &load(1000, rps, 500), WEIR);
        scenario.proxies.workers = 4;
        report(
            &format!("{what}, 4 workers"),
            &scenario,
            &load(1000, rps, 500),
            WEIR,
        );
        let fifo = Contender {
            plane: Plane::FifoTimeout,
            ..WEIR
        };
        report(
            &format!("{what}, fifo"),
            &scenario,
            &load(1000, rps, 500),
            fifo,
        );
    }
    let planner = Contender {
        control: Control::Planner,
        ..WEIR
    };
    for (what, mut scenario) in [
        ("2 variants, 8 cores", super::planner_cycle::closed_loop()),
        ("3 variants, 20 cores", example()),
    ] {
        scenario.length = Duration::from_secs(1200);
        let what = format!("20 minutes, planning every second, {what}");
        report(
            &what,
            &scenario,
            &super::planner_cycle::waves(1200, 160),
            planner,
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn speed_of_a_trace() {
    let Ok(path) = std::env::var("WEIR_TRACE") else {
        return println!("WEIR_TRACE names no trace");
    };
    let folder = tempfile::tempdir().unwrap();
    let template = include_str!("../../../../scenarios/capacity.yaml");
    let load = format!("load: {{ file: {path} }}");
    let text = template
        .replace("length_s: 300 ", "length_s: 3600 ")
        .replace("load: { generator: poisson, of_capacity: 0.95 }", &load);
    let file = folder.path().join("capacity.yaml");
    std::fs::write(&file, text).unwrap();
    let overrides = crate::scenario::Overrides::default();
    let (scenario, sending) = crate::scenario::read(&file, overrides).unwrap();
    let all = crate::input::requests(scenario.seed, &sending);
    for (control, what) in [
        (Control::Static, "fixed plan"),
        (Control::Planner, "planning every second"),
    ] {
        let what = format!("an hour of the trace, {what}");
        report(&what, &scenario, &all, Contender { control, ..WEIR });
    }
}

/// The example's service, with servers that match its profiles.
fn example() -> Scenario {
    let mut scenario = super::planner_cycle::closed_loop();
    let file = include_str!("../../../../service.example.yaml");
    scenario.service = weir_planner::service::Service::from_yaml(file).unwrap();
    let variants = scenario.service.variants.iter();
    scenario.variants = variants
        .map(|variant| {
            let ms = variant.profile.latency.model.service_ms(1, 1.0);
            server(&variant.name, ms, variant.initial.cores().as_f64())
        })
        .collect();
    scenario
}
