//! `weir status`: state of a planner's services, once.

use serde_json::Value;
use weir_planner::clock::Clock;

use crate::inspect::{PlannerArguments, screen, status};
use crate::output::print;

/// Arguments of `weir status`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Status {
    #[command(flatten)]
    planner: PlannerArguments,
    /// Print the planner's own answers as JSON, a list.
    #[arg(long)]
    json: bool,
}

impl Status {
    /// # Errors
    /// A planner that does not answer, or refuses.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let api = self.planner.api()?;
        let (mut text, mut answers) = (String::new(), Vec::new());
        for service in self.planner.services(&api).await? {
            if self.json {
                let answer = api.status(&service, 1).await;
                answers.push(serde_json::from_str::<Value>(&answer?)?);
                continue;
            }
            let view = status(&api, &service, 1).await?;
            let gap = if text.is_empty() { "" } else { "\n" };
            let now_ms = Clock::start().now().unix_ms;
            text += &format!("{gap}{}", screen::status(&view, now_ms));
        }
        match self.json {
            true => print(format!("{:#}\n", Value::Array(answers))),
            false => print(text),
        }
    }
}
