//! Contenders with settings: their names, and what is refused.

use super::*;

fn with(contenders: &str) -> String {
    format!("{SMALL}contenders: [{contenders}]\n")
}

#[test]
fn names_have_the_settings() {
    let all = "\
{plane: weir, control: static}, {plane: weir, control: static, variant: fast, cores: 8}, \
{plane: fifo-quotas, control: ms-plus}, {plane: weir, control: vpa-plus, variant: good}, \
{plane: weir, control: infadapter-code}, {plane: weir, control: sponge-code, variant: fast}";
    let (scenario, _) = Fixture::new().good(&with(all));
    let labels = scenario.contenders.iter();
    let labels: Vec<String> = labels.map(|one| one.label(&scenario.service)).collect();
    assert_eq!(
        labels,
        [
            "weir+static",
            "weir+static-fast-8",
            "fifo-quotas+ms-plus",
            "weir+vpa-plus-good",
            "weir+infadapter-code",
            "weir+sponge-code-fast",
        ]
    );
}

#[test]
fn only_variant_need_not_be_named() {
    let (head, good) = SMALL.split_once("  - name: good\n").unwrap();
    let (_, load) = good.split_once("load:").unwrap();
    let text = format!("{head}load:{load}");
    let all = "\
contenders: [{plane: weir, control: static, cores: 0.5}, {plane: weir, control: fa2}, \
{plane: weir, control: sponge-paper, variant: fast}]\n";
    let half = text.replace("budget: {cores: 8}", "budget: {cores: 8, step: 0.5}");
    let (scenario, _) = Fixture::new().good(&format!("{half}{all}"));
    let labels = scenario.contenders.iter();
    let labels: Vec<String> = labels.map(|one| one.label(&scenario.service)).collect();
    assert_eq!(labels, ["weir+static-0.5", "weir+fa2", "weir+sponge-paper"]);
}

#[test]
fn wrong_settings_are_refused() {
    let fixture = Fixture::new();
    for (contender, parts) in [
        (
            "control: planner, variant: fast",
            ["contenders[0].variant: fast", "left out"],
        ),
        (
            "control: hpa, cores: 8",
            ["contenders[0].cores: 8", "static"],
        ),
        (
            "control: vpa-plus",
            ["contenders[0].variant: missing", "fast, good"],
        ),
        (
            "control: fa2, variant: best",
            ["contenders[0].variant: best", "fast, good"],
        ),
        (
            "control: fa2, variant: fast, cores: 2",
            ["contenders[0].cores: 2", "static"],
        ),
        (
            "control: static, cores: 8",
            ["contenders[0].variant: missing", "fast, good"],
        ),
        (
            "control: static, variant: fast",
            ["contenders[0].cores: missing", "1 to 8"],
        ),
        (
            "control: static, variant: fast, cores: 9",
            ["contenders[0].cores: 9", "1 to 8"],
        ),
        (
            "control: static, variant: fast, cores: 1.5",
            ["contenders[0].cores: 1.5", "steps of 1"],
        ),
        (
            "control: static, variant: fast, cores: 0",
            ["contenders[0].cores: 0", "1 to 8"],
        ),
        (
            "control: vpa-like",
            ["contenders[0].control: vpa-like is no longer", "it is vpa"],
        ),
    ] {
        let text = with(&format!("{{plane: weir, {contender}}}"));
        let refused = fixture.read(&text).unwrap_err().to_string();
        for part in parts {
            assert!(refused.contains(part), "{contender}: {refused}");
        }
    }
    for (plane, control) in [
        ("fifo-weights", "planner"),
        ("fifo-timeout", "planner"),
        ("fifo-weights", "clairvoyant"),
        ("fifo-timeout", "ms-plus"),
        ("fifo-weights", "infadapter-code"),
    ] {
        let text = with(&format!("{{plane: {plane}, control: {control}}}"));
        let refused = fixture.read(&text).unwrap_err().to_string();
        let field = format!("contenders[0].plane: {plane}; it must be any plane but");
        assert!(refused.contains(&field), "{refused}");
        fixture.good(&text.replace(control, "hpa"));
        fixture.good(&text.replace(plane, "fifo-quotas"));
    }
    let text = with("{plane: weir, control: ms-plus}").replace("cores: 8", "cores: 3000");
    let refused = fixture.read(&text).unwrap_err().to_string();
    assert!(refused.contains("4504501 combinations"), "{refused}");
}
