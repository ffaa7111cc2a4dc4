//! A squad with a directory: news for the squad, for everyone and for those it matters to.
//!
//! `cargo run --example squad`

use openclaw_a2a::{
    Agent, Announcement, Broadcast, Bus, Delivery, Handlers, Knowledge, KnowledgeShare, Profile,
    Scope, Sent,
};

/// Name, squad, whether in the c-suite.
const PEOPLE: [(&str, &str, bool); 7] = [
    ("roman", "core", false),
    ("tony", "core", false),
    ("tim", "core", false),
    ("sandy", "sdk", false),
    ("claire", "sdk", false),
    ("amadeus", "board", true),
    ("xavier", "board", true),
];

async fn hear_news(me: Agent, delivery: Delivery, news: Broadcast) {
    println!("  {} hears from {}: {}", me.id(), delivery.sender, news.message);
}

async fn learn(me: Agent, delivery: Delivery, found: KnowledgeShare) {
    println!("  {} learns from {}: {}", me.id(), delivery.sender, found.discovery);
}

/// Says who gets a message, by the receipt.
fn tell(what: &str, sent: &Sent) {
    let each = sent.recipients().iter().map(|to| format!("{} {}", to.agent_id, to.outcome));
    println!("{what}: {}", each.collect::<Vec<_>>().join(", "));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    let mut agents = Vec::new();
    for (name, squad, c_suite) in PEOPLE {
        let profile = Profile { squad: Some(squad.into()), c_suite, ..Profile::default() };
        bus.register(name.parse()?, profile).await?;
        let handlers = Handlers::new().on_broadcast(hear_news).on_knowledge_share(learn);
        agents.push(bus.attach(name, handlers).await?);
    }
    let (roman, amadeus) = (&agents[0], &agents[5]);

    let freeze = |scope| Announcement::new(scope, "freeze", "No merges until the release is out");
    tell("roman to his squad", &roman.broadcast(freeze(Scope::Squad)).await?);
    tell("roman to everyone", &roman.broadcast(freeze(Scope::Org)).await?);
    let refused = roman.broadcast(freeze(Scope::CSuite)).await.err();
    println!("roman to the c-suite: {}", refused.ok_or("that should not be allowed")?);
    tell("amadeus to the c-suite", &amadeus.broadcast(freeze(Scope::CSuite)).await?);

    let found = Knowledge::new("sled flush", "It survives a kill, not a power cut", "code review")
        .relevant_to(["sandy", "tim", "jerry"])
        .action("Call fsync before a message is acknowledged");
    tell("roman to those it matters to", &roman.share_knowledge(found).await?);

    // Handlers may finish what they have heard; then the bus is started again.
    bus.stop().await;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    let roman = bus.connect("roman").await?;
    tell("after a restart, to his squad", &roman.broadcast(freeze(Scope::Squad)).await?);
    bus.stop().await;
    Ok(())
}
