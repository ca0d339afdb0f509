//! Frames, handles, statuses: what the chip answers to a client that does right, and to one that does not.

use std::time::{Duration, Instant};

use fidelity_hef_writer::message::Message;
use fidelity_mock_soc::{Event, Groups, HefOptions, Version};

use crate::support::{Client, Host, Link, Pace, bytes_of, hef, ids, number_of, start, text_of};

#[test]
fn the_device_says_what_it_is() {
    let mock = start(|options| options.firmware = Version { major: 5, minor: 1, revision: 7 });
    let mut client = Client::connect(mock.address());
    client.open("UNIQUE").expect("it is free");
    let device = client.of_handle(20, 0).expect("a device");
    assert!(bytes_of(&device.body, 1).is_some());
    let identity = client.of_handle(22, 1).expect("an identity");
    let identity = bytes_of(&identity.body, 1).expect("an identity");
    let firmware = bytes_of(&identity, 2).expect("a version");
    assert_eq!([1, 2, 3].map(|field| number_of(&firmware, field)), [Some(5), Some(1), Some(7)]);
    assert_eq!((number_of(&identity, 7), text_of(&identity, 4)), (Some(6), Some("Hailo-10H mock".into())));
    // Callbacks are set for several notifications; the answers are empty.
    assert!(client.of_handle(33, 1).expect("done").body.is_empty());
    let architecture = client.of_handle(32, 1).expect("done");
    assert_eq!(number_of(&architecture.body, 1), Some(6));
}

#[test]
fn tests_can_ask_what_happened() {
    let mock = start(|_| ());
    let file = hef(&HefOptions::official(4, 16));
    let mut host = Host::open(mock.address(), &file).expect("it opens");
    host.feed(&ids(6), Pace::Prefill).expect("it runs");
    host.feed(&[7], Pace::Tbt).expect("it runs");
    assert_eq!((mock.runs(), mock.last_offset()), (3, Some(7)));
    let events = mock.events();
    let configured = |wanted: &str| {
        events.iter().find_map(|event| match event {
            Event::Configured { group, kv_cache, formats, .. } if group == wanted => Some((*kv_cache, formats)),
            _ => None,
        })
    };
    let (kv_cache, formats) = configured("base_model__tbt").expect("it was configured");
    assert!(kv_cache);
    let types: Vec<_> = formats.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    assert_eq!(types[..4].iter().map(|(_, kind)| *kind).collect::<Vec<_>>(), [3; 4], "{types:?}");
    assert_eq!(types[4..6], [("mock_tbt/input_layer1", 2), ("mock_tbt/input_layer2", 1)]);
    let sizes = events.iter().filter_map(|event| match event {
        Event::Model { group, hef_bytes } => Some((group.as_str(), *hef_bytes)),
        _ => None,
    });
    let size = file.len() as u64;
    assert_eq!(sizes.collect::<Vec<_>>(), [("base_model__prefill", size), ("base_model__tbt", size)]);
    let offsets = events.iter().filter_map(|event| match event {
        Event::CacheOffset { delta, offset } => Some((*delta, *offset)),
        _ => None,
    });
    assert_eq!(offsets.collect::<Vec<_>>(), [(2, 2), (4, 6), (1, 7)]);
}

#[test]
fn one_client_at_a_time_has_a_unique_device() {
    let mock = start(|options| options.busy_wait = Duration::from_millis(400));
    let mut first = Client::connect(mock.address());
    let device = first.open("UNIQUE").expect("it is free");
    let began = Instant::now();
    assert_eq!(Client::connect(mock.address()).open("UNIQUE"), Err(73));
    assert!(began.elapsed() >= Duration::from_millis(400));
    first.close(device).expect("done");
    let mut second = Client::connect(mock.address());
    second.open("shared").expect("it is free again");
    let mut third = Client::connect(mock.address());
    third.open("shared").expect("it is shared");
    assert_eq!(first.open("other"), Err(73));
    drop((second, third));
    // Whoever leaves without a word leaves too.
    first.open("UNIQUE").expect("it is free again");
}

#[test]
fn files_and_names_that_are_wrong() {
    let mock = start(|_| ());
    let mut client = Client::connect(mock.address());
    let file = hef(&HefOptions::official(4, 16));
    let device = client.open("UNIQUE").expect("it is free");
    assert_eq!(client.create_model(device, &file, "prefill"), Err(61), "a suffix is no name");
    assert_eq!(client.create_model(device, b"no HEF at all, but long enough to be one", ""), Err(92));
    let mut broken = file.clone();
    broken[4000] ^= 1;
    assert_eq!(client.create_model(device, &broken, ""), Err(91));
    let unnamed = client.create_model(device, &file, "").expect("it arrives");
    assert_eq!(client.configure(unnamed, [&[], &[]], true).err(), Some(2), "one of two must be named");
    let model = client.create_model(device, &file, "base_model__tbt").expect("it arrives");
    assert_eq!(client.configure(model, [&[("mock_tbt/input_layer9", 3)], &[]], true).err(), Some(61));
    assert_eq!(client.configure(model, [&[("mock_tbt/input_layer1", 1)], &[]], true).err(), Some(2));
    assert_eq!(client.configure_batch(model, [&[], &[]], true, 2).err(), Some(2));
    assert_eq!(client.configure(99, [&[], &[]], true).err(), Some(61));
    let foreign = fidelity_hef_writer::hef_writer::Hef::small().v3();
    let foreign = client.create_model(device, &foreign, "").expect("it arrives");
    assert_eq!(client.configure(foreign, [&[], &[]], true).err(), Some(26), "the mock has nothing to execute");
}

#[test]
fn the_cache_keeps_the_rules_of_its_manager() {
    let mock = start(|_| ());
    let mut client = Client::connect(mock.address());
    let file = hef(&HefOptions::official(4, 24));
    let device = client.open("UNIQUE").expect("it is free");
    let prefill = client.create_model(device, &file, "base_model__prefill").expect("it arrives");
    let prefill = client.configure(prefill, [&[], &[]], true).expect("configured");
    assert_eq!(client.init_cache(prefill, 0), Err(6), "tbt is not configured yet");
    assert_eq!(client.update_offset(prefill, 1), Err(6));
    let tbt = client.create_model(device, &file, "base_model__tbt").expect("it arrives");
    let tbt = client.configure(tbt, [&[], &[]], true).expect("configured");
    assert_eq!(client.init_cache(prefill, 24), Err(2));
    client.init_cache(prefill, 23).expect("inside");
    client.update_offset(tbt, 3).expect("either group acts on both");
    assert_eq!(mock.last_offset(), Some(2));
    // (2 - 4) mod 2³² = 4294967294, which is 14 mod 24 and not 22.
    client.update_offset(tbt, -4).expect("done");
    assert_eq!(mock.last_offset(), Some(14));
    let other = hef(&HefOptions::official(4, 16));
    let other = client.create_model(device, &other, "base_model__tbt").expect("it arrives");
    assert_eq!(client.configure(other, [&[], &[]], true).err(), Some(2), "one length for all groups");
}

#[test]
fn a_power_of_two_can_go_back() {
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &hef(&HefOptions::official(4, 16))).expect("it opens");
    let [Some((_, group)), _] = host.groups() else { panic!("prefill") };
    host.client.update_offset(group, -3).expect("done");
    assert_eq!(mock.last_offset(), Some(13));
}

#[test]
fn without_caches_offsets_are_of_no_effect() {
    let mock = start(|_| ());
    let options = HefOptions { groups: Groups::Base, ..HefOptions::base(8) };
    let mut host = Host::open(mock.address(), &hef(&options)).expect("it opens");
    let [Some((_, group)), None] = host.groups() else { panic!("one group") };
    host.client.init_cache(group, 77).expect("a warning at most");
    host.client.update_offset(group, 1).expect("a warning at most");
    assert_eq!(mock.last_offset(), None);
}

#[test]
fn a_run_without_its_offset_is_never_answered() {
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &hef(&HefOptions::official(4, 16))).expect("it opens");
    host.note(&[1]);
    let [_, Some((described, tbt))] = host.groups() else { panic!("tbt") };
    let inputs = host.inputs(&described);
    let sizes: Vec<_> = inputs.iter().map(Vec::len).chain([512; 4]).collect();
    let buffers: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
    host.client.link.send(18, &Client::run_body(tbt, &sizes).into_bytes(), &buffers).expect("sent");
    host.client.link.patience(Duration::from_millis(300));
    assert!(host.client.link.answer().is_err());
    assert!(mock.events().contains(&Event::RunWaits { group: "base_model__tbt".into() }));
    assert_eq!(mock.runs(), 0);
}

#[test]
fn inputs_of_another_size_end_the_link() {
    let mock = start(|_| ());
    let mut host = Host::open(mock.address(), &hef(&HefOptions::official(4, 16))).expect("it opens");
    let [Some((_, group)), _] = host.groups() else { panic!("prefill") };
    host.client.update_offset(group, 1).expect("done");
    assert_eq!(host.client.run(group, &[vec![0; 5]], &[]).err(), Some(8));
    assert!(host.client.link.answer().is_err());
}

#[test]
fn what_is_no_frame_ends_the_link_and_not_the_server() {
    let mock = start(|_| ());
    for bytes in [vec![0xFF; 2068], [0x8A55_4432_u32.to_le_bytes(), 2049_u32.to_le_bytes()].concat()] {
        let mut link = Link::open(mock.address()).expect("somebody listens");
        let mut frame = bytes;
        frame.resize(2068, 0);
        link.send_raw(&frame).expect("sent");
        assert!(link.answer().is_err());
    }
    let mut client = Client::connect(mock.address());
    assert_eq!(client.of_handle(16, 1).err(), Some(7), "cache buffers are not in the mock");
    let message = client.link.ask(4, Message::of(vec![0xFF; 9]), &[]).expect("an answer");
    assert_eq!(message.status, 77, "no protobuf");
    client.link.send(99, &[], &[]).expect("sent");
    assert!(client.link.answer().is_err(), "what the server does not know ends the link");
    let mut client = Client::connect(mock.address());
    // Claims more than arrives, and goes: nothing is reserved for it.
    let claim = Message::new().number(2, 3 << 30).into_bytes();
    client.link.send(2, &claim, &[b"short"]).expect("sent");
    drop(client);
    let mut client = Client::connect(mock.address());
    client.open("UNIQUE").expect("the server goes on");
    assert_eq!(client.link.ask(2, Message::new().number(2, 1 << 40), &[]).expect("an answer").status, 2);
}
