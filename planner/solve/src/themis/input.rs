//! The problem as a document, and its validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problem, Stage};
use crate::InputError;
use crate::input::{distinct, positive, rule, within};
use crate::latency_model::{Latency, MS_MAX};

/// Maximum number of stages.
pub const STAGES_MAX: usize = 32;
/// Maximum batch.
pub const BATCH_MAX: u32 = 256;
/// Maximum number of cores of an instance.
pub const CORES_MAX: u32 = 256;
/// Maximum number of instances of a stage.
pub const INSTANCES_MAX: u32 = 10_000;
/// Maximum budget, in cores.
pub const BUDGET_MAX: u32 = 10_000_000;
/// Maximum load, in requests/s.
pub const LOAD_MAX_RPS: f64 = 1e9;

/// A pipeline and its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// λ: requests/s that enter the pipeline; each passes every stage. Above 0.
    pub load_rps: f64,
    /// Whether the load is known to last, so that it is time to scale horizontally.
    #[serde(default)]
    pub lasting: bool,
    /// SLO: maximum latency of the pipeline, in ms. Above 0.
    pub slo_ms: f64,
    /// Budget of cores for all instances together, from 1.
    pub budget_cores: u32,
    /// Cores of each instance after scaling horizontally, from 1.
    #[serde(default = "one")]
    pub horizontal_cores: u32,
    /// Stages, in the order in which a request passes them: 1 to 32.
    pub stages: Vec<StageInput>,
}

/// A stage: one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageInput {
    /// Unique name.
    pub name: String,
    /// Latency model of a batch on the cores of one instance.
    pub latency: Latency,
    /// Running instances.
    pub running: Running,
    /// Maximum number of cores of an instance, 1 to 256.
    pub cores_max: u32,
    /// Maximum batch, 1 to 256.
    pub batch_max: u32,
    /// q: wait of a request for its batch, for every batch size; by default (b − 1)/λ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<f64>,
    /// Maximum number of instances, 1 to 10 000.
    pub instances_max: u32,
}

/// Running instances of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// n₀: number of instances; 0 if nothing runs yet.
    pub instances: u32,
    /// Cores of each, from 1.
    #[serde(default = "one")]
    pub cores: u32,
}

fn one() -> u32 {
    1
}

impl TryFrom<Input> for Problem {
    type Error = InputError;

    fn try_from(input: Input) -> Result<Problem, InputError> {
        let count = input.stages.len();
        let right = format!("1 to {STAGES_MAX}");
        rule((1..=STAGES_MAX).contains(&count), "stages", count, right)?;
        let names = input.stages.iter().map(|stage| stage.name.as_str());
        distinct(names, |index| format!("stages[{index}].name"))?;
        let load_rps = positive("load_rps", input.load_rps, LOAD_MAX_RPS, "requests/s")?;
        let slo_ms = positive("slo_ms", input.slo_ms, MS_MAX, "ms")?;
        let budget_cores = within("budget_cores", input.budget_cores, 1, BUDGET_MAX, "")?;
        let cores = input.horizontal_cores;
        let horizontal_cores = within("horizontal_cores", cores, 1, CORES_MAX, "")?;
        let stages = input.stages.into_iter().enumerate();
        let stages = stages.map(|(index, stage)| {
            let path = format!("stages[{index}]");
            let stage = checked(stage, &path)?;
            let right = format!("at least the {horizontal_cores} of horizontal_cores");
            let field = format!("{path}.cores_max");
            rule(
                stage.cores_max >= horizontal_cores,
                field,
                stage.cores_max,
                right,
            )?;
            Ok(stage)
        });
        Ok(Problem {
            load_rps,
            lasting: input.lasting,
            slo_ms,
            budget_cores,
            horizontal_cores,
            stages: stages.collect::<Result<_, InputError>>()?,
        })
    }
}

fn checked(input: StageInput, path: &str) -> Result<Stage, InputError> {
    let field = |name: &str| format!("{path}.{name}");
    input.latency.check(&field("latency"))?;
    let cores_max = within(field("cores_max"), input.cores_max, 1, CORES_MAX, "")?;
    let batch_max = within(field("batch_max"), input.batch_max, 1, BATCH_MAX, "")?;
    let instances_max = within(
        field("instances_max"),
        input.instances_max,
        1,
        INSTANCES_MAX,
        "",
    )?;
    let wait_ms = match input.wait_ms {
        Some(ms) => Some(within(field("wait_ms"), ms, 0.0, MS_MAX, "ms")?),
        None => None,
    };
    let Running { instances, cores } = input.running;
    within(field("running.instances"), instances, 0, instances_max, "")?;
    within(field("running.cores"), cores, 1, cores_max, "")?;
    // A badly fitted parabola may fall below 0 in between.
    for batch in 1..=batch_max {
        let ms = input.latency.ms(batch, f64::from(cores_max));
        let right = format!("above 0 for each batch up to {batch_max}: it is not for {batch}");
        rule(ms > 0.0, field("latency"), format!("{ms} ms"), right)?;
    }
    Ok(Stage {
        name: input.name,
        latency: input.latency,
        running: input.running,
        cores_max,
        batch_max,
        wait_ms,
        instances_max,
    })
}
