//! Tests of the console's files.

use super::*;
use crate::http::console::{SECURITY_POLICY, has_module};

#[tokio::test]
async fn page_and_parts_need_no_key_and_name_no_other_host() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let page = endpoints.get("/").await;
    assert_eq!(page.status(), 200);
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers()["content-security-policy"], SECURITY_POLICY);
    let page = page.text().await.unwrap();
    let mut named = std::collections::BTreeSet::new();
    let mut texts = vec![page];
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
            let part = endpoints.get(&path).await;
            assert_eq!(part.status(), 200, "{path}");
            let kind = part.headers()["content-type"].to_str().unwrap().to_owned();
            assert!(!kind.starts_with("application/json"), "{path}: {kind}");
            texts.push(part.text().await.unwrap());
        }
    }
    assert_eq!(named.len(), 9, "{named:?}");
}

#[tokio::test]
async fn known_file_is_not_sent_again() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let first = endpoints.get("/console/app.js").await;
    let tag = first.headers()["etag"].clone();
    for (tag, status) in [(tag.to_str().unwrap(), 304), ("\"other\"", 200)] {
        let url = format!("http://{}/console/app.js", endpoints.address);
        let again = endpoints.client.get(url).header("if-none-match", tag);
        assert_eq!(again.send().await.unwrap().status(), status);
    }
}

#[tokio::test]
async fn missing_file_is_404_and_module_says_where_it_comes_from() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let other = endpoints.get("/console/other.js").await;
    assert_eq!(error(other, 404).await, "no such path");
    let module = endpoints.get("/console/weir_console_bg.wasm").await;
    if has_module() {
        assert_eq!(module.headers()["content-type"], "application/wasm");
        assert_eq!(module.headers()["content-encoding"], "gzip");
    } else {
        assert!(error(module, 404).await.contains("cargo xtask console"));
    }
}
