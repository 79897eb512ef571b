//! Headers that Envoy and the filter add to what a client sends.
//!
//! A server spends CPU time on each header: MLServer, in Python, about 4 µs (`docs/figures.md`), so that six of them are
//! 2 to 3 % of an execution of a millisecond. A profile without them promises more than the server does in production.

/// Names and values. The deadline is far away, for a server that heeds it.
pub(crate) const FORWARDED: [(&str, &str); 6] = [
    ("x-request-id", "4f1c2a9e-7d3b-4c58-9a61-0e8d5b7f2c34"),
    ("x-forwarded-proto", "http"),
    ("x-envoy-expected-rq-timeout-ms", "60000"),
    ("x-slo-remaining-ms", "60000"),
    ("x-slo-deadline", "4102444800000"),
    ("x-slo-variant", "profiled"),
];
