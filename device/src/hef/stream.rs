//! Inputs, outputs and cache edges of a network group: plain data.

use serde::Serialize;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Into the network: an input, or a cache that is read.
    In,
    /// Out of the network: an output, or a cache that is written.
    Out,
}

/// How values were quantised: real value = (code − zero point) × scale.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quantisation {
    /// Scale of all features.
    pub scale: f32,
    /// Zero point of all features, in codes.
    pub zero_point: f32,
    /// Smallest and largest real value.
    pub limits: [f32; 2],
    /// The two lists apply (extension 25); otherwise they are ignored, as `HailoRT` does.
    pub per_feature: bool,
    /// Scale of each feature as stored; empty: as above.
    pub scales: Vec<f64>,
    /// Zero point of each feature as stored; empty: as above.
    pub zero_points: Vec<f64>,
}

impl Quantisation {
    /// Scales that apply: one, or one a feature.
    pub(crate) fn scales(&self) -> impl Iterator<Item = f64> + '_ {
        let own = self.per_feature && !self.scales.is_empty();
        let (one, many) = if own { (None, &self.scales[..]) } else { (Some(f64::from(self.scale)), &[][..]) };
        one.into_iter().chain(many.iter().copied())
    }

    /// Zero points that apply: one, or one a feature.
    pub(crate) fn zero_points(&self) -> impl Iterator<Item = f64> + '_ {
        let own = self.per_feature && !self.zero_points.is_empty();
        let (one, many) = if own { (None, &self.zero_points[..]) } else { (Some(f64::from(self.zero_point)), &[][..]) };
        one.into_iter().chain(many.iter().copied())
    }

    /// The same codes mean the same values, bit for bit.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let bits = |of: &Self| -> Vec<u64> { of.scales().chain(of.zero_points()).map(f64::to_bits).collect() };
        self.scales().count() == other.scales().count() && bits(self) == bits(other)
    }
}

/// An order of dimensions in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// `format` in the file.
    pub format: u32,
    /// On the device; absent when the format is not known.
    pub device: Option<&'static str>,
    /// On the host; absent when the format is not known.
    pub host: Option<&'static str>,
}

/// What crosses the border of a network group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// Its name, with the network's as prefix.
    pub name: String,
    /// Which way.
    pub direction: Direction,
    /// Index of its context.
    pub context: usize,
    /// Height, width, features as the host sees them.
    pub shape: [u64; 3],
    /// Height, width, features as stored on the device.
    pub padded_shape: [u64; 3],
    /// Orders of dimensions.
    pub layout: Layout,
    /// Bytes of a value.
    pub data_bytes: u32,
    /// `UINT8` or `UINT16`; absent for any other number of bytes.
    pub data_type: Option<&'static str>,
    /// Bytes of a frame in the device's type; absent when 64 bits do not hold them.
    pub frame_bytes: Option<u64>,
    /// Height and width are swapped on the device.
    pub transposed: bool,
    /// Index of its network.
    pub network_index: u32,
    /// Absent when the file holds none.
    pub quantisation: Option<Quantisation>,
    /// Layers of the original model.
    pub original_names: Vec<String>,
}

impl Stream {
    /// Height × width: rows of a frame.
    pub(crate) const fn rows(&self) -> Option<u64> {
        self.shape[0].checked_mul(self.shape[1])
    }

    /// Values of a row.
    pub(crate) const fn features(&self) -> u64 {
        self.shape[2]
    }

    /// `1x96x1536`
    pub(crate) fn shape_text(&self) -> String {
        let [height, width, features] = self.shape;
        format!("{height}x{width}x{features}")
    }
}

/// A cache that a context reads or writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheEdge {
    /// The cache. Its read and its written part have the same id.
    pub cache_id: i32,
    /// Shape and all else; one row is one token, its features are the entry.
    #[serde(flatten)]
    pub stream: Stream,
}

/// Device and host order by `format`.
pub(super) fn layout(format: u32) -> Layout {
    let known = match format {
        0 | 13 => Some(("NHWC", "NHWC")),
        1 => Some(("NHCW", "NHWC")),
        2 => Some(("NC", "NC")),
        3 => Some(("FCR", "FCR")),
        4 => Some(("BAYER_RGB", "BAYER_RGB")),
        5 => Some(("NHW", "NHW")),
        6 => Some(("HAILO_NMS_ON_CHIP", "HAILO_NMS_BY_CLASS")),
        7 => Some(("F8CR", "F8CR")),
        8 => Some(("RGB888", "NHWC")),
        11 => Some(("YUY2", "YUY2")),
        14 => Some(("HAILO_YYUV", "NV12")),
        15 => Some(("HAILO_YYVU", "NV21")),
        16 => Some(("HAILO_YYYYUV", "I420")),
        _ => None,
    };
    Layout { format, device: known.map(|(device, _)| device), host: known.map(|(_, host)| host) }
}

/// The layout of an image in planes, by `planes_format`.
pub(super) fn planes_layout(planes_format: u32) -> Layout {
    layout(match planes_format {
        0 => 14,
        1 => 15,
        2 => 16,
        other => u32::MAX - other.min(1 << 16),
    })
}
