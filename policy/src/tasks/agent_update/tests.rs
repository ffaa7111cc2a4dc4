//! Agent messages and the updates they mean.

use serde_json::json;

use super::*;

fn response(payload: Value) -> AgentUpdate {
    from_response(&serde_json::from_value(payload).unwrap())
        .unwrap_or_else(|Unreadable(why)| AgentUpdate::Unreadable(why))
}

const TASK: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000003";

#[test]
fn responses_become_updates() {
    let update = |action, reason: Option<&str>| {
        let mut payload = json!({"taskId": TASK, "action": action});
        if let Some(reason) = reason {
            payload["reason"] = reason.into();
        }
        response(payload)
    };
    assert_eq!(
        update("accepted", None),
        AgentUpdate::Works { text: AgentText::default(), pieces: vec![] }
    );
    assert_eq!(update("declined", Some("no")), AgentUpdate::Rejected(AgentText::plain("no")));
    assert_eq!(update("failed", Some("no")), AgentUpdate::Failed(AgentText::plain("no")));
    let asks = AgentUpdate::Asks { text: AgentText::plain("which?"), credentials: false };
    assert_eq!(update("blocked", Some("which?")), asks);
}

#[test]
fn result_with_artifacts_and_message_is_parsed() {
    let update = response(json!({"taskId": TASK, "action": "completed", "result": {
        "message": {"parts": [{"text": "done"}]},
        "artifacts": [{"parts": [{"data": 1}]}, {"artifactId": "x", "parts": [{"url": "u"}]}],
    }}));
    let AgentUpdate::Completed { text, artifacts, direct, .. } = update else {
        panic!("{update:?}")
    };
    assert_eq!((text, direct), (AgentText::plain("done"), false));
    let ids: Vec<_> = artifacts.iter().map(|a| a.artifact_id.as_str()).collect();
    assert_eq!(ids, ["artifact-1", "x"]);
    let direct = response(json!({"taskId": TASK, "action": "completed",
        "result": {"message": "hi", "direct": true}}));
    assert!(matches!(direct, AgentUpdate::Completed { direct: true, .. }));
}

#[test]
fn completed_with_only_a_summary_returns_it_as_artifact() {
    let update = |result: Value| {
        let update = response(json!({"taskId": TASK, "action": "completed", "result": result}));
        let AgentUpdate::Completed { text, summary, .. } = update else { panic!("{update:?}") };
        let texts = summary.iter().flat_map(|artifact| &artifact.parts).cloned();
        (text.parts, texts.collect::<Vec<_>>())
    };
    let text = |text: &str| vec![Part::text(text)];
    assert_eq!(update(json!({"summary": "Found 5"})), (text("Found 5"), text("Found 5")));
    assert_eq!(update(json!({"summary": "s", "message": "m"})), (text("m"), vec![]));
    let whole = json!({"summary": "s", "artifacts": [{"parts": [{"text": "a"}]}]});
    assert_eq!(update(whole), (text("s"), vec![]));
    assert_eq!(update(json!({"summary": "s", "direct": true})), (text("s"), vec![]));
    assert_eq!(update(json!({"filesChanged": []})), (vec![], vec![]));
}

#[test]
fn invalid_artifact_is_reported_with_its_index() {
    let update = response(json!({"taskId": TASK, "action": "completed",
        "result": {"artifacts": [{"parts": [{"text": "a"}]}, {"parts": []}]}}));
    let AgentUpdate::Unreadable(why) = update else { panic!("{update:?}") };
    assert!(why.contains("artifacts[1]"), "{why}");
}
#[test]
fn progress_in_status_update_is_passed_unchanged() {
    let progress = json!({"trackers": [{"id": "a", "progress": 1, "total": 3}]});
    let update = |mut fields: Value| {
        fields["taskId"] = TASK.into();
        fields["progress"] = "one of three".into();
        fields["metadata"] = json!({ PROGRESS_EXTENSION: progress });
        from_status(&serde_json::from_value(fields).unwrap()).ok().unwrap()
    };
    let AgentUpdate::Works { text, pieces } = update(json!({"status": "in_progress"})) else {
        panic!()
    };
    assert_eq!((text.progress, pieces), (Some(progress.clone()), vec![]));
    assert_eq!((text.parts, text.metadata), (vec![Part::text("one of three")], None));
    let blocked = update(json!({"status": "blocked", "blockedBy": "which?"}));
    let AgentUpdate::Asks { text, .. } = blocked else { panic!("{blocked:?}") };
    assert_eq!(text.parts, [Part::text("which?")]);
    assert_eq!(text.progress, Some(progress.clone()));
}

#[test]
fn progress_in_response_is_kept_if_valid_and_dropped_if_not() {
    let answer = |progress: &Value| {
        let message = json!({"parts": [{"text": "done"}],
            "metadata": { PROGRESS_EXTENSION: progress }});
        let update = response(json!({"taskId": TASK, "action": "completed",
            "result": {"message": message}}));
        let AgentUpdate::Completed { text, .. } = update else { panic!("{update:?}") };
        assert_eq!(text.metadata, None);
        text.progress
    };
    let good = json!({"trackers": []});
    assert_eq!(answer(&good), Some(good));
    assert_eq!(answer(&json!({"trackers": [{"id": "a", "progress": 2, "total": 1}]})), None);
}
