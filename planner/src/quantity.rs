//! Conversion between Kubernetes quantities and cores. Pure, exact in nano-units.

pub(crate) mod cpu;

#[cfg(feature = "kubernetes")]
use weir_api::Cores;

const NANO: i128 = 1_000_000_000;

/// Suffixes of quantities (CPU, memory and others), in nano-units.
const UNITS: [(&str, i128); 16] = [
    ("", NANO),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", NANO * 1_000),
    ("M", NANO * 1_000_000),
    ("G", NANO * 1_000_000_000),
    ("T", NANO * 1_000_000_000_000),
    ("P", NANO * 1_000_000_000_000_000),
    ("E", NANO * 1_000_000_000_000_000_000),
    ("Ki", NANO << 10),
    ("Mi", NANO << 20),
    ("Gi", NANO << 30),
    ("Ti", NANO << 40),
    ("Pi", NANO << 50),
    ("Ei", NANO << 60),
];

/// Digits read on each side of the point: more than any quantity has, and no product overflows.
const DIGITS_MAX: usize = 18;

/// Returns the amount in nano-units; `None` if the text is no quantity or is negative.
pub(super) fn nanos(text: &str) -> Option<i128> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() > DIGITS_MAX
        || fraction.len() > DIGITS_MAX
        || !number.contains(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let (unit, tenths) = match UNITS.iter().find(|(name, _)| *name == suffix) {
        Some((_, unit)) => (*unit, 0),
        None => (NANO, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    };
    let digits = |text: &str| match text {
        "" => Some(0),
        text => text.parse::<i128>().ok(),
    };
    let places = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = digits(whole)?.checked_mul(unit)?;
    let fraction = digits(fraction)?.checked_mul(unit)?;
    let amount = whole.checked_add(ceil(fraction, places))?;
    let power = 10i128.checked_pow(tenths.unsigned_abs().min(DIGITS_MAX as u32))?;
    match tenths < 0 {
        true => Some(ceil(amount, power)),
        false => amount.checked_mul(power),
    }
}

/// Returns whole units; `None` also if the amount is not a whole number.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let nanos = nanos(text)?;
    let whole = nanos.rem_euclid(NANO) == 0;
    u64::try_from(nanos.div_euclid(NANO)).ok().filter(|_| whole)
}

/// Returns CPU in whole thousandths, rounded up as Kubernetes does.
#[cfg(feature = "kubernetes")]
pub(super) fn cores(text: &str) -> Option<Cores> {
    let millis = ceil(nanos(text)?, NANO / 1_000);
    u32::try_from(millis).ok().map(Cores::from_millis)
}

/// Formats cores as Kubernetes does: `2`, `1500m`.
#[cfg(feature = "kubernetes")]
pub(super) fn format_cores(cores: Cores) -> String {
    let millis = cores.millis();
    match millis % 1_000 {
        0 => (millis / 1_000).to_string(),
        _ => format!("{millis}m"),
    }
}

fn ceil(amount: i128, unit: i128) -> i128 {
    amount.div_euclid(unit) + i128::from(amount.rem_euclid(unit) > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cpu_quantities_are_parsed() {
        for (text, millis) in [
            ("2", Some(2_000)),
            ("1.5", Some(1_500)),
            (".5", Some(500)),
            (".", None),
            ("250m", Some(250)),
            ("100500u", Some(101)),
            ("0.0001", Some(1)),
            ("1e1", Some(10_000)),
            ("5E-1", Some(500)),
            ("1k", Some(1_000_000)),
            ("0", Some(0)),
            ("-1", None),
            ("", None),
            ("abc", None),
            ("5 m", None),
            ("9999999999999999999", None),
            ("1E", None),
        ] {
            assert_eq!(cores(text).map(Cores::millis), millis, "{text}");
        }
        for (text, amount) in [
            ("64Gi", Some(64 << 30)),
            ("1.5Ki", Some(1536)),
            ("4", Some(4)),
            ("0.5", None),
            ("100m", None),
            ("18Ei", None),
            ("lots", None),
        ] {
            assert_eq!(whole(text), amount, "{text}");
        }
        assert_eq!(nanos("1Gi"), nanos("1024Mi"));
        assert_ne!(nanos("1Gi"), nanos("1G"));
    }

    proptest! {
        #[test]
        fn formatted_cores_parse_back(millis in 0u32..5_000_000) {
            let amount = Cores::from_millis(millis);
            prop_assert_eq!(cores(&format_cores(amount)), Some(amount));
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in "[0-9.eEinumkKMGTP+-]{0,40}") {
            let _ = cores(&text);
        }
    }
}
