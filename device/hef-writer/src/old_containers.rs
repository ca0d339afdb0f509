//! Container versions 0 to 2 around a protobuf.

use md5::{Digest, Md5};

use crate::hef_writer::{Hef, xxh3};

fn file(version: u32, proto: &[u8], rest: &[&[u8]]) -> Vec<u8> {
    let mut file = vec![1, b'H', b'E', b'F'];
    file.extend(version.to_be_bytes());
    file.extend((proto.len() as u32).to_be_bytes());
    rest.iter().for_each(|part| file.extend(*part));
    file.extend(proto);
    file
}

/// MD5; ccws are inside the protobuf.
pub fn v0(hef: &Hef) -> Vec<u8> {
    let proto = hef.proto();
    file(0, &proto, &[&[0; 4], &Md5::digest(&proto)])
}

/// CRC-32.
pub fn v1(hef: &Hef) -> Vec<u8> {
    let proto = hef.proto();
    let body = [proto.as_slice(), &hef.ccws].concat();
    let crc = crc32fast::hash(&body);
    let mut file = file(1, &proto, &[&crc.to_be_bytes(), &(hef.ccws.len() as u64).to_be_bytes(), &[0; 4]]);
    file.extend(&hef.ccws);
    file
}

/// XXH3-64.
pub fn v2(hef: &Hef) -> Vec<u8> {
    let proto = hef.proto();
    let body = [proto.as_slice(), &hef.ccws].concat();
    let mut file = file(2, &proto, &[&xxh3(&body).to_be_bytes(), &(hef.ccws.len() as u64).to_be_bytes(), &[0; 16]]);
    file.extend(&hef.ccws);
    file
}
