//! Writes HEF files, sound ones and any that a test wants broken. Every part is a public field.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use crate::message::Message;

pub const HEADER_BYTES: usize = 56;

/// An edge of a context.
#[derive(Clone)]
pub struct Edge {
    pub name: String,
    /// 0 in, 1 out.
    pub direction: u64,
    /// 0 info, 1 mux, 2 planes.
    pub kind: u64,
    pub shape: [u64; 3],
    pub format: u64,
    pub data_bytes: u64,
    /// Scale, zero point; none is written otherwise.
    pub quantisation: Option<(f32, f32)>,
    pub limits: [f32; 2],
    pub scales: Vec<f64>,
    pub zero_points: Vec<f64>,
    /// 0 boundary, 1 intermediate, 2 DDR, 3 cache.
    pub connection: u64,
    pub cache_id: i64,
    pub buffer_indices: usize,
    pub network_index: u64,
    pub core_bytes_per_buffer: u64,
    /// In place of the content that all of the above makes: its field and its bytes.
    pub content: Option<(u64, Vec<u8>)>,
}

impl Edge {
    pub fn new(name: &str, direction: u64, shape: [u64; 3]) -> Self {
        Self {
            name: name.into(),
            direction,
            kind: 0,
            shape,
            format: 3,
            data_bytes: 1,
            quantisation: Some((1.0 / 127.0, 128.0)),
            limits: [-1.008, 1.0],
            scales: Vec::new(),
            zero_points: Vec::new(),
            connection: 0,
            cache_id: -1,
            buffer_indices: 1,
            network_index: 0,
            core_bytes_per_buffer: 8,
            content: None,
        }
    }

    /// LayerInfo.
    pub fn info(&self) -> Message {
        let [height, width, features] = self.shape;
        let base = Message::new()
            .number(1, height)
            .number(2, height)
            .number(3, width)
            .number(4, width)
            .number(5, features)
            .number(6, features)
            .number(7, self.format)
            .number(9, self.core_bytes_per_buffer)
            .number(10, 1)
            .number(12, self.data_bytes)
            .messages(13, (0..self.buffer_indices).map(|_| Message::new().number(2, 1)));
        let info = Message::new().text(1, &self.name).message(2, base);
        match self.quantisation {
            None => info,
            Some((scale, zero_point)) => info.message(
                3,
                Message::new()
                    .float(1, zero_point)
                    .float(2, scale)
                    .float(3, self.limits[0])
                    .float(4, self.limits[1])
                    .doubles(5, &self.zero_points)
                    .doubles(6, &self.scales),
            ),
        }
    }

    fn message(&self) -> Message {
        let (field, content) = self.content.clone().unwrap_or_else(|| (3, self.info().into_bytes()));
        let switch = Message::new().number(3, self.connection).signed(9, self.cache_id);
        let edge = Message::new().number(1, self.direction).number(2, self.kind);
        let edge = if field == 0 { edge } else { edge.bytes(field, &content) };
        edge.message(5, switch).number(6, self.network_index)
    }
}

/// A context.
#[derive(Clone, Default)]
pub struct Context {
    pub index: u64,
    pub edges: Vec<Edge>,
    /// Pointers into the ccws: offset and size.
    pub ccws: Vec<(u64, u64)>,
    /// ccws inside the protobuf.
    pub inline_ccws: Vec<Vec<u8>>,
}

impl Context {
    fn message(&self) -> Message {
        let pointer = |(offset, size): &(u64, u64)| {
            Message::new().number(1, 7).message(16, Message::new().number(1, *offset).number(2, *size).number(3, 1))
        };
        let inline = |bytes: &Vec<u8>| Message::new().message(3, Message::new().bytes(1, bytes));
        let operation = Message::new()
            // Trigger: none. HailoRT refuses an operation without one.
            .message(1, Message::new().number(1, 3).message(3, Message::new()))
            .messages(2, self.ccws.iter().map(pointer))
            .messages(2, self.inline_ccws.iter().map(inline));
        let metadata = Message::new().text(1, "context").messages(2, self.edges.iter().map(Edge::message));
        Message::new().number(1, self.index).message(2, operation).message(3, metadata)
    }
}

/// A network group.
#[derive(Clone, Default)]
pub struct Group {
    pub name: String,
    pub networks: Vec<String>,
    pub contexts: Vec<Context>,
    pub outputs_order: Vec<String>,
    /// Fields after all others.
    pub more: Vec<u8>,
}

impl Group {
    /// CoreOp has the same fields.
    pub fn message(&self) -> Message {
        let metadata = Message::new().text(1, &self.name).double(4, 12.5).number(5, 1);
        let group = Message::new().message(1, metadata).messages(3, self.contexts.iter().map(Context::message));
        let texts =
            |message: Message, field, texts: &[String]| texts.iter().fold(message, |all, text| all.text(field, text));
        let group = texts(texts(group, 4, &self.outputs_order), 6, &self.networks);
        let mut bytes = group.into_bytes();
        bytes.extend(&self.more);
        Message::of(bytes)
    }

    pub fn edges(&mut self) -> impl Iterator<Item = &mut Edge> {
        self.contexts.iter_mut().flat_map(|context| &mut context.edges)
    }

    /// The edge of this name.
    pub fn edge(&mut self, name: &str) -> &mut Edge {
        self.edges().find(|edge| edge.name == name).expect("there is such an edge")
    }
}

/// A resource. `offset` counts from the zero point; the next free multiple of 4096 otherwise.
#[derive(Clone)]
pub struct Resource {
    pub name: String,
    pub bytes: Vec<u8>,
    pub offset: Option<u64>,
    pub size: Option<u64>,
    pub hash: Option<u64>,
}

impl Resource {
    pub fn new(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into(), offset: None, size: None, hash: None }
    }
}

/// A HEF.
#[derive(Clone)]
pub struct Hef {
    pub architecture: u64,
    pub content_version: u64,
    pub extensions: Vec<u64>,
    pub optional_extensions: Vec<u64>,
    pub groups: Vec<Group>,
    pub resources: Vec<Resource>,
    pub ccws: Vec<u8>,
    /// Fields after all others.
    pub more: Vec<u8>,
    /// The header carries a hash of the protobuf.
    pub proto_hash: bool,
}

impl Default for Hef {
    fn default() -> Self {
        Self {
            architecture: 103,
            content_version: 5,
            extensions: vec![0, 3, 26, 4, 20, 12, 18, 28],
            optional_extensions: vec![8, 11, 33],
            groups: Vec::new(),
            resources: Vec::new(),
            ccws: Vec::new(),
            more: Vec::new(),
            proto_hash: true,
        }
    }
}

impl Hef {
    /// A file that is no language model: one group of one context, one input, two outputs.
    pub fn small() -> Self {
        let context = Context {
            edges: vec![
                Edge::new("net/input", 0, [4, 4, 3]),
                Edge::new("net/output1", 1, [1, 1, 10]),
                Edge::new("net/output2", 1, [2, 2, 5]),
            ],
            ccws: vec![(0, 40), (40, 60)],
            ..Context::default()
        };
        let group = Group {
            name: "net".into(),
            networks: vec!["net".into()],
            contexts: vec![context],
            outputs_order: vec!["net/output2".into(), "net/output1".into()],
            more: Vec::new(),
        };
        Self { groups: vec![group], ccws: (0..100).collect(), ..Self::default() }
    }

    /// The protobuf.
    pub fn proto(&self) -> Vec<u8> {
        let version = Message::new().number(1, 5).number(2, 2);
        let header = Message::new()
            .number(1, self.architecture)
            .number(2, 1_786_853_262_783)
            .text(3, "sdk-version: 5.2.0")
            .number(4, self.content_version)
            .message(5, version);
        let extension = |index: &u64| Message::new().number(1, *index).text(2, "an extension");
        let resource = |(resource, offset): (&Resource, u64)| {
            Message::new()
                .number(1, offset)
                .number(2, resource.size.unwrap_or(resource.bytes.len() as u64))
                .text(3, &resource.name)
                .number(4, resource.hash.unwrap_or_else(|| xxh3(&resource.bytes)))
        };
        let proto = Message::new()
            .message(1, header)
            .messages(2, self.groups.iter().map(Group::message))
            .bytes(3, b"opaque")
            .messages(5, self.extensions.iter().map(extension))
            .messages(6, self.optional_extensions.iter().map(extension))
            .messages(7, self.resources.iter().zip(self.offsets()).map(resource));
        let mut bytes = proto.into_bytes();
        bytes.extend(&self.more);
        bytes
    }

    fn offsets(&self) -> Vec<u64> {
        let mut free = (self.ccws.len() as u64).next_multiple_of(4096);
        let offset = |resource: &Resource| {
            resource.offset.unwrap_or_else(|| {
                let offset = free;
                free = (free + resource.bytes.len() as u64).next_multiple_of(4096);
                offset
            })
        };
        self.resources.iter().map(offset).collect()
    }

    /// Resources and what pads them.
    fn additional_info(&self) -> Vec<u8> {
        let ccws = self.ccws.len();
        let mut bytes = vec![0; ccws.next_multiple_of(4096) - ccws];
        for resource in self.resources.iter().filter(|resource| resource.offset.is_none()) {
            bytes.extend(&resource.bytes);
            bytes.resize((ccws + bytes.len()).next_multiple_of(4096) - ccws, 0);
        }
        bytes
    }

    /// Container version 3: the zero point is a multiple of 4096.
    pub fn v3(&self) -> Vec<u8> {
        let (proto, additional) = (self.proto(), self.additional_info());
        let start = HEADER_BYTES + proto.len();
        let padding = start.next_multiple_of(4096) - start;
        let mut file = Vec::new();
        file.extend([1, b'H', b'E', b'F']);
        file.extend(3_u32.to_be_bytes());
        file.extend((proto.len() as u32).to_be_bytes());
        file.extend(0_u64.to_be_bytes());
        file.extend(((self.ccws.len() + padding) as u64).to_be_bytes());
        file.extend((padding as u32).to_be_bytes());
        file.extend((additional.len() as u64).to_be_bytes());
        file.extend(u64::from(self.proto_hash).to_be_bytes());
        file.extend(0_u64.to_be_bytes());
        file.extend(&proto);
        file.resize(file.len() + padding, 0);
        file.extend(&self.ccws);
        file.extend(additional);
        seal(&mut file);
        file
    }
}

/// Writes the hashes of a version 3 file anew; that of the protobuf only where there is one.
pub fn seal(file: &mut [u8]) {
    let proto_bytes = u32::from_be_bytes(file[8..12].try_into().expect("4 bytes")) as usize;
    let whole = xxh3(&file[HEADER_BYTES..]);
    file[12..20].copy_from_slice(&whole.to_be_bytes());
    if file[40..48] != [0; 8] {
        let proto = xxh3(&file[HEADER_BYTES..HEADER_BYTES + proto_bytes]);
        file[40..48].copy_from_slice(&proto.to_be_bytes());
    }
}

/// XXH3-64 with seed 0.
pub fn xxh3(bytes: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::with_seed(0);
    hasher.write(bytes);
    hasher.finish()
}
