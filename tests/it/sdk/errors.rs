//! The error a sender gets when nothing was sent.

use a2a_protocol::ProgressTracker;

use super::*;

#[tokio::test]
async fn wrong_draft_is_never_sent_and_lists_every_violation() {
    let bus = start();
    let (tim, mut inbox) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    roman.send_task_request("tim", small_task()).await.unwrap();
    let delivery = next(&mut inbox).await;
    let long = "x".repeat(40_000);
    let tracker_above =
        ProgressTracker { progress: Some(3.0), total: Some(1.0), ..ProgressTracker::new("a") };
    let trackers = Progress { trackers: vec![tracker_above], aggregate: None };
    let tracker =
        format!("/payload/metadata/{}/trackers/0/progress", PROGRESS_EXTENSION.replace('/', "~1"));
    let task = delivery.message.body.clone();
    let Body::TaskRequest(task) = task else { panic!("a task") };
    let cases: [(Result<_, _>, &str, Code); 14] = [
        (roman.write("tim", NewTask::new(" ", "d")), "/payload/title", Code::Blank),
        (roman.write("tim", NewTask::new("x".repeat(513), "d")), "/payload/title", Code::TooLong),
        (roman.write("t i m", small_task()), "/to/agentId", Code::BadAgentId),
        (roman.write((), small_task()), "/to", Code::Missing),
        (
            roman.write("tim", small_task().deadline("soon")),
            "/payload/deadline",
            Code::BadTimestamp,
        ),
        (
            roman.write("tim", small_task().deadline(Duration::MAX)),
            "/payload/deadline",
            Code::BadTimestamp,
        ),
        (
            roman.write("tim", small_task().context("branch", 7)),
            "/payload/context/branch",
            Code::WrongType,
        ),
        (tim.write(&delivery, TaskAnswer::declined("\t")), "/payload/reason", Code::Blank),
        (
            tim.write(&delivery, TaskAnswer::completed(long)),
            "/payload/result/summary",
            Code::TooLong,
        ),
        (tim.write("roman", TaskAnswer::accepted()), "/payload/taskId", Code::Missing),
        (tim.write(&delivery, ReviewAnswer::approved()), "/payload/taskId", Code::Missing),
        (
            tim.write("roman", NewReview::new(task.task_id, "t", "b", "w", [""; 0])),
            "/payload/filesForReview",
            Code::TooFew,
        ),
        (
            tim.write(&delivery, StatusReport::blocked("Stuck", "")),
            "/payload/blockedBy",
            Code::Blank,
        ),
        (
            tim.write(&delivery, StatusReport::in_progress("p").trackers(trackers)),
            &tracker,
            Code::Mismatch,
        ),
    ];
    for (written, path, code) in cases {
        let error = written.expect_err(path);
        let found: Vec<_> = error.violations().iter().map(|v| (v.path.as_str(), v.code)).collect();
        assert_eq!(found, [(path, code)], "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
    let news = Knowledge::new("", "", "s").relevant_to(["no one"]);
    let error = roman.share_knowledge(news).await.unwrap_err();
    let paths: Vec<_> = error.violations().iter().map(|v| v.path.as_str()).collect();
    assert_eq!(paths, ["/payload/discovery", "/payload/relevantTo/0", "/payload/topic"]);
    assert!(!error.is_temporary() && error.receipt().is_none() && error.retry_after().is_none());
    tim.complete(&delivery, "Done").await.unwrap();
    assert!(inbox.try_recv().is_err());
    bus.stop().await;
}

#[tokio::test]
async fn refusal_is_typed_explains_what_to_do_and_carries_the_receipt() {
    let n = |n: u32| std::num::NonZeroU32::new(n).unwrap();
    let rates = RateSettings { pair_burst: n(2), per_pair_per_minute: n(60), ..settings().rates };
    let settings = BusSettings { rates, inbox_limit: 1, ..settings() };
    let bus = Bus::builder().in_memory().settings(settings).start().unwrap();
    bus.connect("tim").await.unwrap().detach();
    let (roman, tony) = (bus.connect("roman").await.unwrap(), bus.connect("tony").await.unwrap());

    let error = roman.send_task_request("nobody", small_task()).await.unwrap_err();
    assert!(matches!(error, SendError::UnknownRecipient(_)), "{error:?}");
    let receipt = error.receipt().unwrap();
    assert_eq!(receipt.outcome, Outcome::UnknownRecipient);
    assert_eq!(Some(error.to_string()), receipt.reason);
    assert!(!error.is_temporary());

    let sent = roman.write("tim", small_task()).unwrap();
    assert_eq!(roman.post(sent.clone()).await.unwrap().outcome(), Outcome::Queued);
    assert_eq!(roman.post(sent.clone()).await.unwrap().outcome(), Outcome::Duplicate);
    let mut other = roman.write("tim", small_task()).unwrap();
    other.message_id = sent.message_id;
    let error = roman.post(other).await.unwrap_err();
    assert!(matches!(error, SendError::Conflict(_)), "{error:?}");
    let error = tony.post(roman.write("tim", small_task()).unwrap()).await.unwrap_err();
    assert!(matches!(error, SendError::Forbidden(_)), "{error:?}");

    let error = tony.send_task_request("tim", small_task()).await.unwrap_err();
    assert!(matches!(error, SendError::QueueFull { .. }) && error.is_temporary(), "{error:?}");
    let error = loop {
        let error = roman.send_task_request("tim", small_task()).await.unwrap_err();
        if !matches!(error, SendError::QueueFull { .. }) {
            break error;
        }
    };
    assert!(
        matches!(error, SendError::RateLimited { retry_after: Some(_), .. })
            && error.is_temporary(),
        "{error:?}"
    );
    assert!(error.retry_after().is_some_and(|pause| pause <= Duration::from_secs(1)));

    let mut broken = roman.write("tim", small_task()).unwrap();
    broken.to = None;
    let error = roman.post(broken).await.unwrap_err();
    assert!(matches!(error, SendError::Invalid(_)), "{error:?}");
    assert!(error.violations()[0].path == "/to" && error.to_string().contains("/to"), "{error}");

    bus.stop().await;
    let error = roman.send_task_request("tim", small_task()).await.unwrap_err();
    assert!(matches!(error, SendError::Unavailable { .. }) && error.is_temporary(), "{error:?}");
}
