//! Choice of a request's service, where several services share one gateway: by host and path.
//!
//! Both are compared as Envoy's routes compare them: the host in any case, without its port; the path as it
//! was sent, without its query. A path is not resolved: a client that writes it otherwise reaches whatever
//! Envoy's route for that path gives, with or without this filter.

use std::fmt;

use super::protocol::Pattern;

/// Maximum number of hosts of a match.
pub const HOSTS_MAX: usize = 64;
/// Maximum length of a host, in bytes: that of a DNS name.
pub const HOST_BYTES_MAX: usize = 253;

/// Requests of one service: those to any of the hosts, on any of the paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// Hosts; if empty, any.
    pub hosts: Vec<Host>,
    /// Paths; if empty, any.
    pub paths: Vec<Pattern>,
}

/// A host, or all below a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Exactly this name.
    Name(String),
    /// Every name that ends so, with its leading dot; the domain itself does not.
    Below(String),
}

impl Match {
    /// Whether it matches every request.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.hosts.is_empty() && self.paths.is_empty()
    }

    /// Whether a request to this host (see [`host_of`]) on this path is the service's.
    #[must_use]
    pub fn applies(&self, host: &[u8], path: &[u8]) -> bool {
        let ours = self.hosts.is_empty() || self.hosts.iter().any(|ours| ours.matches(host));
        ours && (self.paths.is_empty() || self.paths.iter().any(|ours| ours.matches_as_sent(path)))
    }

    /// Whether it visibly matches whatever `other` matches: each host and path of `other` is one of these, or
    /// below one.
    #[must_use]
    pub fn covers(&self, other: &Match) -> bool {
        let hosts = covers(&self.hosts, &other.hosts, Host::covers);
        hosts && covers(&self.paths, &other.paths, Pattern::covers)
    }
}

/// Whether each item of `others` is covered by one of `ours`; an empty list is everything.
fn covers<T>(ours: &[T], others: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
    let covered = |other: &T| ours.iter().any(|ours| covers(ours, other));
    ours.is_empty() || !others.is_empty() && others.iter().all(covered)
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_everything() {
            return f.write_str("every request");
        }
        list(f, "hosts", &self.hosts)?;
        if !self.hosts.is_empty() && !self.paths.is_empty() {
            f.write_str(", ")?;
        }
        list(f, "paths", &self.paths)
    }
}

/// Writes the items behind their name, unless there are none.
fn list(f: &mut fmt::Formatter<'_>, name: &str, items: &[impl fmt::Display]) -> fmt::Result {
    let mut before = name;
    for item in items {
        write!(f, "{before} {item}")?;
        before = "";
    }
    Ok(())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Below(domain) => write!(f, "*{domain}"),
        }
    }
}

impl Host {
    /// Creates a host from a name in lower case, or from `*.` and a domain. `None` if it is neither, or too
    /// long.
    #[must_use]
    pub fn new(text: &str) -> Option<Host> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        let allowed =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(allowed);
        if text.len() > HOST_BYTES_MAX || !name.split('.').all(is_label) {
            return None;
        }
        Some(match text.strip_prefix('*') {
            Some(domain) => Host::Below(domain.to_owned()),
            None => Host::Name(text.to_owned()),
        })
    }

    fn matches(&self, host: &[u8]) -> bool {
        match self {
            Host::Name(name) => host.eq_ignore_ascii_case(name.as_bytes()),
            Host::Below(domain) => {
                let at = host.len().checked_sub(domain.len());
                let end = at.filter(|at| *at > 0).and_then(|at| host.get(at..));
                end.is_some_and(|end| end.eq_ignore_ascii_case(domain.as_bytes()))
            }
        }
    }

    fn covers(&self, other: &Host) -> bool {
        match (self, other) {
            (Host::Name(ours), Host::Name(other)) => ours == other,
            (Host::Name(_), Host::Below(_)) => false,
            (Host::Below(_), Host::Name(other)) => self.matches(other.as_bytes()),
            (Host::Below(ours), Host::Below(other)) => other.ends_with(ours.as_str()),
        }
    }
}

/// Returns the host of an `:authority`: without its port and one trailing dot.
#[must_use]
pub fn host_of(authority: &[u8]) -> &[u8] {
    let port = authority.iter().rposition(|byte| *byte == b':');
    let split = port.and_then(|at| authority.split_at_checked(at));
    let is_port = |port: &[u8]| port.iter().skip(1).all(u8::is_ascii_digit);
    let host = split.filter(|(_, port)| is_port(port));
    let host = host.map_or(authority, |(host, _)| host);
    host.strip_suffix(b".").unwrap_or(host)
}

/// Returns the index of the first match that applies to a request with these headers (names in lower case).
pub fn first<'a, 'm>(
    matches: impl IntoIterator<Item = &'m Match>,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Option<usize> {
    let (mut host, mut path): (&[u8], &[u8]) = (&[], &[]);
    for (name, value) in headers {
        match name {
            ":authority" => host = host_of(value),
            ":path" => path = value,
            _ => {}
        }
    }
    matches
        .into_iter()
        .position(|ours| ours.applies(host, path))
}

#[cfg(test)]
mod tests;
