//! What all calls of the C surface share.

use std::ffi::{CString, c_char};

use crate::{Error, Status, Step, raw};

/// Runs a call that returns a status and fills an error when it fails.
pub(crate) fn call(function: impl FnOnce(*mut raw::Error) -> i32) -> Result<(), Error> {
    let mut error = raw::Error { status: 0, step: 0, detail: [0; 240] };
    match function(&raw mut error) {
        0 => Ok(()),
        status => {
            Err(Error { status: Status::new(status), step: Step::from_number(error.step), detail: text(&error.detail) })
        }
    }
}

/// A field of C, up to its first NUL.
pub(crate) fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|&&character| character != 0).map(|&c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text for C; one with a NUL inside is refused.
pub(crate) fn c_string(text: impl Into<Vec<u8>>, what: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error {
        status: Status::INVALID_ARGUMENT,
        step: Step::Arguments,
        detail: format!("the {what} has a NUL in it"),
    })
}
