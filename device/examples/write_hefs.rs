//! Writes sample HEF files into a folder: sound ones, one of a language model, one with rare parts. They are what the fuzzer
//! begins with, and something to try `fidelity audit` on.

use std::{env, fs, io, path::PathBuf};

use fidelity_hef_writer::hef_writer::{Edge, Hef};
use fidelity_hef_writer::llm_writer::Llm;
use fidelity_hef_writer::message::Message;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    fs::create_dir_all(&folder)?;
    let files = [
        ("small.hef", Hef::small()),
        ("language-model.hef", Llm::default().hef()),
        ("one-group.hef", one_group()),
        ("rare-parts.hef", rare_parts()),
    ];
    files.into_iter().try_for_each(|(name, hef)| fs::write(folder.join(name), hef.v3()))
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
