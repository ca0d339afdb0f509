//! What goes wrong, and what is left afterwards.

use std::{
    env,
    process::Command,
    time::{Duration, Instant},
};

use fidelity_hailort_sys::{Device, Error, Status, Step};

use crate::{
    configured, open,
    server::{Answer, Request, Server, action},
};

const TIMEOUT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

/// Answers the first run so, everything else as usual.
fn first_run(answer: impl Fn() -> Answer + Send + 'static) -> Server {
    let mut runs = 0;
    Server::new(move |request: &Request| {
        runs += u32::from(request.action == action::RUN);
        if request.action == action::RUN && runs == 1 { answer() } else { Answer::Usual }
    })
}

fn status<T>(result: Result<T, Error>) -> (i32, Step) {
    let error = result.err().expect("it fails");
    (error.status.number(), error.step)
}

#[test]
fn a_failed_run_says_its_status_and_the_group_goes_on() {
    let server = first_run(|| Answer::Status(8));
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    assert_eq!(status(group.run(TIMEOUT)), (8, Step::Wait));
    assert!(!group.is_poisoned());
    group.run(TIMEOUT).expect("the second run");
    assert_eq!(group.output(0), [1; 80]);
}

#[test]
fn no_answer_poisons_the_group() {
    let server = first_run(|| Answer::Silence);
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    let before = Instant::now();
    let error = group.run(SHORT).expect_err("no answer");
    assert!(before.elapsed() >= SHORT && before.elapsed() < Duration::from_secs(5));
    assert_eq!((error.status, error.step), (Status::TIMEOUT, Step::Wait));
    assert!(error.detail.contains("within 200 ms"), "{error}");
    assert!(group.is_poisoned());
    for refused in [group.run(TIMEOUT), group.init_cache(0), group.update_cache_offset(1)] {
        assert_eq!(status(refused), (6, Step::Arguments));
    }
    // Their memory may be written at any time: nothing of it is handed out.
    assert!(group.input_mut(0).is_empty() && group.output(1).is_empty());
    assert_eq!(server.actions().iter().filter(|action| **action == action::RUN).count(), 1);
    // Leaked: no destroying of it is sent, and nothing hangs.
    drop(group);
    device.info().expect("the link still works");
    assert!(!server.actions().contains(&action::GROUP_DESTROY));
}

#[test]
#[expect(unsafe_code, reason = "looks at memory that no one may touch any more")]
fn a_late_answer_goes_into_buffers_that_are_still_there() {
    let server = first_run(|| Answer::Late(Duration::from_millis(600)));
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    let last = &raw const group.output(1)[79];
    assert_eq!(status(group.run(SHORT)), (4, Step::Wait));
    drop(group);
    // Answered after the late reply and its outputs were read: the link is in step.
    assert_eq!(device.info().expect("the link still works").architecture, 6);
    // SAFETY: the group was leaked, its pages are mapped as long as the process lives, and the link's thread has written them before it
    // read the answer above.
    assert_eq!(unsafe { last.read_volatile() }, 2);
}

#[test]
fn a_closed_link_is_62_and_so_is_everything_after_it() {
    let server = first_run(|| Answer::Close);
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    let before = Instant::now();
    assert_eq!(status(group.run(TIMEOUT)), (62, Step::Wait));
    assert!(!group.is_poisoned());
    assert_eq!(status(group.run(TIMEOUT)), (62, Step::Submit));
    assert_eq!(status(group.init_cache(0)), (62, Step::Cache));
    assert_eq!(status(group.update_cache_offset(1)), (62, Step::Cache));
    assert_eq!(status(device.info()), (62, Step::DeviceInfo));
    drop(group);
    drop(device);
    assert!(before.elapsed() < Duration::from_secs(5), "nothing waits for an answer that cannot come");
}

/// HailoRT forgets a job once its reply's header came: no one is told that the outputs did not.
#[test]
fn a_link_closed_between_reply_and_outputs_is_a_timeout() {
    let server = first_run(|| Answer::CloseBeforeOutputs);
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    assert_eq!(status(group.run(Duration::from_secs(1))), (4, Step::Wait));
    assert!(group.is_poisoned());
    assert_eq!(status(device.info()), (62, Step::DeviceInfo));
}

#[test]
fn a_reply_that_is_no_frame_closes_the_link() {
    let server = first_run(|| Answer::Garbage);
    let mut device = open(&server).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    assert_eq!(status(group.run(TIMEOUT)), (62, Step::Wait));
}

#[test]
fn a_status_of_a_cache_call_is_handed_on() {
    for number in [2, 4, 6, 97, 12345] {
        let server = Server::new(move |request| match request.action {
            action::INIT_CACHE => Answer::Status(number),
            _ => Answer::Usual,
        });
        let mut device = open(&server).expect("it opens");
        let mut group = configured(&mut device, "base_model__tbt");
        let error = group.init_cache(7).expect_err("it is refused");
        assert_eq!((error.status, error.step), (Status::new(number as i32), Step::Cache));
        assert_eq!(error.detail, "init_cache(7) failed");
        group.run(TIMEOUT).expect("it goes on");
    }
}

/// In a process of its own: HailoRT is told by its environment how long to wait.
#[test]
fn a_cache_call_without_an_answer_is_4_and_may_be_repeated() {
    let mut calls = 0;
    let server = Server::new(move |request| {
        calls += u32::from(request.action == action::INIT_CACHE);
        if request.action == action::INIT_CACHE && calls == 1 { Answer::Silence } else { Answer::Usual }
    });
    let child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "faults::repeating_a_cache_call", "--ignored"])
        .env("HAILO_REQUEST_TIMEOUT_SECONDS", "1")
        .env("SCRIPTED_ADDRESS", &server.address)
        .output()
        .expect("it starts");
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
    assert_eq!(server.actions().iter().filter(|action| **action == action::INIT_CACHE).count(), 2);
}

#[test]
#[ignore = "run by a_cache_call_without_an_answer_is_4_and_may_be_repeated"]
fn repeating_a_cache_call() {
    let Ok(address) = env::var("SCRIPTED_ADDRESS") else {
        return;
    };
    let options = fidelity_hailort_sys::OpenOptions { device_id: Some(address), group_id: None };
    let mut device = Device::open(&options).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    assert_eq!(status(group.init_cache(0)), (4, Step::Cache));
    assert!(!group.is_poisoned());
    group.init_cache(0).expect("the second time");
    group.run(TIMEOUT).expect("it runs");
}

/// What a worker does once a group is poisoned: no destructor, no handler, at once.
#[test]
fn a_process_ends_without_destructors() {
    let server = first_run(|| Answer::Silence);
    let before = Instant::now();
    let child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "faults::ending_the_process", "--ignored"])
        .env("SCRIPTED_ADDRESS", &server.address)
        .output()
        .expect("it starts");
    assert_eq!(child.status.code(), Some(75), "{}", String::from_utf8_lossy(&child.stdout));
    assert!(before.elapsed() < Duration::from_secs(5));
    let actions = server.wait_for(7);
    assert_eq!(actions.last(), Some(&action::RUN), "nothing is destroyed: {actions:?}");
}

#[test]
#[ignore = "run by a_process_ends_without_destructors"]
fn ending_the_process() {
    let Ok(address) = env::var("SCRIPTED_ADDRESS") else {
        return;
    };
    let options = fidelity_hailort_sys::OpenOptions { device_id: Some(address), group_id: None };
    let mut device = Device::open(&options).expect("it opens");
    let mut group = configured(&mut device, "base_model__tbt");
    assert_eq!(status(group.run(SHORT)), (4, Step::Wait));
    fidelity_hailort_sys::end_process(75);
}
