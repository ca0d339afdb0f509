//! A network group that was sent to a device, before it is configured.
#![expect(unsafe_code, reason = "calls the C surface")]

use std::ptr;

use crate::{
    Direction, Error, FormatType, Group, PowerMode, Status, Step, Stream,
    call::{call, text},
    raw,
};

/// A network group of a HEF. It keeps its device open.
pub struct Model {
    handle: raw::Handle,
}

// SAFETY: a model may be used from any thread, by one at a time.
unsafe impl Send for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: the handle came from fid_model_create_*, and is freed once.
        unsafe { raw::fid_model_free(self.handle) }
    }
}

impl Model {
    /// Takes a handle of fid_model_create_*.
    pub(crate) const fn new(handle: raw::Handle) -> Self {
        Self { handle }
    }

    /// The streams of a direction: inputs in the order of the HEF, outputs in their sorted order. Buffers of the [`Group`] have the same
    /// indices.
    pub fn streams(&self, direction: Direction) -> Result<Vec<Stream>, Error> {
        let mut count = 0;
        // SAFETY: the handle is valid, the pointers are valid for writing.
        call(|error| unsafe { raw::fid_model_stream_count(self.handle, is_output(direction), &raw mut count, error) })?;
        (0..count).map(|index| self.stream(direction, index)).collect()
    }

    fn stream(&self, direction: Direction, index: usize) -> Result<Stream, Error> {
        let mut info = raw::StreamInfo {
            name: [0; 128],
            height: 0,
            width: 0,
            features: 0,
            format_type: 0,
            format_order: 0,
            format_flags: 0,
            scale: 0.0,
            zero_point: 0.0,
            limit_min: 0.0,
            limit_max: 0.0,
            is_nms: 0,
            reserved: 0,
            frame_size: 0,
        };
        // SAFETY: the handle is valid, the pointers are valid for writing.
        call(|error| unsafe {
            raw::fid_model_stream_info(self.handle, is_output(direction), index, &raw mut info, error)
        })?;
        let name = text(&info.name);
        let refuse = |detail| Error {
            status: Status::NOT_SUPPORTED,
            step: Step::Format,
            detail: format!("stream {name} {detail}"),
        };
        if info.is_nms != 0 {
            return Err(refuse("is a detector's (NMS): not a language model's".to_owned()));
        }
        let format_type = FormatType::from_number(info.format_type)
            .ok_or_else(|| refuse(format!("has format type {}", info.format_type)))?;
        let frame_size =
            usize::try_from(info.frame_size).map_err(|_| refuse(format!("takes {} bytes", info.frame_size)))?;
        Ok(Stream {
            name,
            shape: [info.height, info.width, info.features],
            format_type,
            format_order: info.format_order,
            frame_size,
            scale: info.scale,
            zero_point: info.zero_point,
            limits: [info.limit_min, info.limit_max],
        })
    }

    /// Sets how the host gives or gets a stream's values. Before [`Model::configure`].
    pub fn set_format(&mut self, direction: Direction, index: usize, format: FormatType) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        call(|error| unsafe {
            raw::fid_model_set_format_type(self.handle, is_output(direction), index, format.number(), error)
        })
    }

    /// Says that every run comes after one `update_cache_offset`, which the firmware then waits for. A group with caches computes anything
    /// without it.
    pub fn set_kv_cache(&mut self, enabled: bool) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        call(|error| unsafe { raw::fid_model_set_kv_cache(self.handle, i32::from(enabled), error) })
    }

    /// Sets the batch size; 0, the default, is HailoRT's own. A group with caches takes 0 and 1 only.
    pub fn set_batch_size(&mut self, size: u16) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        call(|error| unsafe { raw::fid_model_set_batch_size(self.handle, size, error) })
    }

    /// Sets the power mode.
    pub fn set_power_mode(&mut self, mode: PowerMode) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        call(|error| unsafe { raw::fid_model_set_power_mode(self.handle, mode.number(), error) })
    }

    /// Configures the group. Groups that share caches are all configured before the first run.
    pub fn configure(&mut self) -> Result<Group, Error> {
        let counts = [self.streams(Direction::Input)?.len(), self.streams(Direction::Output)?.len()];
        let mut group = ptr::null_mut();
        // SAFETY: the handle is valid, the pointers are valid for writing.
        call(|error| unsafe { raw::fid_model_configure(self.handle, &raw mut group, error) })?;
        Ok(Group::new(group, counts))
    }
}

pub(crate) const fn is_output(direction: Direction) -> i32 {
    match direction {
        Direction::Input => 0,
        Direction::Output => 1,
    }
}
