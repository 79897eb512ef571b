//! Times the calls of a cycle around its ports. Without a recorder a call is passed on, and nothing else happens.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_api::{Cores, PlanError, Revision};

use crate::backends::{Actuate, ActuateError, NotReplaced};
use crate::capacity::{Actual, Resize};
use crate::clock::{Clock, Now};
use crate::control_loop::Solver;
use crate::distribution::{Publish, Receipt};
use crate::observe::{Observe, Scrape};
use crate::plan::Draft;
use crate::service::{Decision, Inputs, Service};
use crate::telemetry::cycle_trace::{Call, Calls, PUBLISH_PLAN, TraceValue, cut};

type Attributes = Vec<(&'static str, TraceValue)>;

/// Recorder of the calls of a service's cycles, one cycle at a time.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    clock: Clock,
    /// Names of the variants, in their order.
    variants: Vec<String>,
    recording: Mutex<Recording>,
}

/// Calls since the start of a cycle.
#[derive(Debug, Default)]
struct Recording {
    began: Duration,
    calls: Calls,
}

impl CallRecorder {
    /// Creates a recorder without calls.
    pub(crate) fn new(service: &Service, clock: Clock) -> CallRecorder {
        let names = service.variants.iter();
        CallRecorder {
            clock,
            variants: names.map(|variant| variant.name.clone()).collect(),
            recording: Mutex::default(),
        }
    }

    /// Forgets all calls, and counts times from `began` on.
    pub(crate) fn begin(&self, began: Duration) {
        *self.recording() = Recording {
            began,
            calls: Calls::default(),
        };
    }

    /// Takes the calls since the start.
    pub(crate) fn take(&self) -> Calls {
        std::mem::take(&mut self.recording().calls)
    }

    fn now(&self) -> Duration {
        self.clock.now().at
    }

    /// Adds a call that began at `begin` and has just ended.
    fn add(
        &self,
        name: &'static str,
        begin: Duration,
        failure: Option<&dyn Display>,
        attributes: Attributes,
    ) {
        let end = self.now();
        let mut recording = self.recording();
        let began = recording.began;
        recording.calls.add(|| Call {
            name,
            begin: begin.saturating_sub(began),
            end: end.saturating_sub(began),
            failure: failure.map(|failure| cut(&failure.to_string())),
            attributes,
        });
    }

    fn variant(&self, index: usize) -> (&'static str, TraceValue) {
        let name = self.variants.get(index).map_or("", String::as_str);
        ("weir.variant", TraceValue::text(name))
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        let recording = self.recording.lock();
        recording.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Port whose calls are recorded.
#[derive(Debug)]
pub(crate) struct Recorded<'a, P> {
    port: &'a P,
    recorder: Option<&'a CallRecorder>,
}

impl<'a, P> Recorded<'a, P> {
    /// Records the calls of `port`, if there is a recorder.
    pub(crate) fn new(port: &'a P, recorder: Option<&'a CallRecorder>) -> Recorded<'a, P> {
        Recorded { port, recorder }
    }

    /// Awaits a call, and describes it with its result and the time at which it began.
    async fn call<T>(
        &self,
        call: impl Future<Output = T>,
        describe: impl FnOnce(&CallRecorder, Duration, &T),
    ) -> T {
        let Some(recorder) = self.recorder else {
            return call.await;
        };
        let begin = recorder.now();
        let result = call.await;
        describe(recorder, begin, &result);
        result
    }
}

impl<P: Observe + Sync> Observe for Recorded<'_, P> {
    async fn scrape(&self) -> Vec<Scrape> {
        let describe = |recorder: &CallRecorder, begin, scrapes: &Vec<Scrape>| {
            let errors = || scrapes.iter().filter_map(|one| one.counts.as_ref().err());
            let attributes = vec![
                ("weir.proxies", TraceValue::count(scrapes.len())),
                ("weir.proxies_failed", TraceValue::count(errors().count())),
            ];
            let failure = errors().next().map(|error| error as &dyn Display);
            recorder.add("scrape", begin, failure, attributes);
        };
        self.call(self.port.scrape(), describe).await
    }

    fn trouble(&self) -> Option<String> {
        self.port.trouble()
    }
}

impl<P: Actuate + Sync> Actuate for Recorded<'_, P> {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        let describe = |recorder: &CallRecorder, begin, answers: &Vec<Option<Result<_, _>>>| {
            let mut errors = answers
                .iter()
                .flatten()
                .filter_map(|one| one.as_ref().err());
            let failure = errors
                .next()
                .map(|error: &ActuateError| error as &dyn Display);
            recorder.add("read_actual", begin, failure, Vec::new());
        };
        self.call(self.port.actual(), describe).await
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        let describe = |recorder: &CallRecorder, begin, answers: &Vec<Result<_, _>>| {
            for (change, answer) in changes.iter().zip(answers) {
                let attributes = vec![
                    recorder.variant(change.variant),
                    ("weir.cores", TraceValue::Number(change.cores().as_f64())),
                    ("weir.replicas", TraceValue::count(change.target.replicas)),
                ];
                add_change(recorder, "resize", begin, answer, attributes);
            }
        };
        self.call(self.port.resize(changes), describe).await
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        let describe = |recorder: &CallRecorder, begin, answers: &Vec<Option<Result<_, _>>>| {
            for (index, (batch, answer)) in batches.iter().zip(answers).enumerate() {
                let (Some(batch), Some(answer)) = (batch, answer) else {
                    continue;
                };
                let batch = ("weir.batch", TraceValue::count(*batch));
                let attributes = vec![recorder.variant(index), batch];
                add_change(recorder, "reconfigure", begin, answer, attributes);
            }
        };
        self.call(self.port.tell(batches), describe).await
    }

    fn retire(&self, variant: usize, spare: Cores) -> Option<Result<Actual, NotReplaced>> {
        self.port.retire(variant, spare)
    }

    async fn replace(&self, variant: usize) -> Result<Actual, ActuateError> {
        let describe = |recorder: &CallRecorder, begin, answer: &Result<_, _>| {
            let attributes = vec![recorder.variant(variant)];
            add_change(recorder, "replace", begin, answer, attributes);
        };
        self.call(self.port.replace(variant), describe).await
    }
}

/// Adds a change of a backend, with its outcome and, if it failed, the blocker.
fn add_change<T>(
    recorder: &CallRecorder,
    name: &'static str,
    begin: Duration,
    answer: &Result<T, ActuateError>,
    mut attributes: Attributes,
) {
    let error = answer.as_ref().err();
    let outcome = match error {
        None => "confirmed",
        Some(error) if error.may_have_applied() => "unknown",
        Some(_) => "refused",
    };
    attributes.push(("weir.outcome", TraceValue::text(outcome)));
    if let Some(error) = error {
        let reason = error.reason().label();
        attributes.push(("weir.blocker", TraceValue::text(reason)));
    }
    let failure = error.map(|error| error as &dyn Display);
    recorder.add(name, begin, failure, attributes);
}

impl<P: Publish + Sync> Publish for Recorded<'_, P> {
    fn publish(&self, drafts: Vec<Draft>, now: Now) -> Result<Receipt, PlanError> {
        let Some(recorder) = self.recorder else {
            return self.port.publish(drafts, now);
        };
        let begin = recorder.now();
        let receipt = self.port.publish(drafts, now);
        let attributes = receipt.as_ref().map_or(Vec::new(), |receipt| {
            vec![
                ("weir.revision", TraceValue::count(receipt.revision.0)),
                ("weir.plans_published", TraceValue::count(receipt.new)),
            ]
        });
        let failure = receipt.as_ref().err();
        let failure = failure.map(|error| error as &dyn Display);
        recorder.add(PUBLISH_PLAN, begin, failure, attributes);
        receipt
    }

    async fn wait_adopted(&self, revision: Revision, within: Duration) -> bool {
        let describe = |recorder: &CallRecorder, begin, adopted: &bool| {
            let attributes = vec![
                ("weir.revision", TraceValue::count(revision.0)),
                ("weir.adopted", TraceValue::Flag(*adopted)),
            ];
            recorder.add("wait_adopted", begin, None, attributes);
        };
        self.call(self.port.wait_adopted(revision, within), describe)
            .await
    }

    async fn wait_drained(&self, takes: Duration) {
        let describe = |recorder: &CallRecorder, begin, (): &()| {
            recorder.add("wait_drained", begin, None, Vec::new());
        };
        self.call(self.port.wait_drained(takes), describe).await;
    }
}

impl<P: Solver + Sync> Solver for Recorded<'_, P> {
    async fn decide(
        &self,
        service: &Arc<Service>,
        actual: Vec<Actual>,
        inputs: Option<Inputs>,
    ) -> Decision {
        let describe = |recorder: &CallRecorder, begin, decision: &Decision| {
            let outcome = TraceValue::text(decision.status.label());
            recorder.add("decide", begin, None, vec![("weir.outcome", outcome)]);
        };
        self.call(self.port.decide(service, actual, inputs), describe)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Publishers;

    #[tokio::test(start_paused = true)]
    async fn times_count_from_the_start_of_each_cycle() {
        let service = crate::spec::tests::service(8);
        let clock = Clock::start();
        let recorder = CallRecorder::new(&service, clock);
        let publishers = Publishers::new(&service);
        let port = Recorded::new(&publishers, Some(&recorder));
        tokio::time::sleep(Duration::from_secs(60)).await;
        // Calls of a tick without a cycle are not those of the next.
        for _ in 0..2 {
            recorder.begin(clock.now().at);
            port.wait_drained(Duration::from_millis(5)).await;
            port.wait_drained(Duration::from_millis(7)).await;
        }
        let calls = recorder.take();
        let trace = format!("{calls:?}");
        assert_eq!(trace.matches("wait_drained").count(), 2, "{trace}");
        for part in ["begin: 0ns, end: 5ms", "begin: 5ms, end: 12ms"] {
            assert!(trace.contains(part), "{trace}");
        }
        assert_eq!(recorder.take(), Calls::default());
    }
}
