//! Answers to what was sent on, by a server in parts or whole, or by Envoy's own timer.

use weir_filter::engine::{Answer, End, StreamId};
use weir_filter::reason::Reason;
use weir_filter::shell::Phase;

use super::{Envoy, Place};

impl Envoy {
    /// A server's answer, whole.
    pub fn answer(&mut self, id: StreamId) {
        self.begin_answer(id, false);
        self.end_answer(id);
    }

    /// Envoy's own timer, while no answer has begun.
    pub fn time_out(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.place != Place::Upstream || stream.phase != Phase::Open {
            return;
        }
        stream.place = Place::Answered;
        self.call(|envoy| {
            let now = envoy.now().mono;
            let refusal = envoy.shell.refusal_instead(id, Reason::Expired, now);
            let refusal = refusal.unwrap_or_else(|| panic!("{id} has a bare 504"));
            envoy.local.push((id, refusal.reason.label()));
            envoy.end(id, End::TimedOut);
        });
    }

    /// The headers of a server's answer.
    pub fn begin_answer(&mut self, id: StreamId, streams: bool) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.place != Place::Upstream || stream.awaits_byte {
            return;
        }
        stream.place = Place::Answering;
        if stream.phase != Phase::Open {
            return;
        }
        self.call(|envoy| {
            let answer = Answer {
                streams,
                ..Answer::default()
            };
            let tags = envoy.shell.on_answer(id, answer, envoy.now());
            if tags.is_some_and(|tags| tags.awaits_byte) {
                let stream = envoy.streams.get_mut(&id).expect("its own callback");
                (stream.place, stream.awaits_byte) = (Place::Upstream, true);
            }
        });
    }

    /// The first byte of a body whose headers are held.
    pub fn first_byte(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.place != Place::Upstream || !std::mem::take(&mut stream.awaits_byte) {
            return;
        }
        stream.place = Place::Answering;
        self.call(|envoy| envoy.shell.on_first_byte(id, envoy.now()));
    }

    /// The end of a server's answer.
    pub fn end_answer(&mut self, id: StreamId) {
        self.first_byte(id);
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.place != Place::Answering {
            return;
        }
        stream.place = Place::Answered;
        self.call(|envoy| envoy.end(id, End::Answered));
    }
}
