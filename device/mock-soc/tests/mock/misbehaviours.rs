//! Each switch has the effect that it says.

use std::{
    io,
    net::SocketAddrV4,
    time::{Duration, Instant},
};

use fidelity_mock_soc::{Action, Conduct, Event, HefOptions, Misbehaviour, MockSoc, Step};

use crate::support::{Client, Host, Link, Pace, distance, hef, ids, start};

fn with(at: Step, conduct: Conduct) -> MockSoc {
    start(|options| options.misbehaviours = vec![Misbehaviour { at, conduct }])
}

fn host(mock: &MockSoc) -> Host {
    Host::open(mock.address(), &hef(&HefOptions::precise(4, 16))).expect("it opens")
}

fn run(number: u32) -> Step {
    Step::nth(Action::Run, number)
}

/// The body and inputs of a run of tbt, sent without waiting for the answer.
fn send_run(host: &mut Host) {
    host.note(&[1]);
    let [_, Some((described, tbt))] = host.groups() else { panic!("tbt") };
    host.client.update_offset(tbt, 1).expect("done");
    let inputs = host.inputs(&described);
    let sizes: Vec<_> = inputs.iter().map(Vec::len).chain([512; 4]).collect();
    let buffers: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
    host.client.link.send(18, &Client::run_body(tbt, &sizes).into_bytes(), &buffers).expect("sent");
}

fn no_answer(link: &mut Link) {
    link.patience(Duration::from_millis(250));
    let error = link.answer().expect_err("no answer comes");
    assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
}

#[test]
fn a_hung_run_does_nothing_and_other_requests_are_served() {
    let mock = with(run(1), Conduct::Hang);
    let mut host = host(&mock);
    send_run(&mut host);
    no_answer(&mut host.client.link);
    assert_eq!(mock.runs(), 0);
    let [Some((_, group)), _] = host.groups() else { panic!("prefill") };
    host.client.init_cache(group, 0).expect("served");
    let hung = Event::Misbehaved { action: "run", number: 1, conduct: "Hang".into() };
    assert!(mock.events().contains(&hung));
}

#[test]
fn an_unanswered_request_was_carried_out() {
    let mock = with(Step::nth(Action::UpdateOffset, 1), Conduct::Unanswered);
    let mut host = host(&mock);
    let [Some((_, group)), _] = host.groups() else { panic!("prefill") };
    host.client.link.patience(Duration::from_millis(250));
    host.client.link.send(13, &[0x0A, 2, 8, group.group as u8, 0x10, 5], &[]).expect("sent");
    no_answer(&mut host.client.link);
    assert_eq!(mock.last_offset(), Some(5));
}

#[test]
fn a_status_at_a_step_and_none_before_or_after() {
    let mock = with(run(2), Conduct::Status(8));
    let mut host = host(&mock);
    let first = host.feed(&[1, 2], Pace::Prefill).expect("the first runs");
    assert_eq!(host.feed(&[3], Pace::Tbt).err(), Some(8));
    host.begin().expect("the group is still good");
    let again = host.feed(&[1, 2], Pace::Prefill).expect("the third runs");
    assert!(distance(&first[0], &again[0]) < 1e-6);
    assert_eq!(mock.runs(), 2);
}

#[test]
fn a_status_at_each_step_of_opening() {
    for (action, status) in
        [(Action::OpenDevice, 74), (Action::CreateModel, 3), (Action::Configure, 71), (Action::InitCache, 4)]
    {
        let mock = with(Step::each(action), Conduct::Status(status));
        let opened = Host::open(mock.address(), &hef(&HefOptions::precise(4, 16)));
        assert_eq!(opened.err(), Some(status), "{action:?}");
    }
}

#[test]
fn a_late_answer_comes_whole_and_others_before_it() {
    let mock = with(run(1), Conduct::Late(Duration::from_millis(1500)));
    let mut host = host(&mock);
    let began = Instant::now();
    send_run(&mut host);
    let number = {
        let identity = [0x0A, 2, 8, 1];
        host.client.link.send(22, &identity, &[]).expect("sent");
        host.client.link.answer().expect("the second is answered first")
    };
    assert_eq!((number.action, number.status), (22, 0));
    assert!(began.elapsed() < Duration::from_millis(1200));
    let late = host.client.link.answer().expect("it comes");
    assert_eq!((late.action, late.status), (18, 0));
    assert!(began.elapsed() >= Duration::from_millis(1500));
    let logits = host.client.link.buffer(4 * 512).expect("all four outputs");
    assert!(logits.iter().any(|byte| *byte != 0));
}

#[test]
fn answers_wait_and_an_instant_one_does_not() {
    let instant = Misbehaviour { at: Step::nth(Action::Identify, 2), conduct: Conduct::Instant };
    let mock = start(|options| {
        options.delay = Duration::from_millis(600);
        options.misbehaviours = vec![instant];
    });
    let mut client = Client::connect(mock.address());
    let mut timed = || {
        let began = Instant::now();
        client.of_handle(22, 1).expect("an identity");
        began.elapsed()
    };
    assert!(timed() >= Duration::from_millis(600));
    assert!(timed() < Duration::from_millis(500));
    assert!(timed() >= Duration::from_millis(600));
}

#[test]
fn busy_is_73_each_time() {
    let mock = start(|options| options.misbehaviours = vec![Misbehaviour::BUSY]);
    for _ in 0..2 {
        assert_eq!(Client::connect(mock.address()).open("UNIQUE"), Err(73));
    }
}

#[test]
fn a_closed_link_is_this_clients_alone() {
    let mock = with(run(1), Conduct::CloseLink);
    let mut other = Client::connect(mock.address());
    let mut host = host(&mock);
    send_run(&mut host);
    let error = host.client.link.answer().expect_err("it is closed");
    assert!(matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset), "{error}");
    other.open("UNIQUE").expect("the device is free, the server goes on");
}

/// Whether somebody listens, tried for a while.
fn listens(address: SocketAddrV4, span: Duration) -> bool {
    let until = Instant::now() + span;
    while Instant::now() < until {
        if let Ok(mut link) = Link::open(address)
            && link.send(22, &[], &[]).and_then(|()| link.answer()).is_ok()
        {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_crash_closes_all_links_and_forgets_everything() {
    let back = Duration::from_millis(300);
    let mock = with(run(2), Conduct::Crash { back_after: Some(back) });
    let mut other = Client::connect(mock.address());
    let mut first = host(&mock);
    let ids = ids(6);
    let before = first.feed(&ids[..2], Pace::Prefill).expect("the first runs");
    let began = Instant::now();
    send_run(&mut first);
    assert!(first.client.link.answer().is_err());
    assert!(other.link.answer().is_err());
    assert!(listens(mock.address(), Duration::from_secs(5)));
    assert!(began.elapsed() >= back, "{:?}", began.elapsed());
    // In a new process, from the beginning of the prompt: the count of runs goes on, so that it does not crash again.
    let mut second = host(&mock);
    let after = second.feed(&ids[..2], Pace::Prefill).expect("it runs");
    assert!(distance(&before[0], &after[0]) < 1e-6);
}

#[test]
fn a_crash_for_good_leaves_nobody_listening() {
    let mock = with(run(1), Conduct::Crash { back_after: None });
    let mut host = host(&mock);
    send_run(&mut host);
    assert!(host.client.link.answer().is_err());
    std::thread::sleep(Duration::from_millis(50));
    assert!(!listens(mock.address(), Duration::from_millis(200)));
}
