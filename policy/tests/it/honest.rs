//! Honest conversations: the work of a team, as randomly generated scripts.

use a2a_policy::WorkProgress::{Declines, Ends, Moves, None as Nothing};
use a2a_protocol::{AgentId, Kind};

use crate::world::{Dice, Message, World, id};

/// Generates scripts of one team.
pub struct Team {
    pub dice: Dice,
    names: Vec<AgentId>,
    next: u64,
}

type Script = Vec<Message>;

impl Team {
    pub fn new(seed: u64, names: Vec<AgentId>) -> Self {
        Self { dice: Dice(seed), names, next: seed << 24 }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The content of a message: often new, sometimes a standard one.
    fn content(&mut self, kind: Kind) -> u64 {
        if self.dice.from(0, 2) == 0 { kind as u64 } else { self.fresh() | 1 << 63 }
    }

    fn people(&mut self, count: usize) -> Vec<AgentId> {
        let mut names = self.names.clone();
        self.dice.shuffle(&mut names);
        names.truncate(count);
        names
    }

    fn send(
        &mut self,
        script: &mut Script,
        from: &AgentId,
        to: &AgentId,
        conversation: u64,
        kind: Kind,
    ) {
        let content = self.content(kind);
        script.push(Message::new(from, to, conversation, kind, content));
    }

    fn step(
        &mut self,
        script: &mut Script,
        (from, to): (&AgentId, &AgentId),
        conversation: u64,
        (kind, task, progress): (Kind, u64, a2a_policy::WorkProgress),
    ) {
        let content = self.content(kind);
        script.push(Message::new(from, to, conversation, kind, content).about(task, progress));
    }

    /// One honest conversation of a random type.
    pub fn conversation(&mut self) -> Script {
        match self.dice.from(0, 8) {
            0 => self.task(),
            1 => self.declined_and_asked_elsewhere(),
            2 => self.boss_and_workers(),
            3 => self.tree(),
            4 => self.review(),
            5 => self.broadcast_and_answers(),
            6 => self.questions_first(),
            7 => self.knowledge(),
            _ => self.coordinator(),
        }
    }

    fn task(&mut self) -> Script {
        let (conversation, task, mut script) = (self.fresh(), self.fresh(), vec![]);
        let people = self.people(2);
        let (boss, worker) = (&people[0], &people[1]);
        self.step(&mut script, (boss, worker), conversation, (Kind::TaskRequest, task, Nothing));
        self.work(&mut script, boss, worker, conversation, task);
        script
    }

    /// Accepted, reported on, ended.
    fn work(
        &mut self,
        script: &mut Script,
        boss: &AgentId,
        worker: &AgentId,
        conversation: u64,
        task: u64,
    ) {
        let up = (worker, boss);
        self.step(script, up, conversation, (Kind::TaskResponse, task, Moves));
        for i in 0..self.dice.from(0, 12) {
            let moves = if i % 4 == 0 { Moves } else { Nothing };
            self.step(script, up, conversation, (Kind::StatusUpdate, task, moves));
            if i < 2 && self.dice.from(0, 1) == 0 {
                self.send(script, boss, worker, conversation, Kind::StatusUpdate);
            }
        }
        self.step(script, up, conversation, (Kind::TaskResponse, task, Ends));
    }

    fn declined_and_asked_elsewhere(&mut self) -> Script {
        let (conversation, mut script) = (self.fresh(), vec![]);
        let count = self.dice.from(3, 8) as usize;
        let people = self.people(count);
        let (boss, workers) = people.split_first().unwrap();
        let (last, unwilling) = workers.split_last().unwrap();
        for worker in unwilling {
            let task = self.fresh();
            self.step(
                &mut script,
                (boss, worker),
                conversation,
                (Kind::TaskRequest, task, Nothing),
            );
            self.step(
                &mut script,
                (worker, boss),
                conversation,
                (Kind::TaskResponse, task, Declines),
            );
        }
        let task = self.fresh();
        self.step(&mut script, (boss, last), conversation, (Kind::TaskRequest, task, Nothing));
        self.work(&mut script, boss, last, conversation, task);
        script
    }

    fn boss_and_workers(&mut self) -> Script {
        let conversation = self.fresh();
        let count = self.dice.from(3, 12) as usize;
        let people = self.people(count);
        let (boss, workers) = people.split_first().unwrap();
        let (mut script, mut jobs) = (vec![], vec![]);
        for worker in workers {
            let task = self.fresh();
            self.step(
                &mut script,
                (boss, worker),
                conversation,
                (Kind::TaskRequest, task, Nothing),
            );
            let mut job = vec![];
            self.work(&mut job, boss, worker, conversation, task);
            jobs.push(job);
        }
        script.extend(interleave(&mut self.dice, jobs));
        script
    }

    /// A coordinator, leads and their workers; reports are relayed upwards.
    fn tree(&mut self) -> Script {
        let conversation = self.fresh();
        let people = self.people(7);
        let boss = people[0].clone();
        let mut branches = vec![];
        for (lead, hands) in [(&people[1], &people[2..4]), (&people[4], &people[5..7])] {
            let (task, mut branch) = (self.fresh(), vec![]);
            self.step(&mut branch, (&boss, lead), conversation, (Kind::TaskRequest, task, Nothing));
            self.step(&mut branch, (lead, &boss), conversation, (Kind::TaskResponse, task, Moves));
            let mut jobs = vec![];
            for hand in hands {
                let (part, mut job) = (self.fresh(), vec![]);
                self.step(&mut job, (lead, hand), conversation, (Kind::TaskRequest, part, Nothing));
                self.step(&mut job, (hand, lead), conversation, (Kind::TaskResponse, part, Moves));
                for _ in 0..self.dice.from(0, 6) {
                    self.step(
                        &mut job,
                        (hand, lead),
                        conversation,
                        (Kind::StatusUpdate, part, Nothing),
                    );
                    self.step(
                        &mut job,
                        (lead, &boss),
                        conversation,
                        (Kind::StatusUpdate, task, Nothing),
                    );
                }
                self.step(&mut job, (hand, lead), conversation, (Kind::TaskResponse, part, Ends));
                jobs.push(job);
            }
            branch.extend(interleave(&mut self.dice, jobs));
            self.step(&mut branch, (lead, &boss), conversation, (Kind::TaskResponse, task, Ends));
            branches.push(branch);
        }
        interleave(&mut self.dice, branches)
    }

    /// Up to 200 messages, each verdict an end; often with equal content.
    fn review(&mut self) -> Script {
        let (conversation, mut script) = (self.fresh(), vec![]);
        let people = self.people(2);
        let (author, reviewer) = (&people[0], &people[1]);
        let same = self.dice.from(0, 1) == 0;
        for _ in 0..self.dice.from(1, 100) {
            let task = self.fresh();
            let talks = [((author, reviewer), Kind::ReviewRequest, Nothing)];
            for ((from, to), kind, progress) in
                talks.into_iter().chain([((reviewer, author), Kind::ReviewResponse, Ends)])
            {
                let content = if same { kind as u64 } else { self.fresh() };
                let message =
                    Message::new(from, to, conversation, kind, content).about(task, progress);
                script.push(message);
            }
        }
        script
    }

    fn broadcast_and_answers(&mut self) -> Script {
        let (conversation, mut script) = (self.fresh(), vec![]);
        let crowd = self.names.len();
        let mut people = self.people(crowd);
        let speaker = people.remove(0);
        let content = self.content(Kind::Broadcast);
        let call = Message::new(&speaker, &speaker, conversation, Kind::Broadcast, content);
        script.push(call.clone().fan_out(people.len()));
        for other in &people {
            self.send(&mut script, other, &speaker, conversation, Kind::StatusUpdate);
            if self.dice.from(0, 3) == 0 {
                self.send(&mut script, &speaker, other, conversation, Kind::StatusUpdate);
            }
        }
        script.push(Message { content: self.fresh(), ..call }.fan_out(people.len()));
        script
    }

    fn questions_first(&mut self) -> Script {
        let (conversation, task, mut script) = (self.fresh(), self.fresh(), vec![]);
        let people = self.people(2);
        let (boss, worker) = (&people[0], &people[1]);
        self.step(&mut script, (boss, worker), conversation, (Kind::TaskRequest, task, Nothing));
        for _ in 0..self.dice.from(1, 2) {
            self.send(&mut script, worker, boss, conversation, Kind::StatusUpdate);
            self.send(&mut script, boss, worker, conversation, Kind::StatusUpdate);
        }
        self.work(&mut script, boss, worker, conversation, task);
        script
    }

    fn knowledge(&mut self) -> Script {
        let (conversation, mut script) = (self.fresh(), vec![]);
        let count = self.dice.from(2, 6) as usize;
        let people = self.people(count);
        for _ in 0..self.dice.from(1, 6) {
            let content = self.content(Kind::KnowledgeShare);
            let share =
                Message::new(&people[0], &people[1], conversation, Kind::KnowledgeShare, content);
            let many = self.dice.from(0, 1) == 0;
            script.push(if many { share.fan_out(count - 1) } else { share });
        }
        self.send(&mut script, &people[1], &people[0], conversation, Kind::StatusUpdate);
        script
    }

    /// An agent that consults others one after another and responds to each.
    fn coordinator(&mut self) -> Script {
        let (conversation, mut script) = (self.fresh(), vec![]);
        let count = self.dice.from(4, 12) as usize;
        let people = self.people(count);
        let (boss, others) = people.split_first().unwrap();
        for other in others {
            self.send(&mut script, boss, other, conversation, Kind::StatusUpdate);
            self.send(&mut script, other, boss, conversation, Kind::StatusUpdate);
            self.send(&mut script, boss, other, conversation, Kind::KnowledgeShare);
        }
        script
    }
}

/// Interleaves scripts; each keeps its own order.
pub fn interleave(dice: &mut Dice, scripts: Vec<Script>) -> Script {
    let mut left: Vec<_> = scripts.into_iter().map(Vec::into_iter).collect();
    let mut mixed = vec![];
    while !left.is_empty() {
        let i = dice.from(0, left.len() as u64 - 1) as usize;
        match left[i].next() {
            Some(message) => mixed.push(message),
            None => drop(left.swap_remove(i)),
        }
    }
    mixed
}

/// Interleaves so many scripts at a time.
pub fn interleave_in_batches(dice: &mut Dice, mut scripts: Vec<Script>, batch: usize) -> Script {
    let mut mixed = vec![];
    while !scripts.is_empty() {
        let rest = scripts.split_off(batch.min(scripts.len()));
        mixed.extend(interleave(dice, scripts));
        scripts = rest;
    }
    mixed
}

#[test]
fn no_honest_conversation_trips() {
    let (mut conversations, mut messages) = (0, 0);
    for seed in 0..400 {
        let names = (0..16).map(|i| id(&format!("agent-{i}"))).collect();
        let mut team = Team::new(seed + 1, names);
        let at_once = team.dice.from(1, 8);
        let scripts: Vec<Script> = (0..at_once).map(|_| team.conversation()).collect();
        conversations += scripts.len();
        let mut world = World::new();
        let longest_gap = [100, 2_000, 10_000, 60_000][seed as usize % 4];
        for message in interleave(&mut team.dice, scripts) {
            world.ms += team.dice.from(0, longest_gap);
            messages += 1;
            if let Err(circuit) = world.send(&message) {
                panic!("seed {seed}: {message:?} was refused: {circuit:?}");
            }
        }
    }
    println!("{conversations} honest conversations, {messages} messages, none refused");
    assert!(conversations >= 1_000, "{conversations}");
}

#[test]
fn a_team_at_work_for_hours_on_one_bus_trips_nothing() {
    let names = (0..40).map(|i| id(&format!("agent-{i}"))).collect();
    let mut team = Team::new(7, names);
    let mut world = World::new();
    for _ in 0..250 {
        let scripts: Vec<Script> = (0..4).map(|_| team.conversation()).collect();
        for message in interleave(&mut team.dice, scripts) {
            world.ms += team.dice.from(0, 4_000);
            if let Err(circuit) = world.send(&message) {
                panic!("{message:?} was refused: {circuit:?}");
            }
        }
    }
    println!("{} h of work", world.ms / 3_600_000);
}
