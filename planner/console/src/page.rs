//! Tests of the page, as the planner serves it.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use weir_planner::http::console::{SECURITY_POLICY, has_module};

use crate::endpoint::get;

#[tokio::test]
async fn page_and_parts_need_no_key_and_name_no_other_host() {
    let page = get("/", None).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers["content-security-policy"], SECURITY_POLICY);
    let mut named = BTreeSet::new();
    let mut texts = vec![page.text()];
    while let Some(text) = texts.pop() {
        assert!(!text.contains("https://"), "{text}");
        let parts = text.split('"').filter_map(|part| {
            let name = part.strip_prefix("console/").or(part.strip_prefix("./"))?;
            (!name.contains("weir_console")).then(|| format!("/console/{name}"))
        });
        for path in parts.collect::<Vec<_>>() {
            if !named.insert(path.clone()) {
                continue;
            }
            let part = get(&path, None).await;
            assert_eq!(part.status, StatusCode::OK, "{path}");
            let kind = part.headers["content-type"].to_str().unwrap();
            assert!(!kind.starts_with("application/json"), "{path}: {kind}");
            texts.push(part.text());
        }
    }
    assert_eq!(named.len(), 9, "{named:?}");
}

#[tokio::test]
async fn known_file_is_not_sent_again() {
    let first = get("/console/app.js", None).await;
    let tag = first.headers["etag"].to_str().unwrap();
    let same = get("/console/app.js", Some(tag)).await;
    assert_eq!(
        (same.status, same.body.len()),
        (StatusCode::NOT_MODIFIED, 0)
    );
    let other = get("/console/app.js", Some("\"other\"")).await;
    assert_eq!(other.status, StatusCode::OK);
}

#[tokio::test]
async fn missing_file_is_404_and_module_names_its_command() {
    let other = get("/console/other.js", None).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
    assert!(other.text().contains("no such path"), "{}", other.text());
    let module = get("/console/weir_console_bg.wasm", None).await;
    if has_module() {
        assert_eq!(module.headers["content-type"], "application/wasm");
        assert_eq!(module.headers["content-encoding"], "gzip");
    } else {
        assert_eq!(module.status, StatusCode::NOT_FOUND);
        assert!(module.text().contains("cargo xtask console"));
    }
}
