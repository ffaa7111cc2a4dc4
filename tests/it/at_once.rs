//! A runtime that works its answers out on the spot.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use a2a_actors::{AgentRuntime, Handled, HandlerFuture, Submission};
use a2a_protocol::body::{Action, TaskResponse};
use a2a_protocol::{AgentId, Body, TaskId};
use openclaw_a2a::{Agent, Bus, BusSettings, Delivery, RetryPolicy};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::listener::{SOON, listener, next};

/// What is made of one message.
enum Made {
    /// An answer to its task.
    Answer,
    /// An answer to a task that does not exist.
    AnswerToNothing,
    /// Nothing on the spot.
    Nothing,
    Panic,
}

/// Makes the next message out of each one, and counts those that reached its handler.
struct Quick {
    me: Agent,
    next: Mutex<VecDeque<Made>>,
    handled: UnboundedSender<u32>,
}

impl Quick {
    fn answer(&self, delivery: &Delivery, task: TaskId) -> Submission {
        let (reason, result) = (None, None);
        let done = TaskResponse { task_id: task, action: Action::Completed, reason, result };
        Submission::from_message(self.me.reply(delivery, done), Instant::now())
    }
}

impl AgentRuntime for Quick {
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        self.handled.send(delivery.attempt).unwrap();
        Box::pin(async { Ok(Handled::default()) })
    }

    fn answer_inline(&self, delivery: &Delivery) -> Option<Submission> {
        let Body::TaskRequest(asked) = &delivery.message.body else { return None };
        let next = self.next.lock().unwrap().pop_front();
        match next.unwrap() {
            Made::Answer => Some(self.answer(delivery, asked.task_id)),
            Made::AnswerToNothing => {
                Some(self.answer(delivery, uuid::Uuid::now_v7().try_into().unwrap()))
            }
            Made::Nothing => None,
            Made::Panic => panic!("the agent's own fault"),
        }
    }

    fn max_in_flight(&self) -> usize {
        4
    }
}

struct Team {
    bus: Bus,
    roman: Agent,
    tim: AgentId,
    /// What comes for `roman`.
    inbox: UnboundedReceiver<Delivery>,
    /// The attempts that came to the handler of `tim`.
    handled: UnboundedReceiver<u32>,
}

impl Team {
    async fn start(next: impl IntoIterator<Item = Made>) -> Self {
        let pause = Duration::from_millis(1);
        let retry = RetryPolicy { attempts: 3, initial_backoff: pause, max_backoff: pause };
        let settings = BusSettings { retry, ..BusSettings::default() };
        let bus = Bus::builder().in_memory().settings(settings).start().unwrap();
        let (roman, inbox) = listener(&bus, "roman").await;
        let (me, tim) = (bus.connect("tim").await.unwrap(), "tim".parse().unwrap());
        me.clone().detach();
        let (out, handled) = unbounded_channel();
        let next = Mutex::new(next.into_iter().collect());
        let quick = Arc::new(Quick { me, next, handled: out });
        bus.system().attach(AgentId::clone(&tim), quick).await.unwrap();
        Self { bus, roman, tim, inbox, handled }
    }

    /// Asks for a task; the number of the record.
    async fn ask(&self) -> u64 {
        let asks = self.roman.compose(Some(&self.tim), crate::new_task());
        self.roman.send(asks).await.seq.unwrap()
    }

    /// What became of a message, when nothing more can come of it.
    async fn events(&self, seq: u64) -> Vec<String> {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            let record = self.bus.system().reader().get(seq).unwrap().unwrap();
            let lines = record.deliveries.iter().map(|line| line.get());
            let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
            let words: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
            if words.last() == Some(&"acknowledged") {
                return words.into_iter().map(str::to_owned).collect();
            }
            tokio::task::yield_now().await;
        }
        panic!("record {seq} was not acknowledged in time")
    }
}

#[tokio::test]
async fn a_message_that_is_answered_on_the_spot_is_acknowledged_and_comes_to_no_handler() {
    let mut team = Team::start([Made::Answer]).await;
    let seq = team.ask().await;
    let answer = next(&mut team.inbox).await;
    assert_eq!(answer.sender, team.tim);
    assert!(
        matches!(&answer.message.body, Body::TaskResponse(done) if done.action == Action::Completed)
    );
    assert_eq!(team.events(seq).await, ["acknowledged"]);
    assert!(team.handled.try_recv().is_err());
    team.bus.stop().await;
}

#[tokio::test]
async fn what_has_no_answer_on_the_spot_is_for_the_handler() {
    let mut team = Team::start([Made::Nothing]).await;
    let seq = team.ask().await;
    assert_eq!(next(&mut team.handled).await, 1);
    assert_eq!(team.events(seq).await, ["acknowledged"]);
    team.bus.stop().await;
}

#[tokio::test]
async fn a_message_whose_answer_the_bus_does_not_take_is_for_the_handler_in_the_same_attempt() {
    let mut team = Team::start([Made::AnswerToNothing, Made::Answer]).await;
    let seq = team.ask().await;
    // Were it asked once more for an answer, it would give one.
    assert_eq!(next(&mut team.handled).await, 1);
    assert_eq!(team.events(seq).await, ["acknowledged"]);
    assert!(team.inbox.try_recv().is_err());
    team.bus.stop().await;
}

#[tokio::test]
async fn a_panic_on_the_spot_is_a_failed_attempt() {
    let mut team = Team::start([Made::Panic, Made::Answer]).await;
    let seq = team.ask().await;
    next(&mut team.inbox).await;
    let events = team.events(seq).await;
    assert_eq!(events, ["attempt_failed", "delivered", "acknowledged"]);
    assert!(team.handled.try_recv().is_err());
    team.bus.stop().await;
}
