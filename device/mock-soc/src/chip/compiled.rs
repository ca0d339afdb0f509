//! A HEF as the chip takes it in.

use std::{io::Cursor, sync::Arc};

use fidelity_device::hef::{Description, Group, Hef, HefError};

use crate::{
    network::{Plan, Weights},
    status::{self, Failure},
};

/// A HEF: its groups, and what the mock computes for them.
pub(super) struct Compiled {
    bytes: Vec<u8>,
    description: Description,
    network: Option<(Plan, Arc<Weights>)>,
}

impl Compiled {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let refused = |error: HefError| {
            let status = match error {
                HefError::NotAHef { .. } | HefError::UnsupportedVersion { .. } => status::HEF_NOT_SUPPORTED,
                _ => status::HEF_FILE_CORRUPTED,
            };
            Failure::new(status, error.to_string())
        };
        let hef = Hef::read(Cursor::new(bytes)).map_err(refused)?;
        let description = hef.description().clone();
        if description.checksums.iter().any(|checksum| !checksum.matches) {
            return Err(Failure::new(status::HEF_FILE_CORRUPTED, "a checksum is wrong"));
        }
        let network = network(bytes, &description)?;
        Ok(Self { bytes: bytes.to_vec(), description, network })
    }

    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes
    }

    pub(super) fn has_group(&self, name: &str) -> bool {
        self.description.groups.iter().any(|group| group.name == name)
    }

    pub(super) fn runs_on_this_chip(&self) -> bool {
        self.description.target.compatible.contains(&"HAILO10H")
    }

    /// The group of this name; of no name, if there is but one.
    pub(super) fn group(&self, name: &str) -> Result<&Group, Failure> {
        let groups = &self.description.groups;
        match groups.as_slice() {
            [only] if name.is_empty() => Ok(only),
            _ => groups.iter().find(|group| group.name == name).ok_or_else(|| {
                Failure::new(status::INVALID_ARGUMENT, format!("one of {} groups must be named", groups.len()))
            }),
        }
    }

    /// Names of all groups with caches: none can be used before every one is configured.
    pub(super) fn groups_with_caches(&self) -> impl Iterator<Item = &str> {
        let groups = self.description.groups.iter().filter(|group| !group.cache_edges.is_empty());
        groups.map(|group| group.name.as_str())
    }

    pub(super) fn network(&self) -> Result<(&Plan, &Arc<Weights>), Failure> {
        let (plan, weights) = self.network.as_ref().ok_or_else(|| {
            Failure::new(
                status::INVALID_HEF,
                "the file has no mock network: the mock executes HEF files of its own writer",
            )
        })?;
        Ok((plan, weights))
    }
}

fn network(bytes: &[u8], description: &Description) -> Result<Option<(Plan, Arc<Weights>)>, Failure> {
    let resource = |name: &str| {
        let resource = description.resource(name)?;
        let start = usize::try_from(resource.file_offset?).ok()?;
        bytes.get(start..)?.get(..usize::try_from(resource.size_bytes).ok()?)
    };
    let (Some(plan), Some(weights)) = (resource(Plan::RESOURCE), resource(Weights::RESOURCE)) else { return Ok(None) };
    let plan: Plan = serde_json::from_slice(plan)
        .map_err(|error| Failure::new(status::INVALID_HEF, format!("{}: {error}", Plan::RESOURCE)))?;
    if !plan.dimensions.is_sound() {
        return Err(Failure::new(status::INVALID_HEF, format!("{}: no decoder has these dimensions", Plan::RESOURCE)));
    }
    let weights = Weights::read(weights, &plan.dimensions)
        .map_err(|error| Failure::new(status::INVALID_HEF, error.to_string()))?;
    Ok(Some((plan, Arc::new(weights))))
}
