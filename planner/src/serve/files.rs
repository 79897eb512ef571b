//! Service files that one planner serves together: what they must have in common, and what may be in only one of them.
//! Pure.

use std::net::SocketAddr;

use crate::catalog::{Claims, SERVED_MAX, key_shown};
use crate::service::rule::refusal;
use crate::service::{ConfigError, Service};
use crate::shared_budget::SharedBudgets;
use crate::spec::{KeySource, ServiceFile};

/// Services that are served together, and how the planner is reached.
#[derive(Debug)]
pub struct ServedFiles {
    /// Services, in the order of the files.
    pub services: Vec<Service>,
    /// Address to answer at.
    pub listen: SocketAddr,
    /// Place of the proxies' keys.
    pub key: KeySource,
}

/// Reason why a file cannot be served with those before it.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("service file {file}: {error}")]
pub struct ServedFileError {
    /// Path of the file.
    pub file: String,
    /// The key, its value and what would be right.
    pub error: ConfigError,
}

impl ServedFiles {
    /// Checks the files, each with its path, and adds their services to the shared budgets that they name.
    ///
    /// # Errors
    /// The first file that does not fit to those before it, with the key, its value and what would be right.
    pub fn new(
        files: Vec<(String, ServiceFile)>,
        budgets: &SharedBudgets,
    ) -> Result<ServedFiles, ServedFileError> {
        let mut served: Option<ServedFiles> = None;
        let mut names = Claims::default();
        for (path, file) in files {
            let failed = |error| ServedFileError {
                file: path.clone(),
                error,
            };
            names.add(&file.service, &path).map_err(failed)?;
            budgets.check(&file.service).map_err(failed)?;
            budgets.insert(&file.service);
            match &mut served {
                None => {
                    served = Some(ServedFiles {
                        services: vec![file.service],
                        listen: file.listen,
                        key: file.key,
                    });
                }
                Some(served) => served.add(file).map_err(failed)?,
            }
        }
        served.ok_or_else(|| ServedFileError {
            file: String::new(),
            error: refusal("FILE", "missing", "one service file or more"),
        })
    }

    fn add(&mut self, file: ServiceFile) -> Result<(), ConfigError> {
        if file.listen != self.listen {
            let right = format!(
                "{}, as in the first file: one planner answers for all",
                self.listen
            );
            return Err(refusal("listen", file.listen, &right));
        }
        if file.key != self.key {
            let right = format!(
                "{}, as in the first file: the keys are of all services",
                key_shown(&self.key)
            );
            return Err(refusal("keyEnv, keyFile", key_shown(&file.key), &right));
        }
        if self.services.len() >= SERVED_MAX {
            let right = format!("in another planner: this one has {SERVED_MAX} services, no more");
            return Err(refusal("service", &file.service.name, &right));
        }
        self.services.push(file.service);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_budget::SharedBudgetArgument;
    use crate::spec::tests::small;

    /// File of a service of that name with servers of its own, with some texts replaced.
    fn file(name: &str, replaced: &[(&str, &str)]) -> (String, ServiceFile) {
        let mut text = small().replace("service: demo", &format!("service: {name}"));
        for (before, variant) in [("127.0.0.1:2/cores", "a"), ("127.0.0.1:3/cores", "b")] {
            text = text.replace(before, &format!("{name}:8080/{variant}"));
        }
        for (before, after) in replaced {
            assert!(text.contains(before), "'{before}' is not in the file");
            text = text.replace(before, after);
        }
        (
            format!("{name}.yaml"),
            ServiceFile::from_yaml(&text).unwrap(),
        )
    }

    fn budgets(sizes: &[&str]) -> SharedBudgets {
        let sizes: Vec<SharedBudgetArgument> =
            sizes.iter().map(|text| text.parse().unwrap()).collect();
        SharedBudgets::new(&sizes).unwrap()
    }

    #[test]
    fn files_of_one_planner_are_served_together() {
        let shared = ("cores: 8", "cores: 8, shared: pool, weight: 2");
        let files = vec![file("a", &[shared]), file("b", &[shared]), file("c", &[])];
        let served = ServedFiles::new(files, &budgets(&["pool=12"])).unwrap();
        let names: Vec<&str> = served
            .services
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn contradiction_is_refused_with_file_key_and_value() {
        let shared = ("cores: 8", "cores: 8, shared: pool");
        let large = ("initial: 2}", "initial: 6, min: 6}");
        let (env, listen) = ("keyEnv: WEIR_KEY", "listen: 127.0.0.1:0");
        for (sizes, files, expected) in [
            (
                vec![],
                vec![
                    file("a", &[]),
                    file("b", &[(listen, "listen: 127.0.0.1:8081")]),
                ],
                "service file b.yaml: listen: 127.0.0.1:8081; it must be 127.0.0.1:0, as in the first file",
            ),
            (
                vec![],
                vec![file("a", &[]), file("b", &[(env, "keyFile: keys")])],
                "service file b.yaml: keyEnv, keyFile: keyFile keys; it must be keyEnv WEIR_KEY, as in",
            ),
            (
                vec![],
                vec![file("a", &[]), file("a", &[])],
                "service file a.yaml: service: a; it must be another name: a.yaml has it already",
            ),
            (
                vec![],
                vec![file("a", &[]), file("b", &[("http://b", "http://a")])],
                "service file b.yaml: variants[].resize of a: http://a:8080/a; it must be that of one service: a.yaml",
            ),
            (
                vec![],
                vec![file("a", &[shared])],
                "service file a.yaml: budget.shared: pool; it must be a shared budget of the planner; start it with --shared-budget pool=CORES",
            ),
            (
                vec!["other=8", "third=8"],
                vec![file("a", &[shared])],
                "service file a.yaml: budget.shared: pool; it must be a shared budget of the planner (--shared-budget): other, third",
            ),
            (
                vec!["pool=7"],
                vec![file("a", &[shared])],
                "service file a.yaml: budget.cores: 8; it must be at most 7, the cores of shared budget pool",
            ),
            (
                vec!["pool=8.5"],
                vec![file("a", &[shared])],
                "service file a.yaml: --shared-budget pool: 8.5; it must be 1 to 65536 steps, whole ones (budget.step of a: 1)",
            ),
            (
                vec!["pool=8"],
                vec![
                    file("a", &[shared]),
                    file("b", &[("cores: 8", "cores: 8, step: 0.5, shared: pool")]),
                ],
                "service file b.yaml: budget.step: 0.5; it must be 1, as of a, which shares pool",
            ),
            (
                vec!["pool=8"],
                vec![file("a", &[shared, large]), file("b", &[shared, large])],
                "service file b.yaml: --shared-budget pool: 8; it must be at least 12, the minimum cores of all services with b",
            ),
        ] {
            let error = ServedFiles::new(files, &budgets(&sizes))
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }
}
