//! Models as written in a document: the keys of all kinds in one mapping. So an error of a value has the value's
//! own path, which serde loses where a key selects the type of the others.

use serde::de::{Deserialize, Deserializer, Error};

use super::{
    Amdahl, Cell, Latency, LatencyModel, Line, Linear, Point, Quadratic, Table, Throughput,
};

/// Latency model of a document that may leave `model` out: then it is Sponge's.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyOrSponge(pub Latency);

/// Keys of every latency model.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyKeys {
    model: Option<LatencyKind>,
    gamma_ms: Option<f64>,
    epsilon_ms: Option<f64>,
    delta_ms: Option<f64>,
    eta_ms: Option<f64>,
    serial_ms: Option<f64>,
    parallel_ms: Option<f64>,
    item_ms: Option<f64>,
    fixed_ms: Option<f64>,
    square_ms: Option<f64>,
    points: Option<Vec<Cell>>,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LatencyKind {
    Sponge,
    Amdahl,
    Linear,
    Quadratic,
    Table,
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Latency, D::Error> {
        let mut keys = LatencyKeys::deserialize(from)?;
        let model = take(&mut keys.model, "model")?;
        keys.latency(model)
    }
}

impl<'de> Deserialize<'de> for LatencyOrSponge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LatencyOrSponge, D::Error> {
        let keys = LatencyKeys::deserialize(from)?;
        let model = keys.model.unwrap_or(LatencyKind::Sponge);
        keys.latency(model).map(LatencyOrSponge)
    }
}

impl LatencyKeys {
    /// Takes the keys of `model`; refuses another model's.
    fn latency<E: Error>(mut self, model: LatencyKind) -> Result<Latency, E> {
        let keys = &mut self;
        let latency = match model {
            LatencyKind::Sponge => Latency::Sponge(LatencyModel {
                gamma_ms: take(&mut keys.gamma_ms, "gamma_ms")?,
                epsilon_ms: take(&mut keys.epsilon_ms, "epsilon_ms")?,
                delta_ms: take(&mut keys.delta_ms, "delta_ms")?,
                eta_ms: take(&mut keys.eta_ms, "eta_ms")?,
            }),
            LatencyKind::Amdahl => Latency::Amdahl(Amdahl {
                serial_ms: take(&mut keys.serial_ms, "serial_ms")?,
                parallel_ms: take(&mut keys.parallel_ms, "parallel_ms")?,
            }),
            LatencyKind::Linear => Latency::Linear(Linear {
                item_ms: take(&mut keys.item_ms, "item_ms")?,
                fixed_ms: take(&mut keys.fixed_ms, "fixed_ms")?,
            }),
            LatencyKind::Quadratic => Latency::Quadratic(Quadratic {
                square_ms: take(&mut keys.square_ms, "square_ms")?,
                item_ms: take(&mut keys.item_ms, "item_ms")?,
                fixed_ms: take(&mut keys.fixed_ms, "fixed_ms")?,
            }),
            LatencyKind::Table => {
                let points = take(&mut keys.points, "points")?;
                Latency::Table(Table::new(points).map_err(E::custom)?)
            }
        };
        refuse_rest(&[
            ("gamma_ms", keys.gamma_ms.is_some()),
            ("epsilon_ms", keys.epsilon_ms.is_some()),
            ("delta_ms", keys.delta_ms.is_some()),
            ("eta_ms", keys.eta_ms.is_some()),
            ("serial_ms", keys.serial_ms.is_some()),
            ("parallel_ms", keys.parallel_ms.is_some()),
            ("item_ms", keys.item_ms.is_some()),
            ("fixed_ms", keys.fixed_ms.is_some()),
            ("square_ms", keys.square_ms.is_some()),
            ("points", keys.points.is_some()),
        ])?;
        Ok(latency)
    }
}

/// Keys of every throughput model.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ThroughputKeys {
    model: ThroughputKind,
    slope_rps: Option<f64>,
    intercept_rps: Option<f64>,
    points: Option<Vec<Point>>,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ThroughputKind {
    Line,
    Table,
}

impl<'de> Deserialize<'de> for Throughput {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Throughput, D::Error> {
        let mut keys = ThroughputKeys::deserialize(from)?;
        let throughput = match keys.model {
            ThroughputKind::Line => Throughput::Line(Line {
                slope_rps: take(&mut keys.slope_rps, "slope_rps")?,
                intercept_rps: take(&mut keys.intercept_rps, "intercept_rps")?,
            }),
            ThroughputKind::Table => Throughput::Table {
                points: take(&mut keys.points, "points")?,
            },
        };
        refuse_rest(&[
            ("slope_rps", keys.slope_rps.is_some()),
            ("intercept_rps", keys.intercept_rps.is_some()),
            ("points", keys.points.is_some()),
        ])?;
        Ok(throughput)
    }
}

/// Takes the value of a key that the model needs.
fn take<T, E: Error>(value: &mut Option<T>, key: &'static str) -> Result<T, E> {
    value.take().ok_or_else(|| E::missing_field(key))
}

/// Refuses a key that is left: another model's.
fn refuse_rest<E: Error>(keys: &[(&str, bool)]) -> Result<(), E> {
    match keys.iter().find(|(_, is_left)| *is_left) {
        Some((key, _)) => Err(E::custom(format!(
            "unknown field `{key}`: it is another model's"
        ))),
        None => Ok(()),
    }
}
