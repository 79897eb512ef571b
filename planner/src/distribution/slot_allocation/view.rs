//! What people see of the table; data only.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_api::Revision;

use super::proxy::Proxy;
use super::{Role, Sharing};
use crate::clock::Now;

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProxyView {
    /// Another one for each start of what polls.
    pub incarnation: u64,
    /// Envoy's worker threads; 0 if it did not say.
    pub workers: u32,
    /// What it does.
    pub role: Role,
    /// The one variant that it fronts; `null` for all.
    pub variant: Option<String>,
    /// The plan it has.
    pub revision: Revision,
    /// When it last polled, Unix time in ms.
    pub polled_ms: u64,
    /// The same as an age.
    pub age_ms: u64,
    /// Whether a poll of its is held.
    pub waiting: bool,
    /// Whether it owns slots: a gate, or both in one where there is no gate.
    pub owns_slots: bool,
    /// The variants whose slots it owns.
    pub owns: Vec<String>,
    /// The slots of the plan it is to have, by variant; empty while it has none. Its own part of what
    /// it owns, the whole of what it only chooses.
    pub part: BTreeMap<String, u32>,
    /// The revision of that plan.
    pub part_revision: Option<Revision>,
    /// Whether it has said that it works by that plan.
    pub settled: bool,
    /// Why there is no slot for it.
    pub refused: Option<String>,
    /// An earlier incarnation that still polled after this one had come: the old process of a hot
    /// restart, or another proxy with the same node id.
    pub former: Option<FormerView>,
}

/// An earlier incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FormerView {
    /// Which.
    pub incarnation: u64,
    /// When it last polled, Unix time in ms.
    pub polled_ms: u64,
}

impl Sharing {
    /// The proxies, by node id.
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
            revision: proxy.after,
            polled_ms: proxy.polled_ms,
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            waiting: proxy.pending > 0,
            owns_slots: proxy.owns_any(),
            owns: owned
                .filter(|(place, _)| proxy.owns(*place))
                .map(|(_, name)| name)
                .collect(),
            part: named.zip(slots.copied()).collect(),
            part_revision: grant.map(|grant| grant.revision),
            settled: proxy.is_settled(),
            refused: proxy.refused.then(|| self.why_none(proxy).to_string()),
            former: proxy.former.map(|former| FormerView {
                incarnation: former.incarnation,
                polled_ms: former.polled_ms,
            }),
        }
    }
}
