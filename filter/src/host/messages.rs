//! Bodies of gRPC requests whose messages name the model, where the variant's servers have a name of their own for it. Envoy
//! replaces bytes at the beginning of those that it holds, so no more of a body is read than
//! [`Renamer`] requires.

use std::collections::HashMap;

use crate::engine::StreamId;
use crate::request::message::Renamer;
use crate::request::model::NamePlace;
use crate::variant::VariantId;
use crate::verdict::OwnModel;

use super::call;

/// Size of a chunk of which only Envoy knows the size.
pub(super) const UNKNOWN: usize = usize::MAX;

/// Requests upstream whose bodies still have names to replace.
#[derive(Debug, Default)]
pub(super) struct Messages {
    open: HashMap<StreamId, (VariantId, Renamer)>,
}

/// Result of renaming in what has come of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renamed {
    /// Whether it must wait for more of the body.
    pub(super) waits: bool,
    /// Variant of the request, and messages whose name was not found.
    pub(super) unnamed: Option<(VariantId, u32)>,
}

impl Renamed {
    const NOTHING: Renamed = Renamed {
        waits: false,
        unnamed: None,
    };
}

impl Messages {
    /// Begins with the current request, which is sent to this variant, and renames in what Envoy holds of its body.
    /// `follows`: more of the body follows.
    pub(super) fn begin(
        &mut self,
        stream: StreamId,
        variant: VariantId,
        model: &OwnModel,
        follows: bool,
    ) -> Renamed {
        if model.place == NamePlace::Path {
            return Renamed::NOTHING;
        }
        // The length changes with the names. HTTP/2 does not need it.
        call::set_request_header("content-length", None);
        let renamer = Renamer::new(model.name.clone(), model.place == NamePlace::Messages);
        self.open.insert(stream, (variant, renamer));
        self.on_body(stream, UNKNOWN, !follows)
    }

    /// Handles a chunk of `size` bytes of a body, with those that waited.
    pub(super) fn on_body(&mut self, stream: StreamId, size: usize, complete: bool) -> Renamed {
        let Some((variant, renamer)) = self.open.get_mut(&stream) else {
            return Renamed::NOTHING;
        };
        let required = renamer.required(size);
        if required == 0 {
            return Renamed::NOTHING;
        }
        let bytes = call::request_body(required);
        if bytes.is_empty() {
            // It comes later, also where Envoy gives no word of it while headers are held.
            return Renamed::NOTHING;
        }
        let change = renamer.rename(&bytes, complete);
        if change.replaced > 0 {
            call::replace_request_body(change.replaced, &change.by);
        }
        let unnamed = Some((*variant, change.unnamed)).filter(|(_, count)| *count > 0);
        if renamer.is_done() {
            self.open.remove(&stream);
        }
        Renamed {
            waits: change.waits,
            unnamed,
        }
    }

    /// Forgets a request that has ended.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.open.remove(&stream);
    }
}
