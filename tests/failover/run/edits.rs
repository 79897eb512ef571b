//! Edits of the resource during a run.

use std::time::Duration;

use serde_json::{Value, json};
use weir_apiserver::Key;

use super::Run;
use crate::bed::MODELS;
use crate::schedule::Edit;

impl Run<'_> {
    /// Makes the edits that are due, and takes refused ones back.
    pub(super) fn edit(&mut self, now: Duration) {
        let store = self.cluster.server.store();
        let set = |spec: &Value| {
            let key = Key::new(MODELS, "demo");
            store.amend("sloservices.weir.dev", &key, |resource| {
                resource["spec"] = spec.clone();
            });
        };
        let mut valid = self.resource()["spec"].clone();
        // A valid edit changes a value on which no decision depends.
        let of = |edits: usize| json!(format!("{}ms", 100 + edits));
        valid["solver"]["timeLimit"] = of(self.edits);
        if self.takes_back.is_some_and(|at| now >= at) {
            self.takes_back = None;
            set(&valid);
        }
        let next = self.schedule.edits.get(self.edits);
        let Some((_, edit)) = next.filter(|(at, _)| now >= *at && self.takes_back.is_none()) else {
            return;
        };
        self.edits += 1;
        valid["solver"]["timeLimit"] = of(self.edits);
        let mut refused = valid.clone();
        refused["planMaxAge"] = json!("1ms");
        match edit {
            Edit::Valid => set(&valid),
            Edit::Refused(lasts) => {
                set(&refused);
                self.takes_back = Some(now + *lasts);
            }
            Edit::RefusedAdvisory(lasts) => {
                refused["mode"] = json!("advisory");
                set(&refused);
                self.takes_back = Some(now + *lasts);
            }
        }
    }
}
