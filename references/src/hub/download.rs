//! One file into `blobs`: continued where an earlier attempt stopped, checked, then renamed.
//!
//! Bytes are continued only where their SHA-256 is known beforehand, since nothing else proves that both halves belong together.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
    thread,
    time::Duration,
};

use fidelity_trace::hex;
use sha2::{Digest, Sha256};
use ureq::{
    Body,
    http::{Response, StatusCode},
};

use super::{
    HubError,
    cache::{RepositoryCache, create_parent},
    client::{Client, Remote, text},
};

/// Connections in a row that may bring nothing new.
const FRUITLESS: usize = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// A file whose size the Hub does not announce is refused above this.
const MAX_UNANNOUNCED_BYTES: u64 = 256 << 20;
const REPORT_EVERY_BYTES: u64 = 64 << 20;

pub(super) struct Download<'a> {
    pub(super) client: &'a Client<'a>,
    pub(super) commit: &'a str,
    pub(super) file: &'a str,
    pub(super) remote: &'a Remote,
    pub(super) blob: PathBuf,
    pub(super) progress: &'a dyn Fn(&str),
}

/// Makes sure that the blob of a file is in the cache, whole.
pub(super) fn into_cache(download: &Download<'_>, cache: &RepositoryCache) -> Result<(), HubError> {
    let waiting = || (download.progress)(&format!("waiting for another download of {}", download.file));
    let _lock = cache.lock(&download.remote.etag, &waiting)?;
    // Other programs promote blobs without looking at their size.
    let there = fs::metadata(&download.blob).ok().map(|blob| blob.len());
    if there.is_some_and(|held| download.remote.size.is_none_or(|size| size == held)) {
        return Ok(());
    }
    download.run()
}

impl Download<'_> {
    fn run(&self) -> Result<(), HubError> {
        create_parent(&self.blob)?;
        if self.remote.sha256().is_none() {
            self.discard()?;
        }
        let continued = self.held() > 0;
        self.receive_all()?;
        if let Err(error) = self.verify() {
            self.discard()?;
            if !continued {
                return Err(error);
            }
            // The half of an earlier attempt may have been the wrong one.
            self.receive_all()?;
            self.verify().or_else(|error| self.discard().and(Err(error)))?;
        }
        fs::rename(self.incomplete(), &self.blob).map_err(HubError::io("write", &self.blob))
    }

    fn incomplete(&self) -> PathBuf {
        self.blob.with_file_name(format!("{}.incomplete", self.remote.etag))
    }

    /// Bytes on disk.
    fn held(&self) -> u64 {
        fs::metadata(self.incomplete()).map_or(0, |file| file.len())
    }

    fn discard(&self) -> Result<(), HubError> {
        match fs::remove_file(self.incomplete()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(HubError::io("delete", &self.incomplete())(error))
            }
            _ => Ok(()),
        }
    }

    /// Connects again after each cut, until nothing new comes several times in a row.
    fn receive_all(&self) -> Result<(), HubError> {
        let (mut most, mut fruitless) = (self.held(), 0);
        loop {
            let error = match self.receive() {
                Err(error @ HubError::Cut { .. }) => error,
                end => return end,
            };
            let held = self.held();
            fruitless = if held > most { 0 } else { fruitless + 1 };
            most = most.max(held);
            if fruitless == FRUITLESS {
                return Err(error);
            }
            if fruitless > 0 {
                thread::sleep(PAUSE);
            }
            (self.progress)(&format!("{}: connection cut after {held} bytes, connecting again", self.file));
        }
    }

    /// One connection's worth of bytes.
    fn receive(&self) -> Result<(), HubError> {
        let held = if self.remote.sha256().is_some() { self.held() } else { 0 };
        if held > 0 && self.remote.size == Some(held) {
            return Ok(());
        }
        let held = if self.remote.size.is_some_and(|size| held > size) { 0 } else { held };
        let first = self.client.bytes(self.commit, self.file, held)?;
        let (response, start) = match start_of(&first) {
            Some(start) if start == held || start == 0 => (first, start),
            // 416, or a range that was not asked for.
            _ => {
                drop(first);
                let whole = self.client.bytes(self.commit, self.file, 0)?;
                let start = start_of(&whole).filter(|start| *start == 0);
                (whole, start.ok_or_else(|| self.not_the_hub("does not send the file from its start"))?)
            }
        };
        let size = self.size(&response, start)?;
        self.store(response.into_body(), start, size)
    }

    /// The size of the whole file, if anything announces it.
    fn size(&self, response: &Response<Body>, start: u64) -> Result<Option<u64>, HubError> {
        let rest = response.body().content_length();
        let size = self.remote.size.or_else(|| rest.and_then(|rest| rest.checked_add(start)));
        let chunked =
            text(response.headers(), "transfer-encoding").is_some_and(|encoding| encoding.ends_with("chunked"));
        if size.is_none() && !chunked && self.remote.sha256().is_none() {
            return Err(self.not_the_hub("announces no size, so that a cut could not be told from the end"));
        }
        Ok(size)
    }

    fn store(&self, body: Body, start: u64, size: Option<u64>) -> Result<(), HubError> {
        let path = self.incomplete();
        let io = |error| HubError::io("write", &path)(error);
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(io)?;
        file.set_len(start).map_err(io)?;
        let mut total = file.seek(SeekFrom::End(0)).map_err(io)?;
        let limit = size.unwrap_or(MAX_UNANNOUNCED_BYTES);
        let mut reader = body.into_reader().take(limit.saturating_sub(total).saturating_add(1));
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) => return Err(self.cut(total, size, &error.to_string())),
            };
            file.write_all(&buffer[..read]).map_err(io)?;
            let before = total;
            total += read as u64;
            if before / REPORT_EVERY_BYTES != total / REPORT_EVERY_BYTES {
                (self.progress)(&format!("{}: {}", self.file, amount(total, size)));
            }
        }
        match size {
            Some(size) if total < size => Err(self.cut(total, Some(size), "the answer ended early")),
            _ if total > limit => {
                drop(file);
                self.discard()?;
                Err(self.damaged("size in bytes", format!("more than {limit}"), limit.to_string()))
            }
            _ => file.sync_all().map_err(io),
        }
    }

    fn verify(&self) -> Result<(), HubError> {
        let Some(expected) = self.remote.sha256() else { return Ok(()) };
        let path = self.incomplete();
        let mut file = File::open(&path).map_err(HubError::io("read", &path))?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut buffer).map_err(HubError::io("read", &path))?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
        }
        let found = hex(&hasher.finalize());
        if found.eq_ignore_ascii_case(expected) {
            return Ok(());
        }
        Err(self.damaged("SHA-256", found, expected.to_owned()))
    }

    fn cut(&self, received: u64, expected: Option<u64>, reason: &str) -> HubError {
        let next = match self.remote.sha256() {
            Some(_) => "the next run goes on from there",
            None => "the next run gets it from its start",
        };
        HubError::Cut { file: self.file.to_owned(), received, expected, reason: reason.to_owned(), next }
    }

    fn damaged(&self, what: &'static str, found: String, expected: String) -> HubError {
        HubError::Damaged { file: self.file.to_owned(), what, found, expected }
    }

    fn not_the_hub(&self, reason: &str) -> HubError {
        HubError::NotTheHub { url: self.client.file_url(self.commit, self.file), reason: reason.to_owned() }
    }
}

/// The position of an answer's first byte; `None` if it holds none of the file.
fn start_of(response: &Response<Body>) -> Option<u64> {
    match response.status() {
        StatusCode::OK => Some(0),
        StatusCode::PARTIAL_CONTENT => {
            let range = text(response.headers(), "content-range")?;
            range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
        }
        _ => None,
    }
}

/// `134 of 269 MB`.
pub(super) fn amount(bytes: u64, of: Option<u64>) -> String {
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    match of {
        Some(size) => format!("{} of {} MB", megabytes(bytes), megabytes(size)),
        None => format!("{} MB", megabytes(bytes)),
    }
}
