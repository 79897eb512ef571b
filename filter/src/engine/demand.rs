//! Demand: requests that some variant could have answered in time without other load, each counted once, by
//! the first filter that sees it. Requests that no variant could ever serve do not count: they cost their
//! sender nothing, and planners would add cores for them.

use weir_api::metrics::Metric;

use super::{Engine, Request};
use crate::stats::Label;
use crate::time::Mono;

impl Engine {
    /// Counts a complete request as demand if a variant could serve it, and records its network latency.
    pub(super) fn count_arrival(&mut self, request: &Request) {
        let left = request.deadline.at.since(request.complete_at);
        self.stats.time(Metric::ArrivalSlackMs, Label::None, left);
        if !self
            .variants
            .could_serve(request.requirements(request.complete_at))
        {
            return self.count_unservable(request.counts_as_demand);
        }
        if request.counts_as_demand {
            self.stats.count(Metric::Arrivals, Label::None);
            self.count_class(Metric::ClassArrivals, request.class);
            if let Some(variant) = self.variants.least_accurate(request.min_accuracy) {
                let label = Label::Variant(variant);
                self.stats.count(Metric::AccuracyArrivals, label);
            }
        }
        if let Some(age) = request.age
            && self.sample_slack(request, request.complete_at)
        {
            let upload = request.complete_at.since(request.arrived.mono);
            self.stats
                .time(Metric::NetworkLatencyMs, Label::None, age + upload);
        }
    }

    /// Samples the slack of a request whose body has taken half of the time left. So planners learn of a slow
    /// network before the delayed requests arrive all at once, with little time left.
    pub(super) fn sample_delayed(&mut self, request: &Request, now: Mono) {
        if request.age.is_some() && self.variants.could_serve(request.requirements(now)) {
            self.sample_slack(request, now);
        }
    }

    /// Samples the time left of a request, unless its sender has used up its quota of this second; returns
    /// whether it did.
    fn sample_slack(&mut self, request: &Request, now: Mono) -> bool {
        let admits = (request.sender).is_none_or(|sender| self.sample_limit.admits(sender, now));
        if admits {
            let left = request.due.since(now);
            self.stats.time(Metric::DemandSlackMs, Label::None, left);
        }
        admits
    }

    /// Counts a request that no variant could serve, if no router has counted it.
    pub(super) fn count_unservable(&mut self, counts_as_demand: bool) {
        if counts_as_demand {
            self.stats.count(Metric::Unservable, Label::None);
        }
    }
}
