//! Frames by hand, from the contract: nothing here is shared with the server.

use std::{
    io::{self, Read, Write},
    net::{SocketAddrV4, TcpStream},
    time::Duration,
};

use fidelity_hef_writer::message::Message;

/// An answer: status and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: u32,
    pub(crate) action: u32,
    pub(crate) status: u32,
    pub(crate) body: Vec<u8>,
}

/// A TCP link.
pub(crate) struct Link {
    stream: TcpStream,
    messages: u32,
}

impl Link {
    pub(crate) fn open(address: SocketAddrV4) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let link = Self { stream, messages: 0 };
        link.patience(Duration::from_secs(20));
        Ok(link)
    }

    /// How long an answer is waited for.
    pub(crate) fn patience(&self, span: Duration) {
        self.stream.set_read_timeout(Some(span)).expect("a span above 0");
    }

    pub(crate) fn send(&mut self, action: u32, body: &[u8], buffers: &[&[u8]]) -> io::Result<()> {
        let mut frame = Vec::new();
        // The client's status is HAILO_UNINITIALIZED.
        for number in [0x8A55_4432, body.len() as u32, self.messages, action, 1] {
            frame.extend(number.to_le_bytes());
        }
        self.messages += 1;
        frame.extend(body);
        frame.resize(2068, 0);
        self.stream.write_all(&frame)?;
        buffers.iter().try_for_each(|buffer| self.stream.write_all(buffer))
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let mut frame = [0; 2068];
        self.stream.read_exact(&mut frame)?;
        let number = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(number(0), 0x8A55_4432);
        let size = number(4) as usize;
        assert!(frame[20 + size..].iter().all(|byte| *byte == 0), "nothing beyond the body");
        let (message, action, status) = (number(8), number(12), number(16));
        assert!(status == 0 || size == 0, "a failure has no body");
        Ok(Answer { message, action, status, body: frame[20..20 + size].to_vec() })
    }

    pub(crate) fn buffer(&mut self, size: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; size];
        self.stream.read_exact(&mut buffer)?;
        Ok(buffer)
    }

    pub(crate) fn ask(&mut self, action: u32, body: Message, buffers: &[&[u8]]) -> io::Result<Answer> {
        let number = self.messages;
        self.send(action, &body.into_bytes(), buffers)?;
        let answer = self.answer()?;
        assert_eq!((answer.message, answer.action), (number, action));
        Ok(answer)
    }
}

/// A field of a message of varints and length-delimited fields: the value of the last varint of this number.
pub(crate) fn number_of(message: &[u8], field: u64) -> Option<u64> {
    fields(message).into_iter().rev().find_map(|(number, value)| match value {
        Value::Number(value) if number == field => Some(value),
        _ => None,
    })
}

/// The bytes of the last length-delimited field of this number.
pub(crate) fn bytes_of(message: &[u8], field: u64) -> Option<Vec<u8>> {
    fields(message).into_iter().rev().find_map(|(number, value)| match value {
        Value::Bytes(bytes) if number == field => Some(bytes),
        _ => None,
    })
}

pub(crate) fn text_of(message: &[u8], field: u64) -> Option<String> {
    String::from_utf8(bytes_of(message, field)?).ok()
}

enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

fn fields(mut message: &[u8]) -> Vec<(u64, Value)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut message)),
            2 => {
                let size = varint(&mut message) as usize;
                let (bytes, rest) = message.split_at(size);
                message = rest;
                Value::Bytes(bytes.to_vec())
            }
            5 => {
                let (bytes, rest) = message.split_at(4);
                message = rest;
                Value::Bytes(bytes.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = message.split_first().expect("a varint ends");
        *message = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn handle(id: u64) -> Message {
    Message::new().number(1, id)
}

/// The handle in field 1 of a reply.
fn given(answer: &Answer) -> u64 {
    bytes_of(&answer.body, 1).and_then(|handle| number_of(&handle, 1)).expect("a handle")
}

/// What a client of the runtime does, step by step; a failure is the status.
pub(crate) struct Client {
    pub(crate) link: Link,
}

/// A configured group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) model: u64,
    pub(crate) group: u64,
}

/// Streams with their `hailo_format_type_t`.
pub(crate) type Formats<'a> = [(&'a str, u64)];

impl Client {
    pub(crate) fn connect(address: SocketAddrV4) -> Self {
        Self { link: Link::open(address).expect("somebody listens") }
    }

    fn done(&mut self, action: u32, body: Message, buffers: &[&[u8]]) -> Result<Answer, u32> {
        let answer = self.link.ask(action, body, buffers).expect("an answer");
        if answer.status == 0 { Ok(answer) } else { Err(answer.status) }
    }

    pub(crate) fn open(&mut self, group_id: &str) -> Result<u64, u32> {
        let params = Message::new().number(1, 1).text(2, group_id);
        self.done(0, Message::new().message(1, params), &[]).map(|answer| given(&answer))
    }

    pub(crate) fn close(&mut self, device: u64) -> Result<(), u32> {
        self.done(1, Message::new().message(1, handle(device)), &[]).map(|_| ())
    }

    pub(crate) fn create_model(&mut self, device: u64, hef: &[u8], group: &str) -> Result<u64, u32> {
        let body = Message::new().message(1, handle(device)).number(2, hef.len() as u64).text(3, group);
        self.done(2, body, &[hef]).map(|answer| given(&answer))
    }

    pub(crate) fn configure(
        &mut self,
        model: u64,
        [inputs, outputs]: [&Formats<'_>; 2],
        kv_cache: bool,
    ) -> Result<Group, u32> {
        self.configure_batch(model, [inputs, outputs], kv_cache, 0)
    }

    pub(crate) fn configure_batch(
        &mut self,
        model: u64,
        [inputs, outputs]: [&Formats<'_>; 2],
        kv_cache: bool,
        batch_size: u64,
    ) -> Result<Group, u32> {
        let stream = |(name, kind): &(&str, u64)| Message::new().text(1, name).number(2, 3).number(3, *kind);
        let body = Message::new()
            .message(1, handle(model))
            .message(2, handle(1))
            .messages(3, inputs.iter().map(stream))
            .messages(4, outputs.iter().map(stream))
            .number(5, batch_size)
            .number(6, 1)
            .number(8, u64::from(kv_cache));
        let answer = self.done(4, body, &[])?;
        assert_eq!(number_of(&answer.body, 2), Some(2), "the queue has two places");
        Ok(Group { model, group: given(&answer) })
    }

    pub(crate) fn init_cache(&mut self, group: Group, offset: u64) -> Result<(), u32> {
        self.done(14, Message::new().message(1, handle(group.group)).number(2, offset), &[]).map(|_| ())
    }

    pub(crate) fn update_offset(&mut self, group: Group, delta: i64) -> Result<(), u32> {
        self.done(13, Message::new().message(1, handle(group.group)).signed(2, delta), &[]).map(|_| ())
    }

    pub(crate) fn run_body(group: Group, sizes: &[usize]) -> Message {
        let info = |size: &usize| Message::new().number(1, *size as u64).number(2, 1);
        Message::new()
            .message(1, handle(group.group))
            .message(2, handle(group.model))
            .messages(3, sizes.iter().map(info))
    }

    pub(crate) fn run(&mut self, group: Group, inputs: &[Vec<u8>], outputs: &[usize]) -> Result<Vec<Vec<u8>>, u32> {
        let sizes: Vec<_> = inputs.iter().map(Vec::len).chain(outputs.iter().copied()).collect();
        let buffers: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        self.done(18, Self::run_body(group, &sizes), &buffers)?;
        Ok(outputs.iter().map(|size| self.link.buffer(*size).expect("an output")).collect())
    }

    pub(crate) fn of_handle(&mut self, action: u32, id: u64) -> Result<Answer, u32> {
        self.done(action, Message::new().message(1, handle(id)), &[])
    }
}
