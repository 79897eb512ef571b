//! Callbacks of a service: events in, verdicts carried out.

use crate::engine::{End, StreamId};
use crate::host::{call, effects};
use crate::shell::Kinds;
use crate::time::{Mono, Now};
use crate::verdict::Verdict;

use super::{ACTIONS, Handle};

/// Handles a tick.
pub(in crate::host) fn on_tick(service: &Handle, now: Now) {
    #[cfg(feature = "trap")]
    crate::host::trap::on_tick();
    {
        let mut service = service.borrow_mut();
        if service.renew_at <= now.mono {
            service.renew(now);
            service.adopt_shared_plan(now);
        }
        service.poll_planner(now);
        service.probe(now);
        service.detect_body_events(now);
        service.shell.release(now);
        service.report();
        service.meter.flush();
        service.tick_at = Mono(0);
    }
    carry_out(service, Kinds::All, now);
}

/// Handles notifications by other VMs: slots for us, or also news for all.
pub(in crate::host) fn on_notification(service: &Handle, news: bool, now: Now) {
    check(service, news, now);
}

/// Handles the answer to a call. Envoy may report in it that a call of this very callback failed.
pub(in crate::host) fn on_call_answer(service: &Handle, token: u32, now: Now) {
    service.borrow_mut().on_call_answer(token, now);
    check(service, true, now);
}

/// Checks the slot table, and if there may be news also the plan and variants' health.
fn check(service: &Handle, news: bool, now: Now) {
    {
        let mut service = service.borrow_mut();
        if news {
            service.renew(now);
            service.adopt_shared_plan(now);
            service.poll_planner(now);
            service.probe(now);
        }
        service.shell.release(now);
        service.report();
    }
    carry_out(service, Kinds::All, now);
}

/// Handles the end of a stream; the next waiting request gets its slot.
///
/// Only forwarding is possible here. A local reply to *another* stream makes Envoy stop the current one too
/// (its host stops whatever iteration is active), so the response that has just come would hang. Refusals
/// wait for the next tick, a millisecond away.
pub(in crate::host) fn on_end(service: &Handle, stream: StreamId, end: End, now: Now) {
    {
        let mut service = service.borrow_mut();
        service.keep_lease(now);
        service.shell.on_end(stream, end, now);
        service.report();
    }
    carry_out(service, Kinds::Sent, now);
}

/// Handles a response that exceeds Envoy's buffer; the next waiting request gets its slot.
pub(in crate::host) fn on_response_exceeds_buffer(service: &Handle, stream: StreamId, now: Now) {
    {
        let mut service = service.borrow_mut();
        service.shell.on_response_exceeds_buffer(stream, now);
        service.report();
    }
    carry_out(service, Kinds::Sent, now);
    call::set_context(stream);
}

/// Carries out verdicts on held streams, as many as a callback may, and leaves the others to the next tick. A stream that no
/// longer exists has ended.
fn carry_out(service: &Handle, kinds: Kinds, now: Now) {
    loop {
        let next = service.borrow_mut().shell.next(kinds, &ACTIONS);
        let Some((stream, verdict)) = next else { break };
        if call::set_context(stream) {
            carry_out_held(service, stream, &verdict);
        } else {
            let mut service = service.borrow_mut();
            service.shell.on_end(stream, End::Unsent, now);
        }
    }
    service.borrow_mut().schedule_tick(now.mono);
}

/// Carries out a verdict on a held request, which is the current context.
fn carry_out_held(service: &Handle, stream: StreamId, verdict: &Verdict) {
    match verdict {
        Verdict::Pass => {
            effects::pass();
            call::resume_request();
        }
        Verdict::Forward(dispatch) => {
            effects::forward(dispatch);
            let (variant, model) = (dispatch.variant, dispatch.model.as_ref());
            let mut begun = service.borrow_mut();
            let goes_on = begun.begin_messages(stream, variant, model, dispatch.body_follows);
            drop(begun);
            // Else the rest of its message resumes it.
            if goes_on {
                call::resume_request();
            }
        }
        Verdict::Reject(refusal) => effects::refuse(refusal),
        Verdict::PassTo(_) | Verdict::Park => {
            debug_assert!(false, "a held request was told to wait, or is bypassed");
        }
    }
}
