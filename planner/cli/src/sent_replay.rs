//! Replays over REST: hands the planner the replay, which is made of it.

use weir_planner::http::replay::ReplayRunner;

/// Returns the replay of this program, if it has one.
pub(crate) fn runner() -> Option<ReplayRunner> {
    #[cfg(feature = "replay")]
    let runner = Some(provided::RUNNER);
    #[cfg(not(feature = "replay"))]
    let runner = None;
    runner
}

#[cfg(feature = "replay")]
mod provided {
    use schemars::SchemaGenerator;
    use weir_planner::http::replay::{ReplayError, ReplayLimits, ReplayRunner};
    use weir_replay::report::Report;
    use weir_replay::scenario;
    use weir_replay::sent::{self, SentBounds, SentError};

    pub(super) const RUNNER: ReplayRunner = ReplayRunner {
        play,
        scenario: scenario::schema,
        report: SchemaGenerator::subschema_for::<Report>,
    };

    fn play(
        text: &str,
        limits: ReplayLimits,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<String, ReplayError> {
        let bounds = SentBounds {
            seconds_max: limits.seconds_max,
            requests_max: limits.requests_max,
            workers_max: limits.workers_max,
        };
        sent::play(text, bounds, goes_on).map_err(|error| match error {
            SentError::Field(error) => ReplayError::Invalid {
                message: error.to_string(),
                path: error.path,
            },
            SentError::Stopped => ReplayError::Stopped,
            SentError::Broken(why) => ReplayError::Broken(why),
        })
    }
}
