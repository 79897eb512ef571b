//! Cores and batches of a variant of a service file that its profile must have been measured on, and the place where the
//! cores are changed meanwhile: the variant's own.

use std::path::Path;

use anyhow::Context;
use weir_planner::backends::cgroup::{Cgroup, ROOT};
use weir_planner::spec::{Place, RawBudget, RawVariant, place};

use super::Profile;

/// Extent of a variant's measurement.
#[derive(Debug, PartialEq)]
pub(super) struct VariantExtent {
    /// Cores, rising.
    cores: Vec<f64>,
    /// Batches, rising.
    batches: Vec<u32>,
    place: Place,
    tell_batch: bool,
    is_workload: bool,
}

impl VariantExtent {
    /// Extent by the service file: the smallest cores, twice as many each, and the largest; likewise for batches. Only the
    /// initial cores for a profile that may be extrapolated, if nothing changes the cores.
    ///
    /// # Errors
    /// The place where the cores are changed is not valid.
    pub(super) fn of(raw: &RawVariant, budget: &RawBudget) -> anyhow::Result<VariantExtent> {
        let place = place(&raw.name, raw)?;
        let sizes = raw.sizes();
        let (min, initial) = (sizes.min.0, sizes.initial.0.as_f64());
        let (min, max) = (
            min.max(budget.step.0).as_f64(),
            sizes.max.unwrap_or(budget.cores).0.as_f64(),
        );
        let extrapolates = raw.profile.as_ref().is_some_and(|one| one.extrapolate);
        let doubled = std::iter::successors(Some(min), |cores| Some(cores * 2.0));
        let cores = match extrapolates && place == Place::default() {
            true if initial > 0.0 => vec![initial],
            true => vec![max],
            false => (doubled.take_while(|cores| *cores < max))
                .chain([max])
                .collect(),
        };
        let doubled = std::iter::successors(Some(1_u32), |batch| batch.checked_mul(2));
        // That of an earlier profile is no request: this one finds its own.
        let largest = raw.batch.unwrap_or(1);
        let batches = doubled.take_while(|batch| *batch < largest);
        Ok(VariantExtent {
            cores,
            batches: batches.chain([largest]).collect(),
            place,
            tell_batch: raw.tell_batch,
            is_workload: raw.workload.is_some(),
        })
    }

    /// Applies it to the measurement of one variant. Batches of the command line come first.
    ///
    /// # Errors
    /// Several cores, and nothing that sets them; or no such control group.
    pub(super) fn apply(&self, one: Profile) -> anyhow::Result<Profile> {
        let (batches, batch_requests) = match one.batches.as_slice() {
            [1] if self.batches.len() > 1 => (self.batches.clone(), true),
            _ => (one.batches.clone(), one.batch_requests),
        };
        let tells_batch = self.tell_batch && batches.len() > 1;
        // Servers with one extent only are left as they are.
        let resizes = self.cores.len() > 1 || tells_batch;
        let mut one = Profile {
            cores: self.cores.clone(),
            batches,
            batch_requests,
            resize: self.place.resize.clone().filter(|_| resizes),
            tell_batch: tells_batch,
            ..one
        };
        if self.cores.len() > 1 && self.place == Place::default() {
            anyhow::bail!(self.command(&one));
        }
        if let Some(name) = self.place.cgroup.as_ref().filter(|_| resizes) {
            let group = Cgroup::find(Path::new(ROOT), name).context("cgroup")?;
            one.cgroup = Some(group.folder().to_owned());
        }
        Ok(one)
    }

    /// Says that the cores cannot be set, with the command that measures them.
    fn command(&self, one: &Profile) -> String {
        let list = |numbers: &[String]| numbers.join(",");
        let cores: Vec<String> = self.cores.iter().map(f64::to_string).collect();
        let batches: Vec<String> = one.batches.iter().map(u32::to_string).collect();
        let path =
            |path: Option<&Path>| path.map_or_else(String::new, |it| it.display().to_string());
        let (set, others) = match self.is_workload {
            true => ("--via pod/NAME", ""),
            false => ("--resize URL", " (or --cgroup DIR, --via pod/NAME)"),
        };
        let batched = match one.batches.as_slice() {
            [1] => String::new(),
            _ if one.batch_requests => format!(" --batches {} --batch-requests", list(&batches)),
            _ => format!(" --batches {}", list(&batches)),
        };
        format!(
            "its cores are {}, and nothing that this command can reach sets them: measure it with `weir profile --url {} \
             --request {} --cores {}{batched} {set} --output {}`{others}; or, in the service file, set cores.min and \
             cores.max to one number, or profile.extrapolate to true",
            list(&cores),
            one.url.as_ref().map_or("URL", reqwest::Url::as_str),
            path(one.request.as_deref()),
            list(&cores),
            path(Some(&one.output)),
        )
    }
}

#[cfg(test)]
mod tests {
    use weir_planner::spec::ServiceSpec;

    use super::*;

    /// Extent of the only variant, with these keys, of a budget of 8 cores in steps of a half.
    fn extent(keys: &str) -> VariantExtent {
        let text = format!(
            "service: a\nlisten: 127.0.0.1:8080\nkeyEnv: KEY\nslo: 800ms\nbudget: {{cores: 8, step: 0.5}}\nproxies: {{stats: ['http://127.0.0.1:1/stats']}}\n\
             variants: [{{name: small, cluster: a, accuracy: 90, {keys}}}]\n"
        );
        let spec = ServiceSpec::from_yaml(&text).unwrap();
        let budget = spec.sizes();
        let variants = spec.variants.unwrap();
        VariantExtent::of(&variants[0], &budget).unwrap()
    }

    #[test]
    fn cores_and_batches_are_those_that_the_service_may_choose() {
        for (keys, cores, batches) in [
            ("cores: {initial: 2, min: 2, max: 2}", &[2.0][..], &[1][..]),
            ("cores: {initial: 2}", &[1.0, 2.0, 4.0, 8.0], &[1]),
            (
                "cores: {initial: 0, min: 0, max: 3}, batch: 6",
                &[0.5, 1.0, 2.0, 3.0],
                &[1, 2, 4, 6],
            ),
            (
                "cores: {initial: 2}, profile: {file: a.yaml, extrapolate: true}",
                &[2.0],
                &[1],
            ),
            (
                "cores: {initial: 2, max: 4}, cgroup: small, profile: {file: a.yaml, extrapolate: true}",
                &[1.0, 2.0, 4.0],
                &[1],
            ),
        ] {
            let found = extent(keys);
            assert_eq!((&*found.cores, &*found.batches), (cores, batches), "{keys}");
        }
        let unit = extent("cores: {initial: 2}, systemd: small.service");
        assert_eq!(
            unit.place.cgroup.as_deref(),
            Some("system.slice/small.service")
        );
    }
}
