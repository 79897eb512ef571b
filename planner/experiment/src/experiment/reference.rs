//! Checks of what an experiment gives of its paper: values, statements and figures.

use super::{Wrong, wrong};
use crate::raw::{Column, RawExperiment};

/// Checks the names and numbers.
pub(super) fn check(raw: &RawExperiment) -> Result<(), Wrong> {
    for (index, value) in raw.published.iter().enumerate() {
        let path = format!("published[{index}]");
        known(
            raw,
            &path,
            &value.case,
            &value.column,
            &[("row", &value.row)],
        )?;
        if !value.value.is_finite() {
            let right = format!("{}; it must be a number", value.value);
            return Err(wrong(format!("{path}.value"), right));
        }
    }
    for (index, claim) in raw.claims.iter().enumerate() {
        let path = format!("claims[{index}]");
        let rows = [("row", &*claim.row), ("to", &*claim.to)];
        known(raw, &path, &claim.case, &claim.column, &rows)?;
        if !(claim.ratio.is_finite() && claim.ratio > 0.0) {
            let right = format!("{}; it must be a number above 0", claim.ratio);
            return Err(wrong(format!("{path}.ratio"), right));
        }
    }
    for (index, figure) in raw.coverage.iter().enumerate() {
        if figure.played.is_some() == figure.missing.is_some() {
            let right = format!("{}; it must have either played or missing", figure.figure);
            return Err(wrong(format!("coverage[{index}]"), right));
        }
    }
    Ok(())
}

/// Checks that the case, the column and the rows are the experiment's.
fn known(
    raw: &RawExperiment,
    path: &str,
    case: &str,
    column: &Column,
    rows: &[(&str, &str)],
) -> Result<(), Wrong> {
    if !raw.cases.iter().any(|one| one.name == case) {
        return Err(wrong(
            format!("{path}.case"),
            format!("{case}; it must be a case"),
        ));
    }
    for (field, name) in rows {
        if !raw.rows.iter().any(|row| row.name == *name) {
            let right = format!("{name}; it must be a row");
            return Err(wrong(format!("{path}.{field}"), right));
        }
    }
    if !raw.columns.contains(column) {
        let right = format!("{}; it must be one of columns", column.heading());
        return Err(wrong(format!("{path}.column"), right));
    }
    Ok(())
}
