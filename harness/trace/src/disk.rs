//! Writing without ever leaving a half file under a final name, and hashes as text.

use std::{
    io::{self, Write},
    path::Path,
};

/// Writes `bytes` to a temporary file beside `path`, then renames it to `path`.
///
/// # Errors
/// Whatever the file system says; the temporary file is gone then.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    share(file.as_file())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Temporary files are private; results are for whoever may read the folder.
#[cfg(unix)]
fn share(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn share(_: &std::fs::File) -> io::Result<()> {
    Ok(())
}

/// Bytes as lower-case hexadecimal digits, as hashes are written everywhere.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
