//! Edges of histograms, which are read exactly as they were written, and counts.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Maximum of a count: the largest up to which all whole numbers are exact.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

/// Edge of a bucket, as text. Histograms are added only if their edges are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge(pub(super) f64);

/// Count, 0 to [`COUNT_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Count(pub(super) f64);

impl Count {
    pub(super) fn is_zero(&self) -> bool {
        self.0 == 0.0
    }
}

impl Serialize for Edge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Edge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Edge, D::Error> {
        let text = String::deserialize(deserializer)?;
        let edge = text.parse().map_err(|_| {
            let expected = "an edge of a histogram, such as 0.5 or inf";
            de::Error::invalid_value(de::Unexpected::Str(&text), &expected)
        });
        edge.map(Edge)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What is no number counts as nothing.
        let count = if self.0 > 0.0 {
            self.0.min(COUNT_MAX)
        } else {
            0.0
        };
        match count.fract() == 0.0 {
            true => serializer.serialize_u64(count as u64),
            false => serializer.serialize_f64(count),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        let count = f64::deserialize(deserializer)?;
        if (0.0..=COUNT_MAX).contains(&count) {
            return Ok(Count(count));
        }
        let unexpected = de::Unexpected::Float(count);
        Err(de::Error::invalid_value(
            unexpected,
            &"a count from 0 to 2^53",
        ))
    }
}
