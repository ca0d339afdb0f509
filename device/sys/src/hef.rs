//! What HailoRT reads from a HEF on the host, to cross-check what is read without it. Needs no device.
#![expect(unsafe_code, reason = "calls the C surface")]

use std::{ffi::c_char, os::unix::ffi::OsStrExt, path::Path};

use crate::{
    Error,
    call::{c_string, call, text},
    device::usable,
    raw,
};

/// Names of the network groups, in the order of the file.
pub fn group_names(path: &Path) -> Result<Vec<String>, Error> {
    let names = filled(path, |path, text, capacity, needed, error| {
        // SAFETY: `filled` gives valid pointers.
        unsafe { raw::fid_hef_group_names(path, text, capacity, needed, error) }
    })?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// HailoRT's own description: groups, networks, streams.
pub fn description(path: &Path) -> Result<String, Error> {
    filled(path, |path, text, capacity, needed, error| {
        // SAFETY: `filled` gives valid pointers.
        unsafe { raw::fid_hef_description(path, text, capacity, needed, error) }
    })
}

/// An external resource of a HEF in memory. HailoRT reads where its offset says, unchecked: only for a file that was audited.
pub fn resource(hef: &[u8], name: &str) -> Result<Vec<u8>, Error> {
    usable()?;
    let name = c_string(name, "name of a resource")?;
    let mut bytes = Vec::new();
    loop {
        let mut needed = 0;
        // SAFETY: both byte ranges are as long as is said, the pointers are valid.
        call(|error| unsafe {
            raw::fid_hef_resource(
                hef.as_ptr(),
                hef.len(),
                name.as_ptr(),
                bytes.as_mut_ptr(),
                bytes.len(),
                &raw mut needed,
                error,
            )
        })?;
        if needed <= bytes.len() {
            bytes.truncate(needed);
            return Ok(bytes);
        }
        bytes.resize(needed, 0);
    }
}

/// Asks for a text until the buffer is large enough.
fn filled(
    path: &Path,
    ask: impl Fn(*const c_char, *mut c_char, usize, *mut usize, *mut raw::Error) -> i32,
) -> Result<String, Error> {
    usable()?;
    let path = c_string(path.as_os_str().as_bytes(), "path")?;
    let mut buffer: Vec<c_char> = vec![0; 4096];
    loop {
        let mut needed = 0;
        call(|error| ask(path.as_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut needed, error))?;
        if needed <= buffer.len() {
            return Ok(text(&buffer));
        }
        buffer.resize(needed, 0);
    }
}
