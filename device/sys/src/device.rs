//! Versions, devices.
#![expect(unsafe_code, reason = "calls the C surface")]

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path, ptr, sync::OnceLock};

use crate::{
    DeviceInfo, Error, Model, OpenOptions, Status, Step, Version, Versions,
    call::{c_string, call, text},
    raw,
};

/// Versions of the library that was loaded and of the headers this was compiled against.
pub fn versions() -> Result<Versions, Error> {
    abi()?;
    let mut info = raw::VersionsInfo::default();
    // SAFETY: both pointers are valid for writing during the call.
    call(|error| unsafe { raw::fid_versions(&raw mut info, error) })?;
    let version = |[major, minor, revision]: [u32; 3]| Version { major, minor, revision };
    Ok(Versions { library: version(info.library), headers: version(info.header) })
}

/// Ids of the devices that are installed, busy ones too. Opens none. A device that is reached by TCP is not among them.
pub fn scan() -> Result<Vec<String>, Error> {
    usable()?;
    let mut ids = [raw::Id { text: [0; 32] }; 64];
    let mut count = 0;
    // SAFETY: `ids` has as many elements as are said, all pointers are valid for writing during the call.
    call(|error| unsafe { raw::fid_scan(ids.as_mut_ptr(), ids.len(), &raw mut count, error) })?;
    Ok(ids.iter().take(count).map(|id| text(&id.text)).collect())
}

/// Ends the process at once, without destructors and handlers: the only safe end once a [`crate::Group`] is poisoned.
pub fn end_process(code: i32) -> ! {
    // SAFETY: the function takes any number.
    unsafe { raw::fid_exit(code) };
    // It does not return.
    std::process::abort()
}

/// The C surface is the one that `raw` declares.
fn abi() -> Result<(), Error> {
    // SAFETY: the function has no arguments.
    let found = unsafe { raw::fid_abi_version() };
    if found == raw::ABI_VERSION {
        return Ok(());
    }
    let detail = format!("the C surface has version {found}, this crate expects {}; build again", raw::ABI_VERSION);
    Err(Error { status: Status::NOT_SUPPORTED, step: Step::Versions, detail })
}

/// Library and headers have one version. C++ classes differ between versions: with another library calls would end anywhere.
pub(crate) fn usable() -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), Error>> = OnceLock::new();
    CHECKED.get_or_init(|| versions().and_then(same)).clone()
}

fn same(versions: Versions) -> Result<(), Error> {
    let Versions { library, headers } = versions;
    if library == headers {
        return Ok(());
    }
    let detail = format!(
        "this was built against HailoRT {headers}, but the library that was loaded is {library}; install HailoRT {headers}, or build again \
         against {library}"
    );
    Err(Error { status: Status::NOT_SUPPORTED, step: Step::Versions, detail })
}

/// An open device. Models and groups keep it open.
pub struct Device {
    handle: raw::Handle,
}

// SAFETY: a device may be used from any thread, by one at a time.
unsafe impl Send for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the handle came from fid_device_open and is closed once.
        unsafe { raw::fid_device_close(self.handle) }
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// 73 where the named device is in use; 74 where any would do and none is free or present; 2 where there is no such device.
    pub fn open(options: &OpenOptions) -> Result<Self, Error> {
        usable()?;
        let text = |text: &Option<String>, what| text.as_deref().map(|text| c_string(text, what)).transpose();
        let (device_id, group_id) = (text(&options.device_id, "device id")?, text(&options.group_id, "group id")?);
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let options = raw::OpenOptions {
            device_id: pointer(&device_id),
            group_id: pointer(&group_id),
            scheduler: -1,
            multi_process_service: 0,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the texts outlive the call, which copies them; all pointers are valid.
        call(|error| unsafe { raw::fid_device_open(&raw const options, &raw mut handle, error) })?;
        Ok(Self { handle })
    }

    /// Asks the device what it is.
    pub fn info(&mut self) -> Result<DeviceInfo, Error> {
        let mut info = raw::DeviceInfo {
            id: [0; 32],
            board_name: [0; 32],
            product_name: [0; 48],
            serial_number: [0; 32],
            part_number: [0; 32],
            firmware: [0; 3],
            architecture: 0,
            is_release: 0,
            reserved: 0,
        };
        // SAFETY: the handle is open, the pointers are valid for writing.
        call(|error| unsafe { raw::fid_device_identify(self.handle, &raw mut info, error) })?;
        let [major, minor, revision] = info.firmware;
        Ok(DeviceInfo {
            id: text(&info.id),
            architecture: info.architecture,
            firmware: Version { major, minor, revision },
            is_release: info.is_release != 0,
            board_name: text(&info.board_name),
            product_name: text(&info.product_name),
            serial_number: text(&info.serial_number),
            part_number: text(&info.part_number),
        })
    }

    /// Sends a HEF to the device and gives its network group of this exact name; the only one where the name is empty.
    ///
    /// Every model sends the whole file, and the chip keeps a copy for each. What HailoRT does not check about a HEF can crash it: only for a
    /// file that was audited.
    ///
    /// # Errors
    /// 13 where the file cannot be opened, 61 where it has no such group, which is found out after it was sent.
    pub fn model(&mut self, path: &Path, group_name: &str) -> Result<Model, Error> {
        let path = c_string(path.as_os_str().as_bytes(), "path")?;
        let group = c_string(group_name, "name of a network group")?;
        let mut model = ptr::null_mut();
        // SAFETY: the handle is open, texts are NUL-terminated and copied.
        call(|error| unsafe {
            raw::fid_model_create_path(self.handle, path.as_ptr(), group.as_ptr(), &raw mut model, error)
        })?;
        Ok(Model::new(model))
    }

    /// As [`Device::model`], from the bytes of a file.
    pub fn model_from_bytes(&mut self, hef: &[u8], group_name: &str) -> Result<Model, Error> {
        let group = c_string(group_name, "name of a network group")?;
        let mut model = ptr::null_mut();
        // SAFETY: the handle is open, the bytes are as many as are said and outlive the call.
        call(|error| unsafe {
            raw::fid_model_create_bytes(self.handle, hef.as_ptr(), hef.len(), group.as_ptr(), &raw mut model, error)
        })?;
        Ok(Model::new(model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_another_version_is_refused_and_both_are_named() {
        let version = |minor, revision| Version { major: 5, minor, revision };
        let error = same(Versions { library: version(2, 0), headers: version(1, 1) }).expect_err("they differ");
        assert_eq!(error.step, Step::Versions);
        assert!(error.detail.contains("built against HailoRT 5.1.1") && error.detail.contains("loaded is 5.2.0"));
        assert_eq!(same(Versions { library: version(2, 0), headers: version(2, 0) }), Ok(()));
    }
}
