//! Keys of a running planner: changed in its file, and the placeholder.

use super::bed::*;

async fn poll(planner: &str, key: &str) -> u16 {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client
        .get(format!("{planner}/v1/plans/demo"))
        .bearer_auth(key);
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn keys_change_without_restart_and_bad_ones_are_not_taken_over() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with("");
    let file = folder.path("key");
    let service = service_file(address);
    let key_file = format!("keyFile: {}", file.display());
    let service = service.replace("keyEnv: WEIR_TEST_KEY", &key_file);
    std::fs::write(folder.path("service.yaml"), service).unwrap();
    std::fs::write(&file, "change-me\n").unwrap();
    let refused = folder.refused(|command| command).await;
    let expected = format!(
        "{}: line 1: 'change-me' is the manifests' placeholder",
        file.display()
    );
    assert!(refused.contains(&expected), "{refused}");

    std::fs::write(&file, "first-secret\n").unwrap();
    let (mut child, planner) = folder.start().await;
    assert_eq!(poll(&planner, "first-secret").await, 200);
    // Both while the proxies change over.
    std::fs::write(&file, "first-secret\nsecond-secret\n").unwrap();
    until("the second key", async || {
        (poll(&planner, "second-secret").await == 200).then_some(())
    })
    .await;
    assert_eq!(poll(&planner, "first-secret").await, 200);
    std::fs::write(&file, "# only the new one\nsecond-secret\n").unwrap();
    until("the end of the first key", async || {
        (poll(&planner, "first-secret").await == 401).then_some(())
    })
    .await;
    let mut log = String::new();
    for (round, bad) in ["change-me\n", "third-secret\nshort\n", ""]
        .into_iter()
        .enumerate()
    {
        std::fs::write(&file, bad).unwrap();
        let refused = "the earlier ones stay in use (said once";
        until_logged(&mut child, &mut log, refused, round + 1).await;
        assert_eq!(poll(&planner, "second-secret").await, 200, "{bad}");
        assert_eq!(poll(&planner, "third-secret").await, 401, "{bad}");
        // A valid file is taken over again.
        let next = format!("next-secret-{round}");
        std::fs::write(&file, format!("second-secret\n{next}\n")).unwrap();
        until("the next key", async || {
            (poll(&planner, &next).await == 200).then_some(())
        })
        .await;
    }
    log += &end(child, "-TERM").await;
    assert!(
        !log.contains("second-secret") && !log.contains("third-secret"),
        "{log}"
    );
}
