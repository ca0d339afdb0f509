//! A configured network group, and what a run of it computes.

use std::collections::BTreeMap;

use fidelity_device::hef::{Group, Stream};

use super::{Handle, compiled::Compiled, device::Device, streams::Port};
use crate::{
    Fault,
    event::Event,
    network::{Decoder, Dimensions, GroupPlan, MaskSense, Plan, Rope, Rotation, Step},
    status::{self, Failure},
};

/// `hailo_format_type_t` by name of stream.
pub(crate) type Formats = BTreeMap<String, u32>;

/// What a client asks for when it configures a group.
pub(crate) struct Request {
    pub(crate) model: Handle,
    pub(crate) inputs: Formats,
    pub(crate) outputs: Formats,
    pub(crate) batch_size: u32,
    pub(crate) power_mode: u32,
    pub(crate) kv_cache: bool,
}

/// A configured group.
pub(super) struct Configured {
    plan: GroupPlan,
    mask: MaskSense,
    decoder: Decoder,
    /// In the order of the file, which is that of the frames of a run.
    inputs: Vec<Port>,
    /// In the order of the host.
    outputs: Vec<Port>,
    kv_cache: bool,
    batch_size: u32,
    power_mode: u32,
}

impl Configured {
    pub(super) fn of(compiled: &Compiled, name: &str, request: &Request, faults: &[Fault]) -> Result<Self, Failure> {
        if !compiled.runs_on_this_chip() {
            return Err(Failure::new(status::HEF_NOT_COMPATIBLE_WITH_DEVICE, "it was compiled for another chip"));
        }
        let group = compiled.group(name)?;
        let (network, weights) = compiled.network()?;
        let plan = network.groups.iter().find(|plan| plan.name == group.name);
        let plan = plan.ok_or_else(|| Failure::new(status::INVALID_HEF, "the mock network has no such group"))?.clone();
        let ports = |streams: &[Stream], formats: &Formats| -> Result<Vec<Port>, Failure> {
            if let Some(name) = formats.keys().find(|name| streams.iter().all(|stream| stream.name != **name)) {
                return Err(Failure::new(status::NOT_FOUND, format!("no stream is called {name:?}")));
            }
            let port = |stream: &Stream| Port::of(stream, formats.get(&stream.name).copied().unwrap_or(0));
            streams.iter().map(port).collect()
        };
        let (inputs, outputs) = (ports(&group.inputs, &request.inputs)?, ports(&group.outputs, &request.outputs)?);
        let dimensions = network.dimensions;
        judge_caches(group, &plan, &dimensions, request.batch_size)?;
        judge_ports(&plan, &dimensions, &inputs, &outputs)?;
        for fault in faults {
            judge_fault(*fault, network, &plan)?;
        }
        let rotation = match (faults.contains(&Fault::ThetaSign), network.rotation) {
            (false, rotation) => rotation,
            (true, Rotation::SignInGraph) => Rotation::SignInTable,
            (true, Rotation::SignInTable) => Rotation::SignInGraph,
        };
        Ok(Self {
            plan,
            mask: network.mask,
            decoder: Decoder { dimensions, rotation, weights: weights.clone() },
            inputs,
            outputs,
            kv_cache: request.kv_cache,
            batch_size: request.batch_size,
            power_mode: request.power_mode,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    pub(super) const fn rows(&self) -> usize {
        self.plan.rows
    }

    pub(super) const fn columns(&self) -> usize {
        self.plan.columns
    }

    pub(super) fn cache_ids(&self) -> impl Iterator<Item = i32> {
        self.plan.caches.iter().flatten().copied()
    }

    pub(super) const fn cache_entry(&self) -> usize {
        self.decoder.dimensions.key_width()
    }

    pub(super) const fn kv_cache(&self) -> bool {
        self.kv_cache
    }

    pub(super) fn input_sizes(&self) -> Vec<usize> {
        self.inputs.iter().map(Port::frame_bytes).collect()
    }

    pub(super) fn event(&self) -> Event {
        let ports = self.inputs.iter().chain(&self.outputs);
        Event::Configured {
            group: self.plan.name.clone(),
            kv_cache: self.kv_cache,
            batch_size: self.batch_size,
            power_mode: self.power_mode,
            formats: ports.map(|port| (port.name.clone(), port.format_type())).collect(),
        }
    }

    /// Runs on frames in the order of the inputs; gives frames in the order of the outputs.
    pub(super) fn run(
        &self,
        frames: &[Vec<u8>],
        device: &mut Device,
        offset: usize,
        faults: &[Fault],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let step = self.step(frames, faults)?;
        let reversed = faults.contains(&Fault::CacheLayout) && is_tbt(&self.plan);
        let window = device.window(self, offset, reversed).filter(|_| !self.plan.caches.is_empty());
        let caches = window.map(|window| (&mut device.caches, window, self.plan.caches.as_slice()));
        let residual = self.decoder.run(&step, caches);
        let residual = residual.ok_or_else(|| Failure::new(status::INTERNAL_FAILURE, "a cache is not bound"))?;
        let first = if self.plan.every_row { 0 } else { residual.len() - self.decoder.dimensions.hidden };
        let logits = self.decoder.logits(&residual[first..]);
        Ok(self.frames(&logits, faults))
    }

    fn frames(&self, logits: &[f32], faults: &[Fault]) -> Vec<Vec<u8>> {
        let vocabulary = self.decoder.dimensions.vocabulary;
        let shard = |(index, port): (usize, &Port)| {
            let columns = index * port.width..(index + 1) * port.width;
            let rows = logits.chunks_exact(vocabulary);
            port.write(rows.flat_map(move |row| &row[columns.clone()]).copied())
        };
        let mut frames: Vec<_> = self.outputs.iter().enumerate().map(shard).collect();
        if faults.contains(&Fault::ShardsSwapped) {
            frames.swap(0, 1);
        }
        frames
    }

    /// What the network sees of the frames.
    fn step(&self, frames: &[Vec<u8>], faults: &[Fault]) -> Result<Step, Failure> {
        let input = |name: &String| {
            let found = self.inputs.iter().zip(frames).find(|(port, _)| port.name == *name);
            let found = found.map(|(port, frame)| (port, port.read(frame)));
            found.ok_or_else(|| Failure::new(status::INTERNAL_FAILURE, format!("nothing was sent for input {name}")))
        };
        let names = &self.plan.inputs;
        let head_dim = self.decoder.dimensions.head_dim;
        let rope = |name: &String| {
            let (_, values) = input(name)?;
            Ok(if faults.contains(&Fault::RopeTiledTwice) { tiled_twice(&values, head_dim) } else { values })
        };
        let (port, mask) = input(&names.mask)?;
        // Visible and hidden as a host writes them: the code of 1.0, and code 0.
        let (hidden, visible) = (port.grid.value(0), port.grid.value(port.grid.code(1.0)));
        let inverted = faults.contains(&Fault::MaskInverted);
        let bias = mask.into_iter().map(|value| {
            let value = if inverted { hidden + visible - value } else { value };
            match self.mask {
                MaskSense::OneIsVisible => (value - 1.0) * 100.0,
                MaskSense::Added => value,
            }
        });
        Ok(Step {
            embeddings: input(&names.embeddings)?.1,
            bias: bias.collect(),
            rope: Rope {
                query_cos: rope(&names.query_cos)?,
                query_sin: rope(&names.query_sin)?,
                key_cos: rope(&names.key_cos)?,
                key_sin: rope(&names.key_sin)?,
            },
        })
    }
}

fn is_tbt(plan: &GroupPlan) -> bool {
    plan.name.ends_with("tbt")
}

/// Each value twice; the second half of a head's values is not used.
fn tiled_twice(values: &[f32], head_dim: usize) -> Vec<f32> {
    let head = |head: &[f32]| (0..head_dim).map(|dimension| head[dimension / 2]).collect::<Vec<_>>();
    values.chunks_exact(head_dim).flat_map(head).collect()
}

/// The rules that `HailoRT` holds caches to when it configures a group.
fn judge_caches(group: &Group, plan: &GroupPlan, dimensions: &Dimensions, batch_size: u32) -> Result<(), Failure> {
    if group.cache_edges.is_empty() && plan.caches.is_empty() {
        return Ok(());
    }
    if group.contexts < 2 {
        return Err(Failure::new(status::INVALID_ARGUMENT, "caches need more than one context"));
    }
    if batch_size > 1 {
        return Err(Failure::new(status::INVALID_ARGUMENT, "Cache input batch size must be 1"));
    }
    let entries = |edge: &fidelity_device::hef::CacheEdge| edge.stream.padded_shape.map(|size| size as usize);
    for id in plan.caches.iter().flatten() {
        let of_id: Vec<_> = group.cache_edges.iter().filter(|edge| edge.cache_id == *id).collect();
        let tokens: usize = of_id.iter().map(|edge| entries(edge)[0].saturating_mul(entries(edge)[1])).sum();
        let entry = of_id.iter().all(|edge| entries(edge)[2] == dimensions.key_width());
        if of_id.len() != 2 || tokens != plan.columns || !entry {
            return Err(Failure::new(
                status::INTERNAL_FAILURE,
                format!("the edges of cache {id} do not fit the network"),
            ));
        }
    }
    match group.cache_edges.len() == 2 * plan.caches.len() * 2 && plan.caches.len() == dimensions.layers {
        true => Ok(()),
        false => Err(Failure::new(status::INVALID_HEF, "caches and blocks of the mock network differ in number")),
    }
}

/// Every stream must have the size that the network computes with.
fn judge_ports(plan: &GroupPlan, dimensions: &Dimensions, inputs: &[Port], outputs: &[Port]) -> Result<(), Failure> {
    let (queries, keys) = (dimensions.query_width(), dimensions.key_width());
    let names = &plan.inputs;
    let widths = [
        (&names.embeddings, Some(dimensions.hidden)),
        (&names.mask, dimensions.query_heads.checked_mul(plan.columns)),
        (&names.query_cos, Some(queries)),
        (&names.query_sin, Some(queries)),
        (&names.key_cos, Some(keys)),
        (&names.key_sin, Some(keys)),
    ];
    let unfit =
        |name: &str| Failure::new(status::INVALID_HEF, format!("stream {name:?} does not fit the mock network"));
    for (name, width) in widths {
        let fits = |port: &&Port| port.name == *name && port.rows == plan.rows && Some(port.width) == width;
        inputs.iter().find(fits).ok_or_else(|| unfit(name))?;
    }
    let rows = if plan.every_row { plan.rows } else { 1 };
    let shard = dimensions.vocabulary / outputs.len().max(1);
    for (port, name) in outputs.iter().zip(&plan.outputs) {
        if port.name != *name || port.rows != rows || port.width != shard {
            return Err(unfit(&port.name));
        }
    }
    let all = outputs.len() == plan.outputs.len() && shard.checked_mul(outputs.len()) == Some(dimensions.vocabulary);
    let columns = plan.rows <= plan.columns && (plan.caches.is_empty() == (plan.rows == plan.columns));
    if inputs.len() == widths.len() && all && columns { Ok(()) } else { Err(unfit(&plan.name)) }
}

/// A fault must be able to happen: one that cannot would pass for a chip that is right.
fn judge_fault(fault: Fault, network: &Plan, plan: &GroupPlan) -> Result<(), Failure> {
    let happens = match fault {
        Fault::CacheLayout => network.groups.iter().any(is_tbt),
        Fault::OffsetNotAdvanced | Fault::RingWrap => !plan.caches.is_empty(),
        Fault::ShardsSwapped => plan.outputs.len() > 1,
        Fault::MaskInverted | Fault::ThetaSign | Fault::RopeTiledTwice => true,
    };
    match happens {
        true => Ok(()),
        false => {
            Err(Failure::new(status::INVALID_OPERATION, format!("the fault {fault:?} cannot happen in this file")))
        }
    }
}
