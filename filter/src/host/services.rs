//! The services of one plugin configuration: each request, tick, notification and answer to a call reaches
//! the service that it is for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proxy_wasm::types::Bytes;

use crate::config::Config;
use crate::request::matching::{self, Match};
use crate::time::Now;

use super::call;
use super::service::{self, Handle, Service};
use super::timer::Timer;

/// Services in the order of the configuration, with one timer.
pub(super) struct Services {
    root: u32,
    timer: Rc<Timer>,
    matches: Vec<Match>,
    /// Service whose verdicts the next tick carries out first: none waits behind another's for long.
    first: Cell<usize>,
    list: Vec<Handle>,
}

impl Services {
    pub(super) fn new(root: u32, configs: Vec<Config>, now: Now) -> Services {
        let timer = Rc::new(Timer::start(root));
        let matches = configs.iter().map(|config| config.matches.clone());
        Services {
            root,
            matches: matches.collect(),
            first: Cell::new(0),
            list: configs
                .into_iter()
                .map(|config| Service::new(root, config, Rc::clone(&timer), now))
                .map(|service| Rc::new(RefCell::new(service)))
                .collect(),
            timer,
        }
    }

    /// Returns the service of a request with these headers; `None` if it is none's.
    pub(super) fn of(&self, headers: &[(String, Bytes)]) -> Option<Handle> {
        let index = match &self.matches[..] {
            [only] if only.is_everything() => 0,
            matches => {
                let named = headers
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_slice()));
                matching::first(matches, named)?
            }
        };
        self.list.get(index).cloned()
    }

    /// Handles a tick of the root.
    pub(super) fn on_tick(&self, now: Now) {
        service::ACTIONS.refill();
        self.timer.mark_fired();
        let is_one = self.list.len() == 1;
        let first = self.first.get() % self.list.len().max(1);
        self.first.set(first + 1);
        let (before, after) = self.list.split_at(first);
        for service in after.iter().chain(before) {
            if is_one || service.borrow().is_due(now.mono) {
                self.enter_root();
                service::on_tick(service, now);
            } else {
                service.borrow().rearm(now.mono);
            }
        }
    }

    /// Handles notifications in a queue. A queue that is no service's was one's before: it may be any's.
    pub(super) fn on_notification(&self, queue: u32, now: Now) {
        service::ACTIONS.refill();
        let news = call::drain_queue(queue);
        let owns = |service: &Handle| service.borrow().owns_queue(queue);
        let owner = self.list.iter().position(owns);
        for (index, service) in self.list.iter().enumerate() {
            if owner.is_none_or(|owner| owner == index) {
                self.enter_root();
                service::on_notification(service, news, now);
            }
        }
    }

    /// Handles the answer to a call.
    pub(super) fn on_call_answer(&self, token: u32, now: Now) {
        let mut services = self.list.iter();
        if let Some(service) = services.find(|service| service.borrow().expects_call(token)) {
            service::on_call_answer(service, token, now);
        }
    }

    /// Sets the context to the root: a service before this one may have left it at one of its streams.
    fn enter_root(&self) {
        if self.list.len() > 1 {
            call::set_context(self.root);
        }
    }
}
