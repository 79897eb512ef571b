//! Classes of requests: share of the slots under contention, priority, and the claim needed.
//! [`wait_queue`](crate::waiting::wait_queue) orders the requests.

/// Maximum number of classes of a service; each costs every worker a queue per variant.
pub const CLASSES_MAX: usize = 8;
/// Highest priority.
pub const PRIORITY_MAX: u8 = 7;
/// Default of the maximum number of skips in a row. A class then gets about 5 % of the grants: little for
/// those above it, and enough to make progress.
pub const MAX_SKIPS_DEFAULT: u32 = 20;
/// Name of the single class of a service without configured classes.
const ONLY: &str = "default";

/// Index of a class in the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u8);

/// One class.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Name, as in `x-slo-class`.
    pub name: String,
    /// Share of the grants among classes of its priority, above 0 and at most 1. Unused shares go to the others
    /// in proportion.
    pub share: f64,
    /// Priority, 0 to [`PRIORITY_MAX`]; the higher goes first.
    pub priority: u8,
    /// Maximum number of its requests held by one worker.
    pub max_requests: Option<usize>,
    /// Whether its answers are streams, which may continue after the deadline once they have begun.
    pub streams: bool,
    /// Claim needed; `None`: any request may use it.
    pub claim: Option<Claim>,
}

/// Claim that a request must prove for a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Source of the proof.
    pub from: ClaimFrom,
    /// Accepted values: whole values, or prefixes that end in `*`.
    pub values: Vec<String>,
}

/// Source of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimFrom {
    /// Header set by an earlier filter, which also removes it from clients' requests.
    Header(String),
    /// Property of the request, such as `connection`, `uri_san_peer_certificate`.
    Property(Vec<String>),
}

/// All classes of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes {
    /// Classes by their [`ClassId`]; 1 to [`CLASSES_MAX`].
    pub list: Vec<Class>,
    /// Class of requests that name none, an unknown one, or one that they may not claim.
    pub default: ClassId,
    /// Maximum number of times in a row that a waiting class may be passed over by higher priorities.
    pub max_skips: u32,
}

/// Class that a request names, and the claim it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassRequest<'a> {
    /// Named class, or the default.
    pub class: ClassId,
    /// Claim needed; a request that cannot prove it is of the default class.
    pub claim: Option<&'a Claim>,
    /// Whether the named class exists; true if none is named.
    pub known: bool,
}

impl Default for Classes {
    fn default() -> Classes {
        let only = Class {
            name: ONLY.to_owned(),
            share: 1.0,
            priority: 0,
            max_requests: None,
            streams: false,
            claim: None,
        };
        Classes {
            list: vec![only],
            default: ClassId(0),
            max_skips: MAX_SKIPS_DEFAULT,
        }
    }
}

impl Classes {
    /// Number of classes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none; never in a valid configuration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Hash of the names in their order: ids mean the same classes only where it is the same.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        use std::hash::Hasher;
        let mut hasher = fnv::FnvHasher::default();
        for class in &self.list {
            hasher.write(class.name.as_bytes());
            // No name contains it.
            hasher.write_u8(0);
        }
        hasher.finish()
    }

    /// Class with that id.
    #[must_use]
    pub fn get(&self, id: ClassId) -> Option<&Class> {
        self.list.get(usize::from(id.0))
    }

    /// Name of the class with that id.
    #[must_use]
    pub fn name(&self, id: ClassId) -> Option<&str> {
        Some(&self.get(id)?.name)
    }

    /// Id of the class with that name.
    #[must_use]
    pub fn id_of(&self, name: &str) -> Option<ClassId> {
        let mut each = self.iter();
        Some(each.find(|(_, class)| class.name == name)?.0)
    }

    /// Classes with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        (0..).map(ClassId).zip(&self.list)
    }

    /// Looks up the class of a request's `x-slo-class`. Names are compared exactly, in lower case; several in
    /// one value are an unknown name.
    #[must_use]
    pub fn lookup(&self, value: Option<&[u8]>) -> ClassRequest<'_> {
        let fallback = |known| ClassRequest {
            class: self.default,
            claim: None,
            known,
        };
        let Some(value) = value.map(<[u8]>::trim_ascii) else {
            return fallback(true);
        };
        self.iter()
            .find(|(_, class)| class.name.as_bytes() == value)
            .map_or(fallback(false), |(id, class)| ClassRequest {
                class: id,
                claim: class.claim.as_ref(),
                known: true,
            })
    }
}

impl Claim {
    /// Header that proves it, if it is a header.
    #[must_use]
    pub fn header(&self) -> Option<&str> {
        match &self.from {
            ClaimFrom::Header(name) => Some(name),
            ClaimFrom::Property(_) => None,
        }
    }

    /// Path of the property that proves it, if it is a property.
    #[must_use]
    pub fn property(&self) -> Option<&[String]> {
        match &self.from {
            ClaimFrom::Header(_) => None,
            ClaimFrom::Property(path) => Some(path),
        }
    }

    /// Whether `value`, from the header or property, is accepted.
    ///
    /// It is compared as a whole. In a list (`a, b`, as proxies append to headers) the author of each part is
    /// unknown, so no part counts by itself, and a `*` matches anything but a comma. A subject such as
    /// `CN=a,O=b` must be configured in full.
    #[must_use]
    pub fn admits(&self, value: Option<&[u8]>) -> bool {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return false;
        };
        self.values
            .iter()
            .any(|taken| match taken.strip_suffix('*') {
                Some(prefix) => value
                    .strip_prefix(prefix.as_bytes())
                    .is_some_and(|rest| !rest.contains(&b',')),
                None => taken.as_bytes() == value,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Classes {
        let mut classes = Classes::default();
        classes.list.push(Class {
            name: "gold".to_owned(),
            claim: Some(Claim {
                from: ClaimFrom::Header("x-team".to_owned()),
                values: vec!["vision".to_owned()],
            }),
            ..classes.list[0].clone()
        });
        classes
    }

    #[test]
    fn unknown_class_is_the_default() {
        let classes = two();
        for (value, class, known, claimed) in [
            (None, 0, true, false),
            (Some(&b"gold"[..]), 1, true, true),
            (Some(b" gold\t"), 1, true, true),
            (Some(b"default"), 0, true, false),
            (Some(b"Gold"), 0, false, false),
            (Some(b"gold,default"), 0, false, false),
            (Some(b"goldx"), 0, false, false),
            (Some(b""), 0, false, false),
            (Some(b"\xff\0"), 0, false, false),
        ] {
            let requested = classes.lookup(value);
            let got = (
                requested.class.0,
                requested.known,
                requested.claim.is_some(),
            );
            assert_eq!(got, (class, known, claimed), "{value:?}");
        }
        assert_eq!(classes.get(ClassId(1)).unwrap().name, "gold");
        assert!(classes.get(ClassId(2)).is_none());
    }

    #[test]
    fn claim_accepts_whole_values_and_prefixes_but_no_lists() {
        let claim = Claim {
            from: ClaimFrom::Header("x-id".to_owned()),
            values: ["vision", "spiffe://a/ns/prod/*", "CN=a,O=b"]
                .map(str::to_owned)
                .to_vec(),
        };
        for (value, admitted) in [
            (None, false),
            (Some(&b""[..]), false),
            (Some(b"vision"), true),
            (Some(b"Vision"), false),
            (Some(b"visions"), false),
            (Some(b"vision, audio"), false),
            (Some(b"audio,vision"), false),
            (Some(b"spiffe://a/ns/prod/sa/x"), true),
            (Some(b"spiffe://a/ns/prod/"), true),
            (Some(b"spiffe://a/ns/prod"), false),
            (Some(b"spiffe://a/ns/prod/x,audio"), false),
            (Some(b"audio,spiffe://a/ns/prod/x"), false),
            (Some(b"spiffe://a/ns/prod/\xff"), true),
            (Some(b"CN=a,O=b"), true),
            (Some(b"CN=a"), false),
        ] {
            assert_eq!(claim.admits(value), admitted, "{value:?}");
        }
        let anybody = Claim {
            values: vec!["*".to_owned()],
            ..claim
        };
        assert!(anybody.admits(Some(b"x")) && !anybody.admits(Some(b"")));
    }
}
