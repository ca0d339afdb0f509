//! A client's link: requests are read, carried out one after another, and answered.

use std::{
    io::{self, Read},
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use super::{
    action::{Action, answered_as_not_implemented},
    frame::Frame,
    messages,
    requests::{Answer, Payload, Reply, decode, id},
    serve::Server,
};
use crate::{
    chip::Client,
    event::{Event, lock},
    misbehaviour::Conduct,
    status::{self, Failure},
};

/// Above this no HEF is taken in.
const MOST_HEF_BYTES: u64 = 4 << 30;

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
                let _ = self.server.act(self.client, action, frame, payload);
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
        let answer = self.server.act(self.client, action, frame, payload);
        thread::sleep(delay);
        match answer {
            Ok(Answer::Reply(reply)) => self.write(frame, status::SUCCESS, reply)?,
            Ok(Answer::Never) => {}
            Err(failure) => self.fail(action.name(), frame, &failure, true)?,
        }
        Ok(link)
    }

    fn answer_late(&self, action: Action, frame: &Frame, payload: Payload, delay: Duration) -> io::Result<Link> {
        let (status, reply) = match self.server.act(self.client, action, frame, payload) {
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
