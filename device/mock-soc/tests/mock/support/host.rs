//! A host that feeds tokens as the contract says (sections 5 and 6), straightforwardly: the inputs of every step are made anew
//! from the whole conversation.

use std::{io::Cursor, net::SocketAddrV4};

use fidelity_device::hef::{Group as Described, Hef, Stream};

use super::client::{Client, Group};

/// How a text is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The remainder, then whole chunks.
    Prefill,
    /// One token at a time through tbt; the first as well.
    Tbt,
}

/// What is read off the file.
struct File {
    table: Vec<u16>,
    theta: Vec<f32>,
    /// Of embeddings, mask, Q cos, Q sin, K cos, K sin.
    suffixes: [String; 6],
    query_heads: usize,
    kv_heads: usize,
    hidden: usize,
    groups: Vec<Described>,
}

/// A host with a device.
pub(crate) struct Host {
    pub(crate) client: Client,
    file: File,
    prefill: (Described, Group),
    tbt: Option<(Described, Group)>,
    conversation: Vec<usize>,
}

fn rows(stream: &Stream) -> usize {
    (stream.shape[0] * stream.shape[1]) as usize
}

fn width(stream: &Stream) -> usize {
    stream.shape[2] as usize
}

impl File {
    fn read(bytes: &[u8]) -> Self {
        let hef = Hef::read(Cursor::new(bytes)).expect("a HEF");
        let description = hef.description();
        let resource = |name: &str| {
            let resource = description.resource(name).expect("the resource");
            let start = resource.file_offset.expect("inside the file") as usize;
            &bytes[start..start + resource.size_bytes as usize]
        };
        let config: serde_json::Value = serde_json::from_slice(resource("hailo-config.json")).expect("JSON");
        let parameter = |key: &str| config["pre_process_params"][key].as_u64().expect("stated") as usize;
        let suffix = |key: &str, default: &str| {
            config["input_layers_names_suffixes"][key].as_str().unwrap_or(default).to_owned()
        };
        let embeddings = &description.groups[0].inputs[1];
        Self {
            table: resource("embeddings.bin").as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect(),
            theta: resource("rope_theta_data.bin")
                .as_chunks::<4>()
                .0
                .iter()
                .map(|quad| f32::from_le_bytes(*quad))
                .collect(),
            suffixes: [
                suffix("embeddings", "input_layer1"),
                suffix("attention_mask", "input_layer2"),
                suffix("pe_q_cos", "input_layer3"),
                suffix("pe_q_sin", "input_layer4"),
                suffix("pe_k_cos", "input_layer5"),
                suffix("pe_k_sin", "input_layer6"),
            ],
            query_heads: parameter("num_attention_heads"),
            kv_heads: parameter("num_key_value_heads"),
            hidden: width(embeddings),
            groups: description.groups.clone(),
        }
    }
}

/// The types that the contract asks for: RoPE and logits float32, the others the device's own.
fn formats<'a>(file: &File, group: &'a Described) -> [Vec<(&'a str, u64)>; 2] {
    let rope = |name: &str| file.suffixes[2..].iter().any(|suffix| name.ends_with(suffix));
    let input =
        |stream: &'a Stream| (stream.name.as_str(), if rope(&stream.name) { 3 } else { u64::from(stream.data_bytes) });
    let outputs = group.outputs.iter().map(|stream| (stream.name.as_str(), 3));
    [group.inputs.iter().map(input).collect(), outputs.collect()]
}

impl Host {
    /// Opens the device, brings the file in, configures its groups.
    pub(crate) fn open(address: SocketAddrV4, hef: &[u8]) -> Result<Self, u32> {
        Self::open_with(address, hef, true)
    }

    pub(crate) fn open_with(address: SocketAddrV4, hef: &[u8], kv_cache: bool) -> Result<Self, u32> {
        let mut client = Client::connect(address);
        let device = client.open("UNIQUE")?;
        let file = File::read(hef);
        let mut configured = Vec::new();
        for group in &file.groups {
            let model = client.create_model(device, hef, &group.name)?;
            let [inputs, outputs] = formats(&file, group);
            configured.push((group.clone(), client.configure(model, [&inputs, &outputs], kv_cache)?));
        }
        let mut configured = configured.into_iter();
        let prefill = configured.next().expect("a group");
        let mut host = Self { client, file, prefill, tbt: configured.next(), conversation: Vec::new() };
        if host.has_caches() {
            host.client.init_cache(host.prefill.1, 0)?;
        }
        Ok(host)
    }

    fn has_caches(&self) -> bool {
        !self.prefill.0.cache_edges.is_empty()
    }

    /// A new conversation.
    pub(crate) fn begin(&mut self) -> Result<(), u32> {
        self.conversation.clear();
        self.client.init_cache(self.prefill.1, 0)
    }

    /// Feeds tokens; gives the logits after each step, `[rows of the output, vocabulary]`.
    pub(crate) fn feed(&mut self, ids: &[usize], pace: Pace) -> Result<Vec<Vec<f32>>, u32> {
        let rows = match pace {
            Pace::Prefill => rows(&self.prefill.0.inputs[0]),
            Pace::Tbt => 1,
        };
        let (remainder, whole) = ids.split_at(ids.len() % rows);
        let steps = std::iter::once(remainder).filter(|chunk| !chunk.is_empty()).chain(whole.chunks(rows));
        let steps: Vec<Vec<usize>> = steps.map(<[usize]>::to_vec).collect();
        steps.iter().map(|step| self.step(step, pace)).collect()
    }

    fn step(&mut self, ids: &[usize], pace: Pace) -> Result<Vec<f32>, u32> {
        self.conversation.extend(ids);
        let (described, group) = match (pace, &self.tbt) {
            (Pace::Tbt, Some(tbt)) => tbt.clone(),
            (Pace::Tbt | Pace::Prefill, _) => self.prefill.clone(),
        };
        let inputs = self.inputs(&described);
        let sizes: Vec<_> = described.outputs.iter().map(|stream| rows(stream) * width(stream) * 4).collect();
        if self.has_caches() {
            self.client.update_offset(group, ids.len() as i64)?;
        }
        let frames = self.client.run(group, &inputs, &sizes)?;
        Ok(joined(&described, &frames))
    }

    /// The six frames in the order of the file.
    pub(crate) fn inputs(&self, group: &Described) -> Vec<Vec<u8>> {
        let rows = rows(&group.inputs[0]);
        // The last rows of the conversation; what is before its beginning is padding.
        let token = |row: usize| (row + self.conversation.len()).checked_sub(rows);
        let pad = rows.saturating_sub(self.conversation.len());
        let role = |stream: &Stream| {
            self.file.suffixes.iter().position(|suffix| stream.name.ends_with(suffix)).expect("a role")
        };
        let frame = |stream: &Stream| match role(stream) {
            0 => self.embeddings(rows, token),
            1 => self.mask(stream, rows, pad),
            role => self.rope(rows, token, role),
        };
        group.inputs.iter().map(frame).collect()
    }

    fn embeddings(&self, rows: usize, token: impl Fn(usize) -> Option<usize>) -> Vec<u8> {
        let hidden = self.file.hidden;
        let row = |row: usize| match token(row) {
            None => vec![0; hidden],
            Some(position) => {
                let id = self.conversation[position];
                self.file.table[id * hidden..(id + 1) * hidden].to_vec()
            }
        };
        (0..rows).flat_map(row).flat_map(u16::to_le_bytes).collect()
    }

    fn mask(&self, stream: &Stream, rows: usize, pad: usize) -> Vec<u8> {
        let columns = width(stream) / self.file.query_heads;
        let numbers = stream.quantisation.as_ref().expect("a scale");
        let one = 1.0_f32.clamp(numbers.limits[0], numbers.limits[1]);
        let allow = (one / numbers.scale + numbers.zero_point).round_ties_even() as u8;
        let used = self.conversation.len().min(columns);
        let fed = rows - pad;
        let row = |row: usize| {
            let column = |column: usize| {
                let seen = match row.checked_sub(pad) {
                    None => true,
                    Some(_) if column < columns - used => false,
                    Some(_) if column < columns - fed => true,
                    Some(row) => column - (columns - fed) <= row,
                };
                if seen { allow } else { 0 }
            };
            (0..columns).map(column).collect::<Vec<u8>>().repeat(self.file.query_heads)
        };
        (0..rows).flat_map(row).collect()
    }

    fn rope(&self, rows: usize, token: impl Fn(usize) -> Option<usize>, role: usize) -> Vec<u8> {
        let heads = if role < 4 { self.file.query_heads } else { self.file.kv_heads };
        let row = |row: usize| {
            let position = token(row).unwrap_or(0) as f32;
            let value =
                |theta: &f32| if role.is_multiple_of(2) { (position * theta).cos() } else { (position * theta).sin() };
            self.file.theta.iter().map(value).collect::<Vec<f32>>().repeat(heads)
        };
        (0..rows).flat_map(row).flat_map(f32::to_le_bytes).collect()
    }

    /// The groups, for tests that go further by hand.
    pub(crate) fn groups(&self) -> [Option<(Described, Group)>; 2] {
        [Some(self.prefill.clone()), self.tbt.clone()]
    }

    /// Takes the last tokens back: an absolute offset, and the conversation as it was.
    pub(crate) fn roll_back(&mut self, tokens: usize, offset: u64) {
        self.conversation.truncate(self.conversation.len() - tokens);
        self.client.init_cache(self.prefill.1, offset).expect("init_cache");
    }

    /// Adds tokens to the conversation without running anything, for steps that are run by hand.
    pub(crate) fn note(&mut self, ids: &[usize]) {
        self.conversation.extend(ids);
    }
}

/// Shards side by side, row after row.
fn joined(group: &Described, frames: &[Vec<u8>]) -> Vec<f32> {
    let shard = width(&group.outputs[0]);
    let frames: Vec<Vec<f32>> = frames
        .iter()
        .map(|frame| frame.as_chunks::<4>().0.iter().map(|quad| f32::from_le_bytes(*quad)).collect())
        .collect();
    (0..rows(&group.outputs[0]))
        .flat_map(|row| frames.iter().flat_map(move |frame| &frame[row * shard..(row + 1) * shard]))
        .copied()
        .collect()
}
