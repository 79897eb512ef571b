//! Lists of names and values as they cross the interface: their number, the lengths of each pair, and then each pair's
//! bytes, each string with a zero after it. Numbers have four bytes, the lowest first.

/// Returns the bytes of a list.
pub(crate) fn encode(pairs: &[(&str, &str)]) -> Vec<u8> {
    let strings = pairs.iter().flat_map(|(name, value)| [*name, *value]);
    let bytes: usize = strings.clone().map(|string| string.len() + 5).sum();
    let mut encoded = Vec::with_capacity(bytes + 4);
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    encoded.extend(number(pairs.len()));
    for string in strings.clone() {
        encoded.extend(number(string.len()));
    }
    for string in strings {
        encoded.extend(string.as_bytes());
        encoded.push(0);
    }
    encoded
}

/// Reads a list, as far as it is one. A pair is left out if its name is not text.
pub(crate) fn decode(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut rest = bytes;
    let count = take_number(&mut rest).unwrap_or_default();
    let Some((mut lengths, mut strings)) = count
        .checked_mul(8)
        .and_then(|bytes| rest.split_at_checked(bytes))
    else {
        return Vec::new();
    };
    let mut pairs = Vec::with_capacity(count);
    while let Some((name, value)) = take_pair(&mut lengths, &mut strings) {
        if let Ok(name) = std::str::from_utf8(name) {
            pairs.push((name.to_owned(), value.to_vec()));
        }
    }
    pairs
}

fn take_pair<'a>(lengths: &mut &[u8], strings: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (name, value) = (take_number(lengths)?, take_number(lengths)?);
    Some((take_string(strings, name)?, take_string(strings, value)?))
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u32::from_le_bytes(*number)).ok()
}

fn take_string<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (string, rest) = bytes.split_at_checked(length)?;
    *bytes = rest.split_first()?.1;
    Some(string)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    const PAIRS: [(&str, &str); 3] = [(":path", "/"), ("x-slo-ms", "900"), ("empty", "")];

    #[test]
    fn list_has_the_bytes_of_the_interface() {
        let encoded = encode(&[("ab", "c")]);
        let numbers = [1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(encoded, [&numbers[..], b"ab\0c\0"].concat());
        assert_eq!(encode(&[]), [0; 4]);
    }

    #[test]
    fn list_is_read_as_written() {
        let read = decode(&encode(&PAIRS));
        let expected = PAIRS.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        assert_eq!(read, expected);
    }

    #[test]
    fn cut_list_is_read_as_far_as_it_goes() {
        let encoded = encode(&PAIRS);
        for length in 0..encoded.len() {
            let read = decode(&encoded[..length]);
            assert!(read.len() < PAIRS.len(), "{length} bytes");
        }
    }

    #[test]
    fn impossible_lengths_are_no_list() {
        assert_eq!(decode(&[255; 64]), []);
        let mut long_name = encode(&PAIRS);
        long_name[4..8].fill(255);
        assert_eq!(decode(&long_name), []);
    }

    #[test]
    fn pair_whose_name_is_not_text_is_left_out() {
        let mut encoded = encode(&PAIRS);
        let name = encoded.iter().position(|byte| *byte == b':').unwrap();
        encoded[name] = 0xff;
        encoded[name + 6] = 0xfe;
        let names: Vec<_> = decode(&encoded).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["x-slo-ms", "empty"]);
        let mut value = encode(&[("a", "b")]);
        value[14] = 0xff;
        assert_eq!(decode(&value), [("a".to_owned(), vec![0xff])]);
    }
}
