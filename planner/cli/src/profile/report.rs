//! Report on standard output: measurements, every latency model with its errors, and what reduces their value.

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use weir_planner::solve::latency_model::Parallelism;
use weir_profile::fitted::{CapacityFit, Fitted, LatencyFit};

/// Reports fitted measurements.
pub(super) fn fitted(fitted: &Fitted, variant: Option<&str>, notes: &[String]) -> String {
    let mut table = table();
    table.set_header([
        "cores",
        "batch",
        "mean ms",
        "± %",
        "p80 ms",
        "p95 ms",
        "p99 ms",
        "requests/s",
        "executions",
        "fit %",
    ]);
    let residuals = fitted
        .latency
        .as_ref()
        .map(|one| one.chosen.residuals_percent.iter());
    let mut residuals = residuals.into_iter().flatten();
    for one in &fitted.measurements {
        let number = |value: Option<f64>| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
        };
        let residual = one.mean_ms.and_then(|_| residuals.next());
        table.add_row([
            one.cores.to_string(),
            one.batch.to_string(),
            number(one.mean_ms),
            number(one.half_width_percent),
            number(one.p80_ms),
            number(one.p95_ms),
            number(one.p99_ms),
            number(one.rps),
            one.executions
                .map_or_else(|| "–".to_owned(), |count| count.to_string()),
            residual.map_or_else(|| "–".to_owned(), |residual| format!("{residual:+.1}")),
        ]);
    }
    let mut text = variant.map(|name| format!("{name}\n")).unwrap_or_default();
    text += &format!("{table}\n");
    if let Some(latency) = &fitted.latency {
        text += &models(latency, fitted.parallelism);
        text += &format!("tail {:.3}; ", fitted.tail);
    }
    if let Some(fit) = &fitted.capacity {
        text += &format!("{}; ", capacity(fit));
    }
    let range = fitted.range;
    text += &format!(
        "measured on {} to {} cores with batches of {} to {}\n",
        range.cores.min, range.cores.max, range.batch.min, range.batch.max
    );
    text + &lines(notes)
}

/// Reports the capacity with its errors.
pub(super) fn capacity(fit: &CapacityFit) -> String {
    let (line, errors) = (fit.line, &fit.residuals_percent);
    let quality = match (fit.r_squared, errors.len()) {
        (None, 1) => "one point".to_owned(),
        (None, points) => format!("{points} points, which any line meets"),
        (Some(r_squared), _) => {
            let within = max_abs(errors);
            format!("R² {r_squared:.4}, within {within:.1} % of each point")
        }
    };
    format!(
        "capacity in requests/s on c cores: {:.3}·c {:+.3}, {quality}",
        line.slope_rps, line.intercept_rps
    )
}

/// Greatest absolute value.
pub(super) fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, one| one.abs().max(most))
}

/// Reports every latency model: `*` marks the one that the profile takes. One point fits each of them.
pub(super) fn models(fit: &LatencyFit, parallelism: Parallelism) -> String {
    if fit.chosen.residuals_percent.len() == 1 {
        let model = fit.model;
        let ms = model.gamma_ms + model.epsilon_ms + model.delta_ms + model.eta_ms;
        return format!(
            "a batch takes {ms:.2} ms; one point says nothing of other cores and batches\n"
        );
    }
    let mut table = table();
    table.set_header([
        "",
        "model",
        "coefficients",
        "R²",
        "left out: mean %",
        "max %",
    ]);
    for (form, one) in &fit.candidates {
        let name = form.name().to_owned();
        let Ok(one) = one else {
            let mark = "–".to_owned();
            table.add_row([
                String::new(),
                name,
                mark.clone(),
                mark.clone(),
                mark.clone(),
                mark,
            ]);
            continue;
        };
        let mark = if one.form == fit.chosen.form { "*" } else { "" };
        let left_out = one.left_out.as_ref();
        let percent = |value: Option<f64>| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
        };
        table.add_row([
            mark.to_owned(),
            name,
            one.coefficients.to_string(),
            one.overdetermined_r_squared()
                .map_or_else(|| "–".to_owned(), |r_squared| format!("{r_squared:.4}")),
            percent(left_out.map(|it| it.mean_percent)),
            percent(left_out.map(|it| it.max_percent)),
        ]);
    }
    let (g, e, d, h) = (
        fit.model.gamma_ms,
        fit.model.epsilon_ms,
        fit.model.delta_ms,
        fit.model.eta_ms,
    );
    let errors = &fit.chosen.residuals_percent;
    let within = max_abs(errors);
    let mean = errors.iter().map(|one| one.abs()).sum::<f64>() / errors.len().max(1) as f64;
    let r_squared = fit.chosen.overdetermined_r_squared().map_or_else(
        || format!("{} points, no more than coefficients", errors.len()),
        |r_squared| format!("R² {r_squared:.4}"),
    );
    let each = match parallelism {
        Parallelism::Fixed(at_once) if at_once.get() > 1 => {
            format!(" of one execution (the server's cores / {at_once})")
        }
        Parallelism::Fixed(_) => String::new(),
        Parallelism::PerCore => " of one execution (at most 1)".to_owned(),
    };
    format!(
        "{table}\nms of a batch b on c cores{each}: {g:.2}·b/c + {e:.2}/c + {d:.2}·b + {h:.2}; {r_squared}, \
         within {within:.1} % of each point, {mean:.1} % on average\n"
    )
}

/// Returns each note on a line.
pub(super) fn lines(notes: &[String]) -> String {
    notes.iter().map(|note| format!("note: {note}\n")).collect()
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table
}
