//! Variants that fail, by the word of the proxies: each says by itself which it has left. Pure.
//!
//! One proxy of many may have lost its own way to a server that is well; one of few may not have sent it
//! anything for a while. So a variant fails where half of the proxies that answer and know it say so, or more.

use std::time::Duration;

use super::Scrape;

/// By variant, since when it fails.
#[derive(Debug, Clone)]
pub struct Failing {
    variants: Vec<String>,
    since: Vec<Option<Duration>>,
}

impl Failing {
    /// None of these yet.
    pub fn new(variants: impl Iterator<Item = String>) -> Failing {
        let variants: Vec<String> = variants.collect();
        Failing {
            since: vec![None; variants.len()],
            variants,
        }
    }

    /// Takes in one look. Where no proxy answers that knows a variant, what was known of it holds.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) {
        for (name, since) in self.variants.iter().zip(&mut self.since) {
            let said = scrapes.iter().filter_map(|scrape| {
                let counts = scrape.counts.as_ref().ok()?;
                counts.failing.get(name).copied()
            });
            let (known, failing) = said.fold((0_u32, 0_u32), |(known, failing), fails| {
                (known + 1, failing + u32::from(fails))
            });
            match known {
                0 => {}
                _ if failing > 0 && failing * 2 >= known => *since = since.or(Some(at)),
                _ => *since = None,
            }
        }
    }

    /// By variant, since when it fails.
    pub fn since(&self) -> &[Option<Duration>] {
        &self.since
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Counts, ScrapeError};
    use super::*;

    /// Looks, one a second, each with a word for each proxy (`f`ails, `w`ell, `-` does not know it, `!` does not
    /// answer) → since when it fails.
    #[track_caller]
    fn check(looks: &[(&str, Option<u64>)]) {
        let mut failing = Failing::new(["a".to_owned()].into_iter());
        for (second, (look, since)) in (0..).zip(looks) {
            let scrape = |word: char| Scrape {
                from: "proxy".into(),
                at: Duration::from_secs(second),
                counts: match word {
                    '!' => Err(ScrapeError::TooLarge),
                    '-' => Ok(Counts::default()),
                    word => Ok(Counts {
                        failing: BTreeMap::from([("a".to_owned(), word == 'f')]),
                        ..Counts::default()
                    }),
                },
            };
            let scrapes: Vec<Scrape> = look.chars().map(scrape).collect();
            failing.observe(Duration::from_secs(second), &scrapes);
            let since = since.map(Duration::from_secs);
            assert_eq!(failing.since(), [since], "{second} s");
        }
    }

    #[test]
    fn half_of_those_that_know_it_are_enough() {
        check(&[
            ("w", None),
            ("f", Some(1)),
            ("fw", Some(1)),
            ("fww", None),
            ("f-!", Some(4)),
            ("-!", Some(4)),
            ("", Some(4)),
            ("ww", None),
        ]);
    }
}
