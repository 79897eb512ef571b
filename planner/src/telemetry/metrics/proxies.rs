//! Metrics of the proxies that share slots, collected at the time of a scrape.

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus::{GaugeVec, IntCounter, IntGauge, IntGaugeVec, Opts};

use super::make::Make;
use super::{Shown, whole};

/// Labels of each proxy's metrics.
const LABELS: [&str; 2] = ["proxy", "role"];

/// Labels of what a proxy is.
const INFO_LABELS: [&str; 6] = [
    "proxy",
    "role",
    "variant",
    "incarnation",
    "workers",
    "version",
];

#[derive(Debug)]
pub(super) struct ProxyMetrics {
    showing: Mutex<()>,
    proxies: IntGauge,
    owning: IntGauge,
    refused: IntGauge,
    moves: IntCounter,
    left: IntCounter,
    replaced: IntCounter,
    slots: IntGaugeVec,
    revision: IntGaugeVec,
    age: GaugeVec,
    incarnation: IntGaugeVec,
}

impl ProxyMetrics {
    pub(super) fn new(make: &Make) -> prometheus::Result<ProxyMetrics> {
        let each = |name, help, labels: &[&str]| {
            make.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
        };
        Ok(ProxyMetrics {
            showing: Mutex::new(()),
            proxies: make.int_gauge("proxies", "Proxies that poll.")?,
            owning: make.int_gauge("proxies_owning", "Proxies that own a part of the slots.")?,
            refused: make.int_gauge("proxies_refused", "Proxies for which there is no slot.")?,
            moves: make.counter(
                "slot_allocation_moves_total",
                "Plans given to a proxy because slot allocations moved.",
            )?,
            left: make.counter("proxies_left_total", "Proxies that left.")?,
            replaced: make.counter(
                "proxies_replaced_total",
                "Incarnations that took another one's place under the same node id.",
            )?,
            slots: each("proxy_slots", "A proxy's part of the slots.", &LABELS)?,
            revision: each(
                "proxy_plan_revision",
                "The plan a proxy says it has.",
                &LABELS,
            )?,
            age: make.register(GaugeVec::new(
                Opts::new("proxy_age_seconds", "Time since a proxy's last poll."),
                &LABELS,
            )?)?,
            incarnation: each(
                "proxy_info",
                "1 for each proxy; the variant is that of a gate of one only, the version its filter's.",
                &INFO_LABELS,
            )?,
        })
    }

    /// Sets the metrics; hold the guard until they are gathered.
    pub(super) fn show(&self, shown: &Shown<'_>) -> MutexGuard<'_, ()> {
        let showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        for vec in [&self.slots, &self.revision, &self.incarnation] {
            vec.reset();
        }
        self.age.reset();
        for (counter, count) in [
            (&self.moves, shown.counts.moves),
            (&self.left, shown.counts.left),
            (&self.replaced, shown.counts.replaced),
        ] {
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        let (mut owning, mut refused) = (0, 0);
        for (name, proxy) in shown.proxies {
            owning += i64::from(proxy.owns_slots && proxy.refused.is_none());
            refused += i64::from(proxy.refused.is_some());
            let labels = [name.as_str(), proxy.role.name()];
            let owned = proxy.owns.iter().filter_map(|name| proxy.slots.get(name));
            let slots: u64 = owned.map(|slots| u64::from(*slots)).sum();
            self.slots.with_label_values(&labels).set(whole(slots));
            self.revision
                .with_label_values(&labels)
                .set(whole(proxy.revision.0));
            self.age
                .with_label_values(&labels)
                .set(proxy.age_ms as f64 / 1000.0);
            let variant = proxy.variant.as_deref().unwrap_or_default();
            let version = proxy.version.as_deref().unwrap_or_default();
            let (incarnation, workers) = (proxy.incarnation.to_string(), proxy.workers.to_string());
            self.incarnation
                .with_label_values(&[
                    name,
                    proxy.role.name(),
                    variant,
                    &incarnation,
                    &workers,
                    version,
                ])
                .set(1);
        }
        self.proxies.set(whole(shown.proxies.len() as u64));
        self.owning.set(owning);
        self.refused.set(refused);
        showing
    }
}
