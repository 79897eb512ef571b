//! Changes of a connection's protocol, bodies of bypassed methods, and the types of streams.

use super::*;

/// Headers of a websocket's handshake.
const HANDSHAKE: [(&str, &str); 5] = [
    (":method", "GET"),
    (":path", "/ws"),
    ("upgrade", "websocket"),
    ("connection", "keep-alive, Upgrade"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// The handshake with another value of a header, or without it.
fn handshake(name: &str, value: Option<&str>) -> Shape {
    let rest = HANDSHAKE.into_iter().filter(|(other, _)| *other != name);
    let headers: Vec<_> = rest.chain(value.map(|value| (name, value))).collect();
    shape_of(&headers)
}

#[test]
fn upgrade_is_a_get_without_a_body() {
    let upgrade = Shape {
        bypass: true,
        upgrade: true,
        ..ORDINARY
    };
    for (name, value, passes) in [
        ("upgrade", "websocket", true),
        ("upgrade", "WebSocket", true),
        ("upgrade", "TLS/1.0", true),
        ("upgrade", "h2c, websocket", true),
        ("upgrade", "h2c", false),
        ("upgrade", " H2C ", false),
        ("upgrade", "h2c,", false),
        ("upgrade", "", false),
        ("upgrade", " , ", false),
        ("connection", "upgrade", true),
        ("connection", "close", false),
        (":method", "POST", false),
        (":method", "PUT", false),
        (":method", "CONNECT", false),
        ("sec-websocket-key", "", false),
        ("content-length", "0", true),
        ("content-length", "1", false),
        ("content-length", "", false),
        ("transfer-encoding", "chunked", false),
    ] {
        let expected = if passes { upgrade } else { ORDINARY };
        assert_eq!(handshake(name, Some(value)), expected, "{name}: {value}");
    }
    for name in ["upgrade", "connection", "sec-websocket-key", ":method"] {
        assert_eq!(handshake(name, None), ORDINARY, "without {name}");
    }
    let other = [HANDSHAKE[0], ("upgrade", "TLS/1.0"), HANDSHAKE[3]];
    assert_eq!(shape_of(&other), upgrade, "only websockets have a key");
}

#[test]
fn connect_is_an_upgrade_only_with_a_protocol() {
    for (protocol, passes) in [(Some("websocket"), true), (Some(""), false), (None, false)] {
        let protocol = protocol.map(|protocol| (":protocol", protocol));
        let headers = [(":method", "CONNECT"), (":path", "/ws")];
        let found = shape_of(&headers.into_iter().chain(protocol).collect::<Vec<_>>());
        assert_eq!(
            (found.bypass, found.upgrade),
            (passes, passes),
            "{protocol:?}"
        );
    }
}

#[test]
fn method_with_a_body_is_not_bypassed() {
    for (method, path) in [
        ("OPTIONS", "/infer"),
        ("HEAD", "/infer"),
        ("GET", "/v2/models/m"),
    ] {
        let head = [(":method", method), (":path", path)];
        assert!(shape_of(&head).bypass, "{method}");
        for body in [("content-length", "9"), ("transfer-encoding", "chunked")] {
            assert!(
                !shape_of(&[head[0], head[1], body]).bypass,
                "{method}: {body:?}"
            );
        }
        // Over HTTP/2 a body needs no header.
        let wire = head.map(|(name, value)| (name, value.as_bytes()));
        let open = shape(
            &Bypass::default(),
            &Streams::default(),
            &Wire::pick(wire),
            true,
        );
        assert!(!open.bypass, "{method}");
    }
}

#[test]
fn answers_stream_by_their_content_type() {
    for (kind, expected) in [
        ("text/event-stream", true),
        ("text/event-stream; charset=utf-8", true),
        ("Text/Event-Stream ;x", true),
        ("application/x-ndjson", true),
        ("application/ndjson", true),
        ("application/jsonl", true),
        ("application/stream+json;charset=UTF-8", true),
        ("application/json", false),
        ("application/jsonlines", false),
        ("text/event-streams", false),
        ("application/grpc", false),
        (";text/event-stream", false),
        ("", false),
    ] {
        assert_eq!(is_stream(kind.as_bytes()), expected, "{kind}");
    }
}

#[test]
fn long_list_is_read_up_to_its_limit() {
    let list = |last: &str| format!("{}{last}", "h2c,".repeat(LIST_BYTES_MAX / 4));
    assert_eq!(handshake("upgrade", Some(&list("websocket"))), ORDINARY);
    let short = list("websocket").split_off(40);
    let found = handshake("upgrade", Some(&short));
    assert!(found.bypass, "all of it within what is read");
}
