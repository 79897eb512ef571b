//! Classes of requests: what share of the slots each has a right to while they are short, who goes
//! before whom, and who may claim one. Which request waits where is [`room`](crate::waiting::wait_queue)'s matter.

/// Most classes of a service: each costs every worker a queue per variant.
pub const CLASSES_MAX: usize = 8;
/// The greatest priority.
pub const PRIORITY_MAX: u8 = 7;
/// How often in a row a waiting class is passed over where the configuration says nothing: it then
/// gets about 5 % of the grants, little for those above it and enough to go on.
pub const MAX_SKIPS_DEFAULT: u32 = 20;
/// The one class of a service that has none configured.
const ONLY: &str = "default";

/// Which class, by its place in the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u8);

/// One class.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its name, as `x-slo-class` says it.
    pub name: String,
    /// The share of the grants it has a right to among classes of its priority, above 0 and at
    /// most 1. Those that ask for less leave theirs to the others, in proportion.
    pub share: f64,
    /// 0 to [`PRIORITY_MAX`]; the greater goes first.
    pub priority: u8,
    /// Most that one worker holds of it.
    pub held_max: Option<usize>,
    /// Whether its answers are streams, which may go on after the deadline once they have begun.
    pub streams: bool,
    /// Who may claim it; anybody where there is none.
    pub claim: Option<Claim>,
}

/// What a request must show for a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Where it is shown.
    pub from: ClaimFrom,
    /// What is taken: a whole value, or one that ends in `*` and stands for all that begin so.
    pub values: Vec<String>,
}

/// Where a claim is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimFrom {
    /// A header that an earlier filter has set (and removed from what clients send).
    Header(String),
    /// A property of the request, such as `connection`, `uri_san_peer_certificate`.
    Property(Vec<String>),
}

/// All classes of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes {
    /// Each at the place its [`ClassId`] names; 1 to [`CLASSES_MAX`].
    pub list: Vec<Class>,
    /// For those that name none, an unknown one, or one they may not claim.
    pub default: ClassId,
    /// How often in a row a class with somebody waiting may be passed over by higher priorities.
    pub max_skips: u32,
}

/// What a request's wish for a class comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassRequest<'a> {
    /// The class it names, or the default.
    pub class: ClassId,
    /// What it must show for it; who cannot is of the default class.
    pub claim: Option<&'a Claim>,
    /// Whether what it named exists; true where it named nothing.
    pub known: bool,
}

impl Default for Classes {
    fn default() -> Classes {
        let only = Class {
            name: ONLY.to_owned(),
            share: 1.0,
            priority: 0,
            held_max: None,
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
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none; never so in a checked configuration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The class of that id.
    #[must_use]
    pub fn get(&self, id: ClassId) -> Option<&Class> {
        self.list.get(usize::from(id.0))
    }

    /// The name of the class of that id.
    #[must_use]
    pub fn name(&self, id: ClassId) -> Option<&str> {
        Some(&self.get(id)?.name)
    }

    /// Each with its id.
    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        (0..).map(ClassId).zip(&self.list)
    }

    /// Which class a request's `x-slo-class` asks for. Names are taken as they are, in lower case;
    /// several in one value are an unknown name.
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
    /// The header that proves it, if it is one.
    #[must_use]
    pub fn header(&self) -> Option<&str> {
        match &self.from {
            ClaimFrom::Header(name) => Some(name),
            ClaimFrom::Property(_) => None,
        }
    }

    /// The path of the property that proves it, if it is one.
    #[must_use]
    pub fn property(&self) -> Option<&[String]> {
        match &self.from {
            ClaimFrom::Header(_) => None,
            ClaimFrom::Property(path) => Some(path),
        }
    }

    /// Whether `value`, as the header or property says it, is one of those taken.
    ///
    /// It is compared whole: in a list (`a, b`, as proxies append to headers) nobody can tell which
    /// part a client wrote, so no part of one counts by itself, and a `*` stands for anything but a
    /// comma. A subject such as `CN=a,O=b` is taken where it is configured in full.
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
    fn an_unknown_wish_is_the_default_class() {
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
            let wanted = classes.lookup(value);
            let got = (wanted.class.0, wanted.known, wanted.claim.is_some());
            assert_eq!(got, (class, known, claimed), "{value:?}");
        }
        assert_eq!(classes.get(ClassId(1)).unwrap().name, "gold");
        assert!(classes.get(ClassId(2)).is_none());
    }

    #[test]
    fn a_claim_takes_whole_values_and_beginnings_but_no_lists() {
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
