//! One pod of an emulated port, whose kubelet confirms after some readings, or does not.

use std::collections::VecDeque;

use serde_json::json;

use super::*;

/// Way in which the kubelet handles a resize that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kubelet {
    /// It confirms at that reading after it.
    ConfirmsAt(u32),
    /// It sets the condition `PodResizePending` with this reason.
    Pending(&'static str),
    /// It fails.
    Fails,
}

#[derive(Debug)]
struct State {
    pod: Value,
    kubelet: Kubelet,
    patches: u32,
    readings_left: Option<u32>,
    /// Failures of the next readings and patches.
    reads: VecDeque<ApiFailure>,
    writes: VecDeque<ApiFailure>,
}

#[derive(Debug)]
struct Emulated(Mutex<State>);

fn resources(request: &str, limit: Option<&str>) -> Value {
    let mut all = json!({"requests": {"cpu": request}});
    if let Some(limit) = limit {
        all["limits"] = json!({"cpu": limit});
    }
    all
}

/// Ready pod of one core.
fn pod() -> Value {
    let one = resources("1", Some("1"));
    json!({
        "metadata": {"name": "small-0", "namespace": "demo", "uid": "u", "resourceVersion": "7", "generation": 1},
        "spec": {"containers": [{"name": "app", "resources": one}]},
        "status": {"phase": "Running", "qosClass": "Burstable", "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}}, "resources": one}]},
    })
}

impl Emulated {
    fn new(pod: Value, kubelet: Kubelet) -> Emulated {
        Emulated(Mutex::new(State {
            pod,
            kubelet,
            patches: 0,
            readings_left: None,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
        }))
    }
}

impl State {
    fn condition(&mut self, found: Option<(&str, &str)>) {
        let conditions = self.pod["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|one| one["type"] == "Ready");
        if let Some((name, reason)) = found {
            let message = "so";
            conditions.push(
                json!({"type": name, "status": "True", "reason": reason, "message": message}),
            );
        }
    }

    fn confirm(&mut self) {
        self.condition(None);
        let given = self.pod["spec"]["containers"][0]["resources"].clone();
        self.pod["status"]["containerStatuses"][0]["resources"] = given;
        if !self.pod["status"]["observedGeneration"].is_null() {
            self.pod["status"]["observedGeneration"] = self.pod["metadata"]["generation"].clone();
        }
    }

    fn write(&mut self, resources: &Value) {
        let generation = self.pod["metadata"]["generation"].as_i64().unwrap();
        self.pod["metadata"]["generation"] = json!(generation + 1);
        self.pod["spec"]["containers"][0]["resources"] = resources.clone();
        let has = &self.pod["status"]["containerStatuses"][0]["resources"];
        if resources == has {
            return self.confirm();
        }
        match self.kubelet {
            Kubelet::ConfirmsAt(readings) => self.readings_left = Some(readings),
            Kubelet::Pending(reason) => self.condition(Some(("PodResizePending", reason))),
            Kubelet::Fails => self.condition(Some(("PodResizeInProgress", "Error"))),
        }
        if self.kubelet != Kubelet::ConfirmsAt(u32::MAX)
            && !self.pod["status"]["observedGeneration"].is_null()
        {
            self.pod["status"]["observedGeneration"] = json!(generation + 1);
        }
    }
}

impl PodPort for &Emulated {
    async fn read(&self) -> Result<Pod, ApiFailure> {
        let mut state = self.0.lock().unwrap();
        if let Some(failure) = state.reads.pop_front() {
            return Err(failure);
        }
        state.readings_left = state.readings_left.map(|left| left.saturating_sub(1));
        if state.readings_left == Some(0) {
            state.readings_left = None;
            state.confirm();
        }
        Ok(serde_json::from_value(state.pod.clone()).unwrap())
    }

    async fn patch(&self, body: &Value) -> Result<(), ApiFailure> {
        let mut state = self.0.lock().unwrap();
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        let container = &body["spec"]["containers"][0];
        assert_eq!(container["name"], "app");
        state.patches += 1;
        let failure = state.writes.pop_front();
        if failure.as_ref().is_none_or(ApiFailure::may_have_applied) {
            state.write(&container["resources"]);
        }
        failure.map_or(Ok(()), Err)
    }
}

async fn open(emulated: &Emulated) -> Result<PodServer<&Emulated>, PodServerError> {
    PodServer::open(emulated, None, CONFIRM_TIME_MAX).await
}

/// CPU request and limit of the pod's spec, and number of patches.
fn spec(emulated: &Emulated) -> (String, String, u32) {
    let state = emulated.0.lock().unwrap();
    let resources = &state.pod["spec"]["containers"][0]["resources"];
    let cpu = |of: &str| resources[of]["cpu"].as_str().unwrap().to_owned();
    (cpu("requests"), cpu("limits"), state.patches)
}

fn expect(emulated: &Emulated, cpu: &str, patches: u32) {
    assert_eq!(spec(emulated), (cpu.to_owned(), cpu.to_owned(), patches));
}

#[tokio::test(start_paused = true)]
async fn cores_are_set_once_confirmed_and_restored() {
    for observed in [json!(1), Value::Null] {
        let mut pod = pod();
        pod["status"]["observedGeneration"] = observed;
        let emulated = Emulated::new(pod, Kubelet::ConfirmsAt(3));
        let server = open(&emulated).await.unwrap();
        let start = Instant::now();
        server.set(2.5).await.unwrap();
        assert_eq!(start.elapsed(), 3 * READ_EVERY);
        expect(&emulated, "2500m", 1);
        server.set(2.5).await.unwrap();
        server.set(4.0).await.unwrap();
        expect(&emulated, "4", 2);
        server.restore().await.unwrap();
        expect(&emulated, "1", 3);
        server.restore().await.unwrap();
        expect(&emulated, "1", 3);
    }
}

#[tokio::test(start_paused = true)]
async fn resize_that_the_node_cannot_hold_is_an_error_and_is_restored() {
    for (kubelet, observed, expected) in [
        (
            Kubelet::Pending("Deferred"),
            json!(1),
            "4 cores: its node has no capacity now, and its kubelet tries again by itself: so",
        ),
        (
            Kubelet::Pending("Infeasible"),
            json!(1),
            "4 cores: its node can never hold it: so",
        ),
        (
            Kubelet::Pending("Infeasible"),
            Value::Null,
            "4 cores: its node can never hold it: so",
        ),
        (Kubelet::Fails, json!(1), "4 cores: its kubelet failed: so"),
        (
            Kubelet::ConfirmsAt(u32::MAX),
            json!(1),
            "4 cores: not actuated within 60s",
        ),
    ] {
        let mut pod = pod();
        pod["status"]["observedGeneration"] = observed;
        let emulated = Emulated::new(pod, kubelet);
        let server = open(&emulated).await.unwrap();
        let error = server.set(4.0).await.unwrap_err().to_string();
        assert_eq!(error, expected);
        expect(&emulated, "4", 1);
        server.restore().await.unwrap();
        expect(&emulated, "1", 2);
    }
}

#[tokio::test(start_paused = true)]
async fn condition_of_an_earlier_resize_is_not_taken_for_the_new_one() {
    let mut pod = pod();
    // Kubernetes 1.33, which names no generation.
    pod["status"]["observedGeneration"] = Value::Null;
    let emulated = Emulated::new(pod, Kubelet::Pending("Infeasible"));
    let server = open(&emulated).await.unwrap();
    server.set(4.0).await.unwrap_err();
    emulated.0.lock().unwrap().kubelet = Kubelet::ConfirmsAt(4);
    server.set(2.0).await.unwrap();
    expect(&emulated, "2", 2);
}

#[tokio::test(start_paused = true)]
async fn pod_that_is_not_ready_after_a_resize_is_named() {
    let emulated = Emulated::new(pod(), Kubelet::ConfirmsAt(1));
    let server = open(&emulated).await.unwrap();
    emulated.0.lock().unwrap().pod["status"]["conditions"][0]["status"] = json!("False");
    let error = server.set(2.0).await.unwrap_err().to_string();
    // The kubelet of this test keeps the condition.
    assert_eq!(error, "it has 2 cores, and was not ready within 60s");
}

#[tokio::test(start_paused = true)]
async fn failures_that_may_pass_are_tried_again() {
    let lost = |indeterminate| ApiFailure::Unreachable {
        why: "reset".to_owned(),
        indeterminate,
    };
    let after = Duration::from_secs(3);
    let emulated = Emulated::new(pod(), Kubelet::ConfirmsAt(1));
    let server = open(&emulated).await.unwrap();
    {
        let mut state = emulated.0.lock().unwrap();
        state.reads.extend([lost(false)]);
        state
            .writes
            .extend([ApiFailure::Conflict, ApiFailure::Throttled { after }]);
    }
    let start = Instant::now();
    server.set(2.0).await.unwrap();
    assert_eq!(start.elapsed(), after + 3 * READ_EVERY);
    expect(&emulated, "2", 3);
    // A write without an answer is not sent twice if it was carried out.
    emulated.0.lock().unwrap().writes.push_back(lost(true));
    server.set(3.0).await.unwrap();
    expect(&emulated, "3", 4);
    // The last failure is the reason at the end of the time.
    emulated
        .0
        .lock()
        .unwrap()
        .reads
        .extend((0..1000).map(|_| lost(false)));
    let error = server.set(1.0).await.unwrap_err().to_string();
    assert_eq!(error, "1 cores: the API server did not answer: reset");
}

#[tokio::test(start_paused = true)]
async fn final_failures_end_it_at_once() {
    let forbidden = || ApiFailure::Forbidden {
        verb: RESIZE,
        why: "no".to_owned(),
    };
    let emulated = Emulated::new(pod(), Kubelet::ConfirmsAt(1));
    let server = open(&emulated).await.unwrap();
    emulated.0.lock().unwrap().writes.push_back(forbidden());
    let error = server.set(2.0).await.unwrap_err().to_string();
    assert_eq!(error, "2 cores: not allowed to patch pods/resize: no");
    expect(&emulated, "1", 1);
    emulated
        .0
        .lock()
        .unwrap()
        .reads
        .push_back(ApiFailure::NotFound);
    let error = server.restore().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "1 cores: it is gone; it had 1 cores, which it gets back by: kubectl -n demo patch pod small-0 \
         --subresource resize -p '{\"spec\":{\"containers\":[{\"name\":\"app\",\"resources\":\
         {\"requests\":{\"cpu\":\"1\"},\"limits\":{\"cpu\":\"1\"}}}]}}'"
    );
}

#[tokio::test(start_paused = true)]
async fn pod_that_somebody_else_changes_is_left_alone() {
    let emulated = Emulated::new(pod(), Kubelet::ConfirmsAt(1));
    let server = open(&emulated).await.unwrap();
    server.set(2.0).await.unwrap();
    emulated.0.lock().unwrap().write(&resources("3", Some("3")));
    let error = server.set(4.0).await.unwrap_err().to_string();
    assert!(
        error.starts_with("something else resized it to 3 cores; end that"),
        "{error}"
    );
    server.restore().await.unwrap_err();
    expect(&emulated, "3", 1);
    emulated.0.lock().unwrap().pod["metadata"]["uid"] = json!("v");
    let error = server.set(4.0).await.unwrap_err().to_string();
    assert_eq!(error, "another pod has its name now");
}

#[tokio::test]
async fn pods_that_cannot_be_measured_are_refused() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut pod = pod();
        change(&mut pod);
        pod
    };
    let limited = |limit: Option<&'static str>| {
        with(&|pod| pod["spec"]["containers"][0]["resources"] = resources("2", limit))
    };
    for (pod, expected) in [
        (
            limited(None),
            "its container app has a CPU request of 2 and no limit; they must be equal",
        ),
        (
            limited(Some("4")),
            "its container app has a CPU request of 2 and a limit of 4; they must be equal",
        ),
        (
            with(&|pod| pod["status"]["qosClass"] = json!("BestEffort")),
            "it is BestEffort",
        ),
        (
            with(&|pod| pod["status"]["containerStatuses"][0]["resources"] = Value::Null),
            "1 cores: its node does not say what it has",
        ),
        (
            with(&|pod| {
                let containers = pod["spec"]["containers"].as_array_mut().unwrap();
                containers.push(json!({"name": "log"}));
            }),
            "it has several containers; it must be one of pod/NAME/CONTAINER: app, log",
        ),
    ] {
        let emulated = Emulated::new(pod, Kubelet::Fails);
        let error = open(&emulated).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{expected}\n{error}");
    }
    let emulated = Emulated::new(pod(), Kubelet::Fails);
    let port = &emulated;
    let error = PodServer::open(port, Some("log"), CONFIRM_TIME_MAX).await;
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "it has no container log, only app");
    emulated
        .0
        .lock()
        .unwrap()
        .reads
        .push_back(ApiFailure::NotFound);
    let error = open(&emulated).await.unwrap_err().to_string();
    assert_eq!(error, "it is gone");
}

#[test]
fn cores_are_whole_steps() {
    assert_eq!(exact(0.25), Ok(Cores::from_millis(250)));
    assert_eq!(exact(4.0), Ok(Cores::whole(4)));
    for cores in [0.333, 0.005, 0.0, 1.2345, f64::NAN] {
        let error = exact(cores).unwrap_err().to_string();
        let expected = format!("{cores} cores; it must be a multiple of 0.01");
        assert_eq!(error, expected);
    }
}
