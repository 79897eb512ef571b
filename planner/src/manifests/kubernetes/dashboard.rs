//! The dashboard for Grafana: of a service, its variants, its requests' times, the planner and the plans.

mod panels;

use serde_json::{Value, json};

use panels::{PLANNER, Panel, SERVICE, TIMES, VARIANTS};

/// Columns of Grafana's grid.
const GRID: usize = 24;
/// Panels in a line.
const IN_LINE: usize = 3;
const HEIGHT: usize = 8;
/// Schema of the JSON, as Grafana 10 writes it; later versions read it.
const SCHEMA: u32 = 39;

/// Returns the dashboard.
pub(super) fn dashboard() -> Value {
    let mut panels = Vec::new();
    let mut line = 0;
    for (title, of) in [
        ("Service", SERVICE),
        ("Variants", VARIANTS),
        ("Times", TIMES),
        ("Planner", PLANNER),
    ] {
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": { "h": 1, "w": GRID, "x": 0, "y": line },
        }));
        line += 1;
        for chunk in of.chunks(IN_LINE) {
            for (column, one) in chunk.iter().enumerate() {
                let panel = panel(one, panels.len() + 1, (column * GRID / IN_LINE, line));
                panels.push(panel);
            }
            line += HEIGHT;
        }
    }
    json!({
        "uid": "weir", "title": "Weir", "tags": ["weir"], "schemaVersion": SCHEMA, "editable": true,
        "refresh": "10s", "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source" },
            {
                "name": "service", "type": "query", "label": "Service", "refresh": 2, "sort": 1,
                "datasource": source(), "query": "label_values(weir_planner_plan_revision, service)",
            },
        ] },
        "panels": panels,
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn panel((title, unit, queries): &Panel, id: usize, (x, y): (usize, usize)) -> Value {
    let targets = queries.iter().zip('A'..).map(|((expr, legend), name)| {
        json!({ "refId": name.to_string(), "expr": expr, "legendFormat": legend, "datasource": source() })
    });
    json!({
        "id": id, "type": "timeseries", "title": title, "datasource": source(),
        "gridPos": { "h": HEIGHT, "w": GRID / IN_LINE, "x": x, "y": y },
        "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
        "targets": targets.collect::<Vec<Value>>(),
    })
}
