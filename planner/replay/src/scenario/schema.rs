//! Schema of a scenario, for the description of an API: its keys, and the form of each. The reader knows more rules.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Returns the schema of a scenario that names no file.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    let list = || json_schema!({ "type": "array", "items": { "type": "object" } });
    let object = |description: &str| json_schema!({ "type": "object", "description": description });
    let bytes = |description: &str| json_schema!({ "type": "integer", "minimum": 0, "description": description });
    json_schema!({
        "type": "object",
        "description": "Scenario, as `weir replay` reads it; the reference of scenarios has all keys.",
        "required": ["name", "service", "load"],
        "additionalProperties": false,
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 100 },
            "seed": { "type": "integer", "minimum": 0, "description": "Seed of all random numbers; 1 if left out." },
            "length_s": { "type": "integer", "minimum": 1, "description": "Length of the load, in s." },
            "service": object("Service file. Addresses and keys may be left out."),
            "servers": object("Servers that differ from their variants' profiles, by name."),
            "proxies": object("Number of proxies and workers, and the filter's configuration."),
            "load": object("Rates, or a generator of them. No file."),
            "network": {
                "description": "`none`, `4g`, or a constant link. No file.",
                "type": ["string", "object"],
            },
            "payload_bytes": bytes("Size of a request's body."),
            "answer_bytes": bytes("Size of an answer."),
            "clients": object("Deadlines, clocks and patience of the clients."),
            "classes": list(),
            "contenders": list(),
            "faults": list(),
        },
    })
}
