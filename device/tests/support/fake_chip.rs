//! A chip that records what it is fed, keeps a cache ring as the real one does, and misbehaves where a test says so.
//!
//! Its "network": every token has a number (the first code of its embedding); the sum of the visible numbers, each times its
//! distance from the newest, decides the logits. [`logits`] says the same of a plain list of numbers.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use fidelity_device::{
    chip::{ChipError, Device, DeviceInfo, Group, GroupRequest, Library, Port, Status, Versions},
    hef::Hef,
};

/// A call that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Open,
    Configure,
    InitCache,
    UpdateOffset,
    Run,
}

/// What happens instead of success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// The status is returned and nothing was done.
    Status(i32),
    /// It was done, but the status is returned.
    DoneButStatus(i32),
    /// It is done after so many milliseconds.
    Late(u64),
    /// The call never returns.
    Hang,
    /// The process ends.
    Crash,
}

/// What the chip saw, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Configure(Vec<GroupRequest>),
    InitCache(u32),
    UpdateOffset(i32),
    /// Group and inputs, in the order of its ports.
    Run(String, Vec<Vec<u8>>),
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) events: Vec<Event>,
    /// Mishaps by call and the how-manieth of its kind, from 0.
    pub(crate) mishaps: Vec<(Call, usize, Mishap)>,
    counts: [usize; 5],
    offset: usize,
    ring: Vec<u32>,
    pub(crate) busy: bool,
    poisoned: bool,
}

impl Inner {
    fn mishap(&mut self, call: Call) -> Option<Mishap> {
        let count = &mut self.counts[call as usize];
        *count += 1;
        let now = *count - 1;
        self.mishaps.iter().find(|(of, at, _)| *of == call && *at == now).map(|(_, _, mishap)| *mishap)
    }
}

/// The library, a chip behind it.
#[derive(Clone, Default)]
pub(crate) struct FakeLibrary(pub(crate) Arc<Mutex<Inner>>);

impl FakeLibrary {
    pub(crate) fn with(mishaps: &[(Call, usize, Mishap)]) -> Self {
        let fake = Self::default();
        fake.inner().mishaps = mishaps.to_vec();
        fake
    }

    pub(crate) fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics inside")
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.inner().events)
    }

    /// Runs `act`, or the mishap in its place.
    fn call(&self, call: Call, act: impl FnOnce(&mut Inner)) -> Result<(), ChipError> {
        let mut inner = self.inner();
        let failed = |status| {
            Err(ChipError { status: Status::new(status), step: format!("in {call:?}"), detail: String::new() })
        };
        match inner.mishap(call) {
            None => {
                act(&mut inner);
                Ok(())
            }
            Some(Mishap::Status(status)) => failed(status),
            Some(Mishap::DoneButStatus(status)) => {
                act(&mut inner);
                failed(status)
            }
            Some(Mishap::Late(milliseconds)) => {
                std::thread::sleep(Duration::from_millis(milliseconds));
                act(&mut inner);
                Ok(())
            }
            Some(Mishap::Hang) => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
            Some(Mishap::Crash) => std::process::abort(),
        }
    }
}

impl Library for FakeLibrary {
    fn versions(&self) -> Result<Versions, ChipError> {
        Ok(Versions { library: "5.2.0".into(), headers: "5.2.0".into() })
    }

    fn scan(&self) -> Result<Vec<String>, ChipError> {
        Ok(vec!["0000:01:00.0".into()])
    }

    fn open(&self, id: &str) -> Result<Box<dyn Device>, ChipError> {
        self.call(Call::Open, |_| {})?;
        if self.inner().busy {
            return Err(ChipError {
                status: Status::DEVICE_IN_USE,
                step: "while opening the device".into(),
                detail: String::new(),
            });
        }
        Ok(Box::new(FakeDevice { library: self.clone(), id: id.to_owned() }))
    }
}

struct FakeDevice {
    library: FakeLibrary,
    id: String,
}

impl Device for FakeDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: self.id.clone(),
            architecture: "HAILO10H".into(),
            firmware: "5.2.0".into(),
            board: "fake".into(),
            serial: String::new(),
        }
    }

    fn configure(&mut self, hef: &Path, groups: &[GroupRequest]) -> Result<Vec<Box<dyn Group>>, ChipError> {
        self.library.call(Call::Configure, |inner| inner.events.push(Event::Configure(groups.to_vec())))?;
        let hef = Hef::open(hef).expect("the session read it before");
        let groups = groups.iter().map(|request| {
            let group = hef.description().groups.iter().find(|group| group.name == request.name).expect("by full name");
            let port = |stream: &fidelity_device::hef::Stream| {
                let bytes = if request.float32.contains(&stream.name) { 4 } else { stream.data_bytes as usize };
                let [height, width, features] = stream.shape.map(|extent| extent as usize);
                Port { name: stream.name.clone(), frame_bytes: height * width * features * bytes }
            };
            let inputs: Vec<_> = group.inputs.iter().map(port).collect();
            let outputs: Vec<_> = group.outputs.iter().map(port).collect();
            let buffers = |ports: &[Port]| ports.iter().map(|port| vec![0; port.frame_bytes]).collect();
            let rows = |width: fn(&str) -> bool| {
                group.inputs.iter().find(|input| width(&input.name)).map(|input| input.shape[1])
            };
            Box::new(FakeGroup {
                library: self.library.clone(),
                name: request.name.clone(),
                rows: rows(|name| name.ends_with("input_layer1")).expect("embeddings") as usize,
                output_rows: group.outputs[0].shape[1] as usize,
                query_heads: QUERY_HEADS,
                kv_cache: request.kv_cache,
                input_buffers: buffers(&inputs),
                output_buffers: buffers(&outputs),
                inputs,
                outputs,
            }) as Box<dyn Group>
        });
        Ok(groups.collect())
    }
}

/// Heads of every model of these tests.
pub(crate) const QUERY_HEADS: usize = 2;

struct FakeGroup {
    library: FakeLibrary,
    name: String,
    rows: usize,
    output_rows: usize,
    query_heads: usize,
    kv_cache: bool,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    input_buffers: Vec<Vec<u8>>,
    output_buffers: Vec<Vec<u8>>,
}

impl FakeGroup {
    fn input(&self, suffix: &str) -> &[u8] {
        let at = self.inputs.iter().position(|port| port.name.ends_with(suffix)).expect("six inputs");
        &self.input_buffers[at]
    }

    /// The rows' numbers go into the ring, the visible ones come out of it.
    fn compute(&self, inner: &mut Inner) -> Vec<f32> {
        let mask = self.input("input_layer2");
        let length = mask.len() / (self.rows * self.query_heads);
        let embeddings = self.input("input_layer1");
        let row_bytes = embeddings.len() / self.rows;
        let fresh: Vec<u32> =
            embeddings.chunks(row_bytes).map(|row| u32::from(u16::from_le_bytes([row[0], row[1]]))).collect();
        inner.ring.resize(length, 0);
        let offset = if self.kv_cache { inner.offset } else { 0 };
        for (back, number) in fresh.iter().rev().enumerate() {
            inner.ring[(offset + length - 1 - back) % length] = *number;
        }
        let last = &mask[(self.rows - 1) * self.query_heads * length..][..length];
        let visible = (0..length).filter(|column| last[*column] != 0);
        let numbers: Vec<_> =
            visible.map(|column| (length - 1 - column, inner.ring[(offset + column) % length])).collect();
        let width: usize = self.outputs.iter().map(|port| port.frame_bytes / 4 / self.output_rows).sum();
        from_sum(&numbers, width)
    }
}

/// The logits after `numbers`, the newest last, of which `length` are seen.
pub(crate) fn logits(numbers: &[u32], length: usize, width: usize) -> Vec<f32> {
    let seen: Vec<_> = numbers.iter().rev().copied().enumerate().take(length).collect();
    from_sum(&seen, width)
}

fn from_sum(numbers: &[(usize, u32)], width: usize) -> Vec<f32> {
    let sum = numbers.iter().fold(0_u64, |sum, (distance, number)| sum + (*distance as u64 + 1) * u64::from(*number));
    (0..width as u64).map(|id| ((sum * 31 + id * (sum % 89 + 7)) % 101) as f32).collect()
}

impl Group for FakeGroup {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn input_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.input_buffers[index]
    }

    fn output(&self, index: usize) -> &[u8] {
        &self.output_buffers[index]
    }

    fn init_cache(&mut self, offset: u32) -> Result<(), ChipError> {
        self.library.call(Call::InitCache, |inner| {
            inner.events.push(Event::InitCache(offset));
            inner.offset = offset as usize;
        })
    }

    fn update_cache_offset(&mut self, tokens: i32) -> Result<(), ChipError> {
        let length = self.input("input_layer2").len() / (self.rows * self.query_heads);
        self.library.call(Call::UpdateOffset, |inner| {
            inner.events.push(Event::UpdateOffset(tokens));
            inner.offset = (inner.offset + tokens as usize) % length;
        })
    }

    fn run(&mut self, _: Duration) -> Result<(), ChipError> {
        let mut computed = Vec::new();
        let outcome = self.library.clone().call(Call::Run, |inner| {
            inner.events.push(Event::Run(self.name.clone(), self.input_buffers.clone()));
            computed = self.compute(inner);
        });
        if let Err(error) = &outcome {
            self.library.inner().poisoned |= error.status == Status::TIMEOUT;
        }
        // The last row of each output; a group that gives more gives zeros before.
        let mut values = computed.into_iter();
        for buffer in &mut self.output_buffers {
            let before = buffer.len() - buffer.len() / self.output_rows;
            for (bytes, value) in buffer[before..].chunks_exact_mut(4).zip(&mut values) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
        outcome
    }

    fn is_poisoned(&self) -> bool {
        self.library.inner().poisoned
    }
}
