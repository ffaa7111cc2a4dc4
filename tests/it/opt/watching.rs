//! Waiting for a change, and streams of them.

use std::thread;

use serde_json::json;

use super::{Opt, VERSIONS, revision, send};

#[test]
fn a_get_waits_for_the_next_revision() {
    let opt = Opt::start();
    let id = opt.objective();
    let now = revision(&opt.whole(&id));
    let since =
        |revision: u64, wait: u64| json!({"id": id, "sinceRevision": revision, "waitMs": wait});
    // There is something newer already; then there is not, and the time is over.
    let newer = opt.caller.ok("objectives/get", since(now - 1, 60_000));
    assert_eq!(revision(&newer["objective"]), now);
    let same = opt.caller.ok("objectives/get", since(now, 50));
    assert_eq!(revision(&same["objective"]), now);
    let changed = thread::scope(|scope| {
        let waits = scope.spawn(|| opt.caller.ok("objectives/get", since(now, 60_000)));
        opt.caller.ok("objectives/update", json!({"id": id, "name": "Better"}));
        waits.join().unwrap()
    });
    assert_eq!(changed["objective"]["name"], "Better");
    let refused = opt.caller.refused("objectives/get", since(now, 60_001));
    assert_eq!(refused["code"], -32602, "{refused}");
}

#[test]
fn a_stream_of_an_objective_ends_with_it() {
    let opt = Opt::start();
    for version in VERSIONS {
        let id = opt.objective();
        let stream = opt.speaking(version).stream("objectives/subscribe", json!({ "id": id }));
        opt.plan(&id, &["Search"], json!({}));
        opt.work();
        let seen = stream.rest();
        // By revision; several events may belong to one.
        assert!(seen.windows(2).all(|two| two[0].number <= two[1].number), "{seen:?}");
        assert_eq!(seen[0].data["objective"]["id"], json!(id), "{seen:?}");
        let all: Vec<_> = seen.iter().map(|event| event.data.to_string()).collect();
        assert!(all.iter().any(|event| event.contains("opt/v1/plan\"")), "{all:#?}");
        assert!(all.last().unwrap().contains("completed"), "{all:#?}");
    }
}

#[test]
fn streamed_message_shows_its_plan_beside_its_task() {
    let opt = Opt::start();
    let steps = "Research AI safety papers and write a summary";
    for (version, method) in VERSIONS.iter().zip(["message/stream", "SendStreamingMessage"]) {
        let (_, params) = send(version, steps, json!({}));
        let stream = opt.speaking(version).stream(method, params);
        opt.work();
        let seen = stream.rest();
        assert!(seen[0].data["metadata"]["opt/v1/objectiveId"].is_string(), "{seen:?}");
        assert!(seen.iter().any(|event| event.word() == "completed"), "{seen:?}");
        opt.work();
    }
}
