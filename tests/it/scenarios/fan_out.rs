//! One message for many: each recipient has an outcome, the log one record, and who belongs
//! to what is known from the settings or from a profile set at run time.

use std::collections::HashMap;

use openclaw_a2a::{Announcement, Knowledge, Scope};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;

/// All agents are attached.
struct Floor {
    agents: HashMap<String, (Agent, UnboundedReceiver<Delivery>)>,
}

impl Floor {
    async fn attach(bus: &Bus) -> Self {
        let mut agents = HashMap::new();
        for (name, ..) in PEOPLE {
            agents.insert((*name).to_owned(), listener(bus, name).await);
        }
        Self { agents }
    }

    fn agent(&self, name: &str) -> &Agent {
        &self.agents[name].0
    }

    /// Those named get the message, no other agent does, and the log has one record of it.
    async fn only_these_receive(&mut self, bus: &Bus, from: &str, sent: &Sent, names: &[&str]) {
        let expected: Vec<_> = names.iter().map(|name| (*name, Outcome::Delivered)).collect();
        assert_eq!(outcomes(sent.recipients()), expected);
        for name in names {
            next_is(&mut self.agents.get_mut(*name).unwrap().1, sent).await;
        }
        for (name, ..) in PEOPLE.iter().filter(|(name, ..)| !names.contains(name)) {
            // An agent whose next message is the later one was left out.
            let by = if *name == "barry" { "jerry" } else { "barry" };
            let later = word(self.agent(by), name).await;
            next_is(&mut self.agents.get_mut(*name).unwrap().1, &later).await;
        }
        let record = only_record(bus, sent.message_id());
        assert_eq!(record["by"], from);
        assert_eq!(record["recipients"].as_array().unwrap().len(), names.len());
        assert_eq!(record["seq"].as_u64(), sent.seq());
    }
}

async fn every_scope_reaches_its_people(bus: &Bus) {
    let mut floor = Floor::attach(bus).await;
    for (from, scope, names) in [
        ("roman", Scope::Squad, &["tim", "tony"][..]),
        ("jerry", Scope::Squad, &["barry"]),
        ("amadeus", Scope::CSuite, &["xavier"]),
        (
            "claire",
            Scope::Org,
            &["amadeus", "barry", "jerry", "roman", "sandy", "tim", "tony", "xavier"],
        ),
    ] {
        let news = Announcement::new(scope, "freeze", "No merges until the release is out");
        let sent = floor.agent(from).broadcast(news).await.unwrap();
        floor.only_these_receive(bus, from, &sent, names).await;
    }
}

#[tokio::test]
async fn every_scope_reaches_its_people_when_the_settings_name_them() {
    let settings = || BusSettings { agents: team(), open: false, ..quick() };
    let folder = folder();
    let bus = start(&folder, settings());
    every_scope_reaches_its_people(&bus).await;
    let bus = restart(bus, &folder, settings()).await;
    every_scope_reaches_its_people(&bus).await;
    bus.stop().await;
}

#[tokio::test]
async fn every_scope_reaches_its_people_when_they_were_registered_at_run_time() {
    let folder = folder();
    let bus = start(&folder, quick());
    for (agent, profile) in team() {
        bus.register(agent, profile).await.unwrap();
    }
    every_scope_reaches_its_people(&bus).await;
    let bus = restart(bus, &folder, quick()).await;
    every_scope_reaches_its_people(&bus).await;
    // An agent moves; the latest profile counts, also after the next restart.
    let moved = Profile { squad: Some("audit".into()), ..Profile::default() };
    bus.register(id("tony"), moved).await.unwrap();
    let bus = restart(bus, &folder, quick()).await;
    let mut floor = Floor::attach(&bus).await;
    let news = Announcement::new(Scope::Squad, "freeze", "It is over");
    let sent = floor.agent("roman").broadcast(news).await.unwrap();
    floor.only_these_receive(&bus, "roman", &sent, &["tim"]).await;
    bus.stop().await;
}

#[tokio::test]
async fn knowledge_reaches_those_it_is_relevant_to_or_the_squad() {
    let folder = folder();
    let settings = || BusSettings { agents: team(), open: false, ..quick() };
    let bus = start(&folder, settings());
    let mut floor = Floor::attach(&bus).await;
    let news = || Knowledge::new("sled flush", "It survives a kill", "code review");
    let named = news().relevant_to(["claire", "xavier", "roman", "claire"]).also_to("barry");
    let sent = floor.agent("roman").share_knowledge(named).await.unwrap();
    floor.only_these_receive(&bus, "roman", &sent, &["barry", "claire", "xavier"]).await;
    let sent = floor.agent("roman").share_knowledge(news()).await.unwrap();
    floor.only_these_receive(&bus, "roman", &sent, &["tim", "tony"]).await;

    let bus = restart(bus, &folder, settings()).await;
    let mut floor = Floor::attach(&bus).await;
    let sent = floor.agent("sandy").share_knowledge(news()).await.unwrap();
    floor.only_these_receive(&bus, "sandy", &sent, &["claire"]).await;
    bus.stop().await;
}

#[tokio::test]
async fn unknown_names_are_refused_one_by_one() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    absent(&bus, "tony").await;
    let news = || Knowledge::new("sled flush", "It survives a kill", "code review");

    let bus = restart(bus, &folder, quick()).await;
    assert!(tim_inbox.try_recv().is_err());
    drop(roman);
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let sent = roman.share_knowledge(news().relevant_to(["tim", "jerry", "tony"])).await.unwrap();
    assert_eq!(sent.outcome(), Outcome::Queued, "not everyone is there");
    assert_eq!(
        outcomes(sent.recipients()),
        [
            ("jerry", Outcome::UnknownRecipient),
            ("tim", Outcome::Delivered),
            ("tony", Outcome::Queued)
        ]
    );
    next_is(&mut tim_inbox, &sent).await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &sent).await;
    only_record(&bus, sent.message_id());

    let unknown = roman.share_knowledge(news().relevant_to(["jerry", "barry"])).await.unwrap_err();
    assert_eq!(unknown.outcome(), Some(Outcome::UnknownRecipient));
    let answered = outcomes(&unknown.receipt().unwrap().recipients);
    assert_eq!(
        answered,
        [("barry", Outcome::UnknownRecipient), ("jerry", Outcome::UnknownRecipient)]
    );
    bus.stop().await;
}
