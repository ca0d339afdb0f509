//! The listener: accepts clients, dies and comes back when told to.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io,
    net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream},
    process,
    str::FromStr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{action::Action, connection::Connection};
use crate::{
    chip::{Chip, Client},
    event::{Event, Log, lock},
    misbehaviour::{Conduct, Fault, Misbehaviour},
};

/// Where the chip's server listens, and clients of `HailoRT` connect.
pub const DEFAULT_PORT: u16 = 12133;
/// How often the listener looks for clients.
const TICK: Duration = Duration::from_millis(5);

/// A version of firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// First.
    pub major: u32,
    /// Second.
    pub minor: u32,
    /// Third.
    pub revision: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.revision)
    }
}

/// `5.2.0`
impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match parts.as_deref() {
            Some(&[major, minor, revision]) => Ok(Self { major, minor, revision }),
            _ => Err(format!("`{text}` is not three numbers with dots between, like 5.2.0")),
        }
    }
}

/// How a mock is started.
#[derive(Debug)]
pub struct Options {
    /// Where it listens: any 127.x.y.z, so that mocks run side by side.
    pub address: Ipv4Addr,
    /// [`DEFAULT_PORT`], unless the client can be told of another; 0: any.
    pub port: u16,
    /// Every answer waits so long. Clients of libhailort 5.2 lose wake-ups of answers that come at once; 10 ms are enough.
    pub delay: Duration,
    /// How long a client that asks for a device in use is kept waiting before it is told; 5 s on the chip.
    pub busy_wait: Duration,
    /// What `identify` says.
    pub firmware: Version,
    /// What becomes of requests; the first that fits.
    pub misbehaviours: Vec<Misbehaviour>,
    /// What is computed wrongly.
    pub faults: Vec<Fault>,
    /// Events are written there as well, one JSON object a line.
    pub log: Option<File>,
}

impl Options {
    /// A chip without fault at this address.
    #[must_use]
    pub const fn at(address: Ipv4Addr) -> Self {
        Self {
            address,
            port: DEFAULT_PORT,
            delay: Duration::ZERO,
            busy_wait: Duration::from_secs(5),
            firmware: Version { major: 5, minor: 2, revision: 0 },
            misbehaviours: Vec::new(),
            faults: Vec::new(),
            log: None,
        }
    }
}

/// A loopback address at which nobody listens on [`DEFAULT_PORT`], another one at each call and in each process.
#[must_use]
pub fn unused_loopback() -> Ipv4Addr {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    loop {
        // Spread over 127.64.0.0 to 127.127.255.255, by Knuth's multiplicative hash.
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let hash = process::id().wrapping_mul(0x9E37_79B1).wrapping_add(call.wrapping_mul(0x85EB_CA6B));
        let [high, middle, low, _] = hash.to_be_bytes();
        let address = Ipv4Addr::new(127, 64 | high & 63, middle, low);
        if TcpListener::bind((address, DEFAULT_PORT)).is_ok() {
            return address;
        }
    }
}

/// What all links share.
pub(super) struct Server {
    pub(super) chip: Chip,
    pub(super) log: Arc<Log>,
    pub(super) delay: Duration,
    pub(super) firmware: Version,
    misbehaviours: Vec<Misbehaviour>,
    counts: Mutex<BTreeMap<u32, u32>>,
    links: Mutex<BTreeMap<Client, TcpStream>>,
    down: Mutex<Option<Down>>,
    stopped: AtomicBool,
}

/// The server died: until when nobody listens; for good if absent.
#[derive(Clone, Copy)]
struct Down {
    until: Option<Instant>,
}

impl Server {
    /// Which request of its kind this is, from 1 on.
    pub(super) fn count(&self, action: Action) -> u32 {
        let mut counts = lock(&self.counts);
        let count = counts.entry(action.number()).or_insert(0);
        *count += 1;
        *count
    }

    pub(super) fn conduct(&self, action: Action, number: u32) -> Option<Conduct> {
        self.misbehaviours.iter().find(|misbehaviour| misbehaviour.at.is(action, number)).map(|found| found.conduct)
    }

    /// Closes every link; the listener sees the rest.
    pub(super) fn crash(&self, back_after: Option<Duration>) {
        *lock(&self.down) = Some(Down { until: back_after.map(|span| Instant::now() + span) });
        self.close_links();
        self.chip.reset();
    }

    fn close_links(&self) {
        for link in lock(&self.links).values() {
            // Whoever closed it first does not matter.
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A running mock; it ends when this is dropped.
pub struct MockSoc {
    address: SocketAddrV4,
    server: Arc<Server>,
    listener: Option<JoinHandle<()>>,
}

impl MockSoc {
    /// Starts to listen.
    ///
    /// # Errors
    /// The address is in use or not this machine's.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = listen(SocketAddrV4::new(options.address, options.port))?;
        let port = listener.local_addr()?.port();
        let address = SocketAddrV4::new(options.address, port);
        let log = Arc::new(Log::new(options.log));
        let server = Arc::new(Server {
            chip: Chip::new(options.faults, options.busy_wait, log.clone()),
            log,
            delay: options.delay,
            firmware: options.firmware,
            misbehaviours: options.misbehaviours,
            counts: Mutex::default(),
            links: Mutex::default(),
            down: Mutex::new(None),
            stopped: AtomicBool::new(false),
        });
        let accepting = server.clone();
        let listener = thread::spawn(move || accept(&accepting, listener, address));
        Ok(Self { address, server, listener: Some(listener) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// All that happened so far, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.server.log.events()
    }

    /// How many runs were carried out.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.events().iter().filter(|event| matches!(event, Event::Run { .. })).count()
    }

    /// The read offset of the ring, as last set or moved.
    #[must_use]
    pub fn last_offset(&self) -> Option<usize> {
        let offset = |event: &Event| match event {
            Event::CacheOffset { offset, .. } | Event::CacheInitialised { offset } => Some(*offset),
            _ => None,
        };
        self.events().iter().rev().find_map(offset)
    }

    /// Waits until it crashes for good, which may be never.
    pub fn wait(mut self) {
        if let Some(listener) = self.listener.take() {
            // A panic of the listener was printed already.
            let _ = listener.join();
        }
    }
}

impl Drop for MockSoc {
    fn drop(&mut self) {
        self.server.stopped.store(true, Ordering::Relaxed);
        self.server.close_links();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn listen(address: SocketAddrV4) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(server: &Arc<Server>, listener: TcpListener, address: SocketAddrV4) {
    let mut listener = Some(listener);
    let mut last_client = 0;
    while !server.stopped() {
        let down = *lock(&server.down);
        match (down, &listener) {
            (Some(Down { until: None }), _) => return,
            (Some(_), Some(_)) => listener = None,
            (Some(Down { until: Some(until) }), None) if Instant::now() >= until => match listen(address) {
                Ok(again) => {
                    listener = Some(again);
                    *lock(&server.down) = None;
                }
                Err(_) => thread::sleep(TICK),
            },
            (Some(_), None) => thread::sleep(TICK),
            (None, Some(open)) => match open.accept() {
                Ok((link, _)) => {
                    last_client += 1;
                    greet(server, last_client, link);
                }
                Err(_) => thread::sleep(TICK),
            },
            (None, None) => return,
        }
    }
}

fn greet(server: &Arc<Server>, client: Client, link: TcpStream) {
    let Ok(own) = link.set_nonblocking(false).and_then(|()| link.try_clone()) else { return };
    let Ok(connection) = Connection::new(server.clone(), client, link) else { return };
    lock(&server.links).insert(client, own);
    server.log.add(Event::Connected { client });
    let server = server.clone();
    thread::spawn(move || {
        connection.serve();
        lock(&server.links).remove(&client);
        server.log.add(Event::Disconnected { client });
    });
}
