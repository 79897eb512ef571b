//! Checks with their results and remedies, and their text.

use serde_json::{Value, json};

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) name: String,
    /// Reason why it failed.
    pub(super) problem: Option<String>,
    pub(super) remedy: &'static str,
}

/// Checks of one planner, service or proxy, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    title: String,
    pub(super) checks: Vec<Check>,
}

impl Section {
    pub(super) const fn new(title: String) -> Section {
        Section {
            title,
            checks: Vec::new(),
        }
    }

    /// Adds a check. Returns whether it passed.
    pub(super) fn check(
        &mut self,
        name: impl Into<String>,
        result: Result<(), String>,
        remedy: &'static str,
    ) -> bool {
        let passed = result.is_ok();
        self.checks.push(Check {
            name: name.into(),
            problem: result.err(),
            remedy,
        });
        passed
    }

    /// Number of checks that failed.
    pub(super) fn failed(&self) -> usize {
        let failed = self.checks.iter();
        failed.filter(|check| check.problem.is_some()).count()
    }

    pub(super) fn json(&self) -> Value {
        let checks = self.checks.iter().map(|check| {
            let remedy = check.problem.as_ref().map(|_| check.remedy);
            json!({
                "name": check.name, "passed": check.problem.is_none(), "problem": check.problem, "remedy": remedy,
            })
        });
        json!({ "of": self.title, "checks": checks.collect::<Vec<Value>>() })
    }
}

/// Returns the sections one after the other, and a summary.
pub(super) fn text(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        text += &format!("{}\n", section.title);
        for check in &section.checks {
            match &check.problem {
                None => text += &format!("√ {}\n", check.name),
                Some(problem) => {
                    let (name, remedy) = (&check.name, check.remedy);
                    text += &format!("× {name}\n    {problem}\n    remedy: {remedy}\n");
                }
            }
        }
        text.push('\n');
    }
    let count: usize = sections.iter().map(|section| section.checks.len()).sum();
    let failed: usize = sections.iter().map(Section::failed).sum();
    text + &match failed {
        0 => format!("all {count} checks passed\n"),
        _ => format!("{failed} of {count} checks failed\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_check_has_its_remedy() {
        let mut section = Section::new("planner http://a".to_owned());
        assert!(section.check("it answers", Ok(()), "start it"));
        let sections = [section.clone()];
        let passed = "planner http://a\n√ it answers\n\nall 1 checks passed\n";
        assert_eq!(text(&sections), passed);
        assert!(!section.check("it leads", Err("no".to_owned()), "wait"));
        let failed = "planner http://a\n√ it answers\n× it leads\n    no\n    remedy: wait\n\n1 of 2 checks failed\n";
        assert_eq!(text(&[section.clone()]), failed);
        let json = section.json();
        assert_eq!(json["checks"][0]["remedy"], Value::Null);
        assert_eq!(json["checks"][1]["remedy"], "wait");
        assert_eq!(json["checks"][1]["passed"], false);
    }
}
