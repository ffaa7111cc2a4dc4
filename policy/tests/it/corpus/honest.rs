//! Honest conversations, as long as real transcripts.

use std::time::Duration;

use a2a_protocol::Kind;
use serde_json::json;

use super::setup::{Habit, Scribe, Traffic, uuid};

pub const SHAPES: &[Traffic] = &[
    honest("two agents, 60 turns", |s| turns(s, 2, 60, Habit::One)),
    honest("two agents, 60 turns, a new conversation every six", |s| {
        turns(s, 2, 60, Habit::EverySix);
    }),
    honest("five agents, 90 turns", |s| turns(s, 5, 90, Habit::One)),
    honest("questions and answers about a task in work", questions),
    honest("a review of eight rounds", review),
    honest("eight hours of minutely status reports", reports),
    honest("an objective of 500 tasks for ten agents", objective),
    honest("knowledge shared, with follow-up questions", knowledge),
    honest("a task handed over along 20 agents", hand_over),
    honest("a broadcast answered by 50 agents", survey),
    honest("a task that fails twice and then succeeds", second_try),
];

const fn honest(name: &'static str, generate: fn(&mut Scribe)) -> Traffic {
    Traffic { name, repeats: false, generate }
}

/// Each turn answers the one before, by another agent.
fn turns(scribe: &mut Scribe, agents: usize, count: usize, habit: Habit) {
    let mut from = 0;
    for i in 0..count {
        let to = (from + 1 + scribe.dice.from(0, agents as u64 - 2) as usize) % agents;
        let (text, conversation) = (scribe.sentence(), scribe.conversation(habit, i));
        scribe.chat(from, to, conversation, &text);
        from = to;
    }
}

fn questions(scribe: &mut Scribe) {
    let (task, ask) = (scribe.fresh(), scribe.sentence());
    scribe.request(0, 1, 0, task, &ask);
    scribe.answer(1, 0, 0, task, ("accepted", "yes"));
    for _ in 0..scribe.dice.from(4, 20) {
        let (question, reply) = (scribe.sentence(), scribe.sentence());
        scribe.report(1, 0, 0, task, ("in_progress", &question));
        scribe.chat(0, 1, 0, &reply);
    }
    let done = scribe.sentence();
    scribe.answer(1, 0, 0, task, ("completed", &done));
}

fn review(scribe: &mut Scribe) {
    let (task, ask) = (scribe.fresh(), scribe.sentence());
    scribe.request(2, 0, 0, task, &ask);
    scribe.answer(0, 2, 0, task, ("accepted", "yes"));
    let (author, title) = (scribe.agents[0].clone(), scribe.sentence());
    for round in 0..8 {
        let fields = json!({ "taskId": uuid(9, task), "title": title, "authorAgent": author });
        scribe.say(Kind::ReviewRequest, 0, 1, 0, fields);
        let concern = scribe.sentence();
        let concerns = json!([{ "file": "a.rs", "severity": "must_fix", "description": concern }]);
        let (verdict, next) = match round {
            7 => ("approved", "push_and_close"),
            _ => ("changes_requested", "send_back_to_worker"),
        };
        let concerns = if round == 7 { json!(null) } else { concerns };
        let fields = json!({
            "taskId": uuid(9, task), "verdict": verdict, "unresolvedConcerns": concerns,
            "nextAction": next, "nextTasks": null,
        });
        scribe.say(Kind::ReviewResponse, 1, 0, 0, fields);
        let text = scribe.sentence();
        scribe.report(0, 2, 0, task, ("in_progress", &text));
    }
    scribe.answer(0, 2, 0, task, ("completed", "merged"));
}

fn reports(scribe: &mut Scribe) {
    let (task, ask) = (scribe.fresh(), scribe.sentence());
    scribe.request(0, 1, 0, task, &ask);
    scribe.answer(1, 0, 0, task, ("accepted", "yes"));
    for minute in 0..480 {
        let text = format!("still at it, {minute} of 480 steps done");
        scribe.report(1, 0, 0, task, ("in_progress", &text));
        scribe.after(Duration::from_secs(60));
    }
    scribe.answer(1, 0, 0, task, ("completed", "done"));
}

fn objective(scribe: &mut Scribe) {
    for i in 0..500 {
        let (worker, task) = (1 + scribe.dice.from(0, 9) as usize, scribe.fresh());
        let (ask, done) = (format!("Step {i} of the plan"), scribe.sentence());
        scribe.request(0, worker, 0, task, &ask);
        scribe.answer(worker, 0, 0, task, ("accepted", "yes"));
        if scribe.dice.from(0, 3) == 0 {
            let (question, reply) = (scribe.sentence(), scribe.sentence());
            scribe.report(worker, 0, 0, task, ("in_progress", &question));
            scribe.chat(0, worker, 0, &reply);
        }
        scribe.answer(worker, 0, 0, task, ("completed", &done));
    }
}

fn knowledge(scribe: &mut Scribe) {
    for _ in 0..scribe.dice.from(2, 6) {
        let found = scribe.sentence();
        let fields = json!({ "topic": "findings", "discovery": found });
        scribe.call(Kind::KnowledgeShare, 0, 0, fields, 6);
        for reader in 1..=scribe.dice.from(1, 6) as usize {
            for _ in 0..scribe.dice.from(1, 3) {
                let (question, reply) = (scribe.sentence(), scribe.sentence());
                scribe.chat(reader, 0, 0, &question);
                scribe.chat(0, reader, 0, &reply);
            }
        }
    }
}

fn hand_over(scribe: &mut Scribe) {
    let ask = scribe.sentence();
    let tasks: Vec<u64> = (0..20).map(|_| scribe.fresh()).collect();
    for (i, task) in tasks.iter().enumerate() {
        scribe.request(i, i + 1, 0, *task, &ask);
        scribe.answer(i + 1, i, 0, *task, ("accepted", "yes"));
    }
    for (i, task) in tasks.iter().enumerate().rev() {
        let done = scribe.sentence();
        scribe.answer(i + 1, i, 0, *task, ("completed", &done));
    }
}

fn survey(scribe: &mut Scribe) {
    let question = scribe.sentence();
    let fields = json!({ "topic": "survey", "message": question });
    scribe.call(Kind::Broadcast, 0, 0, fields, 50);
    for agent in 1..=50 {
        let reply = scribe.sentence();
        scribe.chat(agent, 0, 0, &reply);
    }
}

fn second_try(scribe: &mut Scribe) {
    let (task, ask) = (scribe.fresh(), scribe.sentence());
    for result in ["failed", "failed", "completed"] {
        scribe.request(0, 1, 0, task, &ask);
        scribe.answer(1, 0, 0, task, ("accepted", "yes"));
        let text = scribe.sentence();
        scribe.answer(1, 0, 0, task, (result, &text));
    }
}
