//! `/readyz` is true: 200 when a message sent now would be accepted, 503 otherwise.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use a2a_actors::tasks::{SendOutcome, TaskSettings, TaskSystem};
use a2a_actors::{BusSettings, BusSystem, Submission};
use a2a_gateway::a2a::{A2a, A2aSettings};
use a2a_gateway::auth::tokens::{TokenFile, TokenRegistry, Tokens};
use a2a_gateway::{AppState, HttpSettings, LogSettings, Redaction, SessionRegistry};
use a2a_journal::{Disk, Journal, LogFile, Options, RealDisk};
use a2a_policy::Caller;
use a2a_protocol::fault::Fault;
use a2a_protocol::{Body, Kind, Outcome};
use a2a_taskdb::TaskDb;
use a2a_webhooks::{WebhookSettings, Webhooks};
use actix_web::App;
use actix_web::middleware::from_fn;
use actix_web::test::{TestRequest, call_service, init_service, read_body_json};
use serde_json::{Value, json};

use crate::a2a_side::{Refusing, acme, text};
use crate::listener::SOON;

/// A disk that fails, hangs or panics on request.
#[derive(Clone, Default)]
struct TestDisk(Arc<State>);

#[derive(Default)]
struct State {
    /// The next sync of a file fails.
    fails_once: AtomicBool,
    /// Every write finds the disk full.
    full: AtomicBool,
    /// How many writes did.
    refused: AtomicUsize,
    /// The next write panics.
    panics: AtomicBool,
    /// Syncs wait as long as this holds.
    hangs: Mutex<bool>,
    released: Condvar,
}

impl State {
    fn hang(&self) {
        *self.hangs.lock().unwrap() = true;
    }

    fn release(&self) {
        *self.hangs.lock().unwrap() = false;
        self.released.notify_all();
    }
}

struct TestFile(Box<dyn LogFile>, Arc<State>);

impl Disk for TestDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(TestFile(RealDisk.open(path)?, Arc::clone(&self.0))))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

impl LogFile for TestFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        assert!(!self.1.panics.swap(false, SeqCst), "told to panic");
        if self.1.full.load(SeqCst) {
            self.1.refused.fetch_add(1, SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let held = self.1.hangs.lock().unwrap();
        drop(self.1.released.wait_while(held, |hangs| *hangs).unwrap());
        if self.1.fails_once.swap(false, SeqCst) {
            return Err(io::Error::other("told to fail"));
        }
        self.0.sync()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
}

/// A server's inside on such a disk, with its edge.
struct Rig {
    _folder: tempfile::TempDir,
    disk: TestDisk,
    system: BusSystem,
    tasks: TaskSystem,
    edge: AppState,
    tasks_refuse: Arc<AtomicBool>,
}

async fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::default();
    let options = Options { disk: Arc::new(disk.clone()), ..Options::new(folder.path()) };
    let (journal, recovered) = Journal::open(&options).unwrap();
    // So that the test of a disk that hangs takes no longer than it must.
    let stalled_after = Duration::from_millis(20);
    let settings = BusSettings { stalled_after, ..BusSettings::default() };
    let (system, _thread) = BusSystem::start(settings, Box::new(journal), recovered).unwrap();
    system.pull("tim".parse().unwrap(), 1, Duration::ZERO).await.unwrap(); // tim joins
    let tasks_refuse = Arc::new(AtomicBool::new(false));
    let store = Refusing(TaskDb::open_in_memory().unwrap(), Arc::clone(&tasks_refuse));
    let settings = TaskSettings::default();
    let (tasks, _work) = TaskSystem::start(settings, system.clone(), Box::new(store)).unwrap();
    let webhooks = Arc::new(Webhooks::new(WebhookSettings::default()).unwrap());
    let settings = A2aSettings::new("host".parse().unwrap());
    let a2a = A2a::new(system.clone(), tasks.clone(), webhooks, settings);
    let file = TokenFile::below(folder.path());
    let keys = Arc::new(TokenRegistry::open(Tokens::default(), Vec::new(), file).unwrap());
    let log = LogSettings::new(Redaction::default(), Duration::from_secs(30));
    let lobby = Arc::new(SessionRegistry::new(Default::default()));
    let address = "127.0.0.1:7420".parse().unwrap();
    let edge =
        AppState::new(a2a, keys, log, HttpSettings::default(), lobby, false, address).unwrap();
    edge.http_metrics().set_ready();
    Rig { _folder: folder, disk, system, tasks, edge, tasks_refuse }
}

impl Rig {
    fn send(&self) -> impl Future<Output = Outcome> + use<> {
        let mut message = Kind::TaskRequest.example_message();
        message.message_id = uuid::Uuid::now_v7().try_into().unwrap();
        let Body::TaskRequest(body) = &mut message.body else { panic!("{message:?}") };
        body.task_id = uuid::Uuid::now_v7().try_into().unwrap();
        let submission = Submission::from_message(message, Instant::now());
        let system = self.system.clone();
        async move { system.send(Caller::Local, submission).await.outcome }
    }

    /// Asks an agent for something; its caller does not wait for the end.
    async fn a_task(&self) -> Result<SendOutcome, Fault> {
        let mut message = text("hello");
        message.return_immediately = true;
        self.tasks.send(&acme(), &"tim".parse().unwrap(), message).await
    }

    async fn asked(&self, path: &str) -> (u16, Value) {
        let edge = self.edge.clone();
        let app = App::new()
            .wrap(from_fn(a2a_gateway::guard))
            .wrap(from_fn(a2a_gateway::observe))
            .configure(|config| a2a_gateway::routes(config, edge));
        let app = init_service(app).await;
        let request = TestRequest::get().uri(path).insert_header(("host", "127.0.0.1:7420"));
        let answer = call_service(&app, request.to_request()).await;
        let status = answer.status().as_u16();
        (status, read_body_json(answer).await)
    }

    async fn ready(&self) -> (u16, Value) {
        self.asked("/readyz").await
    }

    /// Polls until `part` is reported like this; every answer before must be `status`.
    async fn until(&self, part: &str, word: &str, before: u16) -> (u16, Value) {
        let asks = async {
            loop {
                let (status, body) = self.ready().await;
                if body["parts"][part] == word {
                    return (status, body);
                }
                assert_eq!(status, before, "{body}");
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, asks).await.expect("in time")
    }

    async fn end(self) {
        self.system.stop(Duration::ZERO).await;
    }
}

/// The parts that are the reason, each with a sentence.
fn reasons(body: &Value) -> Vec<&str> {
    let reasons = body["reasons"].as_array().unwrap();
    assert!(reasons.iter().all(|reason| !reason["detail"].as_str().unwrap().is_empty()), "{body}");
    assert_eq!(body["detail"], reasons[0]["detail"], "{body}");
    reasons.iter().map(|reason| reason["part"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn after_a_failed_fsync_it_is_never_ready_again() {
    let rig = rig().await;
    assert!(rig.send().await.is_accepted());
    assert_eq!(rig.ready().await.0, 200);
    rig.disk.0.fails_once.store(true, SeqCst);
    assert_eq!(rig.send().await, Outcome::Unavailable);
    // The disk syncs again, but what it holds is not known.
    let (status, body) = rig.until("journal", "broken", 503).await;
    assert_eq!((status, reasons(&body)), (503, vec!["journal", "bus"]));
    assert!(body["detail"].as_str().unwrap().contains("Start the program anew"), "{body}");
    assert_eq!(rig.send().await, Outcome::Unavailable);
    rig.end().await;
}

#[actix_web::test]
async fn full_disk_is_not_ready_until_a_write_succeeds_without_senders() {
    let rig = rig().await;
    assert!(rig.send().await.is_accepted());
    rig.disk.0.full.store(true, SeqCst);
    assert_eq!(rig.send().await, Outcome::Unavailable);
    // It is tried again without any message, and stays as it is as long as that fails.
    let tries = rig.disk.0.refused.load(SeqCst) + 3;
    while rig.disk.0.refused.load(SeqCst) < tries {
        let (status, body) = rig.ready().await;
        assert_eq!((status, &body["parts"]["journal"]), (503, &json!("refusing")), "{body}");
        tokio::task::yield_now().await;
    }
    rig.disk.0.full.store(false, SeqCst);
    let (status, _) = rig.until("journal", "writing", 503).await;
    assert_eq!(status, 200);
    assert!(rig.send().await.is_accepted(), "ready means that");
    rig.end().await;
}

#[actix_web::test]
async fn a_write_that_hangs_is_not_ready_until_it_ends() {
    let rig = rig().await;
    assert!(rig.send().await.is_accepted());
    rig.disk.0.hang();
    let sent = actix_web::rt::spawn(rig.send());
    let (status, body) = rig.until("journal", "stalled", 200).await;
    assert_eq!((status, reasons(&body)), (503, vec!["journal"]));
    assert_eq!(rig.asked("/healthz").await.0, 200);
    rig.disk.0.release();
    assert!(sent.await.unwrap().is_accepted());
    assert_eq!(rig.until("journal", "writing", 503).await.0, 200);
    rig.end().await;
}

#[actix_web::test]
async fn a_task_store_that_refused_is_ready_again_without_a_task() {
    let rig = rig().await;
    rig.tasks_refuse.store(true, SeqCst);
    assert_eq!(rig.ready().await.0, 200);
    rig.a_task().await.unwrap_err();
    let (status, body) = rig.ready().await;
    assert_eq!((status, reasons(&body)), (503, vec!["task_store"]));
    rig.tasks_refuse.store(false, SeqCst);
    assert_eq!(rig.until("task_store", "writing", 503).await.0, 200);
    rig.end().await;
}

#[actix_web::test]
async fn a_part_that_ended_is_named_and_can_be_waited_for() {
    let rig = rig().await;
    assert!(rig.send().await.is_accepted());
    assert!(rig.system.liveness().ended().is_empty());
    rig.disk.0.panics.store(true, SeqCst);
    let sent = actix_web::rt::spawn(rig.send());
    let ended = tokio::time::timeout(SOON, rig.system.liveness().first_end()).await.unwrap();
    assert_eq!((ended.part, ended.panicked), ("journal", true));
    let (status, body) = rig.ready().await;
    assert_eq!((status, &body["parts"]["journal"]), (503, &json!("ended")), "{body}");
    assert_eq!(reasons(&body)[0], "journal");
    sent.abort();
}

#[actix_web::test]
async fn what_ends_because_the_server_stops_is_no_fault() {
    let rig = rig().await;
    assert!(rig.send().await.is_accepted());
    let liveness = rig.system.liveness().clone();
    rig.end().await;
    assert_eq!(liveness.ended(), []);
}
