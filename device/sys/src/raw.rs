//! `cpp/shim.h`, word for word.
#![allow(missing_docs, unreachable_pub, reason = "cpp/shim.h documents them")]
#![expect(unsafe_code, reason = "declarations of C functions")]

use std::ffi::{c_char, c_void};

pub(crate) const ABI_VERSION: u32 = 1;

#[repr(C)]
pub(crate) struct Error {
    pub status: i32,
    pub step: i32,
    pub detail: [c_char; 240],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct VersionsInfo {
    pub library: [u32; 3],
    pub header: [u32; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Id {
    pub text: [c_char; 32],
}

#[repr(C)]
pub(crate) struct OpenOptions {
    pub device_id: *const c_char,
    pub group_id: *const c_char,
    pub scheduler: i32,
    pub multi_process_service: i32,
}

#[repr(C)]
pub(crate) struct DeviceInfo {
    pub id: [c_char; 32],
    pub board_name: [c_char; 32],
    pub product_name: [c_char; 48],
    pub serial_number: [c_char; 32],
    pub part_number: [c_char; 32],
    pub firmware: [u32; 3],
    pub architecture: i32,
    pub is_release: u32,
    pub reserved: u32,
}

#[repr(C)]
pub(crate) struct StreamInfo {
    pub name: [c_char; 128],
    pub height: u32,
    pub width: u32,
    pub features: u32,
    pub format_type: i32,
    pub format_order: i32,
    pub format_flags: i32,
    pub scale: f32,
    pub zero_point: f32,
    pub limit_min: f32,
    pub limit_max: f32,
    pub is_nms: u32,
    pub reserved: u32,
    pub frame_size: u64,
}

// The same numbers are in cpp/device.cpp.
const _: () = assert!(size_of::<Error>() == 248);
const _: () = assert!(size_of::<VersionsInfo>() == 24);
const _: () = assert!(size_of::<Id>() == 32);
const _: () = assert!(size_of::<OpenOptions>() == 2 * size_of::<*const c_void>() + 8);
const _: () = assert!(size_of::<DeviceInfo>() == 200);
const _: () = assert!(size_of::<StreamInfo>() == 184);

/// What a handle points to.
#[repr(C)]
pub(crate) struct Opaque {
    _private: [u8; 0],
}

pub(crate) type Handle = *mut Opaque;

unsafe extern "C" {
    pub fn fid_abi_version() -> u32;
    pub fn fid_versions(out: *mut VersionsInfo, error: *mut Error) -> i32;
    pub fn fid_exit(code: i32);
    pub fn fid_scan(ids: *mut Id, capacity: usize, count: *mut usize, error: *mut Error) -> i32;

    pub fn fid_device_open(options: *const OpenOptions, out: *mut Handle, error: *mut Error) -> i32;
    pub fn fid_device_identify(device: Handle, out: *mut DeviceInfo, error: *mut Error) -> i32;
    pub fn fid_device_close(device: Handle);

    pub fn fid_model_create_path(
        device: Handle,
        path: *const c_char,
        group: *const c_char,
        out: *mut Handle,
        error: *mut Error,
    ) -> i32;
    pub fn fid_model_create_bytes(
        device: Handle,
        bytes: *const u8,
        length: usize,
        group: *const c_char,
        out: *mut Handle,
        error: *mut Error,
    ) -> i32;
    pub fn fid_model_stream_count(model: Handle, is_output: i32, count: *mut usize, error: *mut Error) -> i32;
    pub fn fid_model_stream_info(
        model: Handle,
        is_output: i32,
        index: usize,
        out: *mut StreamInfo,
        error: *mut Error,
    ) -> i32;
    pub fn fid_model_set_format_type(
        model: Handle,
        is_output: i32,
        index: usize,
        format_type: i32,
        error: *mut Error,
    ) -> i32;
    pub fn fid_model_set_kv_cache(model: Handle, enabled: i32, error: *mut Error) -> i32;
    pub fn fid_model_set_batch_size(model: Handle, size: u16, error: *mut Error) -> i32;
    pub fn fid_model_set_power_mode(model: Handle, mode: i32, error: *mut Error) -> i32;
    pub fn fid_model_configure(model: Handle, out: *mut Handle, error: *mut Error) -> i32;
    pub fn fid_model_free(model: Handle);

    pub fn fid_group_queue_size(group: Handle, out: *mut usize, error: *mut Error) -> i32;
    pub fn fid_group_buffer(
        group: Handle,
        is_output: i32,
        index: usize,
        data: *mut *mut u8,
        length: *mut usize,
        error: *mut Error,
    ) -> i32;
    pub fn fid_group_init_cache(group: Handle, offset: u32, error: *mut Error) -> i32;
    pub fn fid_group_update_cache_offset(group: Handle, delta: i32, error: *mut Error) -> i32;
    pub fn fid_group_run(group: Handle, timeout_ms: u32, error: *mut Error) -> i32;
    pub fn fid_group_is_poisoned(group: *const Opaque) -> i32;
    pub fn fid_group_shutdown(group: Handle, error: *mut Error) -> i32;
    pub fn fid_group_free(group: Handle);

    pub fn fid_hef_description(
        path: *const c_char,
        text: *mut c_char,
        capacity: usize,
        needed: *mut usize,
        error: *mut Error,
    ) -> i32;
    pub fn fid_hef_group_names(
        path: *const c_char,
        text: *mut c_char,
        capacity: usize,
        needed: *mut usize,
        error: *mut Error,
    ) -> i32;
    pub fn fid_hef_resource(
        bytes: *const u8,
        length: usize,
        name: *const c_char,
        data: *mut u8,
        capacity: usize,
        needed: *mut usize,
        error: *mut Error,
    ) -> i32;
}
