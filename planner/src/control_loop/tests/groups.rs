//! Service times by class from one proxy's filter over the planner's plan to another one's.

use weir_api::Plan;
use weir_api::plan::FORMAT;
use weir_filter::config::Config;
use weir_filter::coordination::Memory;
use weir_filter::engine::{End, Engine};
use weir_filter::request::wire::Wire;
use weir_filter::stats::{Change, Label, Sample};
use weir_filter::time::{Mono, Now as FilterNow, Wall};
use weir_filter::verdict::Verdict;

use super::*;
use crate::observe::add_group;

const CONFIG: &str = r#"{"service":"demo","planner":{"cluster":"planner","key":"12345678"},
    "classes":[{"name":"short","share":0.5},{"name":"long","share":0.5}],"default_class":"short"}"#;

/// A proxy with one worker.
struct Proxy {
    engine: Engine,
    now: Duration,
    stream: u32,
}

impl Proxy {
    /// A proxy that has just started, with a plan of variant `a` alone.
    fn new(planned: &VariantPlan) -> Proxy {
        let config = Config::parse(CONFIG.as_bytes()).unwrap();
        let mut proxy = Proxy {
            engine: Engine::new(config, Box::new(Memory::default()), 1),
            now: Duration::from_secs(1),
            stream: 0,
        };
        let planned = VariantPlan {
            share: weir_api::Share(1.0),
            ..planned.clone()
        };
        let plan = Plan {
            format: FORMAT,
            service: "demo".into(),
            revision: Revision(1),
            published_ms: 0,
            max_age_ms: 3_600_000,
            downstream_ms: 0.0,
            variants: vec![planned],
        };
        assert_eq!(plan.check(), Ok(()));
        let now = proxy.clocks();
        proxy.engine.on_plan(&plan, now.mono, now, &mut Vec::new());
        proxy.engine.serve(now.mono);
        proxy
    }

    fn clocks(&self) -> FilterNow {
        let ns = self.now.as_nanos() as u64;
        FilterNow {
            mono: Mono(ns),
            wall: Wall(1_790_000_000_000_000_000 + ns),
        }
    }

    /// Whether a request of that class, with that much time, is sent to the variant.
    fn sends(&mut self, class: &str, budget: Duration) -> bool {
        self.stream += 1;
        let ms = budget.as_millis().to_string();
        let headers = [
            ("x-slo-ms", ms.as_bytes()),
            ("x-slo-class", class.as_bytes()),
        ];
        let incoming = Wire::pick(headers).into();
        let now = self.clocks();
        let verdict = self
            .engine
            .on_request(self.stream, &incoming, now, &mut Vec::new());
        matches!(verdict, Verdict::Forward(_))
    }

    fn execute(&mut self, class: &str, takes: Duration) {
        assert!(self.sends(class, Duration::from_secs(10)));
        self.now += takes;
        let now = self.clocks();
        self.engine
            .on_end(self.stream, End::Answered, now, &mut Vec::new());
        self.engine.renew(false, now.mono);
    }

    /// Sums by group since the start.
    fn groups(&mut self) -> ByGroup {
        let (mut groups, mut samples) = (ByGroup::new(), Vec::new());
        self.engine.stats.swap(&mut samples);
        for Sample {
            metric,
            label,
            change,
        } in samples
        {
            if let (Label::Group(id, group), Change::By(by)) = (label, change) {
                let variant = self.engine.variant_name(id).unwrap();
                let group = group.name(&self.engine.config().classes).unwrap();
                add_group(&mut groups, metric, variant, &group, by as f64);
            }
        }
        groups
    }
}

#[tokio::test]
async fn new_proxy_predicts_by_what_another_has_measured() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    let planned = |bed: &Bed| bed.sim.plans.lock().unwrap().last().unwrap()[0].clone();
    let before = planned(&bed);
    let service = Duration::from_secs_f64(before.service_ms / 1e3);
    let mut first = Proxy::new(&before);
    for _ in 0..40 {
        first.execute("long", service * 3);
        first.execute("short", service / 2);
    }
    *bed.sim.groups.lock().unwrap() = first.groups();
    let report = bed.run_cycle(20.0).await;
    let after = planned(&bed);
    let expected = "; a: times by group, × planned: class-long 3.00, class-short 0.50";
    assert!(report.why.contains(expected), "{}", report.why);
    // Another count of cores, the same ratios.
    for (planned, known) in [(before, false), (after, true)] {
        assert_eq!(planned.groups.is_empty(), !known);
        let service = Duration::from_secs_f64(planned.service_ms / 1e3);
        let sends = |class, budget| Proxy::new(&planned).sends(class, budget);
        assert_eq!(sends("long", service * 2), !known);
        assert!(sends("long", service * 4));
        // Without evidence it is tried.
        assert!(sends("short", service * 3 / 4));
    }
}
