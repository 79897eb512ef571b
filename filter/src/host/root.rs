//! Root context: a plugin configuration in one VM.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;

use crate::config::Config;

use super::call;
use super::service::{self, Handle, Service};
use super::stream::Stream;

pub(super) struct Root {
    id: u32,
    service: Option<Handle>,
}

impl Root {
    pub(super) fn new(id: u32) -> Root {
        Root { id, service: None }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, _: usize, _: usize, _: usize) {
        if let Some(service) = &self.service {
            service::on_call_answer(service, token, call::now());
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        match Config::parse(&self.get_plugin_configuration().unwrap_or_default()) {
            Ok(config) => {
                let service = Service::new(self.id, config, call::now());
                self.service = Some(Rc::new(RefCell::new(service)));
                true
            }
            Err(error) => {
                log::error!("weir: {error}");
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some(service) = &self.service {
            service::on_tick(service, call::now());
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        if let Some(service) = &self.service {
            service::on_notification(service, queue, call::now());
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(id, self.service.clone())))
    }
}
