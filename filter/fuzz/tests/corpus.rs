//! The fuzz targets without libFuzzer: their committed corpora, and random bytes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use weir_fuzz::Target;

/// Files of all corpora, and their bytes.
const FILES_MAX: usize = 400;
const BYTES_MAX: usize = 500_000;

fn corpus(target: Target) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files = fs::read_dir(folder.join(target.name())).unwrap();
    files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn corpora_break_no_promise() {
    for target in Target::ALL {
        let inputs = corpus(target);
        assert!(inputs.len() > 10, "{target:?}: {} inputs", inputs.len());
        inputs.iter().for_each(|input| target.run(input));
    }
}

#[test]
fn corpora_stay_small() {
    let inputs: Vec<_> = Target::ALL.into_iter().flat_map(corpus).collect();
    let bytes: usize = inputs.iter().map(Vec::len).sum();
    assert!(inputs.len() <= FILES_MAX, "{} files", inputs.len());
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_events_of_the_workers_break_no_promise(data in prop::collection::vec(any::<u8>(), 1..1200)) {
        Target::Engine.run(&data);
    }

    #[test]
    fn any_events_of_the_shell_break_no_promise(data in prop::collection::vec(any::<u8>(), 1..500)) {
        Target::Shell.run(&data);
    }

    #[test]
    fn any_bytes_break_no_promise(data in prop::collection::vec(any::<u8>(), 1..200)) {
        Target::Bytes.run(&data);
    }
}
