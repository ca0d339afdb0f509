//! What can be wrong with one input, output or cache edge.

use super::{
    edges::NMS_FORMAT,
    finding::{FindingKind, Findings},
    proto,
    stream::{Direction, Quantisation, Stream},
};

/// Longest name of a stream that `HailoRT` accepts.
const MAX_STREAM_NAME: usize = 127;

/// Finds what is wrong at a place.
pub(super) struct Judge<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) place: &'a str,
    /// Networks of the group.
    pub(super) networks: usize,
}

impl Judge<'_> {
    pub(super) fn name(&mut self, name: &str) {
        if name.is_empty() {
            self.findings
                .warning(FindingKind::EmptyName, self.place, || "an input, output or cache edge has no name".into());
        }
        if name.len() > MAX_STREAM_NAME {
            self.findings.error(FindingKind::LongName, self.place, || {
                let length = name.len();
                format!("the name has {length} bytes, HailoRT accepts {MAX_STREAM_NAME} (INTERNAL_FAILURE)")
            });
        }
        if name.chars().any(char::is_control) {
            self.findings
                .warning(FindingKind::ControlCharacters, self.place, || "the name has control characters".into());
        }
    }

    /// What `HailoRT` puts into narrower fields of the hardware.
    pub(super) fn hardware(&mut self, base: &proto::LayerBase) {
        if base.buffer_indices.is_empty() {
            self.findings.error(FindingKind::NoBufferIndices, self.place, || {
                "the edge has no buffer indices; HailoRT 5.2 crashes on it".into()
            });
        }
        let limits = [
            ("core_bytes_per_buffer", base.core_bytes_per_buffer, u32::from(u16::MAX)),
            ("core_buffers_per_frame", base.core_buffers_per_frame, u32::from(u16::MAX)),
            ("sys_index", base.sys_index, u32::from(u8::MAX)),
            ("engine_id", base.engine_id, u32::from(u8::MAX)),
        ];
        for (field, value, limit) in limits.into_iter().filter(|(_, value, limit)| value > limit) {
            self.findings.error(FindingKind::HardwareLimit, self.place, || {
                format!("{field} is {value}, at most {limit} fits; HailoRT refuses the file (INVALID_HEF)")
            });
        }
        let padded = [base.padded_height, base.padded_width, base.padded_features, base.data_bytes];
        let bytes = padded.iter().fold(1_u128, |product, dimension| product * u128::from(*dimension));
        if bytes > u128::from(u32::MAX) {
            self.findings.error(FindingKind::HardwareLimit, self.place, || {
                format!("a padded frame has {bytes} bytes, at most {} fit", u32::MAX)
            });
        }
    }

    pub(super) fn stream(&mut self, stream: &Stream) {
        self.shape(stream);
        if stream.data_type.is_none() {
            let bytes = stream.data_bytes;
            self.findings.error(FindingKind::DataBytes, self.place, || {
                format!("a value has {bytes} bytes, expected 1 or 2; HailoRT refuses the file (INVALID_ARGUMENT)")
            });
        }
    }

    pub(super) fn shape(&mut self, stream: &Stream) {
        if stream.shape.contains(&0) || stream.frame_bytes.is_none() {
            let shape = stream.shape_text();
            self.findings.error(FindingKind::Dimensions, self.place, || {
                format!("shape {shape}: a dimension is 0, or 64 bits do not hold the bytes of a frame")
            });
        }
        if stream.layout.device.is_none() {
            let format = stream.layout.format;
            self.findings.error(FindingKind::UnknownFormat, self.place, || {
                format!("data format {format} is not known; HailoRT 5.2 refuses the file (INTERNAL_FAILURE)")
            });
        }
        let (index, networks) = (stream.network_index, self.networks);
        if index as usize >= networks {
            self.findings.error(FindingKind::NetworkIndex, self.place, || {
                format!("network {index}, but the group has {networks}; HailoRT refuses the file (INVALID_ARGUMENT)")
            });
        }
    }

    pub(super) fn quantisation(&mut self, quantisation: &Quantisation, stream: &Stream) {
        let kind = FindingKind::Quantisation;
        if let Some(scale) = quantisation.scales().find(|scale| !(scale.is_finite() && *scale > 0.0)) {
            self.findings.error(kind, self.place, || format!("scale {scale}: expected a number above 0"));
        }
        let largest = if stream.data_bytes == 2 { u16::MAX.into() } else { u8::MAX.into() };
        let off = |zero_point: &f64| !zero_point.is_finite();
        if let Some(zero_point) = quantisation.zero_points().find(off) {
            self.findings.error(kind, self.place, || format!("zero point {zero_point}: expected a number"));
        }
        let odd = |zero_point: &f64| {
            zero_point.is_finite() && (zero_point.fract().abs() > 0.0 || !(0.0..=largest).contains(zero_point))
        };
        if let Some(zero_point) = quantisation.zero_points().find(odd) {
            self.findings.warning(kind, self.place, || {
                format!("zero point {zero_point}: expected a whole number from 0 to {largest}")
            });
        }
        if quantisation.per_feature && stream.layout.format != NMS_FORMAT {
            self.features(quantisation, stream);
        }
    }

    fn features(&mut self, quantisation: &Quantisation, stream: &Stream) {
        let features = stream.features();
        let input = stream.direction == Direction::In;
        for list in [&quantisation.scales, &quantisation.zero_points].into_iter().filter(|list| !list.is_empty()) {
            let length = list.len() as u64;
            if length < features || (length > features && !input) {
                let then = if input { "throws an exception on it" } else { "refuses the file (INVALID_HEF)" };
                self.findings.error(FindingKind::FeatureCount, self.place, || {
                    format!("{length} scales or zero points for {features} features; HailoRT 5.2 {then}")
                });
            }
            if input && list.iter().any(|value| value.to_bits() != list[0].to_bits()) {
                self.findings.error(FindingKind::Quantisation, self.place, || {
                    "an input is quantised in one way, but its scales or zero points differ from feature to feature"
                        .into()
                });
            }
        }
    }
}
