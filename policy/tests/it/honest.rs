//! Honest conversations: the work of a team, as scripts that are written by dice.

use a2a_policy::WorkProgress::{Declines, Ends, Moves, None as Nothing};
use a2a_protocol::{AgentId, Kind};

use crate::world::{Dice, Message, World, id};

/// Writes scripts of one team.
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

    /// What a message says: often something new, sometimes what is always said.
    fn words(&mut self, kind: Kind) -> u64 {
        if self.dice.from(0, 2) == 0 { kind as u64 } else { self.fresh() | 1 << 63 }
    }

    fn people(&mut self, count: usize) -> Vec<AgentId> {
        let mut names = self.names.clone();
        self.dice.shuffle(&mut names);
        names.truncate(count);
        names
    }

    fn say(&mut self, script: &mut Script, from: &AgentId, to: &AgentId, talk: u64, kind: Kind) {
        let words = self.words(kind);
        script.push(Message::new(from, to, talk, kind, words));
    }

    fn step(
        &mut self,
        script: &mut Script,
        (from, to): (&AgentId, &AgentId),
        talk: u64,
        (kind, task, progress): (Kind, u64, a2a_policy::WorkProgress),
    ) {
        let words = self.words(kind);
        script.push(Message::new(from, to, talk, kind, words).about(task, progress));
    }

    /// One honest conversation of whatever sort.
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
        let (talk, task, mut script) = (self.fresh(), self.fresh(), vec![]);
        let people = self.people(2);
        let (boss, worker) = (&people[0], &people[1]);
        self.step(&mut script, (boss, worker), talk, (Kind::TaskRequest, task, Nothing));
        self.work(&mut script, boss, worker, talk, task);
        script
    }

    /// Accepted, reported on, ended.
    fn work(
        &mut self,
        script: &mut Script,
        boss: &AgentId,
        worker: &AgentId,
        talk: u64,
        task: u64,
    ) {
        let up = (worker, boss);
        self.step(script, up, talk, (Kind::TaskResponse, task, Moves));
        for i in 0..self.dice.from(0, 12) {
            let moves = if i % 4 == 0 { Moves } else { Nothing };
            self.step(script, up, talk, (Kind::StatusUpdate, task, moves));
            if i < 2 && self.dice.from(0, 1) == 0 {
                self.say(script, boss, worker, talk, Kind::StatusUpdate);
            }
        }
        self.step(script, up, talk, (Kind::TaskResponse, task, Ends));
    }

    fn declined_and_asked_elsewhere(&mut self) -> Script {
        let (talk, mut script) = (self.fresh(), vec![]);
        let count = self.dice.from(3, 8) as usize;
        let people = self.people(count);
        let (boss, workers) = people.split_first().unwrap();
        let (last, unwilling) = workers.split_last().unwrap();
        for worker in unwilling {
            let task = self.fresh();
            self.step(&mut script, (boss, worker), talk, (Kind::TaskRequest, task, Nothing));
            self.step(&mut script, (worker, boss), talk, (Kind::TaskResponse, task, Declines));
        }
        let task = self.fresh();
        self.step(&mut script, (boss, last), talk, (Kind::TaskRequest, task, Nothing));
        self.work(&mut script, boss, last, talk, task);
        script
    }

    fn boss_and_workers(&mut self) -> Script {
        let talk = self.fresh();
        let count = self.dice.from(3, 12) as usize;
        let people = self.people(count);
        let (boss, workers) = people.split_first().unwrap();
        let (mut script, mut jobs) = (vec![], vec![]);
        for worker in workers {
            let task = self.fresh();
            self.step(&mut script, (boss, worker), talk, (Kind::TaskRequest, task, Nothing));
            let mut job = vec![];
            self.work(&mut job, boss, worker, talk, task);
            jobs.push(job);
        }
        script.extend(interleave(&mut self.dice, jobs));
        script
    }

    /// A boss, leads and their people; reports are relayed upwards.
    fn tree(&mut self) -> Script {
        let talk = self.fresh();
        let people = self.people(7);
        let boss = people[0].clone();
        let mut branches = vec![];
        for (lead, hands) in [(&people[1], &people[2..4]), (&people[4], &people[5..7])] {
            let (task, mut branch) = (self.fresh(), vec![]);
            self.step(&mut branch, (&boss, lead), talk, (Kind::TaskRequest, task, Nothing));
            self.step(&mut branch, (lead, &boss), talk, (Kind::TaskResponse, task, Moves));
            let mut jobs = vec![];
            for hand in hands {
                let (part, mut job) = (self.fresh(), vec![]);
                self.step(&mut job, (lead, hand), talk, (Kind::TaskRequest, part, Nothing));
                self.step(&mut job, (hand, lead), talk, (Kind::TaskResponse, part, Moves));
                for _ in 0..self.dice.from(0, 6) {
                    self.step(&mut job, (hand, lead), talk, (Kind::StatusUpdate, part, Nothing));
                    self.step(&mut job, (lead, &boss), talk, (Kind::StatusUpdate, task, Nothing));
                }
                self.step(&mut job, (hand, lead), talk, (Kind::TaskResponse, part, Ends));
                jobs.push(job);
            }
            branch.extend(interleave(&mut self.dice, jobs));
            self.step(&mut branch, (lead, &boss), talk, (Kind::TaskResponse, task, Ends));
            branches.push(branch);
        }
        interleave(&mut self.dice, branches)
    }

    /// Up to 200 messages, each verdict an end; often with the same words every time.
    fn review(&mut self) -> Script {
        let (talk, mut script) = (self.fresh(), vec![]);
        let people = self.people(2);
        let (author, reviewer) = (&people[0], &people[1]);
        let same = self.dice.from(0, 1) == 0;
        for _ in 0..self.dice.from(1, 100) {
            let task = self.fresh();
            let talks = [((author, reviewer), Kind::ReviewRequest, Nothing)];
            for ((from, to), kind, progress) in
                talks.into_iter().chain([((reviewer, author), Kind::ReviewResponse, Ends)])
            {
                let words = if same { kind as u64 } else { self.fresh() };
                let message = Message::new(from, to, talk, kind, words).about(task, progress);
                script.push(message);
            }
        }
        script
    }

    fn broadcast_and_answers(&mut self) -> Script {
        let (talk, mut script) = (self.fresh(), vec![]);
        let crowd = self.names.len();
        let mut people = self.people(crowd);
        let speaker = people.remove(0);
        let words = self.words(Kind::Broadcast);
        let call = Message::new(&speaker, &speaker, talk, Kind::Broadcast, words);
        script.push(call.clone().fan_out(people.len()));
        for other in &people {
            self.say(&mut script, other, &speaker, talk, Kind::StatusUpdate);
            if self.dice.from(0, 3) == 0 {
                self.say(&mut script, &speaker, other, talk, Kind::StatusUpdate);
            }
        }
        script.push(Message { content: self.fresh(), ..call }.fan_out(people.len()));
        script
    }

    fn questions_first(&mut self) -> Script {
        let (talk, task, mut script) = (self.fresh(), self.fresh(), vec![]);
        let people = self.people(2);
        let (boss, worker) = (&people[0], &people[1]);
        self.step(&mut script, (boss, worker), talk, (Kind::TaskRequest, task, Nothing));
        for _ in 0..self.dice.from(1, 2) {
            self.say(&mut script, worker, boss, talk, Kind::StatusUpdate);
            self.say(&mut script, boss, worker, talk, Kind::StatusUpdate);
        }
        self.work(&mut script, boss, worker, talk, task);
        script
    }

    fn knowledge(&mut self) -> Script {
        let (talk, mut script) = (self.fresh(), vec![]);
        let count = self.dice.from(2, 6) as usize;
        let people = self.people(count);
        for _ in 0..self.dice.from(1, 6) {
            let words = self.words(Kind::KnowledgeShare);
            let share = Message::new(&people[0], &people[1], talk, Kind::KnowledgeShare, words);
            let many = self.dice.from(0, 1) == 0;
            script.push(if many { share.fan_out(count - 1) } else { share });
        }
        self.say(&mut script, &people[1], &people[0], talk, Kind::StatusUpdate);
        script
    }

    /// Somebody who consults one after the other and answers each.
    fn coordinator(&mut self) -> Script {
        let (talk, mut script) = (self.fresh(), vec![]);
        let count = self.dice.from(4, 12) as usize;
        let people = self.people(count);
        let (boss, others) = people.split_first().unwrap();
        for other in others {
            self.say(&mut script, boss, other, talk, Kind::StatusUpdate);
            self.say(&mut script, other, boss, talk, Kind::StatusUpdate);
            self.say(&mut script, boss, other, talk, Kind::KnowledgeShare);
        }
        script
    }
}

/// Mixes scripts; each stays in its own order.
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

/// Mixes so many scripts at a time.
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
