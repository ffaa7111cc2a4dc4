//! Scopes, names and updates of a small directory.

use super::*;
use a2a_protocol::Kind;

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn directory() -> Directory {
    let mut directory = Directory::new(true, 5);
    let profile =
        |squad: &str, c_suite| Profile { squad: Some(squad.into()), c_suite, ..Profile::default() };
    directory.insert(id("roman"), profile("core", false), true);
    directory.insert(id("tim"), profile("core", false), true);
    directory.insert(id("tony"), profile("web", false), false);
    directory.insert(id("xavier"), profile("web", true), false);
    directory
}

fn reached(message: &serde_json::Value) -> Vec<String> {
    let message = Envelope::parse(message.to_string().as_bytes()).unwrap();
    let directory = directory();
    let recipients = directory.recipients(&message).unwrap();
    assert_eq!(recipients.unknown, []);
    recipients.known.into_iter().map(|key| directory.id(key).unwrap().to_string()).collect()
}

#[test]
fn each_scope_reaches_its_agents_but_not_the_sender() {
    let mut message = serde_json::to_value(Kind::Broadcast.example_message()).unwrap();
    for (scope, agents) in [
        ("squad", vec!["tim"]),
        ("org", vec!["tim", "tony", "xavier"]),
        ("c-suite", vec!["xavier"]),
    ] {
        message["payload"]["scope"] = scope.into();
        assert_eq!(reached(&message), agents, "{scope}");
    }
    message["to"] = serde_json::json!({ "agentId": "tony" });
    assert_eq!(reached(&message), ["tony", "xavier"]);
    message["to"] = serde_json::json!({ "agentId": "roman" });
    assert_eq!(reached(&message), ["xavier"], "the sender is never among them");
}

#[test]
fn agent_set_apart_is_reached_by_name_only() {
    let mut directory = directory();
    directory.set_apart(&id("tony"));
    // A later profile update does not add it to a scope.
    directory.update(id("tony"), Profile { c_suite: true, ..Profile::default() }).unwrap();
    let mut message = serde_json::to_value(Kind::Broadcast.example_message()).unwrap();
    let mut reached = |scope: &str, to: Option<&str>| {
        message["payload"]["scope"] = scope.into();
        if let Some(to) = to {
            message["to"] = serde_json::json!({ "agentId": to });
        }
        let message = Envelope::parse(message.to_string().as_bytes()).unwrap();
        let known = directory.recipients(&message).unwrap().known;
        known.into_iter().map(|key| directory.id(key).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(reached("org", None), ["tim", "xavier"]);
    assert_eq!(reached("c-suite", None), ["xavier"]);
    assert_eq!(reached("c-suite", Some("tony")), ["tony", "xavier"]);
}

#[test]
fn closed_directory_admits_listed_and_full_one_no_new_agents() {
    let mut directory = directory();
    assert!(directory.admits(&id("tony")) && directory.admits(&id("new")));
    directory.insert(id("fifth"), Profile::default(), false);
    assert!(directory.admits(&id("tony")) && !directory.admits(&id("new")));
    directory.open = false;
    assert!(directory.admits(&id("tim")) && !directory.admits(&id("tony")));
}

#[test]
fn knowledge_share_reaches_named_agents_or_the_squad() {
    let mut message = serde_json::to_value(Kind::KnowledgeShare.example_message()).unwrap();
    message["payload"]["relevantTo"] = serde_json::json!(["tony", "tim", "roman", "tim"]);
    assert_eq!(reached(&message), ["tim", "tony"]);
    message["payload"]["relevantTo"] = serde_json::json!([]);
    assert_eq!(reached(&message), ["tim"]);
}

fn parse(message: &serde_json::Value) -> Envelope {
    Envelope::parse(message.to_string().as_bytes()).unwrap()
}

#[test]
fn unknown_recipient_is_refused_with_a_reachable_suggestion() {
    let mut message = serde_json::to_value(Kind::TaskRequest.example_message()).unwrap();
    message["to"]["agentId"] = "tonny".into();
    let directory = directory();
    let mut refused = directory.recipients(&parse(&message)).unwrap_err();
    assert_eq!(refused.to_string(), "there is no agent `tonny`");
    refused.near = directory.nearest(&refused.agent, |_| true);
    assert_eq!(refused.to_string(), "there is no agent `tonny`; did you mean `tony`?");
    let tony = directory.key(&id("tony")).unwrap();
    assert_eq!(directory.nearest(&id("tonny"), |key| key != tony), None);
}

#[test]
fn unknown_names_in_fan_out_are_collected() {
    let directory = directory();
    let mut message = serde_json::to_value(Kind::KnowledgeShare.example_message()).unwrap();
    message["payload"]["relevantTo"] = serde_json::json!(["zoe", "tony", "abe", "zoe", "tim"]);
    message["to"] = serde_json::json!({ "agentId": "mia" });
    let found = directory.recipients(&parse(&message)).unwrap();
    assert_eq!(found.known, [AgentKey(1), AgentKey(2)]);
    assert_eq!(found.unknown, [id("zoe"), id("abe"), id("mia")]);
    message["payload"]["relevantTo"] = serde_json::json!(["zoe"]);
    message["to"] = serde_json::json!({ "agentId": "zoe" });
    let found = directory.recipients(&parse(&message)).unwrap();
    assert_eq!(found, Recipients { known: vec![], unknown: vec![id("zoe")] });
}

#[test]
fn an_update_moves_an_agent_between_scopes_and_keeps_its_place() {
    let mut directory = directory();
    let (roman, tim) = (id("roman"), id("tim"));
    let key = directory.key(&tim).unwrap();
    let web = Profile { squad: Some("web".into()), c_suite: true, ..Profile::default() };
    assert_eq!(directory.update(tim.clone(), web.clone()), Ok(key));
    assert_eq!(directory.profile(key), Some(&web));
    assert_eq!(directory.in_scope(&roman, Scope::Squad), []);
    assert_eq!(directory.in_scope(&id("xavier"), Scope::Squad), [key, AgentKey(2)]);
    assert_eq!(directory.in_scope(&roman, Scope::CSuite), [key, AgentKey(3)]);
    directory.open = false;
    assert!(directory.admits(&tim), "it is still listed");
    assert_eq!(directory.update(tim, Profile::default()), Ok(key));
    assert_eq!(directory.in_scope(&roman, Scope::CSuite), [AgentKey(3)]);
    assert_eq!(directory.in_scope(&id("nobody"), Scope::Squad), [key]);
}

#[test]
fn update_adds_agents_until_the_directory_is_full() {
    let mut directory = directory();
    let mia = directory.update(id("mia"), Profile::default()).unwrap();
    assert_eq!((mia, directory.key(&id("mia"))), (AgentKey(4), Some(mia)));
    directory.open = false;
    assert!(!directory.admits(&id("mia")), "only the configuration lists");
    let full = directory.update(id("zoe"), Profile::default()).unwrap_err();
    assert_eq!(full, CannotUpdate::Full { agent: id("zoe"), capacity: 5 });
    assert!(matches!(
        directory.update(id("human"), Profile::default()),
        Err(CannotUpdate::Reserved(_))
    ));
    let blank = Profile { role: Some(String::new()), ..Profile::default() };
    let refused = directory.update(id("mia"), blank).unwrap_err();
    assert!(refused.to_string().contains("`role` is blank"), "{refused}");
}

#[test]
fn scope_index_equals_a_full_scan() {
    const SQUADS: [Option<&str>; 3] = [None, Some("core"), Some("web")];
    let mut directory = Directory::new(true, 1_000);
    for step in 0..2_000usize {
        let agent = id(&format!("a{}", step * 7919 % 60));
        let squad = SQUADS[step * 31 % 97 % 3].map(str::to_owned);
        let c_suite = step * 13 % 5 == 0;
        directory.update(agent, Profile { squad, c_suite, ..Profile::default() }).unwrap();
    }
    for (sender, from, own) in directory.iter() {
        let counted = |reached: &dyn Fn(&Profile) -> bool| -> Vec<AgentKey> {
            let others = directory.iter().filter(|(key, _, p)| *key != sender && reached(p));
            others.map(|(key, _, _)| key).collect()
        };
        let squad = counted(&|other| other.squad == own.squad);
        assert_eq!(directory.in_scope(from, Scope::Squad), squad);
        assert_eq!(directory.in_scope(from, Scope::CSuite), counted(&|other| other.c_suite));
        assert_eq!(directory.in_scope(from, Scope::Org), counted(&|_| true));
    }
}

#[test]
fn names_of_bus_and_operators_are_reserved() {
    assert!(Directory::is_reserved(&id("system")) && Directory::is_reserved(&id("Human")));
    assert!(!Directory::is_reserved(&id("systems")));
}

#[test]
fn reconfigure_changes_listed_agents_and_removes_none() {
    let mut directory = directory();
    directory.insert(id("openclaw"), Profile::default(), true);
    let squad = |name: &str| Profile { squad: Some(name.into()), ..Profile::default() };
    // Roman set its own profile, and the configuration never listed tony.
    directory.update(id("roman"), squad("own")).unwrap();
    let listed = ["roman", "openclaw", "mia"].map(|name| (id(name), squad("new")));
    let unknown = directory.reconfigure(false, listed.to_vec());
    assert_eq!(unknown, [(id("mia"), squad("new"))]);
    let now = |directory: &Directory, name: &str| {
        let squad = directory.profile(directory.key(&id(name)).unwrap()).unwrap().squad.clone();
        (directory.admits(&id(name)), squad.unwrap_or_default())
    };
    for (name, admitted, squad) in [
        ("roman", true, "own"),
        ("tim", false, ""),
        ("tony", false, "web"),
        ("xavier", false, "web"),
        ("openclaw", true, "new"),
    ] {
        assert_eq!(now(&directory, name), (admitted, squad.to_owned()), "{name}");
    }
    assert_eq!(directory.in_scope(&id("mia"), Scope::Squad), [directory.key(&id("tim")).unwrap()]);
    assert!(!directory.admits(&id("mia")), "until somebody adds it");
    assert_eq!(directory.reconfigure(true, vec![(id("tim"), squad("core"))]), []);
    assert_eq!(now(&directory, "tim"), (true, "core".to_owned()));
    assert_eq!(now(&directory, "openclaw"), (true, String::new()), "an open one admits everybody");
}

#[test]
fn agents_and_clients_never_have_one_name() {
    let mut directory = Directory::new(true, 10);
    let add = |directory: &mut Directory, name: &str| {
        directory.insert(id(name), Profile::default(), false).unwrap();
    };
    add(&mut directory, "tim");
    assert!(directory.check_agent_name(&id("tim")).is_ok());
    assert_eq!(directory.check_agent_name(&id("Tim")).unwrap_err().held, "tim");
    assert!(directory.check_client_name(&id("TIM")).is_err());
    let refused = directory.claim(&[id("Tim"), id("acme")]);
    assert_eq!(refused.iter().map(|taken| &*taken.name).collect::<Vec<_>>(), ["Tim"]);
    // Claimed, although it never called: no agent can have the name, in any case.
    assert!(directory.check_agent_name(&id("ACME")).is_err());
    let taken = directory.update(id("Acme"), Profile::default()).unwrap_err();
    assert!(matches!(taken, CannotUpdate::Taken(_)), "{taken}");
    assert!(directory.claim(&[]).is_empty());
    assert!(directory.check_agent_name(&id("ACME")).is_ok(), "its token is gone");
    // Known only from surviving messages: a client can claim the name, unless the entry was
    // confirmed as an agent.
    for (name, is_agent) in [("left", false), ("right", true)] {
        add(&mut directory, name);
        directory.presume(&id(name));
        if is_agent {
            directory.confirm(&id(name));
        }
        assert_eq!(directory.claim(&[id(name)]).len(), usize::from(is_agent), "{name}");
        assert_eq!(directory.check_agent_name(&id(name)).is_ok(), is_agent, "{name}");
    }
}

#[test]
fn removed_agent_keeps_its_key_and_may_return() {
    let mut directory = Directory::new(true, 2);
    let [tim, ann] = ["tim", "ann"].map(|name| {
        directory.insert(id(name), Profile { c_suite: true, ..Profile::default() }, false).unwrap()
    });
    assert_eq!(directory.remove(&id("tim")), Some(tim));
    assert_eq!((directory.remove(&id("tim")), directory.len()), (None, 1));
    assert!(!directory.contains(&id("tim")) && directory.key(&id("tim")).is_none());
    assert_eq!(directory.iter().map(|(key, ..)| key).collect::<Vec<_>>(), [ann]);
    assert_eq!(directory.senior_to(&id("nobody")), Some(ann), "it is in no group");
    assert!(directory.admits(&id("new")), "there is room again");
    assert!(directory.check_client_name(&id("Tim")).is_ok(), "the name is free");
    assert_eq!(directory.insert(id("tim"), Profile::default(), false), Some(tim));
    assert_eq!(directory.profile(tim), Some(&Profile::default()), "as a new one");
    assert!(!directory.admits(&id("new")));
}
