//! Rules of the project: documentation that names what there is, small files, plain words.

mod readme;
mod tidy;
