//! Sending a HEF, describing and configuring its groups.

use std::path::Path;

use fidelity_hailort_sys::{Direction, FormatType, PowerMode, Status, Step, Stream};

use crate::{
    configured, hef, model, open,
    server::{Answer, Server, action},
    wire::{handle_id, number, repeated, text},
};

#[test]
fn streams_are_those_of_the_group_with_the_formats_of_the_device() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let prefill = model(&mut device, "base_model__prefill").expect("it is created");
    let inputs = prefill.streams(Direction::Input).expect("they are described");
    let facts = |stream: &Stream| (stream.name.clone(), stream.shape, stream.format_type, stream.frame_size);
    let name = |layer| format!("small_prefill/{layer}");
    let (byte, word) = (FormatType::Uint8, FormatType::Uint16);
    let expected = [
        (name("input_layer2"), [1, 4, 64], byte, 256),
        (name("input_layer1"), [1, 4, 32], word, 256),
        (name("input_layer3"), [1, 4, 32], byte, 128),
        (name("input_layer4"), [1, 4, 32], byte, 128),
        (name("input_layer5"), [1, 4, 16], byte, 64),
        (name("input_layer6"), [1, 4, 16], byte, 64),
    ];
    assert_eq!(inputs.iter().map(facts).collect::<Vec<_>>(), expected);
    let mask = &inputs[0];
    assert_eq!((mask.scale, mask.zero_point, mask.limits), (100.0 / 255.0, 255.0, [-100.0, 0.0]));
    assert_eq!(mask.format_order, 3);
    let outputs = prefill.streams(Direction::Output).expect("they are described");
    let expected = [(name("conv1"), [1, 1, 20], byte, 20), (name("conv2"), [1, 1, 20], byte, 20)];
    assert_eq!(outputs.iter().map(facts).collect::<Vec<_>>(), expected);
    let tbt = model(&mut device, "base_model__tbt").expect("it is created");
    assert_eq!(tbt.streams(Direction::Input).expect("they are described")[0].shape, [1, 1, 64]);
}

#[test]
fn the_whole_file_is_sent_by_path_and_from_memory() {
    let (_folder, path, bytes) = hef();
    for from_memory in [false, true] {
        let server = Server::usual();
        let mut device = open(&server).expect("it opens");
        let name = "base_model__tbt";
        let model = if from_memory { device.model_from_bytes(&bytes, name) } else { device.model(&path, name) };
        drop(model.expect("it is created"));
        let request = server.only(action::CREATE_MODEL);
        assert_eq!((handle_id(&request.body, 1), number(&request.body, 2)), (1, bytes.len() as u64));
        assert_eq!(text(&request.body, 3), name);
        assert!(request.follows == bytes);
        assert_eq!(handle_id(&server.only(action::MODEL_DESTROY).body, 1), 11);
    }
}

#[test]
fn a_group_that_is_not_in_the_file_is_61_after_it_was_sent() {
    for name in ["tbt", "base_model__tbt ", "small_tbt"] {
        let server = Server::usual();
        let mut device = open(&server).expect("it opens");
        let error = model(&mut device, name).err().expect("no such group");
        assert_eq!((error.status, error.step), (Status::new(61), Step::CreateModel));
        assert!(error.detail.contains(name), "{error}");
        assert!(!server.only(action::CREATE_MODEL).follows.is_empty());
    }
}

#[test]
fn a_file_that_is_missing_is_13_and_nothing_is_sent() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let error = device.model(Path::new("/no/such/file.hef"), "").err().expect("no such file");
    assert_eq!(error.status, Status::new(13));
    assert_eq!(error.detail, "cannot create a model from /no/such/file.hef");
    assert!(!server.actions().contains(&action::CREATE_MODEL));
}

#[test]
fn a_server_that_refuses_a_file_is_heard() {
    let server = Server::new(|request| match request.action {
        action::CREATE_MODEL => Answer::Status(93),
        _ => Answer::Usual,
    });
    let error =
        open(&server).and_then(|mut device| model(&mut device, "base_model__tbt")).err().expect("it is refused");
    assert_eq!((error.status, error.step), (Status::new(93), Step::CreateModel));
}

#[test]
fn configuring_sends_formats_and_flags() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut model = model(&mut device, "base_model__prefill").expect("it is created");
    for (direction, index) in [(Direction::Input, 2), (Direction::Input, 5), (Direction::Output, 1)] {
        model.set_format(direction, index, FormatType::Float32).expect("set");
    }
    model.set_kv_cache(true).expect("set");
    model.set_batch_size(1).expect("set");
    model.set_power_mode(PowerMode::UltraPerformance).expect("set");
    let sizes = |direction| -> Vec<usize> {
        model.streams(direction).expect("described").iter().map(|stream| stream.frame_size).collect()
    };
    assert_eq!(sizes(Direction::Input), [256, 256, 512, 128, 64, 256]);
    assert_eq!(sizes(Direction::Output), [20, 80]);
    drop(model.configure().expect("it is configured"));

    let body = server.only(action::CONFIGURE).body;
    assert!(body.len() <= 2048);
    assert_eq!((handle_id(&body, 1), handle_id(&body, 2)), (11, 1));
    let mut formats: Vec<_> = [3, 4]
        .iter()
        .flat_map(|field| repeated(&body, *field))
        .map(|stream| (text(stream, 1), number(stream, 2), number(stream, 3)))
        .collect();
    formats.sort();
    let expected: Vec<_> = [
        ("conv1", 1),
        ("conv2", 3),
        ("input_layer1", 2),
        ("input_layer2", 1),
        ("input_layer3", 3),
        ("input_layer4", 1),
        ("input_layer5", 1),
        ("input_layer6", 3),
    ]
    .map(|(layer, format)| (format!("small_prefill/{layer}"), 3, format))
    .into();
    assert_eq!(formats, expected);
    // What is not set about NMS: -1 as float and as number.
    let stream = repeated(&body, 3)[0];
    let unset = u64::from(u32::MAX);
    assert_eq!([4, 5].map(|field| number(stream, field)), [u64::from((-1.0_f32).to_bits()); 2]);
    assert_eq!([6, 7, 8].map(|field| number(stream, field)), [unset; 3]);
    // Batch, power mode, latency, cache.
    assert_eq!([5, 6, 7, 8].map(|field| number(&body, field)), [1, 1, 0, 1]);
}

#[test]
fn what_is_not_set_is_not_sent() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    drop(model(&mut device, "base_model__tbt").and_then(|mut model| model.configure()).expect("it is configured"));
    assert_eq!([5, 6, 7, 8].map(|field| number(&server.only(action::CONFIGURE).body, field)), [0; 4]);
}

#[test]
fn a_stream_that_is_not_there_is_refused() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut model = model(&mut device, "base_model__tbt").expect("it is created");
    let error = model.set_format(Direction::Output, 2, FormatType::Float32).expect_err("there are two");
    assert_eq!((error.status, error.step), (Status::INVALID_ARGUMENT, Step::Arguments));
}

#[test]
fn a_model_that_cannot_be_configured_says_why() {
    let server = Server::new(|request| match request.action {
        action::CONFIGURE => Answer::Status(71),
        _ => Answer::Usual,
    });
    let mut device = open(&server).expect("it opens");
    let error = model(&mut device, "base_model__tbt").and_then(|mut model| model.configure()).err().expect("refused");
    assert_eq!((error.status, error.step), (Status::new(71), Step::Configure));
}

#[test]
fn a_group_outlives_its_model_and_its_device() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    drop(device);
    group.init_cache(0).expect("the link is open");
    assert!(!server.actions().contains(&action::VDEVICE_DESTROY));
    drop(group);
    let end = [action::INIT_CACHE, action::GROUP_DESTROY, action::VDEVICE_DESTROY, action::DEVICE_DESTROY];
    assert!(server.actions().ends_with(&end), "{:?}", server.actions());
}
