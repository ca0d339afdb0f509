//! A client's link: requests are read, carried out one after another, and answered.

use std::{
    io::{self, Read},
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use prost::Message;

use super::{
    action::{Action, answered_as_not_implemented},
    frame::Frame,
    messages,
    serve::Server,
};
use crate::{
    chip::{Client, Formats, Request, RunAnswer},
    event::{Event, lock},
    misbehaviour::Conduct,
    status::{self, Failure},
};

/// Above this no HEF is taken in.
const MOST_HEF_BYTES: u64 = 4 << 30;
/// `get_async_queue_size`
const QUEUE_SIZE: u32 = 2;
/// `HAILO_ARCH_HAILO10H`
const ARCHITECTURE: u32 = 6;

/// What follows a message, read off the link.
enum Payload {
    None,
    Hef(Vec<u8>),
    Inputs(Vec<Vec<u8>>),
}

/// Body and buffers of a reply.
#[derive(Default)]
struct Reply {
    body: Vec<u8>,
    buffers: Vec<Vec<u8>>,
}

/// What a request leads to.
enum Answer {
    Reply(Reply),
    Never,
}

impl From<Vec<u8>> for Answer {
    fn from(body: Vec<u8>) -> Self {
        Self::Reply(Reply { body, buffers: Vec::new() })
    }
}

/// Whether the link stays.
#[derive(PartialEq, Eq)]
enum Link {
    Stays,
    Closes,
}

pub(super) struct Connection {
    server: Arc<Server>,
    client: Client,
    link: TcpStream,
    /// Whoever writes holds this: late replies are written by threads of their own.
    writer: Arc<Mutex<TcpStream>>,
}

impl Connection {
    pub(super) fn new(server: Arc<Server>, client: Client, link: TcpStream) -> io::Result<Self> {
        link.set_nodelay(true)?;
        let writer = Arc::new(Mutex::new(link.try_clone()?));
        Ok(Self { server, client, link, writer })
    }

    /// Serves until the link is closed by either side.
    pub(super) fn serve(mut self) {
        while let Ok(frame) = Frame::read(&mut self.link) {
            match self.answer(&frame) {
                Ok(Link::Stays) => {}
                Ok(Link::Closes) | Err(_) => break,
            }
        }
        let _ = self.link.shutdown(Shutdown::Both);
        self.server.chip.forget(self.client);
    }

    fn answer(&mut self, frame: &Frame) -> io::Result<Link> {
        let Some(action) = Action::numbered_as(frame.action) else {
            // What the server does not know ends the link (`Server::serve_client`).
            let known = answered_as_not_implemented(frame.action);
            let failure = Failure::new(status::NOT_IMPLEMENTED, format!("action {} is not in the mock", frame.action));
            self.fail("other", frame, &failure, known)?;
            return Ok(if known { Link::Stays } else { Link::Closes });
        };
        let payload = match self.payload(action, frame) {
            Ok(payload) => payload,
            Err(Unread::Link(error)) => return Err(error),
            // What follows is not known to be read: the link cannot go on.
            Err(Unread::Failure(failure)) => {
                self.fail(action.name(), frame, &failure, true)?;
                return Ok(Link::Closes);
            }
        };
        let number = self.server.count(action);
        let conduct = self.server.conduct(action, number);
        if let Some(conduct) = conduct {
            let conduct = format!("{conduct:?}");
            self.server.log.add(Event::Misbehaved { action: action.name(), number, conduct });
        }
        let ordinary = self.server.delay;
        match conduct {
            None => self.carry_out(action, frame, payload, ordinary, Link::Stays),
            Some(Conduct::Hang) => Ok(Link::Stays),
            Some(Conduct::Unanswered) => {
                let _ = self.act(action, frame, payload);
                Ok(Link::Stays)
            }
            Some(Conduct::Crash { back_after }) => {
                self.server.crash(back_after);
                Ok(Link::Closes)
            }
            Some(Conduct::Status(status)) => {
                thread::sleep(ordinary);
                self.write(frame, status, Reply::default())?;
                Ok(Link::Stays)
            }
            Some(Conduct::Late(delay)) => self.answer_late(action, frame, payload, delay),
            Some(Conduct::Instant) => self.carry_out(action, frame, payload, Duration::ZERO, Link::Stays),
            Some(Conduct::CloseLink) => Ok(Link::Closes),
        }
    }

    fn carry_out(
        &self,
        action: Action,
        frame: &Frame,
        payload: Payload,
        delay: Duration,
        link: Link,
    ) -> io::Result<Link> {
        let answer = self.act(action, frame, payload);
        thread::sleep(delay);
        match answer {
            Ok(Answer::Reply(reply)) => self.write(frame, status::SUCCESS, reply)?,
            Ok(Answer::Never) => {}
            Err(failure) => self.fail(action.name(), frame, &failure, true)?,
        }
        Ok(link)
    }

    fn answer_late(&self, action: Action, frame: &Frame, payload: Payload, delay: Duration) -> io::Result<Link> {
        let (status, reply) = match self.act(action, frame, payload) {
            Ok(Answer::Reply(reply)) => (status::SUCCESS, reply),
            Ok(Answer::Never) => return Ok(Link::Stays),
            Err(failure) => (failure.status, Reply::default()),
        };
        let (writer, frame) = (self.writer.clone(), Frame { status, body: reply.body, ..frame.clone() });
        thread::spawn(move || {
            thread::sleep(delay);
            // The client may be gone by now.
            let _ = frame.write(&mut *lock(&writer), &reply.buffers);
        });
        Ok(Link::Stays)
    }

    fn write(&self, request: &Frame, status: u32, reply: Reply) -> io::Result<()> {
        let frame = Frame { status, body: reply.body, ..request.clone() };
        frame.write(&mut *lock(&self.writer), &reply.buffers)
    }

    fn fail(&self, action: &'static str, frame: &Frame, failure: &Failure, answered: bool) -> io::Result<()> {
        self.server.log.add(Event::Failed { action, status: failure.status, why: failure.why.clone() });
        if answered { self.write(frame, failure.status, Reply::default()) } else { Ok(()) }
    }

    fn payload(&mut self, action: Action, frame: &Frame) -> Result<Payload, Unread> {
        match action {
            Action::CreateModel => {
                let size = decode::<messages::CreateModel>(frame)?.hef_size;
                if size > MOST_HEF_BYTES {
                    return Err(Failure::new(status::INVALID_ARGUMENT, format!("a HEF of {size} bytes")).into());
                }
                // Grows with what arrives, not by what is claimed.
                let mut hef = Vec::new();
                let read = (&mut self.link).take(size).read_to_end(&mut hef)?;
                if read as u64 == size { Ok(Payload::Hef(hef)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
            Action::Run => {
                let request = decode::<messages::Run>(frame)?;
                let sizes = self.server.chip.input_sizes(id(request.group.as_ref()))?;
                let told: Vec<_> = request.buffers.iter().take(sizes.len()).map(|info| info.size as usize).collect();
                if told != sizes {
                    let why = format!("inputs of {told:?} bytes, expected {sizes:?}");
                    return Err(Failure::new(status::INTERNAL_FAILURE, why).into());
                }
                let mut inputs = Vec::with_capacity(sizes.len());
                for size in sizes {
                    let mut buffer = vec![0; size];
                    self.link.read_exact(&mut buffer)?;
                    inputs.push(buffer);
                }
                Ok(Payload::Inputs(inputs))
            }
            _ => Ok(Payload::None),
        }
    }

    /// Carries a request out.
    fn act(&self, action: Action, frame: &Frame, payload: Payload) -> Result<Answer, Failure> {
        let chip = &self.server.chip;
        let handle = || Ok::<_, Failure>(decode::<messages::OfHandle>(frame)?.id());
        let given = |handle: u32| messages::OfHandle::new(handle).encode_to_vec().into();
        match (action, payload) {
            (Action::OpenDevice, _) => {
                let params = decode::<messages::OpenDevice>(frame)?.params.unwrap_or_default();
                Ok(given(chip.open(self.client, &params.group_id)?))
            }
            (Action::CloseDevice, _) => done(chip.close(handle()?)),
            (Action::CreateModel, Payload::Hef(hef)) => {
                let request = decode::<messages::CreateModel>(frame)?;
                Ok(given(chip.create_model(self.client, &request.name, &hef)?))
            }
            (Action::DestroyModel, _) => done(chip.destroy_model(handle()?)),
            (Action::Configure, _) => {
                let group = chip.configure(self.client, &request(decode(frame)?))?;
                let group = Some(messages::Handle { id: group });
                Ok(messages::Configured { group, async_queue_size: QUEUE_SIZE }.encode_to_vec().into())
            }
            (Action::DestroyGroup, _) => done(chip.destroy_group(handle()?)),
            (
                Action::SetSchedulerTimeout
                | Action::SetSchedulerThreshold
                | Action::SetSchedulerPriority
                | Action::Activate
                | Action::Deactivate
                | Action::Shutdown
                | Action::FinalizeCache,
                _,
            ) => done(chip.touch(handle()?)?),
            (Action::UpdateOffset, _) => {
                let request = decode::<messages::UpdateOffset>(frame)?;
                done(chip.update_offset(id(request.group.as_ref()), request.delta)?)
            }
            (Action::InitCache, _) => {
                let request = decode::<messages::InitCache>(frame)?;
                done(chip.init_cache(id(request.group.as_ref()), request.read_offset)?)
            }
            (Action::Run, Payload::Inputs(inputs)) => {
                match chip.run(id(decode::<messages::Run>(frame)?.group.as_ref()), &inputs)? {
                    RunAnswer::Outputs(buffers) => Ok(Answer::Reply(Reply { body: Vec::new(), buffers })),
                    RunAnswer::Never => Ok(Answer::Never),
                }
            }
            (Action::CreateModel | Action::Run, _) => Err(Failure::new(status::INTERNAL_FAILURE, "no payload")),
            (Action::CreateDevice, _) => Ok(given(self.client)),
            (Action::DestroyDevice | Action::SetNotification | Action::RemoveNotification, _) => done(()),
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
        let version = self.server.firmware;
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

fn done((): ()) -> Result<Answer, Failure> {
    Ok(Answer::Reply(Reply::default()))
}

fn id(handle: Option<&messages::Handle>) -> u32 {
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

fn decode<M: Message + Default>(frame: &Frame) -> Result<M, Failure> {
    M::decode(frame.body.as_slice()).map_err(|error| Failure::new(status::RPC_FAILED, error.to_string()))
}

/// Why what follows a message was not read.
enum Unread {
    Link(io::Error),
    Failure(Failure),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Link(error)
    }
}

impl From<io::ErrorKind> for Unread {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Link(kind.into())
    }
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
