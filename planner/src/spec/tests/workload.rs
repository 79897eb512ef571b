//! Tests of workloads and their assignment to variants.

use super::*;

#[test]
fn workload_of_two_variants_is_refused() {
    let on = |a: &str, b: &str| {
        let text = small();
        let text = text.replace(
            "resize: http://127.0.0.1:2/cores",
            &format!("workload: {a}"),
        );
        let text = text.replace(
            "resize: http://127.0.0.1:3/cores",
            &format!("workload: {b}"),
        );
        Service::from_yaml(&text).map_err(|error| error.to_string())
    };
    assert!(on("{name: web}", "{name: db}").is_ok());
    // A workload of another kind is a different one.
    assert!(on("{name: web}", "{name: web, kind: StatefulSet}").is_ok());
    let refused = on("{name: web}", "{name: web, container: app}").unwrap_err();
    for part in ["variants[].workload: Deployment web", "stands twice"] {
        assert!(refused.contains(part), "{refused}");
    }
}
