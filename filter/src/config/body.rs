//! Configuration of the limits of held bodies.

use serde::Deserialize;

use super::ConfigError;
use super::error::wrong;
use crate::request::body::Limits;

/// Maximum of any configured number of bytes: 1 GiB.
const BYTES_MAX: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawBody {
    request_max_bytes: u64,
    source_max_bytes: u64,
    total_max_bytes: u64,
}

impl Default for RawBody {
    fn default() -> RawBody {
        RawBody {
            // Enough for a few photographs; the shipped routes let Envoy buffer twice as much.
            request_max_bytes: 1 << 23,
            // Half of the total: one source cannot fill the rest, and a load balancer in front of the proxy,
            // which is one source, has room.
            source_max_bytes: 1 << 25,
            // 300 requests of 200 KB.
            total_max_bytes: 1 << 26,
        }
    }
}

impl RawBody {
    pub(super) fn check(self) -> Result<Limits, ConfigError> {
        let limits = [
            ("body.request_max_bytes", self.request_max_bytes, None),
            (
                "body.source_max_bytes",
                self.source_max_bytes,
                Some(("body.request_max_bytes", self.request_max_bytes)),
            ),
            (
                "body.total_max_bytes",
                self.total_max_bytes,
                Some(("body.source_max_bytes", self.source_max_bytes)),
            ),
        ];
        for (path, bytes, min) in limits {
            if let Some((other, min)) = min.filter(|(_, min)| bytes < *min) {
                return Err(wrong(path, bytes, format!("at least {other} ({min})")));
            }
            if bytes > BYTES_MAX {
                return Err(wrong(path, bytes, format!("0 to {BYTES_MAX}")));
            }
        }
        Ok(Limits {
            request_max: self.request_max_bytes,
            source_max: self.source_max_bytes,
            total_max: self.total_max_bytes,
        })
    }
}
