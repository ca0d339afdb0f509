//! The chip behind `HailoRT`.

use std::{path::Path, time::Duration};

use fidelity_hailort_sys::{self as sys, Direction, FormatType, OpenOptions};

use crate::chip::{ChipError, Device, DeviceInfo, Group, GroupRequest, Library, Port, Versions};

/// `HailoRT`, as it is installed.
#[derive(Clone, Copy, Debug, Default)]
pub struct HailoRt;

impl From<sys::Error> for ChipError {
    fn from(error: sys::Error) -> Self {
        let advice = error.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        Self { status: error.status, step: error.step.description().into(), detail: error.detail + &advice }
    }
}

impl Library for HailoRt {
    fn versions(&self) -> Result<Versions, ChipError> {
        let versions = sys::versions()?;
        Ok(Versions { library: versions.library.to_string(), headers: versions.headers.to_string() })
    }

    fn scan(&self) -> Result<Vec<String>, ChipError> {
        Ok(sys::scan()?)
    }

    fn open(&self, id: &str) -> Result<Box<dyn Device>, ChipError> {
        let device = sys::Device::open(&OpenOptions { device_id: Some(id.to_owned()), group_id: None })?;
        let info = device.info()?;
        let info = DeviceInfo {
            id: id.to_owned(),
            architecture: info.architecture_name().to_owned(),
            firmware: info.firmware.to_string(),
            board: info.board_name,
            serial: info.serial_number,
        };
        Ok(Box::new(Opened { device, info }))
    }
}

struct Opened {
    device: sys::Device,
    info: DeviceInfo,
}

impl Device for Opened {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn configure(&mut self, hef: &Path, groups: &[GroupRequest]) -> Result<Vec<Box<dyn Group>>, ChipError> {
        let mut configured: Vec<Box<dyn Group>> = Vec::with_capacity(groups.len());
        for request in groups {
            // A model holds a copy of the file: it goes before the next one comes.
            let mut model = self.device.model(hef, &request.name)?;
            for direction in [Direction::Input, Direction::Output] {
                for (index, stream) in model.streams(direction)?.iter().enumerate() {
                    if request.float32.contains(&stream.name) {
                        model.set_format(direction, index, FormatType::Float32)?;
                    }
                }
            }
            model.set_kv_cache(request.kv_cache)?;
            let (inputs, outputs) = (ports(&model, Direction::Input)?, ports(&model, Direction::Output)?);
            configured.push(Box::new(Configured { group: model.configure()?, inputs, outputs }));
        }
        Ok(configured)
    }
}

fn ports(model: &sys::Model, direction: Direction) -> Result<Vec<Port>, ChipError> {
    let streams = model.streams(direction)?.into_iter();
    Ok(streams.map(|stream| Port { name: stream.name, frame_bytes: stream.frame_size }).collect())
}

struct Configured {
    group: sys::Group,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

impl Group for Configured {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn input_mut(&mut self, index: usize) -> &mut [u8] {
        self.group.input_mut(index)
    }

    fn output(&self, index: usize) -> &[u8] {
        self.group.output(index)
    }

    fn init_cache(&mut self, offset: u32) -> Result<(), ChipError> {
        Ok(self.group.init_cache(offset)?)
    }

    fn update_cache_offset(&mut self, tokens: i32) -> Result<(), ChipError> {
        Ok(self.group.update_cache_offset(tokens)?)
    }

    fn run(&mut self, deadline: Duration) -> Result<(), ChipError> {
        Ok(self.group.run(deadline)?)
    }

    fn is_poisoned(&self) -> bool {
        self.group.is_poisoned()
    }
}
