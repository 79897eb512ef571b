//! Sponge's latency model (EuroMLSys '24, Eq. 2), `l(b, c) = γ·b/c + ε/c + δ·b + η` in ms for a
//! batch of `b` requests on `c` cores, and the number of parallel executions.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MS_MAX;
use crate::InputError;
use crate::input::within;

/// Sponge's four coefficients, in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyModel {
    /// γ: per request, divided by the cores.
    pub gamma_ms: f64,
    /// ε: per batch, divided by the cores.
    pub epsilon_ms: f64,
    /// δ: per request, independent of the cores.
    pub delta_ms: f64,
    /// η: per batch, independent of the cores.
    pub eta_ms: f64,
}

impl LatencyModel {
    /// Model with the same time for every batch on any number of cores.
    pub const fn constant(ms: f64) -> LatencyModel {
        LatencyModel {
            gamma_ms: 0.0,
            epsilon_ms: 0.0,
            delta_ms: 0.0,
            eta_ms: ms,
        }
    }

    /// Service time in ms of `batch` requests executed together on `cores` cores (infinite on none,
    /// unless cores do not matter).
    pub fn service_ms(&self, batch: u32, cores: f64) -> f64 {
        let batch = f64::from(batch);
        let shrinking = self.gamma_ms * batch + self.epsilon_ms;
        let fixed = self.delta_ms * batch + self.eta_ms;
        if shrinking == 0.0 {
            fixed
        } else {
            shrinking / cores + fixed
        }
    }

    /// Refuses coefficients that are negative or not finite, by name.
    ///
    /// # Errors
    /// The first such coefficient with its value.
    pub fn check(&self, path: &str) -> Result<(), InputError> {
        let LatencyModel {
            gamma_ms,
            epsilon_ms,
            delta_ms,
            eta_ms,
        } = *self;
        for (name, value) in [
            ("gamma_ms", gamma_ms),
            ("epsilon_ms", epsilon_ms),
            ("delta_ms", delta_ms),
            ("eta_ms", eta_ms),
        ] {
            within(format!("{path}.{name}"), value, 0.0, MS_MAX, "ms")?;
        }
        Ok(())
    }
}

/// Number of batches that the server executes at the same time, and the cores of each. In JSON:
/// `null` for one per core, else the number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Option<NonZeroU32>", into = "Option<NonZeroU32>")]
pub enum Parallelism {
    /// One execution per whole core, each on one core (so `c = 1` in the latency model, and a
    /// remaining fraction of a core idles); below one core, one execution on that fraction.
    /// TensorFlow Serving ran like this in InfAdapter's profiles, with one batch thread per core.
    #[default]
    PerCore,
    /// Fixed number of executions that share the cores equally.
    Fixed(NonZeroU32),
}

impl Parallelism {
    /// Number of batches executed at the same time on `cores` cores; 0 without cores.
    pub fn at_once(self, cores: f64) -> u32 {
        match self {
            _ if cores <= 0.0 => 0,
            Parallelism::PerCore => cores.floor().max(1.0) as u32,
            Parallelism::Fixed(n) => n.get(),
        }
    }

    /// Cores of each execution: `c` of the latency model.
    pub fn cores_each(self, cores: f64) -> f64 {
        match self {
            Parallelism::PerCore => cores.min(1.0),
            Parallelism::Fixed(n) => cores / f64::from(n.get()),
        }
    }

    /// Mean time of a batch in ms if a busy server on `cores` cores executes that many batches per second (Little's
    /// law).
    pub fn batch_ms(self, cores: f64, batches_per_s: f64) -> f64 {
        f64::from(self.at_once(cores)) * 1000.0 / batches_per_s
    }
}

impl From<Option<NonZeroU32>> for Parallelism {
    fn from(n: Option<NonZeroU32>) -> Parallelism {
        n.map_or(Parallelism::PerCore, Parallelism::Fixed)
    }
}

impl From<Parallelism> for Option<NonZeroU32> {
    fn from(parallelism: Parallelism) -> Option<NonZeroU32> {
        match parallelism {
            Parallelism::PerCore => None,
            Parallelism::Fixed(n) => Some(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_ms_follows_sponges_second_equation() {
        let model = LatencyModel {
            gamma_ms: 40.0,
            epsilon_ms: 8.0,
            delta_ms: 2.0,
            eta_ms: 5.0,
        };
        for (batch, cores, ms) in [
            (1, 1.0, 55.0),
            (1, 4.0, 19.0),
            (4, 1.0, 181.0),
            (4, 8.0, 34.0),
        ] {
            assert_eq!(model.service_ms(batch, cores), ms, "l({batch}, {cores})");
        }
        assert_eq!(LatencyModel::constant(7.0).service_ms(3, 0.0), 7.0);
        assert!(model.service_ms(1, 0.0).is_infinite());
    }

    #[test]
    fn invalid_coefficient_is_refused_by_name() {
        let model = |gamma_ms, eta_ms| LatencyModel {
            gamma_ms,
            eta_ms,
            ..LatencyModel::default()
        };
        for (model, field) in [
            (model(-1.0, 0.0), "latency.gamma_ms: -1 must be"),
            (model(1.0, f64::NAN), "latency.eta_ms: NaN must be"),
        ] {
            let error = model.check("latency").unwrap_err().to_string();
            assert!(error.contains(field), "{error}: {field}");
        }
    }

    #[test]
    fn parallelism_follows_cores_or_is_fixed() {
        let four = Parallelism::Fixed(NonZeroU32::new(4).unwrap());
        for (parallelism, cores, at_once, each) in [
            (Parallelism::PerCore, 6.0, 6, 1.0),
            (Parallelism::PerCore, 2.9, 2, 1.0),
            (Parallelism::PerCore, 0.5, 1, 0.5),
            (Parallelism::PerCore, 0.0, 0, 0.0),
            (four, 6.0, 4, 1.5),
            (four, 0.0, 0, 0.0),
        ] {
            assert_eq!(
                parallelism.at_once(cores),
                at_once,
                "{parallelism:?} {cores}"
            );
            assert_eq!(
                parallelism.cores_each(cores),
                each,
                "{parallelism:?} {cores}"
            );
        }
        assert_eq!(four.batch_ms(6.0, 80.0), 50.0);
        assert_eq!(Parallelism::PerCore.batch_ms(6.0, 80.0), 75.0);
        assert_eq!(
            serde_json::to_string(&Parallelism::PerCore).unwrap(),
            "null"
        );
        assert_eq!(serde_json::from_str::<Parallelism>("4").unwrap(), four);
        assert!(serde_json::from_str::<Parallelism>("0").is_err());
    }
}
