//! Callbacks of a service: events in, verdicts carried out.

use crate::engine::{End, StreamId};
use crate::host::{call, effects};
use crate::time::{Mono, Now};
use crate::verdict::Verdict;

use super::Handle;

/// Handles a tick.
pub(in crate::host) fn on_tick(service: &Handle, now: Now) {
    #[cfg(feature = "trap")]
    crate::host::trap::on_tick();
    let mut verdicts = Vec::new();
    {
        let mut service = service.borrow_mut();
        if service.renew_at <= now.mono {
            service.renew(now);
            service.adopt_shared_plan(now, &mut verdicts);
        }
        service.poll_planner(now);
        service.probe(now);
        verdicts.append(&mut service.deferred);
        service.detect_body_events(now, &mut verdicts);
        service.engine.release(now, &mut verdicts);
        service.tick_at = Mono(0);
        service.schedule_tick(now.mono);
        service.report();
        service.meter.flush();
    }
    carry_out(service, verdicts, now);
}

/// Handles notifications by other VMs: slots for us, or also news for all.
pub(in crate::host) fn on_notification(service: &Handle, news: bool, now: Now) {
    check(service, news, Vec::new(), now);
}

/// Handles the answer to a call.
pub(in crate::host) fn on_call_answer(service: &Handle, token: u32, now: Now) {
    let mut verdicts = Vec::new();
    let mut answered = service.borrow_mut();
    answered.on_call_answer(token, now, &mut verdicts);
    drop(answered);
    check(service, true, verdicts, now);
}

/// Checks the slot table, and if there may be news also the plan and variants' health. `verdicts`: those so
/// far.
fn check(service: &Handle, news: bool, mut verdicts: Vec<(StreamId, Verdict)>, now: Now) {
    {
        let mut service = service.borrow_mut();
        if news {
            service.renew(now);
            service.adopt_shared_plan(now, &mut verdicts);
            service.poll_planner(now);
            service.probe(now);
        }
        service.engine.release(now, &mut verdicts);
        service.schedule_tick(now.mono);
        service.report();
    }
    carry_out(service, verdicts, now);
}

/// Handles the end of a stream; the next waiting request gets its slot.
///
/// Only forwarding is possible here. A local reply to *another* stream makes Envoy stop the current one too
/// (its host stops whatever iteration is active), so the response that has just come would hang. Refusals
/// are deferred to the next tick, a millisecond away.
pub(in crate::host) fn on_end(service: &Handle, stream: StreamId, end: End, now: Now) {
    let mut verdicts = Vec::new();
    {
        let mut service = service.borrow_mut();
        service.keep_lease(now);
        service.engine.on_end(stream, end, now, &mut verdicts);
        service.defer_refusals(&mut verdicts, now);
    }
    carry_out(service, verdicts, now);
}

/// Handles a response that exceeds Envoy's buffer; the next waiting request gets its slot.
pub(in crate::host) fn on_response_exceeds_buffer(service: &Handle, stream: StreamId, now: Now) {
    let mut verdicts = Vec::new();
    {
        let mut service = service.borrow_mut();
        service
            .engine
            .on_response_exceeds_buffer(stream, now, &mut verdicts);
        service.defer_refusals(&mut verdicts, now);
    }
    carry_out(service, verdicts, now);
    call::set_context(stream);
}

/// Carries out verdicts on held streams. A stream that no longer exists has ended.
fn carry_out(service: &Handle, verdicts: Vec<(StreamId, Verdict)>, now: Now) {
    for (stream, verdict) in verdicts {
        if call::set_context(stream) {
            carry_out_held(service, stream, &verdict);
        } else {
            // The next request follows on the next tick.
            let mut next = Vec::new();
            let mut service = service.borrow_mut();
            service
                .engine
                .on_end(stream, End::Disconnected, now, &mut next);
            service.deferred.extend(next);
        }
    }
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
