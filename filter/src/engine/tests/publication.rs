//! Two workers of one proxy that wait for one slot.

use super::*;
use crate::coordination::SlotTable;

/// A request of the first is sent, and one waits at each.
fn full() -> (Memory, Engine, Engine) {
    let variant = variant("a", 1.0, 1, 100.0);
    let json = format!(r#"{{"service":"demo","plan":{{"variants":[{variant}]}}}}"#);
    let store = Memory::default();
    let [mut first, mut second] = [1, 2].map(|incarnation| worker(&json, &store, incarnation));
    // Twice: the first sees the second only on the second pass.
    for _ in 0..2 {
        first.serve(at(0).mono);
        second.serve(at(0).mono);
    }
    assert!(matches!(
        submit(&mut first, 1, 900, at(0)),
        Verdict::Forward(_)
    ));
    assert_eq!(submit(&mut first, 2, 900, at(0)), Verdict::Park);
    assert_eq!(submit(&mut second, 3, 800, at(0)), Verdict::Park);
    for engine in [&mut first, &mut second] {
        assert_eq!(release(engine, at(1)), []);
    }
    (store, first, second)
}

fn waiting(store: &Memory) -> u32 {
    let mut table = SlotTable::default();
    table.read(&store.bytes().unwrap()).unwrap();
    table.waiting(0, at(0).mono)
}

#[test]
fn checks_of_a_full_variant_write_only_what_is_new() {
    let (store, mut first, mut second) = full();
    let before = store.bytes();
    for ms in [2, 12, 22] {
        assert_eq!(release(&mut first, at(ms)), []);
        assert_eq!(release(&mut second, at(ms)), []);
    }
    assert_eq!(store.bytes(), before);
    assert_eq!(submit(&mut second, 4, 700, at(23)), Verdict::Park);
    assert_eq!(waiting(&store), 3);
    // It waits at its deadline only, and leaves in order.
    assert!(forwarded(&end(&mut first, 1, End::Answered, at(100))).is_empty());
    assert_eq!(forwarded(&release(&mut second, at(101))), [4]);
}
