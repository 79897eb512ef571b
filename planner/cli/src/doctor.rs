//! `weir doctor`: checks of a running planner, its services and proxies, each with a remedy if it fails. It reads and
//! changes nothing.

mod check;
mod envoy;
mod planner;
mod proxy;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use url::Url;
use weir_planner::clock::Clock;
use weir_planner::http::ApiClient;

use crate::exit::Exit;
use crate::inspect::view::StatusView;
use crate::inspect::{Api, Failure, PlannerArguments, Samples, address, services};
use crate::output::print;
use check::Section;
use planner::PlannerAnswers;

/// Maximum number of proxies of one command.
const PROXIES_MAX: usize = 256;

/// Arguments of `weir doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Doctor {
    #[command(flatten)]
    planner: PlannerArguments,
    /// Admin address of an Envoy with the filter, such as <http://127.0.0.1:9901>; repeat it for several.
    #[arg(long, value_name = "URL", value_parser = address)]
    proxy: Vec<Url>,
    /// Print the checks as JSON, a list.
    #[arg(long)]
    json: bool,
}

/// Status of a service, or the reason why there is none.
type Answer = Result<StatusView, Failure>;

impl Doctor {
    /// # Errors
    /// Keys or certificates that cannot be read, or too many proxies.
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let count = self.proxy.len();
        anyhow::ensure!(
            count <= PROXIES_MAX,
            "--proxy: {count} of them; it must be at most {PROXIES_MAX}"
        );
        let api = self.planner.api()?;
        let answers = PlannerAnswers {
            health: api.text("/healthz").await,
            readiness: api.text("/readyz").await,
            metrics: api.text("/metrics").await,
        };
        let mut sections = vec![planner::checks(api.url(), &answers)];
        let metrics = answers.metrics.as_deref().map(Samples::new).ok();
        let named = metrics.as_ref().map(|metrics| self.services(metrics));
        let version = metrics.as_ref().and_then(planner::version);
        let statuses = statuses(&api, &named.unwrap_or_default()).await;
        let now_ms = Clock::start().now().unix_ms;
        for (name, status) in &statuses {
            sections.push(planner::service_checks(name, status, version, now_ms));
        }
        let known = statuses.into_values().filter_map(Result::ok);
        let known: Vec<StatusView> = known.collect();
        // Envoy's admin interface has no TLS.
        let client = ApiClient::new(None).map_err(anyhow::Error::msg)?;
        for url in &self.proxy {
            let url = url.as_str().trim_end_matches('/');
            let answers = envoy::read(&client, url, &known).await;
            sections.push(proxy::checks(url, &answers, &known));
        }
        let failed: usize = sections.iter().map(Section::failed).sum();
        match self.json {
            true => {
                let sections: Vec<Value> = sections.iter().map(Section::json).collect();
                print(format!("{:#}\n", json!(sections)))?;
            }
            false => print(check::text(&sections))?,
        }
        Ok(if failed == 0 {
            Exit::Done
        } else {
            Exit::Failed
        })
    }

    fn services(&self, metrics: &Samples<'_>) -> Vec<String> {
        match self.planner.named() {
            [] => services(metrics),
            named => named.to_vec(),
        }
    }
}

async fn statuses(api: &Api, services: &[String]) -> BTreeMap<String, Answer> {
    let mut statuses = BTreeMap::new();
    for service in services {
        let text = api.status(service, 1).await;
        let status = text.and_then(|text| {
            let read = serde_json::from_str(&text);
            read.map_err(|error| Failure::Refused(200, format!("not a status: {error}")))
        });
        statuses.insert(service.clone(), status);
    }
    statuses
}
