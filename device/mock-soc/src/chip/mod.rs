//! The chip behind the RPC server: one device with its caches, models, configured groups.

mod compiled;
mod configured;
mod device;
mod streams;

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use crate::{
    Fault,
    event::{Event, Log, lock},
    status::{self, Failure},
};
use compiled::Compiled;
use configured::Configured;
use device::Device;

pub(crate) use configured::{Formats, Request};

/// A client, counted from 1.
pub(crate) type Client = u32;
/// Handle of an object on the server.
pub(crate) type Handle = u32;

/// The chip. Requests are carried out one after another.
pub(crate) struct Chip {
    state: Mutex<State>,
    left: Condvar,
    faults: Vec<Fault>,
    busy_wait: Duration,
    log: Arc<Log>,
}

#[derive(Default)]
struct State {
    last_handle: Handle,
    runs: u32,
    device: Option<Device>,
    models: BTreeMap<Handle, Model>,
    groups: BTreeMap<Handle, Owned>,
}

/// A HEF that arrived, and the group it was sent for; empty when the client named none.
struct Model {
    client: Client,
    compiled: Arc<Compiled>,
    group: String,
}

struct Owned {
    client: Client,
    group: Configured,
}

impl State {
    fn new_handle(&mut self) -> Handle {
        self.last_handle += 1;
        self.last_handle
    }

    fn device(&mut self) -> Result<&mut Device, Failure> {
        self.device.as_mut().ok_or_else(|| Failure::new(status::NOT_FOUND, "no device is open"))
    }

    fn group(&self, handle: Handle) -> Result<&Configured, Failure> {
        let group = self.groups.get(&handle).map(|owned| &owned.group);
        group.ok_or_else(|| Failure::new(status::NOT_FOUND, format!("no configured group has handle {handle}")))
    }
}

/// What a run gives.
pub(crate) enum RunAnswer {
    /// The outputs, in order.
    Outputs(Vec<Vec<u8>>),
    /// The firmware waits for an offset that never comes.
    Never,
}

/// The group id of an owner that shares with nobody (`HAILO_UNIQUE_VDEVICE_GROUP_ID`).
const UNIQUE: &str = "UNIQUE";

impl Chip {
    pub(crate) fn new(faults: Vec<Fault>, busy_wait: Duration, log: Arc<Log>) -> Self {
        Self { state: Mutex::default(), left: Condvar::new(), faults, busy_wait, log }
    }

    /// Opens the device, after waiting a while for others to leave.
    pub(crate) fn open(&self, client: Client, group_id: &str) -> Result<Handle, Failure> {
        let mut state = lock(&self.state);
        let shares = |device: &Device| group_id != UNIQUE && device.group_id == group_id;
        let until = Instant::now() + self.busy_wait;
        while state.device.as_ref().is_some_and(|device| !shares(device)) {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return Err(Failure::new(status::DEVICE_IN_USE, "another client has the device"));
            };
            let waited = self.left.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        let handle = state.new_handle();
        let device = state.device.get_or_insert_with(|| Device::new(group_id));
        device.owners.insert(handle, client);
        self.log.add(Event::Opened { client, group_id: group_id.into() });
        Ok(handle)
    }

    /// Gives the device back.
    pub(crate) fn close(&self, handle: Handle) {
        self.release(|owner, _| owner == handle);
    }

    /// All that a client has is gone with it.
    pub(crate) fn forget(&self, client: Client) {
        {
            let mut state = lock(&self.state);
            state.groups.retain(|_, owned| owned.client != client);
            state.models.retain(|_, model| model.client != client);
        }
        self.release(|_, owner| owner == client);
    }

    /// All that anybody has is gone, as when the server dies.
    pub(crate) fn reset(&self) {
        let mut state = lock(&self.state);
        let (last_handle, runs) = (state.last_handle, state.runs);
        *state = State { last_handle, runs, ..State::default() };
        self.left.notify_all();
    }

    fn release(&self, leaves: impl Fn(Handle, Client) -> bool) {
        let mut state = lock(&self.state);
        if let Some(device) = &mut state.device {
            device.owners.retain(|handle, client| !leaves(*handle, *client));
            if device.owners.is_empty() {
                state.device = None;
            }
        }
        self.left.notify_all();
    }

    /// Takes a HEF in.
    pub(crate) fn create_model(&self, client: Client, group: &str, hef: &[u8]) -> Result<Handle, Failure> {
        self.log.add(Event::Model { group: group.into(), hef_bytes: hef.len() as u64 });
        let mut state = lock(&self.state);
        state.device()?;
        // Prefill and tbt come with the same file.
        let known = state.models.values().find(|model| model.compiled.is_of(hef)).map(|model| model.compiled.clone());
        let compiled = match known {
            Some(compiled) => compiled,
            None => Arc::new(Compiled::read(hef)?),
        };
        if !group.is_empty() && !compiled.has_group(group) {
            return Err(Failure::new(status::NOT_FOUND, format!("the file has no network group {group:?}")));
        }
        let handle = state.new_handle();
        state.models.insert(handle, Model { client, compiled, group: group.into() });
        Ok(handle)
    }

    /// Forgets a model; groups that were configured of it stay.
    pub(crate) fn destroy_model(&self, handle: Handle) {
        lock(&self.state).models.remove(&handle);
    }

    /// Configures the group of a model.
    pub(crate) fn configure(&self, client: Client, request: &Request) -> Result<Handle, Failure> {
        let mut state = lock(&self.state);
        let unknown = || Failure::new(status::NOT_FOUND, format!("no model has handle {}", request.model));
        let model = state.models.get(&request.model).ok_or_else(unknown)?;
        let (compiled, name) = (model.compiled.clone(), model.group.clone());
        let group = Configured::of(&compiled, &name, request, &self.faults)?;
        state.device()?.bind(&group, &compiled)?;
        self.log.add(group.event());
        let handle = state.new_handle();
        state.groups.insert(handle, Owned { client, group });
        Ok(handle)
    }

    /// Forgets a configured group. The caches stay.
    pub(crate) fn destroy_group(&self, handle: Handle) {
        lock(&self.state).groups.remove(&handle);
    }

    /// A request about a group that changes nothing here; fails if there is no such group.
    pub(crate) fn touch(&self, handle: Handle) -> Result<(), Failure> {
        lock(&self.state).group(handle).map(|_| ())
    }

    /// `init_cache`
    pub(crate) fn init_cache(&self, handle: Handle, offset: u32) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        state.group(handle)?;
        if let Some(offset) = state.device()?.init_cache(offset)? {
            self.log.add(Event::CacheInitialised { offset });
        }
        Ok(())
    }

    /// `update_cache_offset`
    pub(crate) fn update_offset(&self, handle: Handle, delta: i32) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        state.group(handle)?;
        if let Some(offset) = state.device()?.update_offset(delta, &self.faults)? {
            self.log.add(Event::CacheOffset { delta, offset });
        }
        Ok(())
    }

    /// Sizes of the inputs of a group in bytes, as its client was told to send them.
    pub(crate) fn input_sizes(&self, handle: Handle) -> Result<Vec<usize>, Failure> {
        Ok(lock(&self.state).group(handle)?.input_sizes())
    }

    /// Runs a group.
    pub(crate) fn run(&self, handle: Handle, inputs: &[Vec<u8>]) -> Result<RunAnswer, Failure> {
        let mut guard = lock(&self.state);
        let State { device, groups, runs, .. } = &mut *guard;
        let group = &groups.get(&handle).ok_or_else(|| Failure::new(status::NOT_FOUND, "no such group"))?.group;
        let device = device.as_mut().ok_or_else(|| Failure::new(status::NOT_FOUND, "no device is open"))?;
        let Some(offset) = device.offset_of_run(group) else {
            self.log.add(Event::RunWaits { group: group.name().into() });
            return Ok(RunAnswer::Never);
        };
        let outputs = group.run(inputs, device, offset, &self.faults)?;
        *runs += 1;
        self.log.add(Event::Run { group: group.name().into(), offset, number: *runs });
        Ok(RunAnswer::Outputs(outputs))
    }
}
