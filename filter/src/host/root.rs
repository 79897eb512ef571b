//! Root context: a plugin configuration in one VM.

use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;

use crate::config::Config;

use super::call;
use super::services::Services;
use super::stream::Stream;

pub(super) struct Root {
    id: u32,
    services: Option<Rc<Services>>,
}

impl Root {
    pub(super) fn new(id: u32) -> Root {
        Root { id, services: None }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, _: usize, _: usize, _: usize) {
        if let Some(services) = &self.services {
            services.on_call_answer(token, call::now());
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        match Config::parse_services(&call::configuration()) {
            Ok(configs) => {
                let services = Services::new(self.id, configs, call::now());
                self.services = Some(Rc::new(services));
                true
            }
            Err(error) => {
                log::error!("weir: {error}");
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some(services) = &self.services {
            services.on_tick(call::now());
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        if let Some(services) = &self.services {
            services.on_notification(queue, call::now());
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(id, self.services.clone())))
    }
}
