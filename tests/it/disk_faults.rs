//! When the disk refuses: nothing is accepted, nothing is lost, nothing hangs.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::time::Duration;

use a2a_actors::{AgentRuntime, BusSettings, Delivery, Handled, HandlerFuture, Submission};
use a2a_policy::Caller;
use a2a_protocol::{AgentId, AssignmentState, Body, Envelope, Kind, Outcome};

use crate::listener::SOON;
use crate::unreliable_journal::UnreliableBus;

fn message() -> Envelope {
    let mut message = Kind::TaskRequest.example_message();
    message.message_id = uuid::Uuid::now_v7().try_into().unwrap();
    let Body::TaskRequest(body) = &mut message.body else { panic!("{message:?}") };
    body.task_id = uuid::Uuid::now_v7().try_into().unwrap();
    message
}

fn tim() -> AgentId {
    "tim".parse().unwrap()
}

async fn send(bus: &UnreliableBus, message: &Envelope) -> Outcome {
    let submission = Submission::from_message(message.clone(), std::time::Instant::now());
    bus.system.send(Caller::Local, submission).await.outcome
}

/// Sends until the bus writes again; it answers `unavailable` for a moment after a refusal.
async fn send_until_accepted(bus: &UnreliableBus, message: &Envelope) -> Outcome {
    loop {
        match send(bus, message).await {
            Outcome::Unavailable => tokio::task::yield_now().await,
            outcome => return outcome,
        }
    }
}

#[tokio::test]
async fn a_message_that_was_not_written_was_not_accepted_and_can_be_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let bus = UnreliableBus::start(
        folder.path(),
        BusSettings { inbox_limit: 1, ..BusSettings::default() },
    );
    bus.system.pull(tim(), 1, Duration::ZERO).await.unwrap(); // tim joins
    let message = message();
    bus.fate.refuse.store(1, SeqCst);
    assert_eq!(send(&bus, &message).await, Outcome::Unavailable);
    // Its id is free again, and so is the only place in the inbox.
    assert_eq!(send_until_accepted(&bus, &message).await, Outcome::Queued);
    assert_eq!(send(&bus, &message).await, Outcome::Duplicate);
    let deliveries = bus.system.pull(tim(), 10, Duration::from_secs(10)).await.unwrap();
    assert_eq!(deliveries.len(), 1);
    bus.stop().await;
}

#[tokio::test]
async fn an_acknowledgement_is_kept_until_the_disk_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let bus = UnreliableBus::start(folder.path(), BusSettings::default());
    bus.system.pull(tim(), 1, Duration::ZERO).await.unwrap();
    let message = message();
    assert_eq!(send(&bus, &message).await, Outcome::Queued);
    bus.system.pull(tim(), 1, Duration::from_secs(10)).await.unwrap();
    bus.fate.refuse.store(2, SeqCst);
    // The answer comes when it is durable, however long that takes.
    bus.system.acknowledge(tim(), message.message_id).await.unwrap();
    assert_eq!(bus.fate.refuse.load(SeqCst), 0);
    bus.crash().await;

    let bus = UnreliableBus::start(folder.path(), BusSettings::default());
    assert!(bus.system.pull(tim(), 10, Duration::ZERO).await.unwrap().is_empty());
    bus.stop().await;
}

#[tokio::test]
async fn a_bus_that_cannot_write_stops_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let bus = UnreliableBus::start(folder.path(), BusSettings::default());
    bus.system.pull(tim(), 1, Duration::ZERO).await.unwrap();
    bus.fate.refuse.store(usize::MAX, SeqCst);
    assert_eq!(send(&bus, &message()).await, Outcome::Unavailable);
    bus.stop().await;
}

/// An agent that only computes, and reports each run.
struct Calculator(Sender<()>);

impl AgentRuntime for Calculator {
    fn handle(&self, _: Delivery) -> HandlerFuture {
        let _ = self.0.send(());
        Box::pin(async { Ok(Handled::default()) })
    }

    fn max_in_flight(&self) -> usize {
        16
    }

    fn runs_on_bus_thread(&self) -> bool {
        true
    }

    fn takes_uncommitted(&self) -> bool {
        true
    }
}

/// Every line of the log.
fn lines(folder: &std::path::Path) -> Vec<serde_json::Value> {
    let days = std::fs::read_dir(folder.join("a2a-log")).unwrap().map(|day| day.unwrap().path());
    let text: Vec<String> = days.map(|day| std::fs::read_to_string(day).unwrap()).collect();
    text.iter().flat_map(|day| day.lines()).map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[tokio::test]
async fn what_was_worked_out_while_the_disk_refused_never_was() {
    let folder = tempfile::tempdir().unwrap();
    let settings = BusSettings { inbox_limit: 1, ..BusSettings::default() };
    let bus = UnreliableBus::start(folder.path(), settings);
    let (done, has_done) = channel();
    bus.system.attach(tim(), Arc::new(Calculator(done))).await.unwrap();
    assert!(send(&bus, &message()).await.is_accepted());
    // It is there, and has nothing in hand any more.
    while bus.system.stats().acknowledged() == 0 {
        tokio::task::yield_now().await;
    }
    has_done.try_recv().unwrap();
    let message = message();
    // The agent has handled it before its record is written, and then the disk refuses.
    *bus.fate.refuse_after.lock().unwrap() = Some((message.message_id, has_done));
    assert_eq!(send(&bus, &message).await, Outcome::Unavailable);
    // Its id and the only place in the inbox are free again.
    assert_eq!(send_until_accepted(&bus, &message).await, Outcome::Delivered);
    bus.stop().await;
    let lines = lines(folder.path());
    let of = |what: &str, word: &str, number: &str| -> Vec<_> {
        lines.iter().filter(|line| line[what] == word).map(|line| line[number].clone()).collect()
    };
    let records = of("outcome", "delivered", "seq");
    assert_eq!(records.len(), 2);
    assert_eq!(of("event", "acknowledged", "of"), records, "of no message that never was");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_commit_hangs_nothing_gets_a_receipt() {
    let folder = tempfile::tempdir().unwrap();
    let bus = UnreliableBus::start(folder.path(), BusSettings::default());
    bus.system.pull(tim(), 1, Duration::ZERO).await.unwrap(); // tim joins
    let (first, second) = (message(), message());
    let (waits, begun) = sync_channel(1);
    let (sign, resume) = channel();
    *bus.fate.hold_up.lock().unwrap() = Some((first.message_id, waits, resume));
    let mut both = Box::pin(async { tokio::join!(send(&bus, &first), send(&bus, &second)) });
    let hangs = async { tokio::task::block_in_place(|| begun.recv_timeout(SOON)).unwrap() };
    let Body::TaskRequest(body) = &second.body else { panic!("{second:?}") };
    // The bus answers all the while, and gives no receipt.
    let looks = async {
        hangs.await;
        while bus.system.task(body.task_id).await.is_none() {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            bus.system.task(body.task_id).await;
        }
    };
    tokio::select! {
        biased;
        receipts = &mut both => panic!("{receipts:?}"),
        () = looks => {}
    }
    sign.send(()).unwrap();
    assert_eq!(both.await, (Outcome::Queued, Outcome::Queued));
    bus.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_cancelled_before_its_commit_is_never_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let limit_of_one = BusSettings { inbox_limit: 1, ..BusSettings::default() };
    let bus = UnreliableBus::start(folder.path(), limit_of_one.clone());
    bus.system.pull(tim(), 1, Duration::ZERO).await.unwrap(); // tim joins
    let request = message();
    let Body::TaskRequest(body) = &request.body else { panic!("{request:?}") };
    let task = body.task_id;
    let (waits, begun) = sync_channel(1);
    let (sign, resume) = channel();
    *bus.fate.hold_up.lock().unwrap() = Some((request.message_id, waits, resume));
    let sent = send(&bus, &request);
    let called_off = async {
        tokio::task::block_in_place(|| begun.recv_timeout(SOON)).unwrap();
        let durable = bus.system.cancel_task(task, None, "no longer needed".into());
        // It is decided when a look at the ledger shows it; then the disk may continue.
        let decided = async {
            while bus
                .system
                .task(task)
                .await
                .is_none_or(|it| it.state != AssignmentState::Cancelled)
            {
                tokio::task::yield_now().await;
            }
            sign.send(()).unwrap();
        };
        let (durable, ()) = tokio::join!(durable, decided);
        durable.unwrap();
    };
    let (outcome, ()) = tokio::join!(sent, called_off);
    assert_eq!(outcome, Outcome::Queued);
    // The only place in the inbox is free, and nothing comes before what is sent now.
    let next = message();
    assert_eq!(send(&bus, &next).await, Outcome::Queued);
    let received = bus.system.pull(tim(), 10, Duration::from_secs(10)).await.unwrap();
    let received: Vec<_> = received.iter().map(|delivery| delivery.message.message_id).collect();
    assert_eq!(received, [next.message_id]);
    bus.stop().await;
    // Nor after a restart.
    let bus = UnreliableBus::start(folder.path(), limit_of_one);
    let received = bus.system.pull(tim(), 10, Duration::from_secs(10)).await.unwrap();
    let received: Vec<_> = received.iter().map(|delivery| delivery.message.message_id).collect();
    assert_eq!(received, [next.message_id]);
    bus.stop().await;
}
