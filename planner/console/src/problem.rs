//! Problems of the papers, solved as by `POST /v1/solve` and `weir solve`.

use std::time::Duration;

use weir_planner::clock::stopwatch;
use weir_planner::solve::TimeLimit;
use weir_planner::solve::problem::{Answer, By, Problem};

use crate::{ConsoleError, document};

/// Time limit of a solve; it passes only where a clock runs.
pub const LIMIT: Duration = Duration::from_secs(1);

/// Solves a problem of any formulation, JSON or YAML.
///
/// # Errors
/// The first invalid field.
pub fn solve(text: &str) -> Result<Answer, ConsoleError> {
    let problem = Problem::read(document::parse("problem", text)?, None)?;
    let elapsed = stopwatch();
    Ok(problem.solve(By::Own, &TimeLimit::new(LIMIT, &elapsed))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::post;

    /// Problems, one a line; the module in a browser is compared on the same ones.
    const PROBLEMS: &str = include_str!("../../../tests/browser/problems.jsonl");

    #[tokio::test]
    async fn answers_are_those_of_the_endpoint() {
        let mut with_plan = 0;
        for text in PROBLEMS.lines() {
            let answer = solve(text).unwrap();
            let answer = serde_json::to_string(&answer).unwrap();
            assert_eq!(answer, post(text).await, "{text}");
            with_plan += usize::from(answer.contains("\"plan\":"));
        }
        assert!(
            PROBLEMS.lines().count() >= 20 && with_plan >= 20,
            "{with_plan}"
        );
    }

    #[test]
    fn invalid_problem_is_refused_by_field() {
        for (text, message) in [
            ("formulation: sponge\ncores: many", "cores: "),
            ("cores: 1", "formulation: missing"),
            ("[]", "the document: a list"),
        ] {
            let error = solve(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
