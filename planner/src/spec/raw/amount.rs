//! Resource amounts as Kubernetes writes them: `64Gi`, or 4.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Whole bytes or whole devices, as a number or as a Kubernetes quantity (64Gi).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawAmount {
    /// A plain number, such as 4.
    Number(u64),
    /// A quantity, such as 64Gi.
    Text(String),
}

impl fmt::Display for RawAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawAmount::Number(number) => write!(f, "{number}"),
            RawAmount::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for RawAmount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            RawAmount::Number(number) => to.serialize_u64(*number),
            RawAmount::Text(text) => to.serialize_str(text),
        }
    }
}

/// The only union of number and string that a structural schema allows.
impl JsonSchema for RawAmount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "pattern": r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$",
        })
    }
}

impl<'de> Deserialize<'de> for RawAmount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = RawAmount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount such as 64Gi or 4")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(RawAmount::Number(number))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(RawAmount::Text(text.to_owned()))
            }
        }
        from.deserialize_any(Either)
    }
}
