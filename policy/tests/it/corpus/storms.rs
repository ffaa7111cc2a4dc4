//! Storms: 600 messages each, which lead nowhere.

use a2a_protocol::Kind;
use serde_json::json;

use super::setup::{Habit, Says, Scribe, Traffic, uuid};

/// Messages of a storm.
const LENGTH: usize = 600;

pub const SHAPES: &[Traffic] = &[
    repeating("two agents, the same words, one conversation", |s| {
        ring(s, 2, Says::Same, Habit::One);
    }),
    repeating("two agents, the same words, a new conversation each message", |s| {
        ring(s, 2, Says::Same, Habit::EachMessage);
    }),
    repeating("two agents, nearly the same words, one conversation", |s| {
        ring(s, 2, Says::Nearly, Habit::One);
    }),
    repeating("two agents, nearly the same words, a new conversation each message", |s| {
        ring(s, 2, Says::Nearly, Habit::EachMessage);
    }),
    new("two agents, new words, one conversation", |s| ring(s, 2, Says::New, Habit::One)),
    new("two agents, new words, a new conversation each message", |s| {
        ring(s, 2, Says::New, Habit::EachMessage);
    }),
    new("two agents, new words, a new conversation every six", |s| {
        ring(s, 2, Says::New, Habit::EverySix);
    }),
    repeating("a ring of 3 to 10, nearly the same words, new conversations", |s| {
        any_ring(s, Says::Nearly, Habit::EachMessage);
    }),
    new("a ring of 3 to 10, new words, one conversation", |s| any_ring(s, Says::New, Habit::One)),
    new("a ring of 3 to 10, new words, a new conversation each message", |s| {
        any_ring(s, Says::New, Habit::EachMessage);
    }),
    repeating("one task that fails, asked again", |s| failing(s, false)),
    repeating("a task that fails, asked again as a new task", |s| failing(s, true)),
    new("two agents that ask each other for tasks and complete them", mutual_tasks),
    new("a review that is never satisfied", review),
    repeating("status updates about a task, the same words, unanswered", |s| {
        chatter(s, Says::Same);
    }),
    new("status updates about a task, new words, unanswered", |s| chatter(s, Says::New)),
    repeating("a task between blocked and in progress", flipping),
    repeating("broadcasts answered by broadcasts, nearly the same words", |s| {
        broadcasts(s, Says::Nearly);
    }),
    new("broadcasts answered by broadcasts, new words", |s| broadcasts(s, Says::New)),
    new("two agents, new words, while others complete tasks in the conversation", beside_work),
];

const fn repeating(name: &'static str, generate: fn(&mut Scribe)) -> Traffic {
    Traffic { name, repeats: true, generate }
}

const fn new(name: &'static str, generate: fn(&mut Scribe)) -> Traffic {
    Traffic { name, repeats: false, generate }
}

fn ring(scribe: &mut Scribe, agents: usize, says: Says, habit: Habit) {
    for i in 0..LENGTH {
        let (from, to) = (i % agents, (i + 1) % agents);
        let text = scribe.text(says, from, i);
        let conversation = scribe.conversation(habit, i);
        match i / agents % 3 {
            0 => scribe.chat(from, to, conversation, &text),
            _ => {
                let fields = json!({ "topic": "news", "discovery": text });
                scribe.say(Kind::KnowledgeShare, from, to, conversation, fields);
            }
        }
    }
}

fn any_ring(scribe: &mut Scribe, says: Says, habit: Habit) {
    let agents = scribe.dice.from(3, 10) as usize;
    ring(scribe, agents, says, habit);
}

fn failing(scribe: &mut Scribe, is_new_task: bool) {
    let mut task = scribe.fresh();
    for i in 0..LENGTH / 3 {
        if is_new_task {
            task = scribe.fresh();
        }
        let (ask, why) = (scribe.text(Says::Nearly, 0, i), scribe.text(Says::Nearly, 1, i));
        scribe.request(0, 1, 0, task, &ask);
        scribe.answer(1, 0, 0, task, ("accepted", &why));
        scribe.answer(1, 0, 0, task, ("failed", &why));
    }
}

fn mutual_tasks(scribe: &mut Scribe) {
    for i in 0..LENGTH / 2 {
        let (from, to, task) = (i % 2, (i + 1) % 2, scribe.fresh());
        let (ask, done) = (scribe.sentence(), scribe.sentence());
        scribe.request(from, to, 0, task, &ask);
        scribe.answer(to, from, 0, task, ("completed", &done));
    }
}

fn review(scribe: &mut Scribe) {
    let (task, ask) = (scribe.fresh(), scribe.sentence());
    scribe.request(2, 0, 0, task, &ask);
    scribe.answer(0, 2, 0, task, ("accepted", "yes"));
    let author = scribe.agents[0].clone();
    for _ in 0..LENGTH / 2 {
        let (title, concern) = (scribe.sentence(), scribe.sentence());
        let fields = json!({ "taskId": uuid(9, task), "title": title, "authorAgent": author });
        scribe.say(Kind::ReviewRequest, 0, 1, 0, fields);
        let concerns = json!([{ "file": "a.rs", "severity": "must_fix", "description": concern }]);
        let fields = json!({
            "taskId": uuid(9, task), "verdict": "changes_requested",
            "unresolvedConcerns": concerns, "nextAction": "send_back_to_worker", "nextTasks": null,
        });
        scribe.say(Kind::ReviewResponse, 1, 0, 0, fields);
    }
}

fn begun(scribe: &mut Scribe) -> u64 {
    let (task, ask) = (scribe.fresh(), scribe.sentence());
    scribe.request(0, 1, 0, task, &ask);
    scribe.answer(1, 0, 0, task, ("accepted", "yes"));
    task
}

fn chatter(scribe: &mut Scribe, says: Says) {
    let task = begun(scribe);
    for i in 0..LENGTH {
        let text = scribe.text(says, 1, i);
        scribe.report(1, 0, 0, task, ("in_progress", &text));
    }
}

fn flipping(scribe: &mut Scribe) {
    let task = begun(scribe);
    for i in 0..LENGTH {
        let status = ["blocked", "in_progress"][i % 2];
        let text = scribe.text(Says::Same, 1, i);
        scribe.report(1, 0, 0, task, (status, &text));
    }
}

fn broadcasts(scribe: &mut Scribe, says: Says) {
    let agents = scribe.dice.from(2, 8) as usize;
    for i in 0..LENGTH {
        let from = i % agents;
        let text = scribe.text(says, from, i);
        let conversation = scribe.conversation(Habit::EachMessage, i);
        let fields = json!({ "topic": "news", "message": text });
        scribe.call(Kind::Broadcast, from, conversation, fields, agents - 1);
    }
}

fn beside_work(scribe: &mut Scribe) {
    for i in 0..LENGTH {
        let text = scribe.sentence();
        scribe.chat(i % 2, (i + 1) % 2, 0, &text);
        if i % 10 == 9 {
            let task = scribe.fresh();
            scribe.request(2, 3, 0, task, &text);
            scribe.answer(3, 2, 0, task, ("completed", "done"));
        }
    }
}
