//! Rules of the project: documentation that names what there is, small files, plain words.

mod docs;
mod imports;
mod markdown;
mod metrics;
mod monitoring;
mod snippet;
mod tidy;
mod tree;
mod words;
