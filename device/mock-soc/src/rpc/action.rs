//! What a client can ask for (`HailoRpcActionID` in `hrpc_protocol/serializer.hpp`).

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `VDevice::create`
    OpenDevice,
    /// The end of a `VDevice`.
    CloseDevice,
    /// `VDevice::create_infer_model`; the HEF follows.
    CreateModel,
    /// The end of an `InferModel`.
    DestroyModel,
    /// `InferModel::configure`
    Configure,
    /// The end of a `ConfiguredInferModel`.
    DestroyGroup,
    /// `set_scheduler_timeout`
    SetSchedulerTimeout,
    /// `set_scheduler_threshold`
    SetSchedulerThreshold,
    /// `set_scheduler_priority`
    SetSchedulerPriority,
    /// `ConfiguredInferModel::activate`
    Activate,
    /// `ConfiguredInferModel::deactivate`
    Deactivate,
    /// `ConfiguredInferModel::shutdown`
    Shutdown,
    /// `update_cache_offset`
    UpdateOffset,
    /// `init_cache`
    InitCache,
    /// `finalize_cache` (`HailoRT` 5.1.0)
    FinalizeCache,
    /// `run_async`; the inputs follow.
    Run,
    /// `Device::create`
    CreateDevice,
    /// The end of a `Device`.
    DestroyDevice,
    /// `Device::identify`
    Identify,
    /// `Device::get_extended_device_information`
    ExtendedInfo,
    /// `Device::get_chip_temperature`
    ChipTemperature,
    /// `Device::get_architecture`
    Architecture,
    /// `Device::set_notification_callback`
    SetNotification,
    /// `Device::remove_notification_callback`
    RemoveNotification,
}

impl Action {
    /// Every action that the mock carries out.
    pub const ALL: [Self; 24] = [
        Self::OpenDevice,
        Self::CloseDevice,
        Self::CreateModel,
        Self::DestroyModel,
        Self::Configure,
        Self::DestroyGroup,
        Self::SetSchedulerTimeout,
        Self::SetSchedulerThreshold,
        Self::SetSchedulerPriority,
        Self::Activate,
        Self::Deactivate,
        Self::Shutdown,
        Self::UpdateOffset,
        Self::InitCache,
        Self::FinalizeCache,
        Self::Run,
        Self::CreateDevice,
        Self::DestroyDevice,
        Self::Identify,
        Self::ExtendedInfo,
        Self::ChipTemperature,
        Self::Architecture,
        Self::SetNotification,
        Self::RemoveNotification,
    ];

    /// Its number in a frame, and its name on the command line and in the log.
    const fn numbered(self) -> (u32, &'static str) {
        match self {
            Self::OpenDevice => (0, "open"),
            Self::CloseDevice => (1, "close"),
            Self::CreateModel => (2, "create-model"),
            Self::DestroyModel => (3, "destroy-model"),
            Self::Configure => (4, "configure"),
            Self::DestroyGroup => (5, "destroy-group"),
            Self::SetSchedulerTimeout => (6, "scheduler-timeout"),
            Self::SetSchedulerThreshold => (7, "scheduler-threshold"),
            Self::SetSchedulerPriority => (8, "scheduler-priority"),
            Self::Activate => (10, "activate"),
            Self::Deactivate => (11, "deactivate"),
            Self::Shutdown => (12, "shutdown"),
            Self::UpdateOffset => (13, "update-offset"),
            Self::InitCache => (14, "init-cache"),
            Self::FinalizeCache => (15, "finalize-cache"),
            Self::Run => (18, "run"),
            Self::CreateDevice => (20, "create-device"),
            Self::DestroyDevice => (21, "destroy-device"),
            Self::Identify => (22, "identify"),
            Self::ExtendedInfo => (23, "extended-info"),
            Self::ChipTemperature => (24, "chip-temperature"),
            Self::Architecture => (32, "architecture"),
            Self::SetNotification => (33, "set-notification"),
            Self::RemoveNotification => (34, "remove-notification"),
        }
    }

    /// Its name on the command line and in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.numbered().1
    }

    /// Its number in a frame.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.numbered().0
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    pub(super) fn numbered_as(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.number() == number)
    }
}

/// Known to the real server, not to the mock; no buffer follows the message.
pub(super) const fn answered_as_not_implemented(number: u32) -> bool {
    matches!(number, 9 | 16 | 17 | 25..=31 | 35 | 38)
}
