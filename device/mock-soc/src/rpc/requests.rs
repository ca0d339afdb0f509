//! What the server does with a request.

use prost::Message;

use super::{action::Action, frame::Frame, messages, serve::Server};
use crate::{
    chip::{Client, Formats, Request, RunAnswer},
    status::{self, Failure},
};

/// `get_async_queue_size`
const QUEUE_SIZE: u32 = 2;
/// `HAILO_ARCH_HAILO10H`
const ARCHITECTURE: u32 = 6;

/// What follows a message, read off the link.
pub(super) enum Payload {
    /// Nothing.
    None,
    Hef(Vec<u8>),
    Inputs(Vec<Vec<u8>>),
}

/// Body and buffers of a reply.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) body: Vec<u8>,
    pub(super) buffers: Vec<Vec<u8>>,
}

/// What a request leads to.
pub(super) enum Answer {
    Reply(Reply),
    Never,
}

impl From<Vec<u8>> for Answer {
    fn from(body: Vec<u8>) -> Self {
        Self::Reply(Reply { body, buffers: Vec::new() })
    }
}

impl Server {
    /// Carries a request out.
    pub(super) fn act(
        &self,
        client: Client,
        action: Action,
        frame: &Frame,
        payload: Payload,
    ) -> Result<Answer, Failure> {
        let chip = &self.chip;
        let handle = || Ok::<_, Failure>(decode::<messages::OfHandle>(frame)?.id());
        let given = |handle: u32| messages::OfHandle::new(handle).encode_to_vec().into();
        match (action, payload) {
            (Action::OpenDevice, _) => {
                let params = decode::<messages::OpenDevice>(frame)?.params.unwrap_or_default();
                Ok(given(chip.open(client, &params.group_id)?))
            }
            (Action::CloseDevice, _) => handle().map(|handle| chip.close(handle)).map(done),
            (Action::CreateModel, Payload::Hef(hef)) => {
                let request = decode::<messages::CreateModel>(frame)?;
                Ok(given(chip.create_model(client, &request.name, &hef)?))
            }
            (Action::DestroyModel, _) => handle().map(|handle| chip.destroy_model(handle)).map(done),
            (Action::Configure, _) => {
                let group = chip.configure(client, &request(decode(frame)?))?;
                let group = Some(messages::Handle { id: group });
                Ok(messages::Configured { group, async_queue_size: QUEUE_SIZE }.encode_to_vec().into())
            }
            (Action::DestroyGroup, _) => handle().map(|handle| chip.destroy_group(handle)).map(done),
            (
                Action::SetSchedulerTimeout
                | Action::SetSchedulerThreshold
                | Action::SetSchedulerPriority
                | Action::Activate
                | Action::Deactivate
                | Action::Shutdown
                | Action::FinalizeCache,
                _,
            ) => chip.touch(handle()?).map(done),
            (Action::UpdateOffset, _) => {
                let request = decode::<messages::UpdateOffset>(frame)?;
                chip.update_offset(id(request.group.as_ref()), request.delta).map(done)
            }
            (Action::InitCache, _) => {
                let request = decode::<messages::InitCache>(frame)?;
                chip.init_cache(id(request.group.as_ref()), request.read_offset).map(done)
            }
            (Action::Run, Payload::Inputs(inputs)) => {
                match chip.run(id(decode::<messages::Run>(frame)?.group.as_ref()), &inputs)? {
                    RunAnswer::Outputs(buffers) => Ok(Answer::Reply(Reply { body: Vec::new(), buffers })),
                    RunAnswer::Never => Ok(Answer::Never),
                }
            }
            (Action::CreateModel | Action::Run, _) => Err(Failure::new(status::INTERNAL_FAILURE, "no payload")),
            (Action::CreateDevice, _) => Ok(given(client)),
            (Action::DestroyDevice | Action::SetNotification | Action::RemoveNotification, _) => Ok(done(())),
            (Action::Identify, _) => Ok(self.identity().encode_to_vec().into()),
            (Action::ExtendedInfo, _) => {
                Ok(messages::ExtendedInfo { clock_rate: 1_000_000_000, boot_source: 1 }.encode_to_vec().into())
            }
            (Action::ChipTemperature, _) => {
                Ok(messages::ChipTemperature { first: 41.5, second: 42.0, samples: 1 }.encode_to_vec().into())
            }
            (Action::Architecture, _) => {
                Ok(messages::Architecture { architecture: ARCHITECTURE }.encode_to_vec().into())
            }
        }
    }

    fn identity(&self) -> messages::Identified {
        let bytes = |text: &str| text.bytes().map(u32::from).collect();
        let version = self.firmware;
        let firmware =
            messages::FirmwareVersion { major: version.major, minor: version.minor, revision: version.revision };
        messages::Identified {
            identity: Some(messages::Identity {
                protocol_version: 2,
                firmware: Some(firmware),
                logger_version: 0,
                board_name: "Hailo-10H mock".into(),
                is_release: true,
                architecture: ARCHITECTURE,
                serial_number: bytes("MOCK0001"),
                part_number: bytes("MOCK"),
                product_name: "MOCK-SOC".into(),
            }),
        }
    }
}

/// Nothing but the status.
fn done((): ()) -> Answer {
    Answer::Reply(Reply::default())
}

pub(super) fn id(handle: Option<&messages::Handle>) -> u32 {
    handle.map_or(0, |handle| handle.id)
}

fn request(message: messages::Configure) -> Request {
    let formats = |streams: Vec<messages::StreamParams>| -> Formats {
        streams.into_iter().map(|stream| (stream.name, stream.format_type)).collect()
    };
    Request {
        model: id(message.model.as_ref()),
        inputs: formats(message.inputs),
        outputs: formats(message.outputs),
        batch_size: message.batch_size,
        power_mode: message.power_mode,
        kv_cache: message.enable_kv_cache,
    }
}

pub(super) fn decode<M: Message + Default>(frame: &Frame) -> Result<M, Failure> {
    M::decode(frame.body.as_slice()).map_err(|error| Failure::new(status::RPC_FAILED, error.to_string()))
}
