//! View of the allocation for people; data only.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_api::Revision;

use super::proxy::Proxy;
use super::{Role, SlotAllocation};
use crate::clock::Now;

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ProxyView {
    /// Number that differs after each start of the polling process.
    pub incarnation: u64,
    /// Envoy's worker threads; 0 if not reported.
    pub workers: u32,
    /// Role of the proxy.
    pub role: Role,
    /// The one variant that it fronts; `null` for all.
    pub variant: Option<String>,
    /// Version of its filter; `null` if it states none, like filters before this version.
    pub version: Option<String>,
    /// Revision of the plan it has.
    pub revision: Revision,
    /// Time of the last poll, Unix time in ms.
    pub polled_ms: u64,
    /// Age of the last poll, in ms.
    pub age_ms: u64,
    /// Whether one of its polls is held.
    pub waiting: bool,
    /// Whether it owns slots: a gate, or a combined proxy without a gate.
    pub owns_slots: bool,
    /// Variants whose slots it owns.
    pub owns: Vec<String>,
    /// Slots of its current plan, by variant; empty without a plan. A part of those it owns, all of those
    /// it only routes to.
    pub slots: BTreeMap<String, u32>,
    /// Revision of that plan.
    pub allocation_revision: Option<Revision>,
    /// Whether it has confirmed that plan.
    pub confirmed: bool,
    /// Reason why it gets no slots.
    pub refused: Option<String>,
    /// Earlier incarnation that still polled after this one had started: the old process of a hot restart,
    /// or another proxy with the same node id.
    pub replaced_incarnation: Option<ReplacedView>,
}

/// An earlier incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ReplacedView {
    /// Incarnation number.
    pub incarnation: u64,
    /// Time of its last poll, Unix time in ms.
    pub polled_ms: u64,
}

impl SlotAllocation {
    /// Returns the proxies, by node id.
    pub fn view(&self, now: Now) -> BTreeMap<String, ProxyView> {
        let shown = self.proxies.iter();
        let shown = shown.filter(|(_, proxy)| proxy.is_shown(now.at));
        shown
            .map(|(name, proxy)| (name.clone(), self.view_of(proxy, now)))
            .collect()
    }

    fn view_of(&self, proxy: &Proxy, now: Now) -> ProxyView {
        let grant = proxy.current();
        let variants = self.whole.iter().flat_map(|whole| &whole.variants);
        let named = variants.clone().map(|variant| variant.name.clone());
        let owned = named.clone().enumerate();
        let slots = grant.iter().flat_map(|grant| &grant.slots);
        let age = now.at.saturating_sub(proxy.polled_at);
        ProxyView {
            incarnation: proxy.incarnation,
            workers: proxy.workers,
            role: proxy.role,
            variant: proxy.variant.clone(),
            version: proxy.version.clone(),
            revision: proxy.after,
            polled_ms: proxy.polled_ms,
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            waiting: proxy.pending > 0,
            owns_slots: proxy.owns_any(),
            owns: owned
                .filter(|(place, _)| proxy.owns(*place))
                .map(|(_, name)| name)
                .collect(),
            slots: named.zip(slots.copied()).collect(),
            allocation_revision: grant.map(|grant| grant.revision),
            confirmed: proxy.is_confirmed(),
            refused: proxy.refused.then(|| self.refusal_of(proxy).to_string()),
            replaced_incarnation: proxy.replaced.map(|replaced| ReplacedView {
                incarnation: replaced.incarnation,
                polled_ms: replaced.polled_ms,
            }),
        }
    }
}
