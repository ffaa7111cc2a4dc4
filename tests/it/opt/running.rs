//! How plans run: order, failures, approval, questions, cancelling.

use serde_json::json;

use super::{Opt, send, statuses, text};
use crate::a2a_caller::{Caller, Form, id, state};

#[test]
fn tasks_run_in_their_order_until_everything_is_completed() {
    let opt = Opt::start();
    let objective = opt.objective();
    let tasks = json!([{"name": "Read", "dependencies": ["task-1"]}, {"name": "Search"}]);
    let first = opt.plan(&objective, &[], json!({ "tasks": tasks }));
    let writing = json!({"name": "Writing", "dependencies": [first["id"]]});
    assert_eq!(opt.plan(&objective, &["Draft"], writing)["status"], "blocked");
    assert_eq!([opt.work(), opt.work(), opt.work()], ["Search", "Read", "Draft"]);
    let end = opt.until_status(&objective, "completed");
    for plan in end["plans"].as_array().unwrap() {
        assert_eq!(plan["status"], "completed");
        assert!(statuses(plan).iter().all(|status| status == "completed"), "{plan}");
    }
    // The context of every task is the objective.
    let caller = Caller::of(&opt.server, Form::Rpc10, "tim");
    let page = caller.list(&[("contextId", json!(objective))]).unwrap();
    assert_eq!(page["totalSize"], 3);
    let linked = text(&end["plans"][0]["tasks"][0]["a2aTaskId"]);
    assert!(page["tasks"].as_array().unwrap().iter().any(|task| id(task) == linked));
}

#[test]
fn a_plan_that_is_blocked_waits_for_approval() {
    let opt = Opt::start();
    let objective = opt.objective();
    let plan = opt.plan(&objective, &["Publish"], json!({"status": "blocked"}));
    assert_eq!(opt.whole(&objective)["status"], "blocked");
    assert!(!opt.tim.has_work());
    let approved = opt.caller.ok("plans/update", json!({"id": plan["id"], "status": "working"}));
    assert_eq!(approved["status"], "working");
    assert_eq!(opt.work(), "Publish");
    opt.until_status(&objective, "completed");
}

#[test]
fn a_task_that_fails_ends_its_plan_or_is_left_out() {
    let opt = Opt::start();
    for (policy, statuses_after, plan_after, objective_after) in [
        ("fail", ["failed", "canceled", "canceled"], "failed", "failed"),
        ("skip", ["failed", "canceled", "completed"], "completed", "completed"),
    ] {
        let objective = opt.objective();
        let tasks =
            json!([{"name": "a"}, {"name": "b", "dependencies": ["task-0"]}, {"name": "c"}]);
        let metadata = json!({ "opt/v1/onTaskFailure": policy });
        opt.plan(&objective, &[], json!({"tasks": tasks, "metadata": metadata}));
        opt.fail();
        if policy == "skip" {
            assert_eq!(opt.work(), "c");
        }
        let end = opt.until_status(&objective, objective_after);
        let plan = &end["plans"][0];
        assert_eq!(
            (statuses(plan), &plan["status"]),
            (statuses_after.map(str::to_owned).to_vec(), &json!(plan_after))
        );
    }
}

#[test]
fn cancelling_an_objective_cancels_what_runs_and_skips_the_rest() {
    let opt = Opt::start();
    let objective = opt.objective();
    opt.plan(&objective, &["Search", "Read"], json!({}));
    opt.plan(&objective, &["Publish"], json!({"status": "blocked"}));
    let request = opt.tim.next();
    let task = text(&request["payload"]["taskId"]);
    let end = opt.caller.ok("objectives/update", json!({"id": objective, "status": "canceled"}));
    assert_eq!(end["status"], "canceled");
    let whole = opt.until(&objective, |now| statuses(&now["plans"][0]) == ["canceled", "canceled"]);
    assert_eq!(
        (&whole["plans"][0]["status"], &whole["plans"][1]["status"]),
        (&json!("skipped"), &json!("skipped"))
    );
    let caller = Caller::of(&opt.server, Form::Rpc10, "tim");
    assert_eq!(state(&caller.get(&task, &[]).unwrap()), "canceled");
}

#[test]
fn a_question_blocks_until_it_is_answered() {
    let opt = Opt::start();
    let objective = opt.objective();
    opt.plan(&objective, &["Search"], json!({}));
    let request = opt.tim.next();
    opt.tim.ask(&request, "Which papers?");
    let asks = opt.until_status(&objective, "blocked");
    assert_eq!(
        (&asks["plans"][0]["status"], statuses(&asks["plans"][0])),
        (&json!("blocked"), vec!["input-required".to_owned()])
    );
    let (method, params) =
        send("1.0", "The new ones", json!({"taskId": request["payload"]["taskId"]}));
    opt.caller.ok(method, params);
    let again = opt.tim.next();
    opt.until_status(&objective, "working");
    opt.tim.complete(&again, "found");
    opt.until_status(&objective, "completed");
}

#[test]
fn tasks_can_be_added_and_assigned_while_the_objective_works() {
    let opt = Opt::start();
    let roman = crate::a2a_worker::Worker::new(opt.server.client(), "roman");
    let objective = opt.objective();
    let plan = opt.plan(&objective, &["Search"], json!({}));
    let request = opt.tim.next();
    let more = json!({"planId": plan["id"], "tasks": [{"name": "Check", "metadata": {"opt/v1/assignee": "roman"}}]});
    let more = opt.caller.ok("plans/addTasks", more);
    assert_eq!(more["tasks"][1]["taskIndex"], 1);
    // Another agent works on it at the same time.
    let other = roman.next();
    assert_eq!(other["payload"]["title"], "Check");
    roman.complete(&other, "checked");
    opt.tim.complete(&request, "found");
    opt.until_status(&objective, "completed");
}
