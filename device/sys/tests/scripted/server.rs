//! A server that answers requests as a test says, in the frames of HailoRT 5.2.0, and keeps what it was asked.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    thread,
    time::Duration,
};

use fidelity_hef_writer::message::Message;

use crate::wire::{handle, number, repeated};

pub(crate) const FRAME_BYTES: usize = 2068;
const PORT: u16 = 12133;

pub(crate) mod action {
    pub(crate) const VDEVICE_CREATE: u32 = 0;
    pub(crate) const VDEVICE_DESTROY: u32 = 1;
    pub(crate) const CREATE_MODEL: u32 = 2;
    pub(crate) const MODEL_DESTROY: u32 = 3;
    pub(crate) const CONFIGURE: u32 = 4;
    pub(crate) const GROUP_DESTROY: u32 = 5;
    pub(crate) const SHUTDOWN: u32 = 12;
    pub(crate) const UPDATE_CACHE_OFFSET: u32 = 13;
    pub(crate) const INIT_CACHE: u32 = 14;
    pub(crate) const RUN: u32 = 18;
    pub(crate) const DEVICE_CREATE: u32 = 20;
    pub(crate) const DEVICE_DESTROY: u32 = 21;
    pub(crate) const IDENTIFY: u32 = 22;
    pub(crate) const SET_NOTIFICATION: u32 = 33;
}

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) frame: Vec<u8>,
    pub(crate) action: u32,
    pub(crate) body: Vec<u8>,
    /// A HEF, or the inputs of a run one after another.
    pub(crate) follows: Vec<u8>,
}

/// What to answer.
pub(crate) enum Answer {
    /// What a chip would.
    Usual,
    /// Nothing but a status.
    Status(u32),
    /// The usual, after a while.
    Late(Duration),
    /// Nothing at all.
    Silence,
    /// Closes the link.
    Close,
    /// Says success of a run and closes the link before its outputs.
    CloseBeforeOutputs,
    /// A frame that is none.
    Garbage,
}

type Script = Box<dyn FnMut(&Request) -> Answer + Send>;

pub(crate) struct Server {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers as a chip does.
    pub(crate) fn usual() -> Self {
        Self::new(|_| Answer::Usual)
    }

    /// Answers as the script says, which is asked at every request.
    pub(crate) fn new(script: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        let listener = listen();
        let address = listener.local_addr().expect("it listens").ip().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, script): (_, Script) = (Arc::clone(&requests), Box::new(script));
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client connects");
            // The client may go away at any time.
            let _ = Connection { stream, requests: kept, script, handles: 10 }.serve();
        });
        Self { address, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic while locked").clone()
    }

    pub(crate) fn actions(&self) -> Vec<u32> {
        self.requests().iter().map(|request| request.action).collect()
    }

    /// Waits until as many requests came: what a destructor sends may still be on its way.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<u32> {
        for _ in 0..500 {
            if self.requests().len() >= count {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.actions()
    }

    /// The only request of this action.
    pub(crate) fn only(&self, action: u32) -> Request {
        let found: Vec<_> = self.requests().into_iter().filter(|request| request.action == action).collect();
        assert_eq!(found.len(), 1, "requests of action {action}");
        found.into_iter().next().expect("there is one")
    }
}

/// HailoRT's client knows one port: every server has an address of its own in 127.0.0.0/8.
fn listen() -> TcpListener {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = std::process::id().to_le_bytes();
    loop {
        let [low, high] = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        assert!(high < 8, "no address is free");
        let address = Ipv4Addr::new(127, 16 + (process[1] & 0x3f), process[0], 1 + (low & 0x7f));
        if let Ok(listener) = TcpListener::bind((address, PORT)) {
            return listener;
        }
    }
}

struct Connection {
    stream: TcpStream,
    requests: Arc<Mutex<Vec<Request>>>,
    script: Script,
    /// The next handle of a model or a group.
    handles: u64,
}

impl Connection {
    fn serve(mut self) -> io::Result<()> {
        loop {
            let mut frame = vec![0; FRAME_BYTES];
            self.stream.read_exact(&mut frame)?;
            let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("4 bytes"));
            let (size, id, action) = (word(4) as usize, word(8), word(12));
            let body = frame[20..20 + size].to_vec();
            let mut follows = vec![0; self.following(action, &body)];
            self.stream.read_exact(&mut follows)?;
            let request = Request { frame, action, body, follows };
            let answer = (self.script)(&request);
            self.requests.lock().expect("no panic while locked").push(request.clone());
            // A real client loses a reply that comes before it waits for it.
            if let Some(milliseconds) =
                std::env::var("FIDELITY_SCRIPTED_DELAY_MS").ok().and_then(|text| text.parse().ok())
            {
                thread::sleep(Duration::from_millis(milliseconds));
            }
            match answer {
                Answer::Usual => self.reply(&request, id)?,
                Answer::Late(after) => {
                    thread::sleep(after);
                    self.reply(&request, id)?;
                }
                Answer::Status(status) => self.send(id, action, status, &[])?,
                Answer::Silence => {}
                Answer::Close => return Ok(()),
                Answer::CloseBeforeOutputs => return self.send(id, action, 0, &[]),
                Answer::Garbage => self.stream.write_all(&[0x55; FRAME_BYTES])?,
            }
        }
    }

    /// Bytes that follow a request.
    fn following(&self, action: u32, body: &[u8]) -> usize {
        match action {
            action::CREATE_MODEL => number(body, 2) as usize,
            // Inputs come first; the files of these tests have six.
            action::RUN => repeated(body, 3).iter().take(6).map(|info| number(info, 1) as usize).sum(),
            _ => 0,
        }
    }

    fn reply(&mut self, request: &Request, id: u32) -> io::Result<()> {
        let body = match request.action {
            action::VDEVICE_CREATE => handle(1, 1),
            action::DEVICE_CREATE => handle(1, 2),
            action::IDENTIFY => Message::new().message(1, identity()),
            action::CREATE_MODEL | action::CONFIGURE => {
                self.handles += 1;
                let reply = handle(1, self.handles);
                if request.action == action::CONFIGURE { reply.number(2, 2) } else { reply }
            }
            _ => Message::new(),
        };
        self.send(id, request.action, 0, &body.into_bytes())?;
        if request.action == action::RUN {
            // Output i is filled with i + 1.
            for (value, info) in (1_u8..).zip(repeated(&request.body, 3).iter().skip(6)) {
                self.stream.write_all(&vec![value; number(info, 1) as usize])?;
            }
        }
        Ok(())
    }

    fn send(&mut self, id: u32, action: u32, status: u32, body: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(FRAME_BYTES);
        for word in [0x8A55_4432, body.len() as u32, id, action, status] {
            frame.extend(word.to_le_bytes());
        }
        frame.extend(body);
        frame.resize(FRAME_BYTES, 0xEE);
        self.stream.write_all(&frame)
    }
}

/// DeviceIdentityProto.
fn identity() -> Message {
    Message::new()
        .number(1, 2)
        .message(2, Message::new().number(1, 5).number(2, 2))
        .text(4, "Hailo-10H")
        .number(5, 1)
        .number(7, 6)
        .bytes(8, b"HLSN\x80\x01")
        .bytes(9, b"HM1")
        .text(10, "HAILO-10H AI ACC M.2")
}
