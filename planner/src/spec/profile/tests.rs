//! Tests of profile references.

use super::*;
use crate::service::Service;
use crate::spec::RawDuration;
use crate::spec::tests::small;

/// The small service, with `text` as its first variant's profile.
fn resolved(text: &str) -> Result<ServiceSpec, ConfigError> {
    let mut spec = ServiceSpec::from_yaml(&small()).unwrap();
    let variant = &mut spec.variants.as_mut().unwrap()[0];
    variant.latency = None;
    variant.capacity = None;
    variant.profile = Some(RawReference {
        config_map: Some("resnet18".to_owned()),
        key: "profile.yaml".to_owned(),
        file: None,
        extrapolate: false,
        read: false,
        batch: None,
    });
    spec.resolve(|at, reference| {
        assert_eq!(at, "variants[0].profile");
        assert_eq!(reference.config_map.as_deref(), Some("resnet18"));
        Ok(text.to_owned())
    })?;
    Ok(spec)
}

fn variant(text: &str) -> RawVariant {
    let spec = resolved(text).unwrap();
    spec.variants.unwrap().remove(0)
}

#[test]
fn referenced_models_equal_inline_models() {
    let text = "
        latency: {gammaMs: 40, epsilonMs: 1, deltaMs: 2, etaMs: 3, parallelism: per-core, tail: 1.2}
        capacity: {slopeRps: 20, interceptRps: -2}
        readiness: 7s";
    let mut inline = ServiceSpec::from_yaml(&small()).unwrap();
    let first = &mut inline.variants.as_mut().unwrap()[0];
    let latency =
        "{gammaMs: 40, epsilonMs: 1, deltaMs: 2, etaMs: 3, parallelism: per-core, tail: 1.2}";
    first.latency = Some(serde_saphyr::from_str(latency).unwrap());
    first.capacity = Some(serde_saphyr::from_str("{slopeRps: 20, interceptRps: -2}").unwrap());
    first.readiness = RawDuration::from_ms(7000.0);
    let found = ServiceFile::try_from(resolved(text).unwrap())
        .unwrap()
        .service;
    let mut expected = ServiceFile::try_from(inline).unwrap().service;
    // All but the profile's source, which is recorded.
    let from = found.variants[0].profile_from.clone();
    assert_eq!(
        from.as_deref(),
        Some("ConfigMap resnet18, key profile.yaml")
    );
    expected.variants[0].profile_from = from;
    assert_eq!(found, expected);
}

#[test]
fn profile_measurements_are_fitted() {
    let model = |cores: f64, batch: f64| 40.0 * batch / cores + 5.0 / cores + 2.0 * batch + 3.0;
    let mut text =
        "measured:\n  parallelism: 1\n  tail: 1.5\n  utilisation: 0.9\n  latencies:\n".to_owned();
    for (cores, batch) in [(1, 1), (1, 4), (2, 1), (2, 8), (4, 2), (8, 16)] {
        let ms = model(cores.into(), batch.into());
        text += &format!("  - {{cores: {cores}, batch: {batch}, ms: {ms}}}\n");
    }
    text += "  rates: [{cores: 1, rps: 18}, {cores: 2, rps: 38}, {cores: 4, rps: 78}]\n";
    let found = variant(&text);
    let latency = found.latency.unwrap();
    for (value, expected) in [
        (latency.gamma_ms.unwrap(), 40.0),
        (latency.epsilon_ms.unwrap(), 5.0),
        (latency.delta_ms.unwrap(), 2.0),
        (latency.eta_ms.unwrap(), 3.0),
        (latency.tail, 1.5),
    ] {
        assert!((value - expected).abs() < 1e-6, "{latency:?}");
    }
    let capacity = found.capacity.unwrap();
    assert!((capacity.slope_rps - 20.0).abs() < 1e-9, "{capacity:?}");
    assert!((capacity.intercept_rps + 2.0).abs() < 1e-9, "{capacity:?}");
    assert_eq!(capacity.utilisation, 0.9);
}

#[test]
fn invalid_profile_is_refused_with_path() {
    let check = |text: &str, expected: &[&str]| {
        let error = resolved(text).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{text}: {error}");
        }
        let begin = "variants[0].profile: ConfigMap resnet18, key profile.yaml";
        assert!(error.starts_with(begin), "{error}");
    };
    check("", &["profile"]);
    check("latencies: []", &["latencies"]);
    check(
        "readiness: 1s",
        &["latency, measured.latencies: both missing"],
    );
    check(
        "latency: {gammaMs: many}",
        &["latency.gammaMs", "many", "a number"],
    );
    let model = "{gammaMs: 40, epsilonMs: 1, deltaMs: 2, etaMs: 3, parallelism: 1}";
    let cells = "[{cores: 1, batch: 1, ms: 40}]";
    let both = format!("{{latency: {model}, measured: {{parallelism: 1, latencies: {cells}}}}}");
    check(&both, &["latency, measured.latencies: both given"]);
    let few = format!("measured: {{parallelism: 1, latencies: {cells}}}");
    check(
        &few,
        &[", line 1: measured.latencies: 1; it must be 4 to 4096"],
    );
    let broken = format!("latency: {model}\nreadiness\n");
    check(&broken, &[", line 2: "]);
    check(
        &format!("latency: {model}\nreadyness: 1s\n"),
        &[", line 2: readyness: unknown field `readyness`"],
    );
    let wrong = "measured: {parallelism: 1, latencies: [{cores: 0, batch: 1, ms: 40}, {cores: 1, batch: 1, ms: 40}]}";
    check(wrong, &["measured.latencies[0].cores: 0"]);
    let noise = "measured: {parallelism: 1, latencies: [{cores: 1, batch: 1, ms: 4}, {cores: 1, batch: 4, ms: 90}, \
        {cores: 2, batch: 1, ms: 95}, {cores: 2, batch: 4, ms: 3}, {cores: 4, batch: 1, ms: 80}, {cores: 4, batch: 4, ms: 5}]}";
    check(noise, &["measured.latencies: R² ", "0.8 or more"]);
    for (cores, expected) in [
        ("{min: 4, max: 1}", "4 to 1"),
        ("{min: .nan, max: 1}", "NaN to 1"),
    ] {
        let text =
            format!("{{latency: {model}, range: {{cores: {cores}, batch: {{min: 1, max: 1}}}}}}");
        check(&text, &["range.cores: ", expected, "min at most max"]);
    }
    let rates = format!(
        "{{latency: {model}, measured: {{parallelism: 1, rates: [{{cores: 1, rps: 9}}, {{cores: 2, rps: 4}}]}}}}"
    );
    check(&rates, &["measured.rates: a slope of -5", "0 or more"]);
    let long = format!("#{}", "x".repeat(PROFILE_BYTES_MAX));
    check(&long, &["65537 bytes", "at most 65536 bytes"]);
}

#[test]
fn variant_beyond_the_measured_range_is_refused_unless_it_extrapolates() {
    let model = "latency: {gammaMs: 40, epsilonMs: 1, deltaMs: 2, etaMs: 3, parallelism: 1}";
    let spec = ServiceSpec::from_yaml(&small()).unwrap();
    let budget = spec.sizes().cores;
    let raw = spec.variants.unwrap().remove(0);
    let whole = |cpu: RawCpu| cpu.0.millis() / 1000;
    let (min, batch) = (whole(raw.sizes().min).max(1), raw.batch_max());
    let max = whole(raw.sizes().max.unwrap_or(budget));
    let text = |cores: (u32, u32), batch: (u32, u32)| {
        format!(
            "{model}\nrange: {{cores: {{min: {}, max: {}}}, batch: {{min: {}, max: {}}}}}",
            cores.0, cores.1, batch.0, batch.1
        )
    };
    resolved(&text((min, max), (batch, batch))).unwrap();
    for (range, key) in [
        (text((max, max), (1, batch)), "cores.min"),
        (text((min, max - 1), (1, batch)), "cores.max"),
        (text((min, max), (batch + 1, batch + 2)), "batch"),
    ] {
        let error = resolved(&range).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("variants[0].{key}: ")),
            "{error}"
        );
        assert!(
            error.contains("unless variants[0].profile.extrapolate is true"),
            "{error}"
        );
        let mut spec = ServiceSpec::from_yaml(&small()).unwrap();
        let variant = &mut spec.variants.as_mut().unwrap()[0];
        variant.latency = None;
        variant.capacity = None;
        let reference = "{configMap: resnet18, extrapolate: true}";
        variant.profile = Some(serde_saphyr::from_str(reference).unwrap());
        spec.resolve(|_, _| Ok(range.clone())).unwrap();
    }
}

#[test]
fn batch_is_the_largest_of_the_profile_within_the_latency_budget_unless_the_variant_has_one() {
    // 45, 54 and 66 ms for batches of 1, 4 and 8.
    let model = "latency: {deltaMs: 3, etaMs: 42, parallelism: 1}";
    // Objective, keys of the variant, keys of the profile; planned batch, known batch, window in ms.
    for (slo, own, profile, planned, known, window_ms) in [
        ("1s", "", "", 1, 1, 0),
        ("1s", "", "batch: 8\nbatchDelay: 5ms", 8, 8, 5),
        ("108ms", "", "batch: 8", 4, 8, 0),
        ("20ms", "", "batch: 8", 1, 8, 0),
        ("108ms", "batch: 8", "batch: 16", 8, 8, 0),
        (
            "1s",
            "batch: 2\n  batchDelay: 1ms",
            "batch: 8\nbatchDelay: 5ms",
            2,
            2,
            1,
        ),
    ] {
        let text = small().replace("slo: 1s", &format!("slo: {slo}"));
        let first = "  capacity: {slopeRps: 20, interceptRps: -2}\n  latency: {gammaMs: 40, epsilonMs: 1, deltaMs: 2, \
             etaMs: 0, parallelism: per-core}\n";
        let text = text.replace(first, &format!("  profile: {{configMap: a}}\n  {own}\n"));
        let mut spec = ServiceSpec::from_yaml(&text).unwrap();
        spec.resolve(|_, _| Ok(format!("{model}\n{profile}")))
            .unwrap();
        let service = ServiceFile::try_from(spec).unwrap().service;
        let variant = &service.variants[0];
        let found = (
            variant.profile.batch,
            variant.batch_max,
            variant.batch_delay.as_millis(),
        );
        assert_eq!(found, (planned, known, window_ms), "{slo} {own} {profile}");
    }
}

#[test]
fn latency_and_profile_exclude_each_other() {
    let text = small();
    let mut spec = ServiceSpec::from_yaml(&text).unwrap();
    spec.variants.as_mut().unwrap()[0].profile = Some(RawReference {
        config_map: None,
        key: "k".to_owned(),
        file: Some("f".to_owned()),
        extrapolate: false,
        read: false,
        batch: None,
    });
    assert_eq!(spec.references().len(), 1);
    let error = spec.clone().resolve(|_, _| Ok(String::new())).unwrap_err();
    let expected = "variants[0].latency: given; it must be left out: it is the profile's";
    assert_eq!(error.to_string(), expected);
    // Without a reader the latency is missing.
    spec.variants.as_mut().unwrap()[0].latency = None;
    let error = ServiceFile::try_from(spec).unwrap_err();
    assert!(
        error.to_string().starts_with("variants[0].profile: "),
        "{error}"
    );
    let mut neither = ServiceSpec::from_yaml(&text).unwrap();
    neither.variants.as_mut().unwrap()[0].latency = None;
    let error = ServiceFile::try_from(neither).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("variants[0].latency: missing"),
        "{error}"
    );
}

#[test]
fn profile_file_is_relative_to_service_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service.yaml");
    let model = "latency: {gammaMs: 40, epsilonMs: 1, deltaMs: 2, etaMs: 3, parallelism: per-core}";
    std::fs::write(
        folder.path().join("p.yaml"),
        format!("{model}\ncapacity: {{slopeRps: 20, interceptRps: -2}}"),
    )
    .unwrap();
    let mut service: serde_json::Value = serde_saphyr::from_str(&small()).unwrap();
    let variant = service["variants"][0].as_object_mut().unwrap();
    variant.remove("latency");
    variant.remove("capacity");
    let mut check = |reference: serde_json::Value| {
        service["variants"][0]["profile"] = reference;
        let spec = ServiceSpec::from_file(&path, &service.to_string())?;
        ServiceFile::try_from(spec).map(|file| file.service)
    };
    let found: Service = check(serde_json::json!({"file": "p.yaml"})).unwrap();
    assert_eq!(found.variants[0].profile.latency.model.gamma_ms, 40.0);
    for (reference, expected) in [
        (
            serde_json::json!({"file": "q.yaml"}),
            "variants[0].profile.file: q.yaml (",
        ),
        (serde_json::json!({}), "variants[0].profile.file: missing"),
        (
            serde_json::json!({"configMap": "a"}),
            "variants[0].profile.configMap: a",
        ),
    ] {
        let error = check(reference).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
