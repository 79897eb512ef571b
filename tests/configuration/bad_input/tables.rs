//! Tables of invalid configurations and plans, each with the message expected in the log.

use serde_json::{Value, json};
use weir_bed::scene::planned;

use super::ONE;

/// Entries: JSON pointer, invalid value, and the expected message.
pub(crate) fn invalid_configurations() -> Vec<(&'static str, Value, &'static str)> {
    let hour = 3_600_001;
    vec![
        (
            "/service",
            json!("Demo Service"),
            "service: 'Demo Service' must be 1 to 63 of a-z",
        ),
        (
            "/service",
            json!(7),
            "service: invalid type: integer `7`, expected a string",
        ),
        (
            "/role",
            json!("king"),
            "role: unknown variant `king`, expected one of",
        ),
        (
            "/variant",
            json!("small"),
            "variant: 'small' must be left out where `role` is 'both'",
        ),
        (
            "/bypass/methods",
            json!(["get"]),
            "bypass.methods[0]: 'get' must be 1 to 256 of A-Z",
        ),
        (
            "/bypass/methods",
            json!(vec!["GET"; 17]),
            "bypass.methods: 17 of them must be at most 16",
        ),
        (
            "/bypass/paths",
            json!(["/ok", "/*"]),
            "bypass.paths[1]: '/*' must be a path",
        ),
        (
            "/bypass/paths",
            json!(vec!["/a"; 65]),
            "bypass.paths: 65 of them must be at most 64",
        ),
        (
            "/deadline/default_ms",
            json!(0),
            "deadline.default_ms: 0 must be 1 to 3600000",
        ),
        (
            "/deadline/default_ms",
            json!(-5),
            "deadline.default_ms: invalid value: integer `-5`",
        ),
        (
            "/deadline/default_ms",
            json!(60_001),
            "deadline.default_ms: 60001 must be min_ms to",
        ),
        (
            "/deadline/min_ms",
            json!(0),
            "deadline.min_ms: 0 must be 1 to",
        ),
        (
            "/deadline/min_ms",
            json!(60_001),
            "deadline.min_ms: 60001 must be at most",
        ),
        (
            "/deadline/max_ms",
            json!(hour),
            "deadline.max_ms: 3600001 must be 1 to",
        ),
        (
            "/deadline/max_age_ms",
            json!(hour),
            "deadline.max_age_ms: 3600001 must be 0 to",
        ),
        (
            "/deadline/skew_allowance_ms",
            json!(hour),
            "deadline.skew_allowance_ms: 3600001 must",
        ),
        (
            "/deadline/reserve_ms",
            json!(60_000),
            "deadline.reserve_ms: 60000 must be less than",
        ),
        (
            "/deadline/trust_deadline",
            json!("yes"),
            "deadline.trust_deadline: invalid type: string",
        ),
        (
            "/deadline/defualt_ms",
            json!(5),
            "unknown field `defualt_ms`",
        ),
        (
            "/skew/estimate",
            json!(1),
            "skew.estimate: invalid type: integer `1`, expected a boolean",
        ),
        (
            "/skew/delay_ms",
            json!(hour),
            "skew.delay_ms: 3600001 must be 0 to",
        ),
        (
            "/skew/source_header",
            json!("X Client"),
            "skew.source_header: 'X Client' must be a header",
        ),
        (
            "/skew",
            json!({ "estimate": false, "source_header": "x-client" }),
            "skew.source_header: 'x-client' must be left out where `skew.estimate` is false",
        ),
        ("/classes", json!([]), "classes: 0 of them must be 1 to 8"),
        (
            "/classes/0/name",
            json!("A"),
            "classes[0].name: 'A' must be 1 to 63",
        ),
        (
            "/classes/1/name",
            json!("low"),
            "classes[1].name: 'low' must be a name no other class has",
        ),
        ("/classes/1/share", json!(0.7), "class shares over 100 %"),
        (
            "/classes/1/share",
            json!(0),
            "classes[1].share: 0 must be 0.001 to 1",
        ),
        (
            "/classes/1/priority",
            json!(8),
            "classes[1].priority: 8 must be 0 to 7",
        ),
        (
            "/classes/1/max_requests",
            json!(0),
            "classes[1].max_requests: 0 must be 1 to 100000",
        ),
        (
            "/classes/1/claim/header",
            json!("X"),
            "classes[1].claim.header: 'X' must be",
        ),
        (
            "/classes/1/claim/values",
            json!([]),
            "classes[1].claim.values: 0 of them must be",
        ),
        (
            "/classes/1/claim/property",
            json!(["a"]),
            "classes[1].claim: both must be",
        ),
        (
            "/default_class",
            json!("gold"),
            "default_class: 'gold' must be a class without a `claim`",
        ),
        (
            "/default_class",
            json!("tin"),
            "default_class: 'tin' must be the name of one",
        ),
        ("/max_skips", json!(0), "max_skips: 0 must be 1 to 1000"),
        (
            "/queue/max_requests",
            json!(0),
            "queue.max_requests: 0 must be 1 to 100000",
        ),
        (
            "/queue/scope",
            json!("world"),
            "queue.scope: unknown variant `world`, expected",
        ),
        (
            "/queue/batch_wait_ms",
            json!(60_001),
            "queue.batch_wait_ms: 60001 must be 0 to 60000",
        ),
        (
            "/queue/correct",
            json!("no"),
            "queue.correct: invalid type: string \"no\"",
        ),
        (
            "/planner/cluster",
            json!("a b"),
            "planner.cluster: 'a b' must be 1 to 256 printable",
        ),
        (
            "/planner/authority",
            json!(""),
            "planner.authority: '' must be 1 to 256 printable",
        ),
        (
            "/planner/key",
            json!("a key"),
            "planner.key: (not shown) must be 1 to 256 printable",
        ),
        (
            "/planner",
            json!({ "cluster": "planner" }),
            "planner: missing field `key`",
        ),
        (
            "/plan/service",
            json!("other"),
            "plan.service: 'other' must be 'story'",
        ),
        ("/plan/format", json!(2), "plan: format: 2 is unknown here"),
        (
            "/plan/downstream_ms",
            json!(-1),
            "plan: downstream_ms: -1 must be 0 to",
        ),
        (
            "/plan/variants",
            json!([]),
            "plan: variants: 0 of them; there must be 1 to 64",
        ),
        (
            "/plan/variants/0/name",
            json!("a--b"),
            "plan: variants[0].name: 'a--b' is not a name",
        ),
        (
            "/plan/variants/0/cluster",
            json!(""),
            "plan: variants[0].cluster: '' must be 1 to 256",
        ),
        (
            "/plan/variants/0/share",
            json!(1.5),
            "plan: variants[0].share: 1.5 must be 0 to 1",
        ),
        (
            "/plan/variants/0/share",
            json!(0.5),
            "plan: variants[].share: they sum to 0.5",
        ),
        (
            "/plan/variants/0/slots",
            json!(0),
            "plan: variants[0].slots: a variant with a share",
        ),
        (
            "/plan/variants/0/batch",
            json!(0),
            "plan: variants[0].batch: 0 must be 1 to 1024",
        ),
        (
            "/plan/variants/0/cancels",
            json!(1),
            "plan.variants[0].cancels: invalid type",
        ),
        (
            "/plan/variants/0/service_ms",
            json!(-2),
            "plan: variants[0].service_ms: -2 must be 0 to",
        ),
        (
            "/plan/variants/0/accuracy",
            json!(101),
            "plan: variants[0].accuracy: 101 must be 0 to 100",
        ),
        (
            "/on_stale",
            json!("panic"),
            "on_stale: unknown variant `panic`, expected one of",
        ),
        ("/colour", json!("red"), "unknown field `colour`"),
    ]
}

/// Texts that are invalid as a whole, and the expected message.
pub(crate) fn invalid_texts() -> Vec<(String, &'static str)> {
    let service = |rest: &str| format!(r#"{{"service":"story"{rest}}}"#);
    let planner = r#","planner":{"cluster":"planner","key":"k"}"#;
    let variants = planned(&[ONE]);
    let plan = format!(r#","plan":{{"variants":{variants}}}"#);
    vec![
        (String::new(), "plugin configuration: "),
        ("nonsense".to_owned(), "plugin configuration: "),
        ("[]".to_owned(), "plugin configuration: "),
        ("{".to_owned(), "EOF while parsing an object"),
        ("{}".to_owned(), "missing field `service`"),
        (
            service(""),
            "planner: (left out) must be given (cluster, key), unless there is a static `plan`",
        ),
        (
            service(&format!(r#"{planner},"on_stale":"static""#)),
            "on_stale: 'static' must be 'keep' or 'refuse' where there is no static `plan`",
        ),
        (
            service(&format!(r#"{plan},"role":"gate","variant":"none""#)),
            "variant: 'none' must be one of those in",
        ),
        (
            service(&format!(
                r#"{plan},"role":"router","queue":{{"batch_wait_ms":5}}"#
            )),
            "queue.batch_wait_ms: 5 must be left out where `role` is 'router'",
        ),
        (
            service(&format!(r#"{plan},"max_skips":5"#)),
            "max_skips: 5 must be left out where there",
        ),
    ]
}

/// Entries: JSON pointer, invalid value, and the expected message.
pub(crate) fn invalid_plans() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("/format", json!(2), "format: 2"),
        ("/format", json!("1"), "format: invalid type"),
        ("/service", json!("other"), "other"),
        ("/revision", json!(0), "revision"),
        (
            "/revision",
            json!(u64::MAX),
            "revision: 18446744073709551615",
        ),
        ("/revision", json!(-1), "revision: invalid"),
        ("/published_ms", json!("now"), "published_ms: invalid type"),
        ("/max_age_ms", json!(0), "max_age_ms: 0"),
        ("/downstream_ms", json!(-0.5), "downstream_ms: -0.5"),
        ("/variants", json!([]), "variants: 0"),
        ("/variants", json!({}), "variants: invalid type"),
        (
            "/variants/0/name",
            json!("Small"),
            "variants[0].name: 'Small'",
        ),
        (
            "/variants/0/cluster",
            json!("a\u{0}b"),
            "variants[0].cluster",
        ),
        ("/variants/0/share", json!(2), "variants[0].share: 2"),
        (
            "/variants/0/share",
            json!(null),
            "variants[0].share: invalid type",
        ),
        ("/variants/0/slots", json!(-1), "variants[0].slots: invalid"),
        (
            "/variants/0/slots",
            json!(0),
            "variants[0].slots: a variant with a share",
        ),
        ("/variants/0/batch", json!(1025), "variants[0].batch: 1025"),
        (
            "/variants/0/service_ms",
            json!(3_600_001),
            "variants[0].service_ms: 3600001",
        ),
        (
            "/variants/0/accuracy",
            json!(-1),
            "variants[0].accuracy: -1",
        ),
        (
            "/variants/0/cancels",
            json!("no"),
            "variants[0].cancels: invalid type",
        ),
    ]
}
