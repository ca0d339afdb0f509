//! The messages that prost makes of hef.proto.
#![expect(unreachable_pub, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/hef.rs"));
