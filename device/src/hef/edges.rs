//! Edges of a context: which cross the border of the group, and what is wrong with them.

use super::{
    HefError, Quantisation,
    finding::{FindingKind, Findings, quoted},
    proto,
    proto::{edge, edge_layer},
    stream::{CacheEdge, Direction, Stream, layout, planes_layout},
};

/// Longest name of a stream that `HailoRT` accepts.
const MAX_STREAM_NAME: usize = 127;
/// Format of outputs that the chip has already suppressed to boxes.
const NMS_FORMAT: u32 = 6;
/// Format of vectors, which have no height and width to swap.
const NC_FORMAT: u32 = 2;
/// Values of a box: four corners and a score.
const BOX_VALUES: u64 = 5;

/// What a group tells its edges.
pub(super) struct Surroundings<'a> {
    pub(super) group: &'a str,
    pub(super) transposed_net: bool,
    pub(super) networks: usize,
    pub(super) scale_per_feature: bool,
}

/// How many edges of each kind a group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EdgeCounts {
    /// Inputs and outputs of the group.
    pub boundary: usize,
    /// From one context to another.
    pub intermediate: usize,
    /// Through the host's memory inside a context.
    pub ddr: usize,
    /// Into and out of caches.
    pub cache: usize,
}

/// The edges of a group as they are gathered.
#[derive(Default)]
pub(super) struct Edges {
    pub(super) counts: EdgeCounts,
    pub(super) boundary: Vec<Stream>,
    pub(super) caches: Vec<CacheEdge>,
}

impl Edges {
    pub(super) fn add(
        &mut self,
        layer: proto::EdgeLayer,
        context: usize,
        around: &Surroundings<'_>,
        findings: &mut Findings,
    ) -> Result<(), HefError> {
        let place = format!("{}, context {context}", around.group);
        let direction = match layer.direction {
            0 => Direction::In,
            1 => Direction::Out,
            other => return Err(HefError::malformed(place, format!("an edge has direction {other}, expected 0 or 1"))),
        };
        let connection = layer.context_switch.unwrap_or_default();
        let edge = typed(layer.edge_layer_type, layer.edge, &place)?;
        let mut builder = Builder { direction, context, network_index: layer.network_index, around, findings };
        match connection.edge_connection_type {
            0 => {
                self.counts.boundary += 1;
                builder.boundary(edge, &place, &mut self.boundary)?;
            }
            1 => self.counts.intermediate += 1,
            2 => self.counts.ddr += 1,
            3 => {
                self.counts.cache += 1;
                let stream = builder.cache(edge, connection.cache_id, &place)?;
                self.caches.extend(stream.map(|stream| CacheEdge { cache_id: connection.cache_id, stream }));
            }
            other => {
                let reason = format!("an edge has connection type {other}, expected 0 to 3");
                return Err(HefError::malformed(place, reason));
            }
        }
        Ok(())
    }
}

/// The edge, if it is what its type says.
fn typed(declared: u32, edge: Option<edge_layer::Edge>, place: &str) -> Result<edge_layer::Edge, HefError> {
    let fits = match (&edge, declared) {
        (Some(edge_layer::Edge::Info(_)), 0)
        | (Some(edge_layer::Edge::Mux(_)), 1)
        | (Some(edge_layer::Edge::Planes(_)), 2) => true,
        (Some(_) | None, _) => false,
    };
    match edge.filter(|_| fits) {
        Some(edge) => Ok(edge),
        None => Err(HefError::malformed(
            place,
            format!("an edge of type {declared} has no content, or that of another type"),
        )),
    }
}

struct Builder<'a> {
    direction: Direction,
    context: usize,
    network_index: u32,
    around: &'a Surroundings<'a>,
    findings: &'a mut Findings,
}

impl Builder<'_> {
    fn boundary(&mut self, edge: edge_layer::Edge, place: &str, into: &mut Vec<Stream>) -> Result<(), HefError> {
        match edge {
            edge_layer::Edge::Info(info) => into.push(self.converted(info)?),
            edge_layer::Edge::Mux(mux) => self.expand(mux, place, into)?,
            edge_layer::Edge::Planes(planes) => into.push(self.planes(planes)),
        }
        Ok(())
    }

    /// The streams that a mux puts together. Nesting is bounded: the protobuf was measured.
    fn expand(&mut self, mux: proto::LayerMux, place: &str, into: &mut Vec<Stream>) -> Result<(), HefError> {
        for predecessor in mux.predecessors {
            match predecessor.edge {
                Some(edge::Edge::Info(info)) => into.push(self.converted(info)?),
                Some(edge::Edge::Mux(inner)) => self.expand(inner, place, into)?,
                Some(edge::Edge::Planes(planes)) => into.push(self.planes(planes)),
                None => {
                    let name = quoted(&mux.name);
                    return Err(HefError::malformed(place, format!("mux {name} has a predecessor without content")));
                }
            }
        }
        Ok(())
    }

    fn cache(&mut self, edge: edge_layer::Edge, id: i32, place: &str) -> Result<Option<Stream>, HefError> {
        let edge_layer::Edge::Info(info) = edge else {
            self.findings.error(FindingKind::CacheEdge, place, || {
                "a cache edge is a mux or planes, which HailoRT does not accept (INVALID_HEF)".into()
            });
            return Ok(None);
        };
        if id < 0 {
            let name = quoted(&info.name);
            self.findings.error(FindingKind::CacheEdge, place, || {
                format!("cache edge {name} has cache id {id}; HailoRT refuses the file (INVALID_HEF)")
            });
        }
        self.stream(info).map(Some)
    }

    fn stream(&mut self, info: proto::LayerInfo) -> Result<Stream, HefError> {
        let around = self.around;
        let place = format!("{}, edge {}", around.group, quoted(&info.name));
        let Some(base) = info.base else {
            return Err(HefError::malformed(place, "the edge has no shape (edge_layer_base)"));
        };
        let nms = base.additional_info.and_then(|additional| additional.nms_info).filter(|_| base.format == NMS_FORMAT);
        let transposed = (around.transposed_net || info.transposed) && base.format != NC_FORMAT;
        let (height, width) = if transposed { (base.width, base.height) } else { (base.height, base.width) };
        let shape = match &nms {
            Some(nms) => nms_shape(nms),
            None => [height, width, base.features].map(u64::from),
        };
        let padded_shape = [base.padded_height, base.padded_width, base.padded_features].map(u64::from);
        self.name(&info.name, &place);
        self.hardware(&base, &place);
        let data_bytes = base.data_bytes;
        let data_type = match data_bytes {
            1 => Some("UINT8"),
            2 => Some("UINT16"),
            _ => None,
        };
        let quantisation = info.numeric_info.map(|numbers| quantisation(numbers, around.scale_per_feature));
        let stream = Stream {
            name: info.name,
            direction: self.direction,
            context: self.context,
            frame_bytes: frame_bytes(shape, data_bytes),
            shape,
            padded_shape,
            layout: layout(base.format),
            data_bytes,
            data_type,
            transposed,
            network_index: self.network_index,
            quantisation,
            original_names: info.original_names,
        };
        self.judge(&stream, &place);
        Ok(stream)
    }

    /// A stream whose values the host converts.
    fn converted(&mut self, info: proto::LayerInfo) -> Result<Stream, HefError> {
        let stream = self.stream(info)?;
        if let Some(quantisation) = &stream.quantisation {
            let place = format!("{}, edge {}", self.around.group, quoted(&stream.name));
            self.judge_quantisation(quantisation, &stream, &place);
        }
        Ok(stream)
    }

    /// An image in planes is one input; what its planes hold is the driver's business.
    fn planes(&mut self, planes: proto::LayerPlanes) -> Stream {
        let place = format!("{}, edge {}", self.around.group, quoted(&planes.name));
        self.name(&planes.name, &place);
        let shape = [planes.height, planes.width, planes.features].map(u64::from);
        let stream = Stream {
            name: planes.name,
            direction: self.direction,
            context: self.context,
            frame_bytes: frame_bytes(shape, 1),
            shape,
            padded_shape: shape,
            layout: planes_layout(planes.planes_format),
            data_bytes: 1,
            data_type: Some("UINT8"),
            transposed: false,
            network_index: self.network_index,
            quantisation: None,
            original_names: Vec::new(),
        };
        self.judge_shape(&stream, &place);
        stream
    }

    fn name(&mut self, name: &str, place: &str) {
        if name.is_empty() {
            self.findings
                .warning(FindingKind::EmptyName, place, || "an input, output or cache edge has no name".into());
        }
        if name.len() > MAX_STREAM_NAME {
            self.findings.error(FindingKind::LongName, place, || {
                let length = name.len();
                format!("the name has {length} bytes, HailoRT accepts {MAX_STREAM_NAME} (INTERNAL_FAILURE)")
            });
        }
        if name.chars().any(char::is_control) {
            self.findings.warning(FindingKind::ControlCharacters, place, || "the name has control characters".into());
        }
    }

    /// What `HailoRT` puts into narrower fields of the hardware.
    fn hardware(&mut self, base: &proto::LayerBase, place: &str) {
        if base.buffer_indices.is_empty() {
            self.findings.error(FindingKind::NoBufferIndices, place, || {
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
            self.findings.error(FindingKind::HardwareLimit, place, || {
                format!("{field} is {value}, at most {limit} fits; HailoRT refuses the file (INVALID_HEF)")
            });
        }
        let padded = [base.padded_height, base.padded_width, base.padded_features, base.data_bytes];
        let bytes = padded.iter().fold(1_u128, |product, dimension| product * u128::from(*dimension));
        if bytes > u128::from(u32::MAX) {
            self.findings.error(FindingKind::HardwareLimit, place, || {
                format!("a padded frame has {bytes} bytes, at most {} fit", u32::MAX)
            });
        }
    }

    fn judge(&mut self, stream: &Stream, place: &str) {
        self.judge_shape(stream, place);
        if stream.data_type.is_none() {
            let bytes = stream.data_bytes;
            self.findings.error(FindingKind::DataBytes, place, || {
                format!("a value has {bytes} bytes, expected 1 or 2; HailoRT refuses the file (INVALID_ARGUMENT)")
            });
        }
    }

    fn judge_shape(&mut self, stream: &Stream, place: &str) {
        if stream.shape.contains(&0) || stream.frame_bytes.is_none() {
            let shape = stream.shape_text();
            self.findings.error(FindingKind::Dimensions, place, || {
                format!("shape {shape}: a dimension is 0, or 64 bits do not hold the bytes of a frame")
            });
        }
        if stream.layout.device.is_none() {
            let format = stream.layout.format;
            self.findings.error(FindingKind::UnknownFormat, place, || {
                format!("data format {format} is not known; HailoRT 5.2 refuses the file (INTERNAL_FAILURE)")
            });
        }
        let (index, networks) = (stream.network_index, self.around.networks);
        if index as usize >= networks {
            self.findings.error(FindingKind::NetworkIndex, place, || {
                format!("network {index}, but the group has {networks}; HailoRT refuses the file (INVALID_ARGUMENT)")
            });
        }
    }

    fn judge_quantisation(&mut self, quantisation: &Quantisation, stream: &Stream, place: &str) {
        let kind = FindingKind::Quantisation;
        if let Some(scale) = quantisation.scales().find(|scale| !(scale.is_finite() && *scale > 0.0)) {
            self.findings.error(kind, place, || format!("scale {scale}: expected a number above 0"));
        }
        let largest = if stream.data_bytes == 2 { u16::MAX.into() } else { u8::MAX.into() };
        let off = |zero_point: &f64| !zero_point.is_finite();
        if let Some(zero_point) = quantisation.zero_points().find(off) {
            self.findings.error(kind, place, || format!("zero point {zero_point}: expected a number"));
        }
        let odd = |zero_point: &f64| {
            zero_point.is_finite() && (zero_point.fract().abs() > 0.0 || !(0.0..=largest).contains(zero_point))
        };
        if let Some(zero_point) = quantisation.zero_points().find(odd) {
            self.findings.warning(kind, place, || {
                format!("zero point {zero_point}: expected a whole number from 0 to {largest}")
            });
        }
        if quantisation.per_feature && stream.layout.format != NMS_FORMAT {
            self.judge_features(quantisation, stream, place);
        }
    }

    fn judge_features(&mut self, quantisation: &Quantisation, stream: &Stream, place: &str) {
        let features = stream.features();
        let input = stream.direction == Direction::In;
        for list in [&quantisation.scales, &quantisation.zero_points].into_iter().filter(|list| !list.is_empty()) {
            let length = list.len() as u64;
            if length < features || (length > features && !input) {
                let then = if input { "throws an exception on it" } else { "refuses the file (INVALID_HEF)" };
                self.findings.error(FindingKind::FeatureCount, place, || {
                    format!("{length} scales or zero points for {features} features; HailoRT 5.2 {then}")
                });
            }
            if input && list.iter().any(|value| value.to_bits() != list[0].to_bits()) {
                self.findings.error(FindingKind::Quantisation, place, || {
                    "an input is quantised in one way, but its scales or zero points differ from feature to feature"
                        .into()
                });
            }
        }
    }
}

fn quantisation(numbers: proto::NumericInfo, per_feature: bool) -> Quantisation {
    Quantisation {
        scale: numbers.qp_scale,
        zero_point: numbers.qp_zp,
        limits: [numbers.limvals_min, numbers.limvals_max],
        per_feature,
        scales: numbers.qp_scales,
        zero_points: numbers.qp_zps,
    }
}

/// Classes, values of a box, boxes of a class.
fn nms_shape(nms: &proto::NmsInfo) -> [u64; 3] {
    let boxes = nms.max_output_size.saturating_mul(nms.input_division_factor.max(1));
    [nms.number_of_classes, BOX_VALUES, boxes]
}

fn frame_bytes(shape: [u64; 3], data_bytes: u32) -> Option<u64> {
    shape.iter().try_fold(u64::from(data_bytes), |product, dimension| product.checked_mul(*dimension))
}
