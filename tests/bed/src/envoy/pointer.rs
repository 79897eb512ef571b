//! Values of a configuration by their JSON pointers.

use anyhow::{Context, Result};
use serde_json::Value;

/// The value at a JSON pointer, which must exist.
pub(super) fn at<'a>(value: &'a mut Value, pointer: &str) -> Result<&'a mut Value> {
    let found = value.pointer_mut(pointer);
    found.with_context(|| format!("{pointer}: missing"))
}

/// Sets the value at a JSON pointer, which must exist or be a new key of an object.
pub(super) fn amend(config: &mut Value, pointer: &str, value: &Value) -> Result<()> {
    if let Some(place) = config.pointer_mut(pointer) {
        *place = value.clone();
        return Ok(());
    }
    let (parent, key) = pointer
        .rsplit_once('/')
        .context("a JSON pointer must begin with '/'")?;
    let keys = at(config, parent)?.as_object_mut();
    let keys = keys.with_context(|| format!("{pointer}: not in an object"))?;
    keys.insert(key.to_owned(), value.clone());
    Ok(())
}
