//! Configuration words (ccws): pointers into them are walked, never gathered.

use std::collections::BTreeMap;

use prost::Message;
use serde::Serialize;

use super::{
    proto,
    wire::{Fields, Value, WireError},
};

/// Kinds of action by field number, as the public schema names them; the first has number 2.
const ACTIONS: [&str; 17] = [
    "write_data",
    "write_data_ccw",
    "write_compressed_data",
    "enable_sequencer",
    "wait_for_seqeuncer",
    "disable_lcu",
    "enable_lcu",
    "none",
    "allow_input_dataflow",
    "wait_for_module_config_done",
    "debug",
    "enable_nms",
    "write_data_by_type",
    "switch_lcu_batch",
    "write_data_ccw_ptr",
    "allow_config_channels",
    "disable_data_channels",
];
/// Field of an operation that holds its actions.
const OPERATION_ACTIONS: u32 = 2;
/// Field of a preliminary configuration that holds its operations.
const PRELIMINARY_OPERATIONS: u32 = 1;
const WRITE_CCW: usize = 3;
const WRITE_CCW_POINTER: usize = 16;

/// What the actions of a group do with ccws.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ccws {
    /// Pointers into the ccws.
    pub pointers: u64,
    /// Where the last pointer ends, in bytes from the zero point.
    pub furthest_end: u64,
    /// Pointers that end after the ccws.
    pub out_of_range: u64,
    /// ccws inside the protobuf.
    pub inline: u64,
    /// How many actions there are of each kind.
    pub actions: BTreeMap<&'static str, u64>,
}

/// Walks actions against ccws of a known length.
pub(super) struct Walk {
    pub(super) ccws: Ccws,
    pub(super) unknown_fields: u64,
    length: u64,
    counts: [u64; ACTIONS.len() + 2],
}

impl Walk {
    /// `length`: bytes of the ccws.
    pub(super) fn new(length: u64) -> Self {
        Self { ccws: Ccws::default(), unknown_fields: 0, length, counts: [0; ACTIONS.len() + 2] }
    }

    pub(super) fn preliminary(&mut self, config: &[u8]) -> Result<(), WireError> {
        for field in Fields::of(config) {
            match field? {
                (PRELIMINARY_OPERATIONS, Value::Bytes(operation)) => self.operation(operation)?,
                _ => self.unknown_fields += 1,
            }
        }
        Ok(())
    }

    pub(super) fn operation(&mut self, operation: &[u8]) -> Result<(), WireError> {
        for field in Fields::of(operation) {
            match field? {
                (OPERATION_ACTIONS, Value::Bytes(action)) => self.action(action)?,
                (1, Value::Bytes(_)) => {}
                _ => self.unknown_fields += 1,
            }
        }
        Ok(())
    }

    fn action(&mut self, action: &[u8]) -> Result<(), WireError> {
        for field in Fields::of(action) {
            let (number, value) = field?;
            let number = number as usize;
            match value {
                Value::Bytes(content) if (2..self.counts.len()).contains(&number) => {
                    self.counts[number] += 1;
                    if number == WRITE_CCW_POINTER {
                        self.pointer(proto::CcwPointer::decode(content).map_err(|_| WireError::Cut)?);
                    }
                }
                Value::Varint(_) if number == 1 => {}
                _ => self.unknown_fields += 1,
            }
        }
        Ok(())
    }

    fn pointer(&mut self, pointer: proto::CcwPointer) {
        match pointer.offset.checked_add(u64::from(pointer.size)) {
            Some(end) => {
                self.ccws.furthest_end = self.ccws.furthest_end.max(end);
                self.ccws.out_of_range += u64::from(end > self.length);
            }
            None => self.ccws.out_of_range += 1,
        }
    }

    pub(super) fn finish(self) -> Ccws {
        let counted = self.counts[2..].iter().zip(ACTIONS).filter(|(count, _)| **count > 0);
        Ccws {
            pointers: self.counts[WRITE_CCW_POINTER],
            inline: self.counts[WRITE_CCW],
            actions: counted.map(|(count, name)| (name, *count)).collect(),
            ..self.ccws
        }
    }
}
