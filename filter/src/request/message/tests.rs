//! Messages renamed as their bodies pass, in any chunks.

use proptest::prelude::*;

use super::*;

const OWN: &str = "resnet18";

/// A field of a message: its tag and its bytes.
type Field = (u64, Vec<u8>);

fn field(number: u64, kind: u64, content: &[u8]) -> Field {
    let mut bytes = Vec::new();
    if kind == 2 {
        write_varint(content.len(), &mut bytes);
    }
    bytes.extend_from_slice(content);
    (number << 3 | kind, bytes)
}

fn name(name: &str) -> Field {
    field(1, 2, name.as_bytes())
}

fn message(fields: &[Field]) -> Vec<u8> {
    let mut content = Vec::new();
    for (tag, bytes) in fields {
        write_varint(*tag as usize, &mut content);
        content.extend_from_slice(bytes);
    }
    framed(0, &content)
}

fn framed(compressed: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&[compressed], &length[..], content].concat()
}

/// What Envoy does with the chunks of a body: it holds them while they must wait, replaces, and passes them on.
/// Returns the body behind it, and the messages that stayed without a new name.
fn pass(renamer: &mut Renamer, chunks: &[&[u8]], ends_with_trailers: bool) -> (Vec<u8>, u32) {
    let (mut held, mut passed, mut unnamed) = (Vec::new(), Vec::new(), 0);
    let last = chunks.len() - 1;
    let ends: &[&[u8]] = if ends_with_trailers { &[b""] } else { &[] };
    for (index, chunk) in chunks.iter().chain(ends).enumerate() {
        held.extend_from_slice(chunk);
        let complete = index == last && !ends_with_trailers || index > last;
        // The size is not known with trailers.
        let size = if index > last { usize::MAX } else { held.len() };
        let required = renamer.required(size).min(held.len());
        if required > 0 {
            let change = renamer.rename(&held[..required], complete);
            if change.waits {
                assert_eq!((change.replaced, &change.by[..]), (0, &b""[..]));
                continue;
            }
            held.splice(..change.replaced, change.by);
            unnamed += change.unnamed;
        }
        passed.append(&mut held);
    }
    assert!(held.is_empty(), "bytes wait for ever");
    (passed, unnamed)
}

fn whole(body: &[u8], many: bool) -> (Vec<u8>, u32) {
    pass(&mut Renamer::new(Rc::from(OWN), many), &[body], false)
}

#[test]
fn name_is_replaced_wherever_it_is_in_the_first_bytes() {
    let id = field(3, 2, b"id-1");
    let raw = field(7, 2, &vec![7; 200_000]);
    for (before, after) in [
        (vec![name("digits")], vec![name(OWN)]),
        (vec![name("")], vec![name(OWN)]),
        (vec![name(&"m".repeat(900))], vec![name(OWN)]),
        (
            vec![name("digits"), id.clone(), raw.clone()],
            vec![name(OWN), id.clone(), raw.clone()],
        ),
        (
            vec![id.clone(), name("digits"), raw.clone()],
            vec![id.clone(), name(OWN), raw],
        ),
        (
            vec![
                field(9, 0, &[0x80, 1]),
                field(8, 1, &[1; 8]),
                field(1000, 5, &[1; 4]),
                name("m"),
            ],
            vec![
                field(9, 0, &[0x80, 1]),
                field(8, 1, &[1; 8]),
                field(1000, 5, &[1; 4]),
                name(OWN),
            ],
        ),
    ] {
        assert_eq!(whole(&message(&before), false), (message(&after), 0));
    }
}

#[test]
fn message_whose_name_is_not_found_stays() {
    let late = message(&[field(3, 2, &[b'i'; 1100]), name("digits")]);
    let long = message(&[name(&"m".repeat(1100))]);
    let packed = framed(1, &message(&[name("digits")])[HEAD..]);
    for (body, unnamed) in [
        (message(&[field(3, 2, b"id")]), 1),
        (message(&[]), 1),
        (late, 1),
        (long, 1),
        (packed, 1),
        // A group, which no message of the protocol has.
        (framed(0, &[0x0b, 0x0c]), 1),
        (framed(0, &[0xff; 64]), 1),
        // Cut off, or no message at all.
        (message(&[name("digits")])[..8].to_vec(), 0),
        (b"\0\0".to_vec(), 0),
    ] {
        assert_eq!(whole(&body, false), (body.clone(), unnamed), "{body:?}");
        assert_eq!(whole(&body, true), (body.clone(), unnamed), "{body:?}");
    }
}

/// Whatever the size of a message, few of its bytes are read.
#[test]
fn only_the_first_bytes_of_a_message_are_read() {
    let mut renamer = Renamer::new(Rc::from(OWN), false);
    assert_eq!(renamer.required(10), 10);
    assert_eq!(renamer.required(200_000), HEAD + SEARCHED_MAX);
    let body = message(&[name("digits"), field(7, 2, &vec![7; 200_000])]);
    let change = renamer.rename(&body[..HEAD + SEARCHED_MAX], false);
    assert_eq!(change.replaced, HEAD + 2 + "digits".len());
    assert!(renamer.is_done());
    assert_eq!(renamer.required(200_000), 0);
    // In a stream, chunks within a message are not read either.
    let mut renamer = Renamer::new(Rc::from(OWN), true);
    let chunk = &body[..2000];
    assert_eq!(renamer.required(chunk.len()), chunk.len());
    assert!(!renamer.rename(chunk, false).waits);
    let left = body.len() - chunk.len();
    assert_eq!(renamer.required(left - 1), 0);
    assert_eq!(renamer.required(2), 2);
}

#[test]
fn unary_call_has_one_message() {
    let two = [message(&[name("a")]), message(&[name("b")])].concat();
    let (first, _) = whole(&two, false);
    assert_eq!(
        first,
        [message(&[name(OWN)]), message(&[name("b")])].concat()
    );
}

fn any_message() -> impl Strategy<Value = Vec<Field>> {
    let other = (
        3..20_u64,
        0..2_usize,
        prop::collection::vec(any::<u8>(), 0..40),
    );
    let other = other.prop_map(|(number, kind, content)| match kind {
        0 => field(number, 0, &[content.len() as u8]),
        _ => field(number, 2, &content),
    });
    let text = "[a-z0-9._-]{0,30}";
    let head = prop::collection::vec(other.clone(), 0..3);
    (head, text, prop::collection::vec(other, 0..4)).prop_map(|(mut fields, text, rest)| {
        fields.push(name(&text));
        fields.extend(rest);
        fields
    })
}

proptest! {
    /// However a body comes, each message gets the new name and is otherwise as it was.
    #[test]
    fn any_chunks_give_the_same_body(
        messages in prop::collection::vec(any_message(), 1..5),
        many in any::<bool>(),
        own in "[a-z]{1,140}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        trailers in any::<bool>(),
    ) {
        let messages = if many { &messages[..] } else { &messages[..1] };
        let renamed = |fields: &Vec<Field>| {
            let each = fields.iter().map(|of| if of.0 == 0x0a { name(&own) } else { of.clone() });
            message(&each.collect::<Vec<_>>())
        };
        let body: Vec<u8> = messages.iter().flat_map(|of| message(of)).collect();
        let expected: Vec<u8> = messages.iter().flat_map(renamed).collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let chunks: Vec<_> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
        let mut renamer = Renamer::new(Rc::from(own.as_str()), many);
        prop_assert_eq!(pass(&mut renamer, &chunks, trailers), (expected, 0));
    }

    /// Nothing panics, and a body that is no message ends as it began or with one name replaced.
    #[test]
    fn any_bytes_pass(body in prop::collection::vec(any::<u8>(), 1..200), many in any::<bool>(), cut in any::<prop::sample::Index>()) {
        let (first, rest) = body.split_at(cut.index(body.len()));
        let mut renamer = Renamer::new(Rc::from(OWN), many);
        let (passed, _) = pass(&mut renamer, &[first, rest], false);
        prop_assert!(!passed.is_empty());
    }
}
