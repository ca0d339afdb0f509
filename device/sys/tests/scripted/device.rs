//! Opening a device.

use std::{env, process::Command};

use fidelity_hailort_sys::{Device, OpenOptions, Status, Step, Version, scan, versions};

use crate::{
    open,
    server::{Answer, FRAME_BYTES, Server, action},
};

#[test]
fn the_library_has_the_version_of_its_headers() {
    let versions = versions().expect("they are known");
    assert_eq!(versions.library, versions.headers);
    assert!(versions.library >= Version { major: 5, minor: 1, revision: 0 });
}

#[test]
fn opening_sends_these_bytes() {
    let server = Server::usual();
    drop(open(&server).expect("it opens"));
    let requests = server.requests();
    let actions: Vec<_> = requests.iter().map(|request| request.action).collect();
    let opening = [action::VDEVICE_CREATE, action::DEVICE_CREATE, action::SET_NOTIFICATION, action::SET_NOTIFICATION];
    assert_eq!(actions, [&opening[..], &[action::VDEVICE_DESTROY, action::DEVICE_DESTROY]].concat());
    for (id, request) in (0_u8..).zip(&requests) {
        assert_eq!(request.frame.len(), FRAME_BYTES);
        let header = [
            [0x32, 0x44, 0x55, 0x8A],
            [request.body.len() as u8, 0, 0, 0],
            [id, 0, 0, 0],
            [request.action as u8, 0, 0, 0],
            [1, 0, 0, 0],
        ];
        assert_eq!(request.frame[..20], header.concat());
    }
    // Scheduler 1, group UNIQUE; nothing; device 2, notifications 13 and 14 as callbacks of dispatcher 0; device 1.
    assert_eq!(requests[0].body, [&[0x0A, 10, 8, 1, 0x12, 6][..], b"UNIQUE"].concat());
    assert!(requests[1].body.is_empty());
    assert_eq!(requests[2].body, [0x0A, 2, 8, 2, 0x10, 13, 0x1A, 2, 8, 13]);
    assert_eq!(requests[3].body, [0x0A, 2, 8, 2, 0x10, 14, 0x1A, 2, 8, 14]);
    assert_eq!(requests[4].body, [0x0A, 2, 8, 1]);
    assert_eq!(requests[5].body, [0x0A, 2, 8, 2]);
}

#[test]
fn a_device_says_what_it_is() {
    let server = Server::usual();
    let info = open(&server).and_then(|device| device.info()).expect("it says");
    assert_eq!(info.id, server.address);
    assert_eq!((info.architecture, info.architecture_name()), (6, "HAILO10H"));
    assert_eq!(info.firmware, Version { major: 5, minor: 2, revision: 0 });
    assert!(info.is_release);
    assert_eq!((info.board_name.as_str(), info.product_name.as_str()), ("Hailo-10H", "HAILO-10H AI ACC M.2"));
    // A byte above 127 takes two as a number; it is no UTF-8.
    assert_eq!((info.serial_number.as_str(), info.part_number.as_str()), ("HLSN\u{FFFD}", "HM1"));
}

#[test]
fn a_group_of_processes_is_named() {
    let server = Server::usual();
    let options = OpenOptions { device_id: Some(server.address.clone()), group_id: Some("SHARED".into()) };
    drop(Device::open(&options).expect("it opens"));
    assert!(server.only(action::VDEVICE_CREATE).body.ends_with(b"SHARED"));
}

#[test]
fn a_busy_device_is_73() {
    let server = Server::new(|_| Answer::Status(73));
    let error = open(&server).err().expect("it is busy");
    assert_eq!((error.status, error.step), (Status::DEVICE_IN_USE, Step::Open));
    assert_eq!(error.detail, format!("cannot open device {}", server.address));
}

#[test]
fn no_device_is_74_and_a_scan_finds_none() {
    assert_eq!(scan(), Ok(Vec::new()));
    let error = Device::open(&OpenOptions::default()).err().expect("there is none");
    assert_eq!((error.status, error.step), (Status::OUT_OF_PHYSICAL_DEVICES, Step::Open));
}

/// Only the stand-in can be told what is installed; a process of its own, for that is told by its environment.
#[test]
fn all_busy_is_74_too_and_a_scan_tells_the_difference() {
    let server = Server::new(|_| Answer::Status(73));
    let child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "device::auto_selection_of_a_busy_device", "--ignored", "--nocapture"])
        .env("FIDELITY_STANDIN_DEVICES", &server.address)
        .output()
        .expect("it starts");
    let output = String::from_utf8_lossy(&child.stdout);
    if output.contains("HailoRT itself") {
        println!("not run: this is HailoRT itself");
        return;
    }
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
    assert_eq!(server.actions(), [action::VDEVICE_CREATE]);
}

#[test]
#[ignore = "run by all_busy_is_74_too_and_a_scan_tells_the_difference"]
fn auto_selection_of_a_busy_device() {
    let Ok(address) = env::var("FIDELITY_STANDIN_DEVICES") else {
        return;
    };
    if scan() == Ok(Vec::new()) {
        println!("HailoRT itself");
        return;
    }
    assert_eq!(scan(), Ok(vec![address]));
    let error = Device::open(&OpenOptions::default()).err().expect("it is busy");
    assert_eq!(error.status, Status::OUT_OF_PHYSICAL_DEVICES);
}

#[test]
fn ids_that_lead_nowhere() {
    let open =
        |id: &str| Device::open(&OpenOptions { device_id: Some(id.into()), group_id: None }).err().expect("no device");
    for id in ["nonsense", "0000:ff:00.0", ""] {
        assert_eq!((open(id).status, open(id).step), (Status::INVALID_ARGUMENT, Step::Open), "{id}");
    }
    for id in ["127.0.0.1\0", &"9".repeat(40)] {
        assert_eq!((open(id).status, open(id).step), (Status::INVALID_ARGUMENT, Step::Arguments), "{id}");
    }
    // Nobody listens.
    assert_eq!(open("127.15.255.254").status, Status::new(89));
}
