//! Kubernetes quantities: parsing, comparison, addition and canonical form.
//!
//! Exact in whole nano-units of 128 bits; finer values are rounded up, as in Kubernetes.

/// Error message for a quantity that cannot be parsed.
pub(super) const PATTERN: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const NANO: i128 = 1_000_000_000;

/// Decimal suffixes, largest first, in nano-units.
const DECIMAL: [(&str, i128); 10] = [
    ("E", NANO * 1_000_000_000_000_000_000),
    ("P", NANO * 1_000_000_000_000_000),
    ("T", NANO * 1_000_000_000_000),
    ("G", NANO * 1_000_000_000),
    ("M", NANO * 1_000_000),
    ("k", NANO * 1_000),
    ("", NANO),
    ("m", NANO / 1_000),
    ("u", NANO / 1_000_000),
    ("n", 1),
];

/// Binary suffixes, largest first, in nano-units.
const BINARY: [(&str, i128); 6] = [
    ("Ei", NANO << 60),
    ("Pi", NANO << 50),
    ("Ti", NANO << 40),
    ("Gi", NANO << 30),
    ("Mi", NANO << 20),
    ("Ki", NANO << 10),
];

/// Maximum exponent after `e`; the maximum quantity of Kubernetes is 2^63 − 1.
const EXPONENT_MAX: u32 = 18;

/// An amount in nano-units, and its notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) nanos: i128,
    binary: bool,
}

impl Quantity {
    /// Parses `text`; `None` if it is not a quantity.
    pub(super) fn parse(text: &str) -> Option<Quantity> {
        let end = text
            .char_indices()
            .find(|(i, c)| !(c.is_ascii_digit() || *c == '.' || (*i == 0 && "+-".contains(*c))))
            .map_or(text.len(), |(i, _)| i);
        let (digits, suffix) = text.split_at_checked(end)?;
        let binary = BINARY.iter().find(|(name, _)| *name == suffix);
        let unit = match binary.or_else(|| DECIMAL.iter().find(|(name, _)| *name == suffix)) {
            Some((_, unit)) => *unit,
            None => return exponent(digits, suffix),
        };
        let nanos = scaled(digits, unit)?;
        Some(Quantity {
            nanos,
            binary: binary.is_some(),
        })
    }

    /// Whole thousandths, rounded up: the unit of CPU.
    pub(super) fn millis(self) -> i64 {
        clamp(ceil(self.nanos, NANO / 1_000))
    }

    /// Whole units, rounded up: the unit of memory.
    pub(super) fn units(self) -> i64 {
        clamp(ceil(self.nanos, NANO))
    }

    /// Rounded up to whole thousandths.
    pub(super) fn to_millis(self) -> Quantity {
        let unit = NANO / 1_000;
        Quantity {
            nanos: ceil(self.nanos, unit) * unit,
            ..self
        }
    }

    /// The canonical form: the largest suffix that leaves a whole number.
    pub(super) fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        if self.binary && self.nanos.abs() >= NANO << 10 {
            for (suffix, unit) in BINARY {
                if self.nanos % unit == 0 {
                    return format!("{}{suffix}", self.nanos / unit);
                }
            }
        }
        for (suffix, unit) in DECIMAL {
            if self.nanos % unit == 0 {
                return format!("{}{suffix}", self.nanos / unit);
            }
        }
        format!("{}n", self.nanos)
    }
}

/// Parses an exponent form: `1e3`, `12E-2`.
fn exponent(digits: &str, suffix: &str) -> Option<Quantity> {
    let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let factor = 10i128.pow(power.unsigned_abs().min(EXPONENT_MAX));
    let nanos = if power < 0 {
        ceil(scaled(digits, NANO)?, factor)
    } else {
        scaled(digits, NANO)?.checked_mul(factor)?
    };
    Some(Quantity {
        nanos,
        binary: false,
    })
}

/// `digits` × `unit`, rounded up to a nano-unit.
fn scaled(digits: &str, unit: i128) -> Option<i128> {
    let negative = digits.starts_with('-');
    let digits = digits.trim_start_matches(['+', '-']);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut nanos = whole.checked_mul(unit)?;
    if !fraction.is_empty() {
        let parts: i128 = fraction.parse().ok()?;
        let of = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        nanos = nanos.checked_add(ceil(parts.checked_mul(unit)?, of))?;
    }
    Some(if negative { -nanos } else { nanos })
}

fn ceil(value: i128, unit: i128) -> i128 {
    value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0)
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn quantities_have_kubernetes_canonical_form() {
        for (text, canonical, millis) in [
            ("0", "0", 0),
            ("1", "1", 1_000),
            ("0.5", "500m", 500),
            ("1000m", "1", 1_000),
            ("1500m", "1500m", 1_500),
            ("100500u", "100500u", 101),
            ("64Mi", "64Mi", 67_108_864_000),
            ("1024Ki", "1Mi", 1_048_576_000),
            ("0.5Gi", "512Mi", 536_870_912_000),
            ("1e3", "1k", 1_000_000),
            ("12E-1", "1200m", 1_200),
            ("-1", "-1", -1_000),
        ] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!(quantity.canonical(), canonical, "{text}");
            assert_eq!(quantity.millis(), millis, "{text}");
        }
        let min = Quantity::parse("0.0001").unwrap();
        assert_eq!(min.to_millis().canonical(), "1m");
        for text in ["", "abc", "1x", "Mi", ".", "1.2.3", "1 "] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}
