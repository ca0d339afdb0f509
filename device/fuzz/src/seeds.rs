//! Writes what a fuzzer begins with into `corpus/audit`: sound files and some with rare parts, by the tests' own writer.

use std::{fs, io};

#[path = "../../tests/support/hef_writer.rs"]
mod hef_writer;
#[path = "../../tests/support/llm_writer.rs"]
mod llm_writer;
#[path = "../../tests/support/message.rs"]
mod message;

use hef_writer::{Edge, Hef};
use llm_writer::Llm;
use message::Message;

fn main() -> io::Result<()> {
    fs::create_dir_all("corpus/audit")?;
    let seeds = [
        ("small", Hef::small()),
        ("language-model", Llm::default().hef()),
        ("one-group", one_group()),
        ("rare-parts", rare_parts()),
    ];
    seeds.into_iter().try_for_each(|(name, hef)| fs::write(format!("corpus/audit/{name}"), hef.v3()))
}

fn one_group() -> Hef {
    let mut hef = Llm::default().hef();
    hef.groups.pop();
    hef
}

/// Muxes, planes, a core op, lists per feature.
fn rare_parts() -> Hef {
    let mut hef = Hef::small();
    let core = Message::new().message(4, hef.groups[0].message());
    hef.extensions.extend([13, 25]);
    hef.groups[0].edge("net/output1").scales = vec![0.5; 10];
    let leaf = Message::new().message(1, Edge::new("net/leaf", 1, [1, 1, 10]).info());
    let mux = Message::new().text(1, "mux").message(5, leaf);
    let planes = Message::new().text(1, "planes").number(2, 1).number(4, 6).number(5, 4).number(6, 3);
    let edges = &mut hef.groups[0].contexts[0].edges;
    edges.push(Edge { kind: 1, content: Some((4, mux.into_bytes())), ..Edge::new("", 1, [1, 1, 1]) });
    edges.push(Edge { kind: 2, content: Some((8, planes.into_bytes())), ..Edge::new("", 0, [1, 1, 1]) });
    let own = Message::new().message(4, hef.groups[0].message());
    hef.groups[0].more = Message::new().message(8, core).message(8, own).into_bytes();
    hef
}
