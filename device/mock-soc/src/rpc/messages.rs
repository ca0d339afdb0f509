//! Bodies of frames, as far as the mock reads or writes them (`hrpc_protocol/rpc.proto`; same names, same numbers).

use prost::Message;

/// `HailoObjectHandle`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Handle {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
}

/// Every message whose only field of interest is the handle in field 1: most requests, and replies that give one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OfHandle {
    #[prost(message, optional, tag = "1")]
    pub(super) handle: Option<Handle>,
}

impl OfHandle {
    pub(super) fn new(id: u32) -> Self {
        Self { handle: Some(Handle { id }) }
    }

    pub(super) fn id(&self) -> u32 {
        self.handle.as_ref().map_or(0, |handle| handle.id)
    }
}

/// `VDevice_Create_Request`
#[derive(Clone, PartialEq, Message)]
pub(super) struct OpenDevice {
    #[prost(message, optional, tag = "1")]
    pub(super) params: Option<DeviceParams>,
}

/// `VDeviceParamsProto`
#[derive(Clone, PartialEq, Message)]
pub(super) struct DeviceParams {
    #[prost(uint32, tag = "1")]
    pub(super) scheduling_algorithm: u32,
    #[prost(string, tag = "2")]
    pub(super) group_id: String,
}

/// `VDevice_CreateInferModel_Request`
#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateModel {
    #[prost(message, optional, tag = "1")]
    pub(super) device: Option<Handle>,
    #[prost(uint64, tag = "2")]
    pub(super) hef_size: u64,
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

/// `InferStreamParamsProto`
#[derive(Clone, PartialEq, Message)]
pub(super) struct StreamParams {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(uint32, tag = "2")]
    pub(super) format_order: u32,
    #[prost(uint32, tag = "3")]
    pub(super) format_type: u32,
}

/// `InferModel_CreateConfiguredInferModel_Request`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Configure {
    #[prost(message, optional, tag = "1")]
    pub(super) model: Option<Handle>,
    #[prost(message, optional, tag = "2")]
    pub(super) device: Option<Handle>,
    #[prost(message, repeated, tag = "3")]
    pub(super) inputs: Vec<StreamParams>,
    #[prost(message, repeated, tag = "4")]
    pub(super) outputs: Vec<StreamParams>,
    #[prost(uint32, tag = "5")]
    pub(super) batch_size: u32,
    #[prost(uint32, tag = "6")]
    pub(super) power_mode: u32,
    #[prost(bool, tag = "8")]
    pub(super) enable_kv_cache: bool,
}

/// `InferModel_CreateConfiguredInferModel_Reply`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Configured {
    #[prost(message, optional, tag = "1")]
    pub(super) group: Option<Handle>,
    #[prost(uint32, tag = "2")]
    pub(super) async_queue_size: u32,
}

/// `ConfiguredInferModel_UpdateCacheOffset_Request`
#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateOffset {
    #[prost(message, optional, tag = "1")]
    pub(super) group: Option<Handle>,
    #[prost(int32, tag = "2")]
    pub(super) delta: i32,
}

/// `ConfiguredInferModel_InitCache_Request`
#[derive(Clone, PartialEq, Message)]
pub(super) struct InitCache {
    #[prost(message, optional, tag = "1")]
    pub(super) group: Option<Handle>,
    #[prost(uint32, tag = "2")]
    pub(super) read_offset: u32,
}

/// `BufferInfo`
#[derive(Clone, PartialEq, Message)]
pub(super) struct BufferInfo {
    #[prost(uint32, tag = "1")]
    pub(super) size: u32,
    /// 1: a view, the only kind that comes over TCP.
    #[prost(uint32, tag = "2")]
    pub(super) kind: u32,
}

/// `ConfiguredInferModel_AsyncInfer_Request`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Run {
    #[prost(message, optional, tag = "1")]
    pub(super) group: Option<Handle>,
    #[prost(message, optional, tag = "2")]
    pub(super) model: Option<Handle>,
    #[prost(message, repeated, tag = "3")]
    pub(super) buffers: Vec<BufferInfo>,
}

/// `FirmwareVersionProto`
#[derive(Clone, PartialEq, Message)]
pub(super) struct FirmwareVersion {
    #[prost(uint32, tag = "1")]
    pub(super) major: u32,
    #[prost(uint32, tag = "2")]
    pub(super) minor: u32,
    #[prost(uint32, tag = "3")]
    pub(super) revision: u32,
}

/// `DeviceIdentityProto`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Identity {
    #[prost(uint32, tag = "1")]
    pub(super) protocol_version: u32,
    #[prost(message, optional, tag = "2")]
    pub(super) firmware: Option<FirmwareVersion>,
    #[prost(uint32, tag = "3")]
    pub(super) logger_version: u32,
    #[prost(string, tag = "4")]
    pub(super) board_name: String,
    #[prost(bool, tag = "5")]
    pub(super) is_release: bool,
    /// `hailo_device_architecture_t`
    #[prost(uint32, tag = "7")]
    pub(super) architecture: u32,
    /// A byte each.
    #[prost(uint32, repeated, tag = "8")]
    pub(super) serial_number: Vec<u32>,
    #[prost(uint32, repeated, tag = "9")]
    pub(super) part_number: Vec<u32>,
    #[prost(string, tag = "10")]
    pub(super) product_name: String,
}

/// `Device_Identify_Reply`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Identified {
    #[prost(message, optional, tag = "1")]
    pub(super) identity: Option<Identity>,
}

/// `Device_ExtendedInfo_Reply`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExtendedInfo {
    /// Hz
    #[prost(uint32, tag = "1")]
    pub(super) clock_rate: u32,
    /// 1: PCIe
    #[prost(uint32, tag = "3")]
    pub(super) boot_source: u32,
}

/// `Device_GetChipTemperature_Reply`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ChipTemperature {
    /// °C
    #[prost(float, tag = "1")]
    pub(super) first: f32,
    /// °C
    #[prost(float, tag = "2")]
    pub(super) second: f32,
    #[prost(uint32, tag = "3")]
    pub(super) samples: u32,
}

/// `Device_GetArchitecture_Reply`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Architecture {
    /// `hailo_device_architecture_t`
    #[prost(uint32, tag = "1")]
    pub(super) architecture: u32,
}
