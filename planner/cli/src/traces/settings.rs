//! Settings of the export, from OpenTelemetry's environment variables. The SDK would pass over a value that is not
//! valid and go on without; here it is an error at start. The SDK itself reads `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_SCHEDULE_DELAY` and the headers.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use opentelemetry_http::Request;
use url::Url;

/// Path of the collector's endpoint for traces, below the address of all its endpoints.
const PATH: &str = "v1/traces";
/// Example of an address in messages.
const EXAMPLE: &str = "http://127.0.0.1:4318";
/// Samplers of the SDK.
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// Settings of the export.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Endpoint for traces.
    pub(super) endpoint: Url,
    /// File with the certificates that the collector is trusted by, with the variable that names it.
    pub(super) ca: Option<(&'static str, PathBuf)>,
    /// Whether the environment names the service.
    pub(super) is_named: bool,
}

/// Reads the settings; `None` if no endpoint is set, or traces are turned off.
///
/// # Errors
/// A value that is not valid, with the name of its variable.
pub(super) fn read(
    variable: impl Fn(&'static str) -> Option<String>,
) -> anyhow::Result<Option<Settings>> {
    // An empty value is none, as OpenTelemetry has it.
    let set = |name| {
        let value = variable(name).filter(|value| !value.trim().is_empty());
        value.map(|value| (name, value.trim().to_owned()))
    };
    let either = |names: [&'static str; 2]| names.into_iter().find_map(set);
    let endpoint = either([
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ]);
    let Some((name, value)) = endpoint else {
        return Ok(None);
    };
    let disabled = set("OTEL_SDK_DISABLED");
    if disabled.is_some_and(|(_, value)| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    match set("OTEL_TRACES_EXPORTER") {
        Some((_, value)) if value == "none" => return Ok(None),
        exporter => one_of(exporter, &["otlp", "none"])?,
    }
    let endpoint = endpoint_url(name, &value)?;
    one_of(
        either([
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ]),
        &["http/protobuf"],
    )
    .context("OTLP over HTTP has its own port at a collector, usually 4318")?;
    one_of(
        either([
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
            "OTEL_EXPORTER_OTLP_COMPRESSION",
        ]),
        &["none"],
    )?;
    for name in [
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ] {
        if let Some((name, value)) = set(name) {
            check_headers(name, &value)?;
        }
    }
    let sampler = set("OTEL_TRACES_SAMPLER");
    one_of(sampler, &SAMPLERS)?;
    if let Some((name, value)) = set("OTEL_TRACES_SAMPLER_ARG") {
        let part = value
            .parse()
            .is_ok_and(|part: f64| (0.0..=1.0).contains(&part));
        ensure!(
            part,
            "{name}: '{value}' must be a part from 0 to 1, such as 0.1"
        );
    }
    let ca = either([
        "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
    ]);
    ensure!(
        endpoint.scheme() == "http" || ca.is_some(),
        "{name}: '{value}' needs OTEL_EXPORTER_OTLP_CERTIFICATE, a file (PEM) with the certificates that the \
         collector is trusted by"
    );
    let attributes = set("OTEL_RESOURCE_ATTRIBUTES");
    let names_service = |(_, attributes): (_, String)| {
        let mut each = attributes.split(',');
        each.any(|one| one.trim_start().starts_with("service.name="))
    };
    Ok(Some(Settings {
        ca: ca.map(|(name, path)| (name, path.into())),
        is_named: set("OTEL_SERVICE_NAME").is_some() || attributes.is_some_and(names_service),
        endpoint,
    }))
}

/// Endpoint for traces: as it is in the variable for traces, and a path below that in the one for all signals.
fn endpoint_url(name: &str, value: &str) -> anyhow::Result<Url> {
    let is_for_traces = name.contains("_TRACES_");
    let example = match is_for_traces {
        true => format!("{EXAMPLE}/{PATH}"),
        false => EXAMPLE.to_owned(),
    };
    let right = |why: &str| format!("{name}: {why}; it must be a URL such as {example}");
    let mut url = Url::parse(value).with_context(|| right(&format!("'{value}' is no URL")))?;
    let is_http = ["http", "https"].contains(&url.scheme());
    if !is_http || url.host_str().is_none_or(str::is_empty) {
        bail!(right(&format!("'{value}' is no HTTP address")));
    }
    // A password would be in the log.
    if !url.username().is_empty() || url.password().is_some() {
        let why = "it has a user or a password, which belong into OTEL_EXPORTER_OTLP_HEADERS";
        bail!(right(why));
    }
    if url.query().is_some() || url.fragment().is_some() {
        bail!(right(&format!("'{value}' has a query or a fragment")));
    }
    if !is_for_traces {
        let path = url.path().trim_end_matches('/');
        url.set_path(&format!("{path}/{PATH}"));
    }
    Ok(url)
}

fn one_of(value: Option<(&str, String)>, valid: &[&str]) -> anyhow::Result<()> {
    match value {
        Some((name, value)) if !valid.contains(&value.as_str()) => {
            bail!("{name}: '{value}' must be {}", valid.join(", or "))
        }
        _ => Ok(()),
    }
}

/// Checks a list `name=value,…`. Values may be secret, so that no message has them.
fn check_headers(variable: &str, list: &str) -> anyhow::Result<()> {
    for (number, member) in (1..).zip(list.split(',')) {
        if member.trim().is_empty() {
            continue;
        }
        let right = "it must be NAME=VALUE, with commas between headers";
        let Some((name, value)) = member.split_once('=') else {
            bail!("{variable}: header {number} has no '='; {right}");
        };
        let name = name.trim();
        let is_header = |value: &str| Request::builder().header(name, value).body(()).is_ok();
        if !is_header("") {
            bail!("{variable}: '{name}' is no name of a header; {right}");
        }
        if !is_header(value.trim()) {
            bail!("{variable}: the value of '{name}' is not valid in a header; {right}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    fn read_from(variables: &[(&str, &str)]) -> anyhow::Result<Option<Settings>> {
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(value)
    }

    #[test]
    fn nothing_is_exported_without_an_endpoint_or_when_turned_off() {
        for variables in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[("OTEL_EXPORTER_OTLP_HEADERS", "key=secret")],
            &[("OTEL_TRACES_SAMPLER", "always_on")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert_eq!(read_from(variables).unwrap(), None, "{variables:?}");
        }
    }

    #[test]
    fn endpoint_is_that_for_traces_or_below_the_common_one() {
        let traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        for (variables, endpoint) in [
            (&[ENDPOINT][..], "http://127.0.0.1:4318/v1/traces"),
            (
                &[(ENDPOINT.0, "http://[::1]:4318/otlp/")],
                "http://[::1]:4318/otlp/v1/traces",
            ),
            (&[(traces, "http://a:1/mine")], "http://a:1/mine"),
            (&[ENDPOINT, (traces, "http://a:1/")], "http://a:1/"),
            (&[ENDPOINT, (traces, "")], "http://127.0.0.1:4318/v1/traces"),
        ] {
            let settings = read_from(variables).unwrap().unwrap();
            assert_eq!(settings.endpoint.as_str(), endpoint);
            assert!(!settings.is_named);
        }
    }

    #[test]
    fn service_is_named_by_either_variable() {
        for (name, value, is_named) in [
            ("OTEL_SERVICE_NAME", "planner-a", true),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=c", true),
            ("OTEL_RESOURCE_ATTRIBUTES", "my.service.name=c", false),
        ] {
            let settings = read_from(&[ENDPOINT, (name, value)]).unwrap().unwrap();
            assert_eq!(settings.is_named, is_named, "{value}");
        }
    }

    #[test]
    fn wrong_value_is_an_error_with_its_variable_and_what_is_right() {
        for (name, value, part) in [
            (
                ENDPOINT.0,
                "localhost:4318",
                "such as http://127.0.0.1:4318",
            ),
            (
                ENDPOINT.0,
                "127.0.0.1:4318",
                "such as http://127.0.0.1:4318",
            ),
            (
                ENDPOINT.0,
                "grpc://a:4317",
                "'grpc://a:4317' is no HTTP address",
            ),
            (ENDPOINT.0, "http://a:1?x=1", "has a query or a fragment"),
            (
                ENDPOINT.0,
                "https://a:1",
                "needs OTEL_EXPORTER_OTLP_CERTIFICATE",
            ),
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "grpc",
                "'grpc' must be http/protobuf",
            ),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "must be none"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "must be otlp, or none"),
            ("OTEL_TRACES_SAMPLER", "sometimes", "must be always_on, or"),
            ("OTEL_TRACES_SAMPLER_ARG", "10%", "a part from 0 to 1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,c", "header 2 has no '='"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c", "'a b' is no name"),
        ] {
            let before = [(name, value), ENDPOINT];
            let error = format!("{:#}", read_from(&before).unwrap_err());
            assert!(error.contains(name) && error.contains(part), "{error}");
        }
    }

    #[test]
    fn secrets_are_in_no_message() {
        for (name, value) in [
            (ENDPOINT.0, "http://user:secret@a:1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret,secret"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=\u{7f}secret"),
        ] {
            let error = format!("{:#}", read_from(&[(name, value), ENDPOINT]).unwrap_err());
            assert!(error.contains(name) && !error.contains("secret"), "{error}");
        }
    }
}
