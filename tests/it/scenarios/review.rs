//! The review cycle of the specification: work returns to its agent until an entitled reviewer
//! approves it, then the next action starts.

use a2a_protocol::{AssignmentState, ReviewState};
use openclaw_a2a::{FollowUp, NewReview, ReviewAnswer, Severity};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;

fn with_team() -> BusSettings {
    BusSettings { agents: team(), open: false, ..quick() }
}

fn review_of(asked: &Sent) -> NewReview {
    let task = asked.task_id().unwrap();
    NewReview::new(task, "Review: the router", "roman/router", "worktrees/router", ["router.rs"])
        .author_tier("T3-Staff")
        .in_conversation(asked.correlation_id())
}

/// The verdict as `senior` gives it on a delivery that escalated: the same work, to its author.
fn verdict_of(senior: &Agent, escalation: &Delivery, to: &str, next: &[(&str, &str)]) -> Envelope {
    let mut body = payload(escalation);
    body["verdict"] = "approved".into();
    body["nextAction"] = "push_and_close".into();
    let next = next.iter().map(|(title, to)| serde_json::json!({"title": title, "assignTo": to}));
    body["nextTasks"] = next.collect();
    let fresh = remark(senior, to, "-", escalation.message.correlation_id);
    let mut message = serde_json::to_value(fresh).unwrap();
    message["type"] = "review_response".into();
    message["payload"] = body;
    openclaw_a2a::parse_message(message.to_string().as_bytes()).unwrap()
}

/// Claire asks roman for work and roman has done it.
async fn done_work(
    bus: &Bus,
) -> (Agent, UnboundedReceiver<Delivery>, Agent, UnboundedReceiver<Delivery>, Sent, Delivery) {
    let (claire, claire_inbox) = listener(bus, "claire").await;
    let (roman, mut roman_inbox) = listener(bus, "roman").await;
    let asked = claire.send_task_request("roman", small_task()).await.unwrap();
    let delivery = next(&mut roman_inbox).await;
    roman.accept(&delivery).await.unwrap();
    roman.complete(&delivery, "It routes.").await.unwrap();
    (claire, claire_inbox, roman, roman_inbox, asked, delivery)
}

async fn review(bus: &Bus, id: TaskId) -> (AssignmentState, ReviewState, String, u32) {
    let task = task(bus, id).await;
    let review = task.review.expect("a review was asked for");
    (task.state, review.state, review.reviewer.to_string(), review.round)
}

#[tokio::test]
async fn work_is_sent_back_escalated_to_the_agent_named_approved_and_followed_by_the_next_task() {
    let folder = folder();
    let bus = start(&folder, with_team());
    let (_claire, _, roman, mut roman_inbox, asked, delivery) = done_work(&bus).await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let id = asked.task_id().unwrap();
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);

    roman.send_review_request("tony", review_of(&asked)).await.unwrap();
    let first = next(&mut tony_inbox).await;
    assert_eq!(
        review(&bus, id).await,
        (AssignmentState::Completed, ReviewState::Pending, "tony".into(), 1)
    );
    let back = ReviewAnswer::changes_requested().concern_at("router.rs", 9, Severity::MustFix, "?");
    tony.send_review_response(&first, back).await.unwrap();
    assert_eq!(payload(&next(&mut roman_inbox).await)["verdict"], "changes_requested");
    let sent_back = (AssignmentState::Reopened, ReviewState::ChangesRequested, "tony".into(), 1);
    assert_eq!(review(&bus, id).await, sent_back);

    let bus = restart(bus, &folder, with_team()).await;
    assert_eq!(review(&bus, id).await, sent_back);
    let (roman, mut roman_inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    roman.accept(&delivery).await.unwrap();
    roman.complete(&delivery, "It routes better.").await.unwrap();
    let again = review_of(&asked).prior_notes("Line 9");
    roman.send_review_request("tony", again).await.unwrap();
    let second = next(&mut tony_inbox).await;
    // Tony leaves it to Amadeus, by name.
    let mut escalation = tony.write(&second, ReviewAnswer::escalated()).unwrap();
    escalation.to.as_mut().unwrap().agent_id = super::id("amadeus");
    let sent = tony.post(escalation).await.unwrap();
    assert_eq!(outcomes(sent.recipients()), [("amadeus", Outcome::Queued)]);
    let escalated = (AssignmentState::Completed, ReviewState::Escalated, "amadeus".into(), 2);
    assert_eq!(review(&bus, id).await, escalated);

    let bus = restart(bus, &folder, with_team()).await;
    assert_eq!(review(&bus, id).await, escalated);
    let (amadeus, mut amadeus_inbox) = listener(&bus, "amadeus").await;
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let (_tony, mut receives_next) = listener(&bus, "tony").await;
    let to_amadeus = next(&mut amadeus_inbox).await;
    let follow = [("Implement the SDK", "tony"), ("Write the docs", "T4")];
    amadeus.post(verdict_of(&amadeus, &to_amadeus, "roman", &follow)).await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["verdict"], "approved");
    assert_eq!(
        review(&bus, id).await,
        (AssignmentState::Completed, ReviewState::Approved, "amadeus".into(), 2)
    );
    let proposed = task(&bus, id).await.proposed;
    let titles: Vec<_> = proposed.iter().map(|p| (p.title.as_str(), p.started)).collect();
    assert_eq!(titles, [("Implement the SDK", None), ("Write the docs", None)]);

    let begin = NewTask::new("Implement the SDK", "One method for each kind of message.");
    let begin = begin.in_conversation(asked.correlation_id());
    let begun = amadeus.send_task_request("tony", begin).await.unwrap();
    next_is(&mut receives_next, &begun).await;
    let proposed = task(&bus, id).await.proposed;
    let started: Vec<_> = proposed.iter().map(|p| p.started).collect();
    assert_eq!(started, [begun.task_id(), None]);
    assert_eq!(state(&bus, begun.task_id().unwrap()).await, AssignmentState::Requested);
    assert!(roman_inbox.try_recv().is_err(), "the escalation was for amadeus alone");
    bus.stop().await;
}

#[tokio::test]
async fn an_escalation_addressed_to_the_worker_goes_to_the_next_tier_as_well() {
    let folder = folder();
    let bus = start(&folder, with_team());
    let (_claire, _, roman, mut roman_inbox, asked, _) = done_work(&bus).await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let id = asked.task_id().unwrap();
    roman.send_review_request("tony", review_of(&asked)).await.unwrap();
    let request = next(&mut tony_inbox).await;

    let bus = restart(bus, &folder, with_team()).await;
    assert!(roman_inbox.try_recv().is_err() && tim_inbox.try_recv().is_err());
    let (_roman, mut roman_inbox) = listener(&bus, "roman").await;
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (tony, _) = listener(&bus, "tony").await;
    let sent = tony.send_review_response(&request, ReviewAnswer::escalated()).await.unwrap();
    let both = [("roman", Outcome::Delivered), ("tim", Outcome::Delivered)];
    assert_eq!(outcomes(sent.recipients()), both, "tony is T2, and tim the only T1");
    next_is(&mut roman_inbox, &sent).await;
    let escalation = next(&mut tim_inbox).await;
    assert_eq!(payload(&escalation)["verdict"], "escalated");
    assert_eq!(
        review(&bus, id).await,
        (AssignmentState::Completed, ReviewState::Escalated, "tim".into(), 1)
    );

    // It is tim's now: tony's verdict no longer counts.
    let late = tony.send_review_response(&request, ReviewAnswer::approved()).await.unwrap_err();
    assert_eq!(late.outcome(), Some(Outcome::NotAssignee));
    tim.post(verdict_of(&tim, &escalation, "roman", &[])).await.unwrap();
    assert_eq!(
        review(&bus, id).await,
        (AssignmentState::Completed, ReviewState::Approved, "tim".into(), 1)
    );
    bus.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_the_review_is_refused_and_changes_nothing() {
    let folder = folder();
    let bus = start(&folder, with_team());
    let (_claire, _, roman, _, asked, delivery) = done_work(&bus).await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let id = asked.task_id().unwrap();
    let before = task(&bus, id).await;

    let refused = async |by: &Agent, request: &Delivery| {
        let answer = by.send_review_response(request, ReviewAnswer::approved()).await;
        answer.unwrap_err().outcome().unwrap()
    };
    let mine = roman.send_review_request("tony", review_of(&asked)).await.unwrap();
    let request = next(&mut tony_inbox).await;
    assert_eq!(Some(request.seq), mine.seq());
    let pending = task(&bus, id).await;
    assert_ne!(pending, before);

    let bus = restart(bus, &folder, with_team()).await;
    let (roman, mut roman_inbox) = listener(&bus, "roman").await;
    let (tony, mut inbox) = listener(&bus, "tony").await;
    let (claire, _) = listener(&bus, "claire").await;
    let (barry, _) = listener(&bus, "barry").await;
    let twice = roman.send_review_request("tony", review_of(&asked)).await.unwrap_err();
    assert_eq!(twice.outcome(), Some(Outcome::IllegalTransition), "tony owes a verdict already");
    assert_eq!(refused(&claire, &request).await, Outcome::NotAssignee, "claire was not asked");
    let stranger = barry.send_review_request("tony", review_of(&asked)).await.unwrap_err();
    assert_eq!(stranger.outcome(), Some(Outcome::NotAssignee), "barry has no part in it");
    assert_eq!(task(&bus, id).await, pending);

    tony.send_review_response(&request, ReviewAnswer::approved()).await.unwrap();
    assert_eq!(payload(&next(&mut roman_inbox).await)["verdict"], "approved");
    let approved = task(&bus, id).await;
    assert_eq!(refused(&tony, &request).await, Outcome::IllegalTransition, "one verdict is owed");
    let over = roman.send_review_request("tony", review_of(&asked)).await.unwrap_err();
    assert_eq!(over.outcome(), Some(Outcome::IllegalTransition), "nothing is left to review");
    let too_late = roman.complete(&delivery, "Again").await.unwrap_err();
    assert_eq!(too_late.outcome(), Some(Outcome::IllegalTransition));
    assert_eq!(task(&bus, id).await, approved);
    next_is(&mut inbox, &word(&roman, "tony").await).await;
    bus.stop().await;
}

#[tokio::test]
async fn a_verdict_without_a_review_is_refused() {
    let folder = folder();
    let bus = start(&folder, with_team());
    let (_claire, _, roman, _, asked, _) = done_work(&bus).await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    // Tony was asked to review other work, and gives the verdict on this.
    let other = of_other_work(&roman, "tony");
    roman.post(other).await.unwrap();
    let request = next(&mut tony_inbox).await;
    let mut verdict = tony.write(&request, ReviewAnswer::approved()).unwrap();
    let Body::ReviewResponse(body) = &mut verdict.body else { panic!("a verdict") };
    body.task_id = asked.task_id().unwrap();

    let before = task(&bus, body.task_id).await;
    let bus = restart(bus, &folder, with_team()).await;
    let (tony, _) = listener(&bus, "tony").await;
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let refused = tony.send(verdict).await;
    assert_eq!(refused.outcome, Outcome::IllegalTransition);
    assert!(refused.reason.unwrap().contains("nobody asked for its review"));
    assert_eq!(task(&bus, asked.task_id().unwrap()).await, before);
    next_is(&mut inbox, &word(&tony, "roman").await).await;
    bus.stop().await;
}

/// A review of work that was not requested over the bus.
fn of_other_work(from: &Agent, to: &str) -> Envelope {
    let task = uuid::Uuid::now_v7().try_into().unwrap();
    from.write(to, NewReview::new(task, "Review: a fix", "b", "w", ["fix.rs"])).unwrap()
}

#[tokio::test]
async fn unrequested_work_is_in_the_ledger_once_its_review_is_and_done_when_approved() {
    let folder = folder();
    let bus = start(&folder, with_team());
    let (roman, _) = listener(&bus, "roman").await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let sent = roman.post(of_other_work(&roman, "tony")).await.unwrap();
    let id = sent.task_id().unwrap();
    let request = next(&mut tony_inbox).await;
    let pending = (AssignmentState::Working, ReviewState::Pending, "tony".into(), 1);
    assert_eq!(review(&bus, id).await, pending);

    let bus = restart(bus, &folder, with_team()).await;
    assert_eq!(review(&bus, id).await, pending);
    let (tony, _) = listener(&bus, "tony").await;
    let next_task = ReviewAnswer::approved().next_task(FollowUp::new("Ship it"));
    tony.send_review_response(&request, next_task).await.unwrap();
    let approved = (AssignmentState::Completed, ReviewState::Approved, "tony".into(), 1);
    assert_eq!(review(&bus, id).await, approved);
    // The worker may start what was proposed, too.
    let (roman, _) = listener(&bus, "roman").await;
    let ship = NewTask::new("Ship it", "To everyone").in_conversation(sent.correlation_id());
    let begun = roman.send_task_request("tony", ship).await.unwrap();
    assert_eq!(task(&bus, id).await.proposed[0].started, begun.task_id());
    bus.stop().await;
}

/// The delivery that escalates has everything a verdict needs: the task, the branch, the worktree.
#[tokio::test]
async fn senior_gives_the_verdict_by_answering_the_escalation() {
    let folder = folder();
    let bus = start(&folder, with_team());
    let (_claire, _, roman, _, asked, _) = done_work(&bus).await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    roman.send_review_request("tony", review_of(&asked)).await.unwrap();
    let request = next(&mut tony_inbox).await;
    tony.send_review_response(&request, ReviewAnswer::escalated()).await.unwrap();
    let escalation = next(&mut tim_inbox).await;
    tim.send_review_response(&escalation, ReviewAnswer::approved()).await.unwrap();
    let bus = restart(bus, &folder, with_team()).await;
    let approved = (AssignmentState::Completed, ReviewState::Approved, "tim".into(), 1);
    assert_eq!(review(&bus, asked.task_id().unwrap()).await, approved);
    bus.stop().await;
}
