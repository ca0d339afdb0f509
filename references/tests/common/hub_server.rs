//! A Hub on this machine: what the real one answers, and a hook by which a test makes it answer worse.
#![allow(dead_code, reason = "each program of tests uses its part")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use sha2::{Digest, Sha256};

/// The one repository that is served, and what its branch `main` stands at.
pub(crate) const REPOSITORY: &str = "owner/tiny";
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);

/// Which of the two hosts was asked: the Hub, or the one that it sends large files from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Hub,
    Cdn,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) host: Host,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) range: Option<String>,
    pub(crate) token: Option<String>,
}

impl Asked {
    pub(crate) fn is_for(&self, file: &str) -> bool {
        self.path.ends_with(file)
    }
}

/// What is answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Close the connection after so many bytes of the body, though more were announced.
    pub(crate) cut_after: Option<usize>,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), cut_after: None }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| header != name);
        self
    }

    pub(crate) fn holding(self, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..self }
    }
}

type Hook = Box<dyn FnMut(&Asked, Reply) -> Reply + Send>;

struct State {
    files: BTreeMap<String, (Vec<u8>, bool)>,
    hook: Hook,
    log: Vec<Asked>,
    addresses: [SocketAddr; 2],
}

/// The server. It ends when dropped.
pub(crate) struct Hub {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    addresses: [SocketAddr; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Hub {
    /// Serves files; `large` ones come from the other host, as Git LFS files do.
    pub(crate) fn serving(files: &[(&str, &[u8], bool)]) -> Self {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let addresses = [0, 1].map(|index: usize| listeners[index].local_addr().expect("bound"));
        let files = files.iter().map(|(name, bytes, large)| ((*name).to_owned(), (bytes.to_vec(), *large))).collect();
        let hook: Hook = Box::new(|_, reply| reply);
        let state = Arc::new(Mutex::new(State { files, hook, log: Vec::new(), addresses }));
        let stop = Arc::new(AtomicBool::new(false));
        let start = |(listener, host)| {
            let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
            thread::spawn(move || serve(&listener, host, &state, &stop))
        };
        let threads = listeners.into_iter().zip([Host::Hub, Host::Cdn]).map(start).collect();
        Self { state, stop, addresses, threads }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.addresses[0])
    }

    /// From now on each reply passes through here.
    pub(crate) fn misbehave(&self, hook: impl FnMut(&Asked, Reply) -> Reply + Send + 'static) {
        self.state.lock().expect("no panic inside").hook = Box::new(hook);
    }

    pub(crate) fn behave(&self) {
        self.misbehave(|_, reply| reply);
    }

    /// The requests since the last call.
    pub(crate) fn take_log(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().expect("no panic inside").log)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the threads.
        self.addresses.iter().for_each(|address| drop(TcpStream::connect(address)));
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn serve(listener: &TcpListener, host: Host, state: &Mutex<State>, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        // A client that goes away is no matter of ours.
        let _ = stream.and_then(|stream| converse(stream, host, state));
    }
}

fn converse(mut stream: TcpStream, host: Host, state: &Mutex<State>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_PATIENCE))?;
    stream.set_write_timeout(Some(CLIENT_PATIENCE))?;
    let Some(asked) = read_request(&stream, host)? else { return Ok(()) };
    let reply = {
        let mut state = state.lock().expect("no panic inside");
        let reply = state.proper_reply(&asked);
        state.log.push(asked.clone());
        (state.hook)(&asked, reply)
    };
    let mut head = format!("HTTP/1.1 {} _\r\nconnection: close\r\n", reply.status);
    if !reply.headers.iter().any(|(name, _)| name == "content-length" || name == "transfer-encoding") {
        head.push_str(&format!("content-length: {}\r\n", reply.body.len()));
    }
    reply.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    if asked.method != "HEAD" {
        stream.write_all(&reply.body[..reply.cut_after.unwrap_or(reply.body.len()).min(reply.body.len())])?;
    }
    stream.flush()?;
    stream.shutdown(Shutdown::Write)?;
    // Until the client closes, so that nothing sent is lost to a reset.
    let _ = stream.take(1 << 16).read_to_end(&mut Vec::new());
    Ok(())
}

fn read_request(stream: &TcpStream, host: Host) -> std::io::Result<Option<Asked>> {
    let mut lines = BufReader::new(stream.take(1 << 16)).lines();
    let Some(first) = lines.next().transpose()? else { return Ok(None) };
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut asked = Asked { host, method, path, range: None, token: None };
    for line in lines {
        let line = line?;
        match line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())) {
            Some((name, value)) if name == "range" => asked.range = Some(value),
            Some((name, value)) if name == "authorization" => asked.token = Some(value),
            Some(_) => {}
            None => break,
        }
    }
    Ok(Some(asked))
}

impl State {
    fn proper_reply(&self, asked: &Asked) -> Reply {
        let absent = |code| Reply::status(404).with("x-error-code", code);
        let resolve = format!("/{REPOSITORY}/resolve/{COMMIT}/");
        let resolve_cache = format!("/api/resolve-cache/models/{REPOSITORY}/{COMMIT}/");
        if asked.host == Host::Cdn {
            let hash = asked.path.trim_start_matches("/lfs/");
            let file = self.files.values().find(|(bytes, _)| sha256(bytes) == hash);
            return file.map_or_else(|| Reply::status(404), |(bytes, _)| ranged(asked, bytes));
        }
        if let Some(revision) = asked.path.strip_prefix(&format!("/api/models/{REPOSITORY}/revision/")) {
            return match revision {
                "main" | COMMIT | "refs%2Fpr%2F1" => {
                    Reply::status(200).holding(format!("{{\"id\":\"{REPOSITORY}\",\"sha\":\"{COMMIT}\"}}").as_bytes())
                }
                _ => absent("RevisionNotFound"),
            };
        }
        if let Some(name) = asked.path.strip_prefix(&resolve_cache) {
            return self.files.get(name).map_or_else(|| absent("EntryNotFound"), |(bytes, _)| small(asked, bytes));
        }
        let Some(name) = asked.path.strip_prefix(&resolve) else {
            // To whom it does not know, the Hub does not say whether a repository exists.
            return Reply::status(401).with("x-error-code", "RepoNotFound");
        };
        match self.files.get(name) {
            None => absent("EntryNotFound"),
            Some((_, false)) => Reply::status(307).with("location", &format!("{resolve_cache}{name}")),
            Some((bytes, true)) => Reply::status(302)
                .with("location", &format!("http://{}/lfs/{}", self.addresses[1], sha256(bytes)))
                .with("x-repo-commit", COMMIT)
                .with("x-linked-size", &bytes.len().to_string())
                .with("x-linked-etag", &format!("\"{}\"", sha256(bytes)))
                .with("etag", "\"not-this-one\""),
        }
    }
}

fn small(asked: &Asked, bytes: &[u8]) -> Reply {
    ranged(asked, bytes).with("x-repo-commit", COMMIT).with("etag", &format!("\"{}\"", &sha256(bytes)[..40]))
}

/// The bytes asked for: all, a part, or none.
fn ranged(asked: &Asked, bytes: &[u8]) -> Reply {
    let from = asked.range.as_ref().and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let total = bytes.len();
    match from {
        None => Reply::status(200).holding(bytes),
        Some(from) if from < total => Reply::status(206)
            .with("content-range", &format!("bytes {from}-{}/{total}", total - 1))
            .holding(&bytes[from..]),
        Some(_) => Reply::status(416).with("content-range", &format!("bytes */{total}")),
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    fidelity_trace::hex(&Sha256::digest(bytes))
}
