//! Runs and the cache.

use std::time::Duration;

use fidelity_hailort_sys::Direction;

use crate::{
    INPUT_VALUES, configured, model, open,
    server::{Server, action},
    wire::{handle_id, number, repeated},
};

const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn inputs_go_verbatim_in_order_and_outputs_come_back() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__prefill");
    let sizes: Vec<_> = INPUT_VALUES.iter().zip([1, 2, 4, 4, 4, 4]).map(|(values, bytes)| values * bytes).collect();
    let mut sent = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let input = group.input_mut(index);
        assert_eq!((input.len(), input.as_ptr().addr() % 4096), (*size, 0));
        assert!(input.iter().all(|byte| *byte == 0));
        for (at, byte) in input.iter_mut().enumerate() {
            *byte = (at * 7 + index) as u8;
        }
        sent.extend_from_slice(input);
    }
    group.init_cache(0).expect("set");
    group.update_cache_offset(3).expect("moved");
    group.run(TIMEOUT).expect("it ran");
    for index in 0..2 {
        assert_eq!(group.output(index), vec![index as u8 + 1; 80]);
        assert_eq!(group.output(index).as_ptr().addr() % 4096, 0);
    }
    let request = server.only(action::RUN);
    assert!(request.follows == sent);
    assert_eq!((handle_id(&request.body, 1), handle_id(&request.body, 2)), (12, 11));
    let infos: Vec<_> = repeated(&request.body, 3).iter().map(|info| (number(info, 1), number(info, 2))).collect();
    let expected: Vec<_> = sizes.iter().chain(&[80, 80]).map(|size| (*size as u64, 1)).collect();
    assert_eq!(infos, expected);
    assert_eq!(group.queue_size(), Ok(2));
    assert!(!group.is_poisoned());
}

#[test]
fn cache_offsets_are_those_asked_for() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    group.init_cache(15).expect("set");
    group.update_cache_offset(1).expect("moved");
    group.update_cache_offset(-3).expect("moved");
    let requests = server.requests();
    let bodies: Vec<_> =
        requests[requests.len() - 3..].iter().map(|request| (request.action, &request.body[..])).collect();
    let back = [0x0A, 2, 8, 12, 0x10, 0xFD, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
    let expected: [(u32, &[u8]); 3] = [
        (action::INIT_CACHE, &[0x0A, 2, 8, 12, 0x10, 15]),
        (action::UPDATE_CACHE_OFFSET, &[0x0A, 2, 8, 12, 0x10, 1]),
        (action::UPDATE_CACHE_OFFSET, &back),
    ];
    assert_eq!(bodies, expected);
}

#[test]
fn two_groups_run_in_turn_on_one_device() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut prefill = configured(&mut device, "base_model__prefill");
    let mut tbt = configured(&mut device, "base_model__tbt");
    prefill.run(TIMEOUT).expect("it ran");
    tbt.run(TIMEOUT).expect("it ran");
    tbt.run(TIMEOUT).expect("it ran");
    let runs: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| request.action == action::RUN)
        .map(|request| (handle_id(&request.body, 1), request.follows.len()))
        .collect();
    // Handles are given in turn: model, group, model, group. Mask, embeddings, RoPE of one row.
    let row = 64 + 64 + 2 * 128 + 2 * 64;
    assert_eq!(runs, [(12, 4 * row), (14, row), (14, row)]);
}

#[test]
fn a_group_may_move_to_another_thread() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    let ran = std::thread::spawn(move || group.run(TIMEOUT).map(|()| group.output(1).to_vec()));
    assert_eq!(ran.join().expect("no panic"), Ok(vec![2; 80]));
}

#[test]
fn without_a_format_outputs_are_codes() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let mut model = model(&mut device, "base_model__tbt").expect("it is created");
    let mut group = model.configure().expect("it is configured");
    group.run(TIMEOUT).expect("it ran");
    assert_eq!(group.output(0), [1; 20]);
    assert_eq!(model.streams(Direction::Output).expect("described")[0].frame_size, 20);
}

#[test]
#[should_panic(expected = "stream 6 of 6")]
fn an_index_beyond_the_inputs_is_a_defect_of_the_caller() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    let _ = configured(&mut device, "base_model__tbt").input_mut(6);
}

#[test]
fn shutting_down_is_sent() {
    let server = Server::usual();
    let mut device = open(&server).expect("it opens");
    configured(&mut device, "base_model__tbt").shutdown().expect("it shuts down");
    assert_eq!(server.only(action::SHUTDOWN).body, [0x0A, 2, 8, 12]);
}
