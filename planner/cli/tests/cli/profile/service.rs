//! `weir profile SERVICE NAME=URL …`: all variants of a service file, one after the other.

use super::*;

/// Folder with a service file of the variants `small` and `large`, and a request for each.
fn service_folder() -> TempDir {
    let folder = folder();
    let request = fs::read(folder.path().join("request.json")).unwrap();
    let mut service = "\
service: digits
listen: 127.0.0.1:8080
keyEnv: KEY
slo: 800ms
mode: advisory
budget: {cores: 4}
proxies: {stats: ['http://127.0.0.1:1/stats']}
variants:
"
    .to_owned();
    for name in ["small", "large"] {
        fs::write(folder.path().join(format!("{name}.request.json")), &request).unwrap();
        service += &format!(
            "- {{name: {name}, cluster: {name}, accuracy: 90, cores: {{initial: 2, min: 2, max: 2}}, \
             profile: {{file: {name}.profile.yaml}}}}\n"
        );
    }
    fs::write(folder.path().join("service.yaml"), service).unwrap();
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    // Wide intervals are enough here.
    command.args([
        "profile",
        "service.yaml",
        "--precision",
        "20",
        "--point-time",
        "3",
    ]);
    command.args(["--ready-time", "0"]).args(arguments);
    command
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .kill_on_drop(true);
    command
}

async fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = command(folder, arguments);
    let output = tokio::time::timeout(Duration::from_secs(240), command.output());
    output.await.unwrap().unwrap()
}

/// Last lines of the report, one for each variant.
fn lines(output: &Output) -> Vec<String> {
    let report = String::from_utf8(output.stdout.clone()).unwrap();
    let all: Vec<&str> = report.lines().collect();
    let last = all.len().saturating_sub(2);
    all[last..].iter().map(|&line| line.to_owned()).collect()
}

fn of(folder: &Path, name: &str) -> Value {
    let text = fs::read_to_string(folder.join(format!("{name}.profile.yaml"))).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_variant_leaves_the_others_and_the_same_command_goes_on() {
    let (server, folder) = (server(2.0).await, service_folder());
    let model = url(&server);
    // The address of a server with one model will do as well.
    let small = format!("small={}", model.trim_end_matches("/infer"));
    let large = format!("large={model}");
    let failing = ["large=http://127.0.0.1:9/v2/models/small/infer", &small];
    let output = run(folder.path(), &failing).await;
    let printed = error(&output);
    assert!(
        printed.contains("not measured: large; the same command goes on"),
        "{printed}"
    );
    let [first, second] = &lines(&output)[..] else {
        panic!("{output:?}")
    };
    assert_eq!(first, "small: measured: small.profile.yaml");
    assert!(
        second.starts_with(
            "large: not measured: http://127.0.0.1:9/v2/models/small/infer does not answer: "
        ),
        "{second}"
    );
    assert!(!folder.path().join("large.profile.yaml").exists());
    let measured = of(folder.path(), "small");
    assert_eq!(measured["range"]["cores"]["min"], 2.0);

    let output = run(folder.path(), &[&small, &large]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        lines(&output),
        [
            "small: left out: small.profile.yaml has a profile; --replace measures it again",
            "large: measured: large.profile.yaml",
        ]
    );
    assert_eq!(of(folder.path(), "small"), measured);
    let check = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["check", "service.yaml"])
        .current_dir(folder.path())
        .output();
    let check = check.await.unwrap();
    assert!(check.status.success(), "{check:?}");

    // Only the variant with an address is measured again.
    let before = server.executions().len();
    let output = run(folder.path(), &[&large]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.executions().len(), before);
    let output = run(folder.path(), &[&large, "--replace"]).await;
    assert!(output.status.success(), "{output:?}");
    let left_out = "small: left out: no address; it must be given as small=URL";
    assert_eq!(
        lines(&output),
        [left_out, "large: measured: large.profile.yaml"]
    );
    assert_eq!(of(folder.path(), "small"), measured);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cores_and_batches_of_a_resizable_variant_are_measured() {
    let (server, folder) = (server(1.0).await, service_folder());
    let file = folder.path().join("service.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let fixed = "name: small, cluster: small, accuracy: 90, cores: {initial: 2, min: 2, max: 2}";
    let resizable =
        "name: small, cluster: small, accuracy: 90, cores: {initial: 1, max: 2}, batch: 2";
    assert!(text.contains(fixed));
    let address = format!("{}/emulator/resources", server.url());
    let backend = format!("{resizable}, tellBatch: true, resize: '{address}'");
    let small = format!("small={}", url(&server));

    fs::write(&file, text.replace(fixed, resizable)).unwrap();
    let printed = error(&run(folder.path(), &[&small]).await);
    let command = format!(
        "`weir profile --url {} --request small.request.json --cores 1,2 --batches 1,2 --batch-requests --resize URL \
         --output small.profile.yaml`",
        url(&server)
    );
    assert!(printed.contains(&command), "{printed}");
    let workload = format!("{resizable}, workload: {{name: small}}");
    fs::write(&file, text.replace(fixed, &workload)).unwrap();
    let printed = error(&run(folder.path(), &[&small, "--batches", "2"]).await);
    let command = "--cores 1,2 --batches 2 --via pod/NAME --output small.profile.yaml`";
    assert!(printed.contains(command), "{printed}");

    fs::write(&file, text.replace(fixed, &backend)).unwrap();
    let output = run(folder.path(), &[&small]).await;
    assert!(output.status.success(), "{output:?}");
    let range = &of(folder.path(), "small")["range"];
    let bounds = |key: &str| (range[key]["min"].as_f64(), range[key]["max"].as_f64());
    assert_eq!(bounds("cores"), (Some(1.0), Some(2.0)));
    assert_eq!(bounds("batch"), (Some(1.0), Some(2.0)));
    let check = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["check", "service.yaml"])
        .current_dir(folder.path())
        .output();
    let checked = String::from_utf8(check.await.unwrap().stdout).unwrap();
    assert!(!checked.contains("small"), "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_command_goes_on_with_the_measured_points() {
    let (server, folder) = (server(2.0).await, service_folder());
    let servers = ["small", "large"].map(|name| format!("{name}={}", url(&server)));
    let servers = servers.each_ref().map(String::as_str);
    let slowly = ["--precision", "0.1", "--point-time", "2"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(["profile", "service.yaml"])
        .args(slowly)
        .args(servers);
    command
        .current_dir(folder.path())
        .env_remove("RUST_LOG")
        .kill_on_drop(true);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let process = command.spawn().unwrap();
    let path = folder.path().join("small.profile.yaml");
    let begun = wait::until("a point", Duration::from_secs(60), || path.exists());
    begun.await.unwrap();
    let id = process.id().unwrap().to_string();
    let interrupt = Command::new("kill").args(["-INT", &id]).status().await;
    assert!(interrupt.unwrap().success());
    let output = process.wait_with_output().await.unwrap();
    let printed = error(&output);
    let kept = "points are kept in small.profile.yaml: the same command goes on: interrupted";
    assert!(printed.contains(kept), "{printed}");
    assert!(
        printed.contains("not measured: small, large; "),
        "{printed}"
    );
    let begun = of(folder.path(), "small");
    assert!(begun["latency"].is_null());

    // Until it is complete, the planner refuses it and says what to do.
    let check = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["check", "service.yaml"])
        .current_dir(folder.path())
        .output();
    let check = check.await.unwrap();
    let refused = String::from_utf8(check.stdout).unwrap();
    assert!(
        refused.contains("--resume ends an interrupted measurement"),
        "{refused}"
    );

    let output = run(folder.path(), &servers).await;
    assert!(output.status.success(), "{output:?}");
    let points = |profile: &Value| profile["origin"]["points"].as_array().unwrap().clone();
    let (before, after) = (points(&begun), points(&of(folder.path(), "small")));
    assert!(after.starts_with(&before), "{before:?} {after:?}");
    assert!(!of(folder.path(), "large")["latency"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_addresses_and_files_are_refused_by_name() {
    let folder = service_folder();
    let small = "small=http://127.0.0.1:9/v2/models/small/infer";
    let inline = "\
service: a
listen: 127.0.0.1:8080
keyEnv: KEY
slo: 800ms
budget: {cores: 4}
proxies: {stats: ['http://127.0.0.1:1/stats']}
variants: [{name: small, cluster: a, accuracy: 90, cores: {initial: 1}, latency: {meanMs: 5}}]
";
    for (arguments, code, expected) in [
        (&[][..], 2, "<NAME=URL>"),
        (&["small"], 2, "it must be NAME=URL"),
        (&[small, "--output", "a.yaml"], 2, "cannot be used with"),
        (&[small, "--cores", "1"], 2, "cannot be used with"),
        (&[small, small], 1, "small: named twice; it must be once"),
        (
            &["medium=http://127.0.0.1:9/"],
            1,
            "medium: no variant of the service; it must be one of small, large",
        ),
        (
            &[small, "--request", "none.json"],
            1,
            "--request none.json: No such file",
        ),
    ] {
        let output = run(folder.path(), arguments).await;
        let error = String::from_utf8(output.stderr).unwrap();
        let is_right = output.status.code() == Some(code) && error.contains(expected);
        assert!(is_right, "{arguments:?}: {error}");
    }
    let unreadable = folder.path().join("small.profile.yaml");
    fs::write(&unreadable, "a note of mine\n").unwrap();
    let printed = error(&run(folder.path(), &[small]).await);
    assert!(
        printed.contains("small.profile.yaml is no profile of this command"),
        "{printed}"
    );
    assert_eq!(fs::read_to_string(&unreadable).unwrap(), "a note of mine\n");
    fs::write(folder.path().join("service.yaml"), inline).unwrap();
    let printed = error(&run(folder.path(), &[small]).await);
    assert!(
        printed.contains("its profile is in no file beside the service file"),
        "{printed}"
    );
}
