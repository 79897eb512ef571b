//! Size of a shared budget as an argument of the planner: `NAME=CORES`.

use std::str::FromStr;

use weir_api::Cores;

use crate::quantity::cpu::RawCpu;
use crate::service::ConfigError;
use crate::service::rule::{refusal, rule, valid_name};

/// Maximum number of shared budgets of one planner.
pub const BUDGETS_MAX: usize = 64;
/// Maximum cores of a shared budget.
const CORES_MAX: Cores = Cores::whole(crate::service::BUDGET_MAX);

/// Name and size of a shared budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBudgetArgument {
    /// Name by which services refer to it.
    pub name: String,
    /// Cores of all services that share it, never exceeded.
    pub cores: Cores,
}

impl FromStr for SharedBudgetArgument {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<SharedBudgetArgument, ConfigError> {
        let right = "NAME=CORES, such as cpu-pool=32";
        let split = text.split_once('=');
        let (name, cores) = split.ok_or_else(|| refusal("NAME=CORES", text, right))?;
        let name = valid_name("NAME", name)?;
        let right = format!("more than 0, at most {CORES_MAX}, such as 32, 0.5 or 500m");
        let parsed = RawCpu::parse(cores).map(|cpu| cpu.0);
        let fits = |cores: &Cores| *cores > Cores::ZERO && *cores <= CORES_MAX;
        rule(parsed.as_ref().is_some_and(fits), "CORES", cores, &right)?;
        Ok(SharedBudgetArgument {
            name,
            cores: parsed.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_is_a_name_and_cores() {
        for (text, name, millis) in [
            ("cpu-pool=32", "cpu-pool", 32_000),
            ("a=0.5", "a", 500),
            ("a=1500m", "a", 1500),
            ("a=65536", "a", 65_536_000),
        ] {
            let expected = SharedBudgetArgument {
                name: name.to_owned(),
                cores: Cores::from_millis(millis),
            };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn wrong_argument_is_refused_with_its_value() {
        for (text, expected) in [
            ("cpu-pool", "NAME=CORES: cpu-pool; it must be NAME=CORES"),
            ("Pool=3", "NAME: Pool; it must be 1 to 63 of a-z"),
            ("=3", "NAME: ; it must be"),
            ("a=", "CORES: ; it must be more than 0"),
            ("a=0", "CORES: 0; it must be more than 0, at most 65536"),
            ("a=-1", "CORES: -1; it must be"),
            ("a=3=4", "CORES: 3=4; it must be"),
            ("a=65537", "CORES: 65537; it must be"),
            ("a=0.0001", "CORES: 0.0001; it must be"),
            ("a=NaN", "CORES: NaN; it must be"),
        ] {
            let parsed: Result<SharedBudgetArgument, ConfigError> = text.parse();
            let shown = parsed.unwrap_err().to_string();
            assert!(shown.starts_with(expected), "{text}: {shown}");
        }
    }
}
