//! Detects failing variants from the proxies' reports: each proxy decides by itself which variants it avoids. Pure.
//!
//! One proxy of many may have lost its own connection to a healthy server; one of few may not have sent it anything
//! for a while. Therefore a variant counts as failing if at least half of the answering proxies that know it report
//! so.

use std::time::Duration;

use super::Scrape;

/// Start of each variant's failure.
#[derive(Debug, Clone)]
pub struct Failing {
    variants: Vec<String>,
    since: Vec<Option<Duration>>,
}

impl Failing {
    /// Creates a detector in which no variant fails yet.
    pub fn new(variants: impl Iterator<Item = String>) -> Failing {
        let variants: Vec<String> = variants.collect();
        Failing {
            since: vec![None; variants.len()],
            variants,
        }
    }

    /// Adds one scrape of all proxies. A variant that no answering proxy knows keeps its state.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) {
        for (name, since) in self.variants.iter().zip(&mut self.since) {
            let reports = scrapes.iter().filter_map(|scrape| {
                let counts = scrape.counts.as_ref().ok()?;
                counts.failing.get(name).copied()
            });
            let (known, failing) = reports.fold((0_u32, 0_u32), |(known, failing), fails| {
                (known + 1, failing + u32::from(fails))
            });
            match known {
                0 => {}
                _ if failing > 0 && failing * 2 >= known => *since = since.or(Some(at)),
                _ => *since = None,
            }
        }
    }

    /// Returns since when each variant fails; `None` for healthy ones.
    pub fn since(&self) -> &[Option<Duration>] {
        &self.since
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Counts, ScrapeError};
    use super::*;

    /// Checks scrapes, one per second, with one letter per proxy (`f`ails, `w`ell, `-` variant unknown, `!` no
    /// answer), and the expected start of the failure.
    #[track_caller]
    fn check(scrapes: &[(&str, Option<u64>)]) {
        let mut failing = Failing::new(["a".to_owned()].into_iter());
        for (second, (words, since)) in (0..).zip(scrapes) {
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
            let scrapes: Vec<Scrape> = words.chars().map(scrape).collect();
            failing.observe(Duration::from_secs(second), &scrapes);
            let since = since.map(Duration::from_secs);
            assert_eq!(failing.since(), [since], "{second} s");
        }
    }

    #[test]
    fn variant_fails_if_half_of_proxies_knowing_it_report_failure() {
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
