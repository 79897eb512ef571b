//! Rules of a plan, its defaults and its size.

use super::*;

fn good() -> Plan {
    let variant = |name: &str, share| VariantPlan {
        name: name.into(),
        cluster: name.into(),
        grpc_cluster: None,
        model: None,
        path: None,
        share: Share(share),
        slots: 2,
        batch: 1,
        replicas: 1,
        cancels: false,
        service_ms: 40.0,
        service_min_ms: 10.0,
        accuracy: 70.0,
        groups: Vec::new(),
    };
    Plan {
        format: FORMAT,
        service: "demo".into(),
        revision: Revision(1),
        published_ms: 0,
        max_age_ms: 60_000,
        downstream_ms: 250.5,
        variants: vec![variant("small", 0.25), variant("large", 0.75)],
    }
}

fn group(group: impl Into<String>) -> GroupTime {
    GroupTime {
        group: group.into(),
        mean: 1234.567,
        deviation: 1234.567,
    }
}

/// Gives the second variant groups of sizes, then one of these changes.
fn break_groups(plan: &mut Plan, count: u64, breaks: impl Fn(&mut GroupTime)) {
    let sizes = (0..count).map(|size| group(format!("size-{size}")));
    let groups = &mut plan.variants[1].groups;
    groups.extend(sizes);
    breaks(&mut groups[1]);
}

/// Table of changes, each of which breaks one rule, with the field that the message must name.
#[test]
fn broken_rule_is_refused_and_names_the_field() {
    type Break = fn(&mut Plan);
    let table: &[(Break, &str)] = &[
        (|p| p.format = 2, "format: 2"),
        (
            |p| p.service = "Demo Service".into(),
            "service: 'Demo Service'",
        ),
        (|p| p.revision = Revision(0), "revision: 0"),
        (
            |p| p.revision = Revision(u64::MAX),
            "revision: 18446744073709551615",
        ),
        (|p| p.max_age_ms = 0, "max_age_ms: 0"),
        (|p| p.downstream_ms = -1.0, "downstream_ms: -1"),
        (|p| p.downstream_ms = f64::NAN, "downstream_ms: NaN"),
        (|p| p.downstream_ms = 3_600_001.0, "downstream_ms: 3600001"),
        (|p| p.variants.clear(), "variants: 0"),
        (
            |p| p.variants = vec![p.variants[0].clone(); 65],
            "variants: 65",
        ),
        (
            |p| p.variants[1].name = "small".into(),
            "variants[1].name: 'small'",
        ),
        (
            |p| p.variants[1].name = "a--b".into(),
            "variants[1].name: 'a--b'",
        ),
        (
            |p| p.variants[0].cluster = "a b".into(),
            "variants[0].cluster: 'a b'",
        ),
        (
            |p| p.variants[0].grpc_cluster = Some(String::new()),
            "variants[0].grpc_cluster: ''",
        ),
        (
            |p| p.variants[1].model = Some("a/b".into()),
            "variants[1].model: 'a/b' must be 1 to 128 of",
        ),
        (
            |p| p.variants[1].model = Some("..".into()),
            "variants[1].model: '..'",
        ),
        (
            |p| p.variants[1].model = Some("m".repeat(MODEL_MAX + 1)),
            "variants[1].model: 'mmm",
        ),
        (
            |p| p.variants[1].path = Some("small".into()),
            "variants[1].path: 'small' must be 1 to 256 printable",
        ),
        (
            |p| p.variants[1].path = Some("/a/../b".into()),
            "variants[1].path: '/a/../b'",
        ),
        (
            |p| p.variants[1].path = Some("/a?b".into()),
            "variants[1].path: '/a?b'",
        ),
        (
            |p| p.variants[0].share = Share(f64::NAN),
            "variants[0].share: NaN",
        ),
        (
            |p| p.variants[0].share = Share(-0.25),
            "variants[0].share: -0.25",
        ),
        (
            |p| p.variants[0].slots = 1 << 20,
            "variants[0].slots: 1048576",
        ),
        (|p| p.variants[0].slots = 0, "variants[0].slots"),
        (|p| p.variants[0].batch = 0, "variants[0].batch: 0"),
        (|p| p.variants[0].replicas = 0, "variants[0].replicas: 0"),
        (
            |p| p.variants[0].replicas = 100_001,
            "variants[0].replicas: 100001",
        ),
        (
            |p| p.variants[0].service_ms = f64::INFINITY,
            "variants[0].service_ms: inf",
        ),
        (
            |p| p.variants[0].service_min_ms = -1.0,
            "variants[0].service_min_ms: -1",
        ),
        (
            |p| p.variants[0].accuracy = 101.0,
            "variants[0].accuracy: 101",
        ),
        (
            |p| break_groups(p, 16, |_| {}),
            "variants[1].groups: 16 of them; at most 15",
        ),
        (
            |p| break_groups(p, 2, |one| one.group = "gold".into()),
            "variants[1].groups[1].group: 'gold' must be class-",
        ),
        (
            |p| break_groups(p, 2, |one| one.group = "size-0".into()),
            "variants[1].groups[1].group: 'size-0' must be a group that no other",
        ),
        (
            |p| break_groups(p, 2, |one| one.mean = 0.0),
            "variants[1].groups[1].mean: 0 must be above 0",
        ),
        (
            |p| break_groups(p, 2, |one| one.mean = f64::NAN),
            "variants[1].groups[1].mean: NaN",
        ),
        (
            |p| break_groups(p, 2, |one| one.deviation = 4097.0),
            "variants[1].groups[1].deviation: 4097 must be 0 to 4096",
        ),
        (
            |p| {
                break_groups(p, 15, |_| {});
                let mut next = p.variants[1].clone();
                next.share = Share(0.0);
                for index in 0..17 {
                    next.name = format!("v{index}");
                    p.variants.push(next.clone());
                }
            },
            "variants[].groups: 270 of them; at most 256 in a plan",
        ),
        (
            |p| p.variants.iter_mut().for_each(|v| v.share = Share(0.0)),
            "share: they sum to 0",
        ),
    ];
    assert_eq!(good().check(), Ok(()));
    for (breaks, message) in table {
        let mut plan = good();
        breaks(&mut plan);
        let error = plan.check().expect_err(message).to_string();
        assert!(
            error.contains(message),
            "'{error}' does not name '{message}'"
        );
    }
}

/// The planner sends such a plan to a proxy that must give its slots back.
#[test]
fn plan_without_slots_is_valid_only_without_shares() {
    let mut plan = good();
    for variant in &mut plan.variants {
        (variant.share, variant.slots) = (Share(0.0), 0);
    }
    assert_eq!(plan.check(), Ok(()));
    plan.variants[0].share = Share(1.0);
    assert_eq!(plan.check(), Err(PlanError::ShareWithoutSlots(0)));
}

#[test]
fn unknown_fields_are_ignored_and_optional_ones_defaulted() {
    let json = r#"{"format":1,"service":"demo","revision":5,"max_age_ms":1000,"novelty":{},
        "variants":[{"name":"a","cluster":"a","share":1.0,"slots":1,"colour":"red"}]}"#;
    let plan: Plan = serde_json::from_str(json).unwrap();
    assert_eq!(plan.check(), Ok(()));
    assert_eq!(plan.variants[0].batch, 1);
    assert_eq!(plan.downstream_ms, 0.0);
    let variant = &plan.variants[0];
    assert_eq!((&variant.grpc_cluster, &variant.model), (&None, &None));
    let json = json.replace("1000,", r#"1000,"downstream_ms":40,"#);
    let plan: Plan = serde_json::from_str(&json).unwrap();
    assert_eq!(plan.downstream_ms, 40.0);
}

#[test]
fn largest_plan_fits_bytes_max() {
    let mut plan = good();
    let longest = VariantPlan {
        cluster: "c".repeat(CLUSTER_MAX),
        grpc_cluster: Some("g".repeat(CLUSTER_MAX)),
        model: Some("m".repeat(MODEL_MAX)),
        path: Some("/".repeat(PATH_MAX)),
        share: Share(1.0 / VARIANTS_MAX as f64),
        slots: SLOTS_MAX,
        service_ms: 1234.567,
        service_min_ms: 1234.567,
        ..plan.variants[0].clone()
    };
    plan.variants = (0..VARIANTS_MAX)
        .map(|i| VariantPlan {
            groups: (0..PLAN_GROUPS_MAX / VARIANTS_MAX)
                .map(|at| group(format!("class-{at:0>width$}", width = NAME_MAX)))
                .collect(),
            name: format!("{i:0>width$}", width = NAME_MAX),
            ..longest.clone()
        })
        .collect();
    assert_eq!(plan.check(), Ok(()));
    assert!(serde_json::to_vec(&plan).unwrap().len() < BYTES_MAX);
}
