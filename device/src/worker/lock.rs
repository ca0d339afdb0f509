//! One owner of a device at a time. The kernel takes the lock from whoever dies.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// A device that is ours until this goes.
#[derive(Debug)]
pub(crate) struct DeviceLock(#[expect(dead_code, reason = "closing it gives the lock back")] File);

/// Why a device is not ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("device {device} is in use by {}", owner(*.pid))]
    Held { device: String, pid: Option<u32> },
    #[error("cannot lock {path}: {source}; check its rights")]
    Io { path: PathBuf, source: io::Error },
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"))
}

impl DeviceLock {
    /// Takes a device, if nobody has it.
    pub(crate) fn take(folder: &Path, device: &str) -> Result<Self, LockError> {
        let name: String = device.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = folder.join(format!("fidelity-device-{name}.lock"));
        let unusable = |source| LockError::Io { path: path.clone(), source };
        let (mut file, writable) = open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { device: device.to_owned(), pid: pid_in(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        if writable {
            file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(unusable)?;
        }
        Ok(Self(file))
    }
}

/// Another user's file can be locked, though not written to.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    match options.open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok((File::open(path)?, false)),
        Err(error) => Err(error),
    }
}

fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_owner_who_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let take = |device| DeviceLock::take(folder.path(), device);
        let first = take("0000:01:00.0").expect("free");
        let error = take("0000:01:00.0").expect_err("held").to_string();
        assert_eq!(error, format!("device 0000:01:00.0 is in use by pid {}", std::process::id()));
        take("../../0000:02:00.0").expect("another device, whatever its name");
        drop(first);
        take("0000:01:00.0").expect("free again");
    }

    #[test]
    fn what_a_dead_owner_left_holds_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("fidelity-device-x.lock"), "1\n").expect("writes");
        DeviceLock::take(folder.path(), "x").expect("free");
    }
}
