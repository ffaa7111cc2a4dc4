//! Directory and broadcasts: news for a squad, for the organization and for interested agents.
//!
//! `cargo run --example squad`

use openclaw_a2a::{
    Agent, Announcement, Broadcast, Bus, Delivery, Handlers, Knowledge, KnowledgeShare, Profile,
    Scope, Sent,
};

/// Name, squad, whether in the c-suite.
const AGENTS: [(&str, &str, bool); 7] = [
    ("roman", "core", false),
    ("tony", "core", false),
    ("tim", "core", false),
    ("sandy", "sdk", false),
    ("claire", "sdk", false),
    ("amadeus", "board", true),
    ("xavier", "board", true),
];

async fn on_news(me: Agent, delivery: Delivery, news: Broadcast) {
    println!("  {} hears from {}: {}", me.id(), delivery.sender, news.message);
}

async fn on_knowledge(me: Agent, delivery: Delivery, found: KnowledgeShare) {
    println!("  {} learns from {}: {}", me.id(), delivery.sender, found.discovery);
}

/// Prints the recipients of a message, from its receipt.
fn print_recipients(what: &str, sent: &Sent) {
    let each = sent.recipients().iter().map(|to| format!("{} {}", to.agent_id, to.outcome));
    println!("{what}: {}", each.collect::<Vec<_>>().join(", "));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    let mut agents = Vec::new();
    for (name, squad, c_suite) in AGENTS {
        let profile = Profile { squad: Some(squad.into()), c_suite, ..Profile::default() };
        bus.register(name.parse()?, profile).await?;
        let handlers = Handlers::new().on_broadcast(on_news).on_knowledge_share(on_knowledge);
        agents.push(bus.attach(name, handlers).await?);
    }
    let (roman, amadeus) = (&agents[0], &agents[5]);

    let freeze = |scope| Announcement::new(scope, "freeze", "No merges until the release is out");
    print_recipients("roman to his squad", &roman.broadcast(freeze(Scope::Squad)).await?);
    print_recipients("roman to everyone", &roman.broadcast(freeze(Scope::Org)).await?);
    let refused = roman.broadcast(freeze(Scope::CSuite)).await.err();
    println!("roman to the c-suite: {}", refused.ok_or("that should not be allowed")?);
    print_recipients("amadeus to the c-suite", &amadeus.broadcast(freeze(Scope::CSuite)).await?);

    let found = Knowledge::new("sled flush", "It survives a kill, not a power cut", "code review")
        .relevant_to(["sandy", "tim", "jerry"])
        .action("Call fsync before a message is acknowledged");
    print_recipients("roman to those it matters to", &roman.share_knowledge(found).await?);

    // Stopping waits for running handlers. The directory survives the restart.
    bus.stop().await;
    let bus = Bus::builder().state_dir(folder.path()).start()?;
    let roman = bus.connect("roman").await?;
    print_recipients(
        "after a restart, to his squad",
        &roman.broadcast(freeze(Scope::Squad)).await?,
    );
    bus.stop().await;
    Ok(())
}
