//! Kinds of files that users write: recognized by their keys, and checked by the code that reads them.

mod keys;
mod readers;

use std::collections::BTreeMap;
use std::path::Path;

use clap::ValueEnum;
use weir_planner::service::ConfigError;
use weir_planner::solve::problem::Formulation;
use weir_planner::spec::{ServiceFile, ServiceSpec, split_position};

#[cfg(feature = "replay")]
use super::document::Content;
use super::document::{Edit, Node, documents, joined};
use super::repair::is_near;
use readers::{plan, plugin, problem, profile, resource};

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Service file of `weir serve`.
    Service,
    /// SloService resources of Kubernetes.
    Resource,
    /// Profile of a variant.
    Profile,
    /// Scenario of `weir replay`.
    #[cfg(feature = "replay")]
    Scenario,
    /// Experiment of `weir experiment`.
    #[cfg(feature = "replay")]
    Experiment,
    /// Problem of `weir solve`.
    Problem,
    /// Configuration of the filter.
    Plugin,
    /// Plan, as the planner publishes it.
    Plan,
}

/// First error that the reader of a kind reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// Path in the document, or a name of the whole document.
    pub(crate) path: String,
    /// Value and the allowed values, or the reader's message.
    pub(crate) message: String,
}

/// Surroundings of a document that a check needs.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    /// The file; files that it names are relative to its folder.
    pub(crate) file: &'a Path,
    /// Profiles in the ConfigMaps of the same file, by name and key.
    #[cfg_attr(
        not(feature = "kubernetes"),
        expect(dead_code, reason = "only resources refer to these")
    )]
    pub(crate) profiles: BTreeMap<(String, String), String>,
}

/// Profile that stands for one in a cluster.
const UNREAD_PROFILE: &str = "accuracy: 0\ncapacity: {slopeRps: 1, interceptRps: 0}\nlatency: {gammaMs: 1, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: PARALLELISM}\n";

/// Service whose variant has the profile that is checked. Its own limits are no matter: the profile may be of any cores.
const PROFILED: &str = r#"
service: a
listen: 127.0.0.1:8080
keyEnv: A
slo: 1s
budget: {cores: 8}
proxies: {stats: ["http://127.0.0.1/"]}
variants: [{name: a, cluster: a, ACCURACYcores: {initial: 1}, profile: {file: a, extrapolate: true}}]
"#;

impl Kind {
    /// Recognizes a file by its documents.
    pub(crate) fn of(documents: &[Node]) -> Option<Kind> {
        if documents.iter().any(is_ours) {
            return Some(Kind::Resource);
        }
        let document = documents.first()?;
        let mut keys = document.entries().iter().map(|entry| &entry.key);
        if keys.any(|key| key == "formulation" || is_near(key, "formulation")) {
            return Some(Kind::Problem);
        }
        // The first of the kinds that know most of the keys.
        let known = |kind: &Kind| {
            let keys = document.entries().iter();
            keys.filter(|entry| kind.keys().contains(&entry.key.as_str()))
                .count()
        };
        let mut best = None;
        for kind in Kind::value_variants() {
            let known = known(kind) + if kind.has(document) { 3 } else { 0 };
            if known > best.map_or(0, |(most, _)| most) {
                best = Some((known, *kind));
            }
        }
        best.map(|(_, kind)| kind)
    }

    /// Whether a document has what only this kind has: the service of a scenario is a mapping, elsewhere it
    /// is a name.
    fn has(self, document: &Node) -> bool {
        let service = document.get("service");
        let nested = service.is_some_and(|service| !service.entries().is_empty());
        nested && self.label() == "scenario"
    }

    /// Name in messages and of `--kind`.
    pub(crate) fn label(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// A valid file, whose values may stand for invalid ones.
    pub(crate) fn example(self, document: &Node) -> Option<Node> {
        let text = match self {
            Kind::Service => SERVICE.to_owned(),
            Kind::Resource => {
                let mut spec = documents(SERVICE).ok()?.into_iter().next()?;
                for key in ["service", "listen", "keyEnv"] {
                    spec.edit(key, &Edit::Remove);
                }
                format!(
                    "apiVersion: weir.dev/v1alpha1\nkind: SloService\nmetadata: {{name: a}}\nspec: {}\n",
                    spec.line()
                )
            }
            Kind::Profile => UNREAD_PROFILE.replace("PARALLELISM", "per-core"),
            #[cfg(feature = "replay")]
            Kind::Scenario if services(document).is_some() => {
                let mut service = documents(SERVICE).ok()?.into_iter().next()?;
                // So small that it fits into any budget beside the others.
                let one = Edit::Set(Content::Unsigned(1));
                service.edit("variants[].cores.initial", &one);
                format!(
                    "name: a\nlength_s: 10\nbudget: {{cores: 20}}\nservices:\n- {{name: a, scenario: {{load: {{generator: \
                     poisson, rps: 1}}, service: {}}}}}\n",
                    service.line()
                )
            }
            #[cfg(feature = "replay")]
            Kind::Scenario => format!(
                "name: a\nlength_s: 10\nload: {{generator: poisson, rps: 1}}\nservice: {}\n",
                documents(SERVICE).ok()?.first()?.line()
            ),
            #[cfg(feature = "replay")]
            Kind::Experiment => format!(
                "name: a\nscenario: {{name: a, length_s: 10, load: {{generator: poisson, rps: 1}}, service: {}}}\n\
                 cases: [{{name: a}}]\ncolumns: [lost-percent]\n\
                 rows: [{{name: a, kind: weir, contender: {{plane: weir, control: planner}}}}]\n",
                documents(SERVICE).ok()?.first()?.line()
            ),
            Kind::Problem => {
                let formulation = document.get("formulation").and_then(Node::text);
                let formulation = formulation.and_then(|name| name.parse().ok());
                match formulation.unwrap_or(Formulation::Infadapter) {
                    Formulation::Infadapter => include_str!("../../../problems/infadapter.yaml"),
                    Formulation::Sponge => include_str!("../../../problems/sponge.yaml"),
                    Formulation::Ipa => include_str!("../../../problems/ipa.yaml"),
                    Formulation::Infaas => include_str!("../../../problems/infaas.yaml"),
                    Formulation::Themis => include_str!("../../../problems/themis.yaml"),
                }
                .to_owned()
            }
            Kind::Plugin => format!(
                "service: a\nplanner: {{cluster: a, key: aaaaaaaaaaaaaaaa}}\nplan: {{variants: [{VARIANT}]}}\n"
            ),
            Kind::Plan => {
                format!(
                    "{{format: 1, service: a, revision: 1, max_age_ms: 1000, variants: [{VARIANT}]}}"
                )
            }
        };
        let mut example = documents(&text).ok()?.into_iter().next()?;
        example.forget_places();
        Some(example)
    }

    /// First error of a document, as its own reader reports it.
    pub(crate) fn first(self, document: &Node, around: &Around<'_>) -> Option<Complaint> {
        let complaint = self.complaint(document, around)?;
        // A part that is read as a whole reports the path within it.
        let inner = complaint.message.split_once(": ");
        let inner = inner.map(|(path, message)| (joined(&complaint.path, path), message));
        match inner {
            Some((path, message)) if document.find(&path).whole => {
                let message = message.replacen(" must be ", "; it must be ", 1);
                Some(Complaint::new(path, &message))
            }
            _ => Some(complaint),
        }
    }

    fn complaint(self, document: &Node, around: &Around<'_>) -> Option<Complaint> {
        match self {
            Kind::Service => {
                let spec = ServiceSpec::from_file(around.file, &document.line());
                let file = spec.and_then(ServiceFile::try_from);
                file.err().map(Complaint::from)
            }
            Kind::Resource => resource(document, around),
            Kind::Profile => profile(document),
            #[cfg(feature = "replay")]
            Kind::Scenario => {
                // The reader of a scenario of one service would refuse all else of it.
                if let Some(key) = services(document).filter(|key| *key != "services") {
                    let message = format!("unknown field `{key}`, expected `services`");
                    return Some(Complaint::new(key, &message));
                }
                let folder = around.file.parent().unwrap_or(Path::new(""));
                let (path, message) = weir_replay::scenario::first_error(&document.line(), folder)?;
                Some(Complaint::new(path, &message))
            }
            #[cfg(feature = "replay")]
            Kind::Experiment => {
                let folder = around.file.parent().unwrap_or(Path::new(""));
                let (path, message) = weir_experiment::first_error(&document.line(), folder)?;
                Some(Complaint::new(path, &message))
            }
            Kind::Problem => problem(document),
            Kind::Plugin => plugin(document),
            Kind::Plan => plan(document),
        }
    }
}

const SERVICE: &str = include_str!("../../../service.example.yaml");
const VARIANT: &str = "{name: a, cluster: a, share: 1, slots: 1, batch: 1, service_ms: 1, service_min_ms: 1, accuracy: 1}";

/// Key of a scenario's services that share a budget: one with a list, which may be misspelt.
#[cfg(feature = "replay")]
fn services(document: &Node) -> Option<&str> {
    let is_one = |key: &str, value: &Node| {
        let many = matches!(value.content, Content::List(_));
        key == "services" || key != "service" && is_near(key, "services") && many
    };
    let mut entries = document.entries().iter();
    let found = entries.find(|entry| is_one(&entry.key, &entry.value))?;
    Some(&found.key)
}

/// Whether a document is a resource of Weir.
pub(crate) fn is_ours(document: &Node) -> bool {
    let version = document.get("apiVersion").and_then(Node::text);
    version.is_some_and(|version| version.starts_with("weir.dev/"))
}

/// Profiles in the ConfigMaps of a file, by name and key.
pub(crate) fn config_maps(documents: &[Node]) -> BTreeMap<(String, String), String> {
    let mut profiles = BTreeMap::new();
    for document in documents {
        let is_map = document.get("kind").and_then(Node::text) == Some("ConfigMap");
        let name = document.get("metadata").and_then(|data| data.get("name"));
        let (Some(name), true) = (name.and_then(Node::text), is_map) else {
            continue;
        };
        for entry in document.get("data").map_or(&[][..], Node::entries) {
            if let Some(text) = entry.value.text() {
                profiles.insert((name.to_owned(), entry.key.clone()), text.to_owned());
            }
        }
    }
    profiles
}

impl Complaint {
    /// Complaint without the position that a parser appends: it is one in the line that was checked.
    fn new(path: impl Into<String>, message: &str) -> Complaint {
        let (message, _) = split_position(message);
        // The line that was checked has quotes where the file has none.
        let unquoted = message.strip_prefix('"').and_then(|rest| {
            let (value, right) = rest.split_once("\"; it must be")?;
            Some(format!("{value}; it must be{right}"))
        });
        let message = unquoted.as_deref().unwrap_or(message);
        Complaint {
            path: path.into(),
            message: message.to_owned(),
        }
    }

    /// A plan's error names the field before a colon.
    fn of_plan(prefix: &str, message: &str) -> Complaint {
        let (field, message) = message.split_once(": ").unwrap_or(("", message));
        let message = message.replacen(" must be ", "; it must be ", 1);
        Complaint::new(format!("{prefix}{field}"), &message)
    }
}

impl From<ConfigError> for Complaint {
    fn from(error: ConfigError) -> Complaint {
        match error {
            ConfigError::Value { path, value, right } => {
                Complaint::new(path, &format!("{value}; it must be {right}"))
            }
            ConfigError::Form { path, message } => Complaint::new(path, &message),
            error @ ConfigError::TooLarge(_) => Complaint::new("", &error.to_string()),
        }
    }
}
