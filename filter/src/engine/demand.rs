//! Demand: requests that some variant could have answered in time if nobody else had been there, each counted
//! once, by whoever meets it first. What nobody could ever have served asks for no cores: it costs its sender
//! nothing, and planners would buy for it.

use weir_api::metrics::Metric;

use super::{Engine, Request};
use crate::stats::Label;
use crate::time::Mono;

impl Engine {
    /// A request is here complete_at: from now on it is demand, if it is any, and how long it was under way is known.
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
        }
        if let Some(age) = request.age
            && self.sample_slack(request, request.complete_at)
        {
            let upload = request.complete_at.since(request.arrived.mono);
            self.stats
                .time(Metric::NetworkMs, Label::None, age + upload);
        }
    }

    /// A request's body is coming and has taken half of the time that was left: those who plan know of a network
    /// that has become slow before what it delays is here, all at once and with little time.
    pub(super) fn sample_delayed(&mut self, request: &Request, now: Mono) {
        if request.age.is_some() && self.variants.could_serve(request.requirements(now)) {
            self.sample_slack(request, now);
        }
    }

    /// Records what a request has left, unless its sender has said enough in this second; whether it did.
    fn sample_slack(&mut self, request: &Request, now: Mono) -> bool {
        let admits = (request.sender).is_none_or(|sender| self.sample_limit.admits(sender, now));
        if admits {
            let left = request.due.since(now);
            self.stats.time(Metric::DemandSlackMs, Label::None, left);
        }
        admits
    }

    /// A request has come that nobody could serve; it `counts` where no router has counted it.
    pub(super) fn count_unservable(&mut self, counts_as_demand: bool) {
        if counts_as_demand {
            self.stats.count(Metric::Unservable, Label::None);
        }
    }
}
