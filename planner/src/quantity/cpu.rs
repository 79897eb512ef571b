//! Numbers of cores as written: `2`, `0.5`, or Kubernetes' `500m`.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use weir_api::Cores;

/// Correct forms, for messages.
const RIGHT: &str =
    "a number of cores with at most three decimals, 0 or more, such as 2, 0.5 or 500m";
/// Deviation of a decimal number from thousandths that its binary form may have.
const ROUNDING: f64 = 1e-6;

/// Number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawCpu(pub Cores);

impl RawCpu {
    /// Whole cores.
    pub const fn whole(cores: u32) -> RawCpu {
        RawCpu(Cores::whole(cores))
    }

    fn new(cores: f64) -> Option<RawCpu> {
        let millis = cores * 1000.0;
        let exact = (millis - millis.round()).abs() <= ROUNDING * millis.max(1.0);
        let cores = Cores::try_from(cores).ok().filter(|_| exact);
        cores.map(RawCpu)
    }

    pub(crate) fn parse(text: &str) -> Option<RawCpu> {
        let digits = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        match text.strip_suffix('m') {
            Some(millis) => millis.parse().ok().map(|it| RawCpu(Cores::from_millis(it))),
            None => RawCpu::new(text.parse().ok().filter(|_| digits(text))?),
        }
    }
}

/// Default step of the cores.
pub(crate) const fn step() -> RawCpu {
    RawCpu::whole(1)
}

/// Whether it is the default.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) fn is_step(value: &RawCpu) -> bool {
    *value == step()
}

/// Formats as `2` or `0.5`.
impl fmt::Display for RawCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for RawCpu {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.millis() % 1000 {
            0 => to.serialize_u32(self.0.millis() / 1000),
            _ => to.serialize_f64(self.0.as_f64()),
        }
    }
}

/// A structural schema allows numbers, or integers with strings, but not both; resources have numbers.
impl JsonSchema for RawCpu {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cpu".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl<'de> Deserialize<'de> for RawCpu {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = RawCpu;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(RIGHT)
            }
            fn visit_u64<E: Error>(self, cores: u64) -> Result<Self::Value, E> {
                self.visit_f64(cores as f64)
            }
            fn visit_i64<E: Error>(self, cores: i64) -> Result<Self::Value, E> {
                self.visit_f64(cores as f64)
            }
            fn visit_f64<E: Error>(self, cores: f64) -> Result<Self::Value, E> {
                let refused = || E::custom(format_args!("{cores}; it must be {RIGHT}"));
                RawCpu::new(cores).ok_or_else(refused)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                let refused = || E::custom(format_args!("{text}; it must be {RIGHT}"));
                RawCpu::parse(text).ok_or_else(refused)
            }
        }
        from.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_thousandths_are_read_and_written_as_numbers() {
        for (written, millis, json) in [
            ("2", 2000, "2"),
            ("0.5", 500, "0.5"),
            ("0.15", 150, "0.15"),
            ("1.1", 1100, "1.1"),
            ("\"500m\"", 500, "0.5"),
            ("\"1500m\"", 1500, "1.5"),
            ("\"2000m\"", 2000, "2"),
            ("\"0.25\"", 250, "0.25"),
            ("0", 0, "0"),
        ] {
            let cpu: RawCpu = serde_json::from_str(written).unwrap();
            assert_eq!(cpu.0.millis(), millis, "{written}");
            assert_eq!(serde_json::to_string(&cpu).unwrap(), json);
        }
        for wrong in [
            "-1", "-0.5", "0.0001", "0.12345", "1e10", "\"m\"", "\"0.5m\"", "\"1e3\"", "\"-1\"",
            "\"inf\"", "\"\"", "\"2k\"", "true",
        ] {
            let error = serde_json::from_str::<RawCpu>(wrong).unwrap_err();
            assert!(
                error.to_string().contains("such as 2, 0.5 or 500m"),
                "{wrong}: {error}"
            );
        }
    }
}
