//! Random plans with several agents at work at once: each ends as its graph requires.

use std::thread;
use std::time::Instant;

use serde_json::json;

use super::truth::{AGENTS, Asked, Dice, TOO_LONG, appear, at_rest, each, is_done, work};
use super::{OptCaller, text};
use crate::a2a_caller::FAR;
use crate::server::Server;

const CASES: u64 = 30;

#[test]
fn every_graph_is_done_as_far_as_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    let (client, asked) = (server.client(), Asked::default());
    let caller = OptCaller::new(&client, "1.0");
    appear(&server);
    thread::scope(|scope| {
        for agent in AGENTS {
            let (client, asked) = (server.client(), &asked);
            scope.spawn(move || work(&client, agent, asked));
        }
        let objectives: Vec<String> = (0..CASES).map(|seed| make(&caller, seed)).collect();
        let deadline = Instant::now() + TOO_LONG;
        for (seed, id) in objectives.iter().enumerate() {
            let whole = || {
                let params = json!({"id": id, "includeTasks": true});
                caller.ok("objectives/get", params)["objective"].clone()
            };
            // Shown when something below fails.
            println!("seed {seed}");
            loop {
                let now = at_rest(&client, whole);
                let runs = each(&now, "plans").iter().any(|plan| plan["status"] == "working");
                if !runs {
                    is_done(&now, &asked);
                    break;
                }
                assert!(Instant::now() < deadline, "seed {seed} never ends: {now:#}");
            }
        }
        server.kill();
    });
}

/// An objective with up to five plans; all of them begin when the first, which is held, is
/// approved, so that none ends before all is sent.
fn make(caller: &OptCaller, seed: u64) -> String {
    let mut dice = Dice(seed << 32);
    let objective = text(&caller.ok("objectives/create", json!({"name": "Write a post"}))["id"]);
    let mut plans: Vec<String> = Vec::new();
    for at in 0..=1 + dice.below(4) {
        let mut plan = dice.plan(&objective, &plans);
        if at == 0 {
            plan["status"] = "blocked".into();
        }
        plans.push(text(&caller.ok("plans/create", plan)["id"]));
    }
    caller.ok("plans/update", json!({"id": plans[0], "status": "working"}));
    objective
}
