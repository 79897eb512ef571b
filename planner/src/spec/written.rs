//! A specification as written: the files that it names, and its profiles in place of their references.

use super::raw::{RawCapacity, RawDuration, RawLatency, RawVariant, ServiceSpec};
use crate::service::Service;

impl ServiceSpec {
    /// Returns the paths of the keys that name files, and these files. Keys of proxies are not among them.
    pub fn files(&self) -> Vec<(String, String)> {
        let references = self.references().into_iter();
        let profiles = references.filter_map(|(at, reference)| {
            let file = reference.file.clone()?;
            Some((format!("{at}.file"), file))
        });
        let model = self.demand.model.as_ref();
        let model = model.map(|model| ("demand.model".to_owned(), model.file.clone()));
        profiles.chain(model).collect()
    }

    /// Replaces the references to profiles by the profiles that `service` plans with, which was read of this
    /// specification.
    pub fn inline(&mut self, service: &Service) {
        let stages = self.stages.iter_mut().flatten();
        let of_stages = stages.flat_map(|stage| stage.variants.iter_mut());
        let all = self.variants.iter_mut().flatten().chain(of_stages);
        for (raw, variant) in all.zip(&service.variants) {
            if raw.profile.take().is_none() {
                continue;
            }
            let profile = variant.profile.uncorrected();
            let latency = &profile.latency;
            let parallelism = profile.parallelism.into();
            *raw = RawVariant {
                latency: Some(RawLatency::new(&latency.model, parallelism, latency.tail)),
                capacity: profile.fit.map(|fit| RawCapacity {
                    slope_rps: fit.slope_rps,
                    intercept_rps: fit.intercept_rps,
                    utilisation: profile.utilisation,
                }),
                accuracy: Some(variant.accuracy),
                readiness: RawDuration(variant.readiness),
                batch: Some(profile.batch),
                batch_delay: match profile.batch {
                    1 => RawDuration::default(),
                    _ => RawDuration(variant.batch_delay),
                },
                ..raw.clone()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::super::{ServiceFile, ServiceSpec};
    use crate::service::Service;

    #[test]
    fn inlined_profile_is_the_one_that_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let profile = "latency: {gammaMs: 40, etaMs: 2, parallelism: 2, tail: 1.5}\n\
            capacity: {slopeRps: 20, interceptRps: -2}\nreadiness: 7s\naccuracy: 71\nbatch: 4\nbatchDelay: 3ms\n";
        std::fs::write(folder.path().join("a.yaml"), profile).unwrap();
        let mut file: serde_json::Value = serde_saphyr::from_str(&small()).unwrap();
        let first = file["variants"][0].as_object_mut().unwrap();
        for key in ["latency", "capacity", "accuracy", "readiness", "batch"] {
            first.remove(key);
        }
        first.insert("profile".to_owned(), serde_json::json!({"file": "a.yaml"}));
        let text = file.to_string();
        let path = folder.path().join("service.yaml");
        let spec = ServiceSpec::from_file(&path, &text).unwrap();
        let service = ServiceFile::try_from(spec).unwrap().service;
        let mut written = ServiceSpec::from_yaml(&text).unwrap();
        let at = "variants[0].profile.file".to_owned();
        assert_eq!(written.files(), [(at, "a.yaml".to_owned())]);
        written.inline(&service);
        assert_eq!(written.files(), []);
        let mut inlined = Service::from_yaml(&serde_json::to_string(&written).unwrap()).unwrap();
        assert_eq!(inlined.variants[0].profile_from, None);
        inlined.variants[0].profile_from = service.variants[0].profile_from.clone();
        assert_eq!(inlined, service);
    }
}
