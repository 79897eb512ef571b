//! Random scenario of a seed: variants, classes, batches, roles, faults and requests.

use super::*;

/// Scenario, requests and contender of a seed.
pub(super) fn random_scenario(seed: u64) -> (Scenario, Vec<Request>, Contender) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let planner = seed.is_multiple_of(PLANNER_EVERY);
    let mut scenario = scenario([1, 1]);
    let variants = random.random_range(1..=3_usize);
    let mut third = scenario.service.variants[0].clone();
    "c".clone_into(&mut third.name);
    "c".clone_into(&mut third.cluster);
    third.accuracy = random.random_range(60.0..95.0);
    scenario.service.variants.push(third);
    scenario.service.variants.truncate(variants);
    scenario.variants = VARIANTS[..variants]
        .iter()
        .map(|name| {
            let cores = f64::from(random.random_range(0..=3_u32));
            let mut server = server(name, random.random_range(0.0..120.0), cores);
            server.batch_max = random.random_range(1..=3);
            server.batch_delay = ms(random.random_range(0..10));
            server.noise_sigma = if random.random_bool(0.3) { 0.3 } else { 0.0 };
            server.resize_delay = ms(random.random_range(0..400));
            server.readiness = ms(random.random_range(0..1000));
            let far = random.random_bool(0.5);
            server.round_trip = Duration::from_micros(if far {
                random.random_range(0..40_000)
            } else {
                0
            });
            server
        })
        .collect();
    scenario.variants[0].cores = scenario.variants[0].cores.max(1.0);
    let scales = !planner && random.random_bool(0.05);
    let length_ms = if scales {
        32_000
    } else {
        random.random_range(100..3000)
    };
    scenario.length = ms(length_ms);
    scenario.proxies.count = random.random_range(1..=2);
    scenario.proxies.workers = random.random_range(1..=3);
    scenario.proxies.plan_delay = ms(random.random_range(0..30));
    scenario.proxies.notify_delay = Duration::from_micros(random.random_range(0..3000));
    let plan = scenario.proxies.plugin["plan"]["variants"].clone();
    let mut plan: Vec<_> = plan.as_array().unwrap().clone();
    plan.push(plan[0].clone());
    plan[2]["name"] = json!("c");
    plan[2]["cluster"] = json!("c");
    plan.truncate(variants);
    let batches = random.random_bool(0.4);
    for variant in &mut plan {
        variant["share"] = json!(1.0 / variants as f64);
        variant["slots"] = json!(random.random_range(2..=5));
        // Correct, too short or too long.
        variant["service_ms"] = json!(random.random_range(0.0..200.0_f64));
        variant["batch"] = json!(if batches {
            random.random_range(1..=4)
        } else {
            1
        });
        variant["cancels"] = json!(random.random_bool(0.2));
    }
    for (variant, known) in plan.iter_mut().zip(&scenario.service.variants) {
        variant["accuracy"] = json!(known.accuracy);
    }
    scenario.proxies.plugin["plan"]["variants"] = json!(plan);
    // The downstream time is the same in every plan, or order would change with each.
    scenario.service.downstream_ms = [0.0, 0.0, 40.0][random.random_range(0..3_usize)];
    scenario.proxies.plugin["plan"]["downstream_ms"] = json!(scenario.service.downstream_ms);
    let role = roles(&mut random, &mut scenario.proxies.plugin);
    scenario.proxies.plugin["queue"] = json!({"concurrency_max": 0, "max_requests": random.random_range(1..=20),
        "correct": random.random_bool(0.7)});
    if role != "router" && random.random_bool(0.5) {
        scenario.proxies.plugin["queue"]["batch_wait_ms"] = json!(random.random_range(0..100));
    }
    if random.random_bool(0.5) {
        scenario.classes = classes(&mut random, &mut scenario.proxies.plugin);
    }
    let classes = scenario.classes.len() as u16;
    scenario.proxies.plugin["deadline"] =
        json!({"min_ms": 1, "reserve_ms": random.random_range(0..20)});
    let stale = ["keep", "static", "refuse"][random.random_range(0..3_usize)];
    scenario.proxies.plugin["on_stale"] = json!(stale);
    scenario.service.cycle = ms(random.random_range(200..=1000));
    scenario.service.plan_max_age = ms(random.random_range(500..5000));
    scenario.faults = (0..random.random_range(0..4_u32))
        .map(|_| Fault {
            at: ms(random.random_range(0..length_ms)),
            what: fault(&mut random, variants),
        })
        .collect();
    // Spread out, or a burst for few slots.
    let crowd_ms = if random.random_bool(0.5) {
        length_ms
    } else {
        length_ms.min(200)
    };
    let count = random.random_range(1..=60_u32);
    let mut sent: Vec<u64> = (0..count)
        .map(|_| random.random_range(0..crowd_ms * 1000))
        .collect();
    sent.sort_unstable();
    let request = |(id, sent): (u32, u64)| {
        let way = Duration::from_micros(random.random_range(0..100_000));
        let sent = Duration::from_micros(sent);
        // Half of them have bodies that arrive after their heads.
        let (head, bytes) = if random.random_bool(0.5) {
            let head = way.mul_f64(random.random_range(0.0..1.0));
            (sent + head, random.random_range(1..400_000))
        } else {
            (sent + way, 0)
        };
        Request {
            id,
            sent,
            head,
            arrives: sent + way,
            bytes,
            budget: ms(random.random_range(1..800)),
            way_back: Duration::from_micros(random.random_range(0..50_000)),
            // Some answers fill the proxy's buffer, others only take longer to read.
            reading: Reading {
                longer: ms(random.random_range(0..200)),
                at_proxy: ms(random.random_range(0_u64..400).saturating_sub(200)),
            },
            skew_ms: if random.random_bool(0.2) {
                random.random_range(-40_000..40_000)
            } else {
                0
            },
            min_accuracy: if random.random_bool(0.2) {
                random.random_range(0.0..100.0)
            } else {
                0.0
            },
            class: random.random_range(0..classes),
            timeout: ms(random.random_range(1..2000)),
            retries: random.random_range(0..3),
        }
    };
    let requests = (0..).zip(sent).map(request).collect();
    let planes = [Plane::Weir, Plane::Weir, Plane::Weir, Plane::WeirGlobal];
    let plane = if random.random_bool(0.8) {
        planes[random.random_range(0..planes.len())]
    } else {
        Plane::ALL[random.random_range(0..Plane::ALL.len())]
    };
    let control = match (planner, scales, seed % 2) {
        (true, ..) => Control::Planner,
        (_, true, 0) => Control::Hpa,
        (_, true, _) => Control::Vpa,
        _ => Control::Static,
    };
    (
        scenario,
        requests,
        Contender {
            plane,
            control,
            breaker: None,
        },
    )
}

/// Mostly one combined filter, otherwise a gate or a router.
fn roles(random: &mut ChaCha8Rng, plugin: &mut serde_json::Value) -> &'static str {
    let role = ["both", "both", "both", "both", "both", "gate", "router"];
    let role = role[random.random_range(0..role.len())];
    plugin["role"] = json!(role);
    if role == "gate" {
        plugin["variant"] = json!("a");
    }
    role
}

/// Two or three classes, and one that is unknown to the filter.
fn classes(random: &mut ChaCha8Rng, plugin: &mut serde_json::Value) -> Vec<String> {
    let names = ["gold", "silver", "bronze"];
    let many = random.random_range(2..=3_usize);
    let mut known = Vec::new();
    for name in &names[..many] {
        let share = [0.1, 0.3][random.random_range(0..2_usize)];
        let priority = random.random_range(0..3);
        let mut class = json!({"name": name, "share": share, "priority": priority});
        if random.random_bool(0.2) {
            class["max_requests"] = json!(random.random_range(1..=5));
        }
        known.push(class);
    }
    plugin["classes"] = json!(known);
    plugin["default_class"] = json!(names[random.random_range(0..many)]);
    plugin["max_skips"] = json!(random.random_range(1..6));
    let sent = names[..many].iter().chain(&["nobody"]);
    sent.map(|name| (*name).to_owned()).collect()
}

fn fault(random: &mut ChaCha8Rng, variants: usize) -> FaultKind {
    let lasts = ms(random.random_range(0..1500));
    let (proxy, worker) = (random.random_range(0..2), random.random_range(0..3));
    let variant = random.random_range(0..variants);
    match random.random_range(0..12_u32) {
        0 => FaultKind::ProxyRestart { proxy },
        1 => FaultKind::WorkerTrap { proxy, worker },
        2 => FaultKind::PlannerOutage { lasts },
        3 => FaultKind::ScrapeLoss { lasts },
        4 => FaultKind::ServerCrash { variant, lasts },
        5 => FaultKind::ServerSlow {
            variant,
            percent: random.random_range(50..500),
            lasts,
        },
        6 => FaultKind::LostNotification { proxy, worker },
        7 => FaultKind::LostPlan { proxy },
        8 => FaultKind::ResizeInterrupted { variant: None },
        _ => FaultKind::Resize {
            fault: match random.random_range(0..4_u32) {
                0 => ResizeFault::Refused,
                1 => ResizeFault::Infeasible,
                2 => ResizeFault::Deferred,
                _ => ResizeFault::Late { percent: 1000 },
            },
            variant: random.random_bool(0.5).then_some(variant),
            lasts,
        },
    }
}
