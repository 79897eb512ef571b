//! Limits and defaults of a service.

use std::time::Duration;

use weir_api::Cores;

use crate::forecast::SAMPLE_INTERVAL_MIN;

/// Maximum size of a service file, in bytes.
pub const FILE_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of proxies scraped. A service file lists no more; of more pods, the first by name are
/// scraped.
pub const STATS_MAX: usize = 256;
/// Maximum cores of one replica, in steps.
pub const CORES_MAX: u32 = 1024;
/// Maximum replicas of one variant.
pub const REPLICAS_MAX: u32 = 1000;
/// Maximum cores of one service, in steps.
pub const BUDGET_MAX: u32 = 65_536;
/// Default part of the demand that must be answered on time.
pub const ON_TIME_TARGET: f64 = 0.99;
/// Minimum of that part.
pub const ON_TIME_TARGET_MIN: f64 = 0.000_001;
/// Maximum of that part: with all of the demand there would be no error budget.
pub const ON_TIME_TARGET_MAX: f64 = 0.999_999;
/// Minimum weight of a service in a shared budget.
pub const SHARE_WEIGHT_MIN: f64 = 0.001;
/// Maximum weight of a service in a shared budget: more than a thousandfold is a typing error.
pub const SHARE_WEIGHT_MAX: f64 = 1000.0;
/// Smallest step of cores: the kernel's least CPU quota, which Kubernetes rounds up to.
pub const STEP_MIN: Cores = Cores::from_millis(10);
/// Maximum number of (cores, replicas) options, over all variants, that a solve chooses from.
pub const OPTIONS_MAX: u32 = 8192;
/// Maximum stages of a pipeline: each has its own plans and proxies.
pub const STAGES_MAX: usize = 16;
/// Shortest cycle.
pub const CYCLE_MIN: Duration = Duration::from_millis(100);
/// Longest cycle.
pub const CYCLE_MAX: Duration = Duration::from_secs(60);

/// Minimum interval between two scrapes.
pub const SCRAPE_INTERVAL_MIN: Duration = SAMPLE_INTERVAL_MIN;
/// Minimum interval at which a DNS name of proxies is resolved.
pub const DNS_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Maximum of that interval.
pub const DNS_INTERVAL_MAX: Duration = Duration::from_secs(600);
/// Default of that interval: a cluster's DNS server answers with what it learned a few seconds ago.
pub const DNS_INTERVAL: Duration = Duration::from_secs(5);
/// Scrapes per cycle, if the service does not set the interval.
pub const SCRAPES_PER_CYCLE: u64 = 4;

/// Default cycle: shares, slots and cores change every second.
pub const CYCLE: Duration = Duration::from_secs(1);
/// Default scrape timeout. A scrape on a local network takes a few ms; a proxy that needs three tenths of a
/// cycle is overloaded or unreachable.
pub const SCRAPE_TIMEOUT: Duration = Duration::from_millis(300);
/// Default resize timeout. A resize not confirmed by then is tried again in the next cycle.
pub const RESIZE_TIMEOUT: Duration = Duration::from_millis(200);
/// Default scale-down stabilization: a model takes seconds to load.
pub const SCALE_DOWN_AFTER: Duration = Duration::from_secs(30);
/// Default solver time limit. Typical instances take 10 ms; the rest of the cycle is left for resizing.
pub const SOLVER_LIMIT: Duration = Duration::from_millis(250);
/// Default maximum age of a plan: proxies run for a minute without a planner before they use their
/// fallback.
pub const PLAN_MAX_AGE: Duration = Duration::from_secs(60);

/// Least time for a batch to fill and execute, in ms: a network latency of the whole SLO leaves nothing to solve for.
pub const TIME_LEFT_MIN_MS: f64 = 1.0;

const _: () = assert!(SCRAPE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(RESIZE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(SOLVER_LIMIT.as_millis() < CYCLE.as_millis());
const _: () = assert!(PLAN_MAX_AGE.as_millis() > 2 * CYCLE.as_millis());
