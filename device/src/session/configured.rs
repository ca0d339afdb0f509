//! A configured group: its roles among its ports, and the bytes of a step.

use std::time::Duration;

use super::{
    Feeding, Geometry, SessionError,
    bytes::{Mask, Visibility, write_rope},
    embeddings::Embeddings,
    plan::{Part, Plan, contract},
    state::State,
};
use crate::{
    audit::config::Role,
    chip::{Group, GroupRequest, Port},
};

/// A group and where its roles are among its ports.
pub(super) struct Configured {
    part: Part,
    pub(super) group: Box<dyn Group>,
    inputs: [usize; 6],
    outputs: Vec<usize>,
    pub(super) deadline: Duration,
}

pub(super) fn request(part: &Part, plan: &Plan) -> GroupRequest {
    let rope = [Role::QueryCos, Role::QuerySin, Role::KeyCos, Role::KeySin];
    let inputs = rope.iter().map(|role| part.inputs[*role as usize].clone());
    GroupRequest {
        name: part.group.clone(),
        float32: inputs.chain(part.outputs.iter().cloned()).collect(),
        kv_cache: plan.geometry.feeding != Feeding::Whole,
    }
}

impl Configured {
    pub(super) fn new(
        part: Part,
        group: Box<dyn Group>,
        geometry: &Geometry,
        deadline: Duration,
    ) -> Result<Self, SessionError> {
        let place = |ports: &[Port], name: &str, expected: usize| {
            let place = ports.iter().position(|port| port.name == *name);
            let place = place.ok_or_else(|| contract(format!("the library has no stream `{name}`")))?;
            let found = ports[place].frame_bytes;
            if found != expected {
                let (group, stream) = (part.group.clone(), name.to_owned());
                return Err(SessionError::Frame { group, stream, found, expected });
            }
            Ok(place)
        };
        let mut inputs = [0; 6];
        for (role, input) in Role::ALL.into_iter().zip(&mut inputs) {
            *input = place(
                group.inputs(),
                &part.inputs[role as usize],
                part.rows.saturating_mul(row_bytes(role, geometry)),
            )?;
        }
        let width = geometry.shards.first().map_or(0, |shard| shard.width);
        let bytes = part.output_rows.saturating_mul(width).saturating_mul(size_of::<f32>());
        let outputs =
            part.outputs.iter().map(|name| place(group.outputs(), name, bytes)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { part, group, inputs, outputs, deadline })
    }

    pub(super) fn fill(
        &mut self,
        state: &State,
        geometry: &Geometry,
        theta: &[f32],
        visibility: Visibility,
        embeddings: &mut Embeddings,
    ) -> Result<(), SessionError> {
        let rows = self.part.rows;
        let buffer = self.input(Role::Embeddings);
        for (row, fed) in buffer.chunks_exact_mut(embeddings.row_bytes).zip(state.rows(rows)) {
            match fed {
                Some(fed) => embeddings.copy(fed.token, row)?,
                None => row.fill(0),
            }
        }
        let mask = Mask {
            rows,
            heads: geometry.query_heads,
            length: geometry.cache_length,
            usage: state.usage,
            allow: self.part.allow,
            visibility,
        };
        mask.write(self.input(Role::Mask));
        let positions: Vec<u32> = state.rows(rows).map(|fed| fed.map_or(0, |fed| fed.position)).collect();
        write_rope(self.input(Role::QueryCos), &positions, theta, geometry.query_heads, f32::cos);
        write_rope(self.input(Role::QuerySin), &positions, theta, geometry.query_heads, f32::sin);
        write_rope(self.input(Role::KeyCos), &positions, theta, geometry.kv_heads, f32::cos);
        write_rope(self.input(Role::KeySin), &positions, theta, geometry.kv_heads, f32::sin);
        Ok(())
    }

    fn input(&mut self, role: Role) -> &mut [u8] {
        self.group.input_mut(self.inputs[role as usize])
    }

    /// Reads `[row, logit]`, shards side by side.
    pub(super) fn read(&self, logits: &mut Vec<f32>) {
        logits.clear();
        let rows = self.part.output_rows;
        for row in 0..rows {
            for output in &self.outputs {
                let bytes = self.group.output(*output);
                let row_bytes = bytes.len() / rows;
                let values = bytes[row * row_bytes..(row + 1) * row_bytes].as_chunks::<4>().0;
                logits.extend(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }
        }
    }
}

/// Bytes of a row in the type it is exchanged in.
const fn row_bytes(role: Role, geometry: &Geometry) -> usize {
    match role {
        Role::Embeddings => geometry.hidden.saturating_mul(size_of::<u16>()),
        Role::Mask => geometry.query_heads.saturating_mul(geometry.cache_length),
        Role::QueryCos | Role::QuerySin => rope_bytes(geometry.query_heads, geometry),
        Role::KeyCos | Role::KeySin => rope_bytes(geometry.kv_heads, geometry),
    }
}

const fn rope_bytes(heads: usize, geometry: &Geometry) -> usize {
    heads.saturating_mul(geometry.head_dim).saturating_mul(size_of::<f32>())
}
