//! Extensions: what a HEF demands of the library that runs it.

use serde::Serialize;

use super::{
    finding::{FindingKind, Findings, quoted},
    proto,
};

/// One extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extension {
    /// Its number.
    pub index: u32,
    /// Its name in the file.
    pub name: String,
}

/// What the extensions of a file decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extensions {
    /// A library that does not know one of these must refuse the file.
    pub mandatory: Vec<Extension>,
    /// These may be ignored.
    pub optional: Vec<Extension>,
    /// Content of version 0 lists features elsewhere, none of which matters here.
    #[serde(skip)]
    listed: bool,
}

/// `HAILO_NET_FLOW`
const NET_FLOW: u32 = 13;
/// `OUTPUT_SCALE_PER_FEATURE`
const SCALE_PER_FEATURE: u32 = 25;
/// `PERIPH_CALCULATION_IN_HAILORT`
const PERIPH_CALCULATION: u32 = 26;
/// `STRICT_RUNTIME_VERSIONING`
const STRICT_RUNTIME: u32 = 35;
/// `MULTI_NETWORK_VARIABLE_BATCH_SIZE`, an optional one
const MULTI_NETWORK: u32 = 8;

/// Mandatory ones that `HailoRT` 5.2 knows: 0 to 35, but for a test's and an optional one.
const fn supported(index: u32) -> bool {
    index <= STRICT_RUNTIME && index != 7 && index != MULTI_NETWORK
}

impl Extensions {
    pub(super) fn of(hef: &mut proto::Hef, content_version: u64, findings: &mut Findings) -> Self {
        let take = |list: &mut Vec<proto::Extension>| {
            let all = std::mem::take(list).into_iter();
            all.map(|extension| Extension { index: extension.type_index, name: extension.name }).collect()
        };
        let (mandatory, optional) = (take(&mut hef.extensions), take(&mut hef.optional_extensions));
        let extensions = Self { mandatory, optional, listed: content_version > 0 };
        extensions.judge(findings);
        extensions
    }

    fn judge(&self, findings: &mut Findings) {
        for extension in self.mandatory.iter().filter(|extension| !supported(extension.index)) {
            findings.error(FindingKind::UnsupportedExtension, "the header", || {
                let name = quoted(&extension.name);
                format!(
                    "mandatory extension {} {name} is not known to HailoRT 5.2, which refuses the file",
                    extension.index
                )
            });
        }
        if !self.has(PERIPH_CALCULATION) {
            findings.warning(FindingKind::MissingExtension26, "the header", || {
                "extension 26 (PERIPH_CALCULATION_IN_HAILORT) is missing: HailoRT 5 and later refuse the file \
                 (HEF_NOT_SUPPORTED); compile it again with a newer compiler"
                    .into()
            });
        }
        if self.has(STRICT_RUNTIME) {
            findings.note(FindingKind::StrictRuntimeVersion, "the header", || {
                "extension 35 (STRICT_RUNTIME_VERSIONING): runs only on a HailoRT of the compiler's major and minor version".into()
            });
        }
    }

    fn has(&self, index: u32) -> bool {
        self.listed && self.mandatory.iter().any(|extension| extension.index == index)
    }

    /// Outputs are quantised per feature.
    pub(super) fn scale_per_feature(&self) -> bool {
        self.has(SCALE_PER_FEATURE)
    }

    /// Groups are graphs of ops, one of which is the core op.
    pub(super) fn net_flow(&self) -> bool {
        self.has(NET_FLOW)
    }

    /// `HailoRT` 5 and later open it, as far as extensions go.
    pub(crate) fn accepted_by_hailort_5(&self) -> bool {
        self.has(PERIPH_CALCULATION) && self.mandatory.iter().all(|extension| supported(extension.index))
    }

    /// Networks are named by the group's list.
    pub(super) fn multi_network(&self) -> bool {
        self.listed && self.optional.iter().any(|extension| extension.index == MULTI_NETWORK)
    }
}
