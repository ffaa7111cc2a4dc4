//! Push notifications against receivers that behave, and receivers and name servers that do not.

/// Support: receivers and name servers.
mod receiver;
/// TLS, HTTP/2, proxies in the environment, and what the log must not contain.
mod wire;

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use a2a_webhooks::{
    AddressKind, AddressRefused, Authorization, Busy, ContentType, DeliveryError, NotificationId,
    NotificationToken, RetryDecision, UrlRefused, WebhookRequest, WebhookSettings, Webhooks,
    after_failure,
};
use bytes::Bytes;
use futures_util::FutureExt;
use receiver::{Behaviour, Names, Receiver};

/// Long enough for any machine; reached only by a test that fails.
const PATIENT: Duration = Duration::from_secs(60);
/// Short, for receivers that never answer.
const IMPATIENT: Duration = Duration::from_millis(50);

fn private() -> WebhookSettings {
    WebhookSettings { allow_private: true, timeout: PATIENT, ..WebhookSettings::default() }
}

fn impatient() -> WebhookSettings {
    WebhookSettings { timeout: IMPATIENT, ..private() }
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn call(url: impl Into<String>) -> WebhookRequest {
    WebhookRequest {
        id: NotificationId(uuid::Uuid::now_v7()),
        owner: "ann".to_owned(),
        url: url.into(),
        body: Bytes::from_static(br#"{"task":{"id":"t"}}"#),
        content_type: ContentType::A2aJson,
        authorization: None,
        token: None,
        trace: None,
    }
}

fn refused(address: &str, kind: AddressKind) -> DeliveryError {
    let address = address.parse().unwrap();
    DeliveryError::Address(AddressRefused { address, kind })
}

fn status(status: u16) -> DeliveryError {
    let retry_after = None;
    DeliveryError::Status { status, retry_after }
}

#[tokio::test]
async fn a_notification_arrives_with_its_headers() {
    let receiver = Receiver::start(Behaviour::status("204 No Content")).await;
    let webhooks = Webhooks::new(private()).unwrap();
    let call = WebhookRequest {
        authorization: Some(Authorization::new("Bearer", "credentials-7").unwrap()),
        token: Some(NotificationToken::new("token-8").unwrap()),
        trace: Some(format!("{TRACE} rojo=1").parse().unwrap()),
        ..call(receiver.url("/hook?a=b"))
    };
    webhooks.deliver(&call).await.unwrap();

    let (head, body) = receiver.request().await;
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{head}");
    let id = format!("x-a2a-notification-id: {}", call.id.0);
    let agent = format!("user-agent: openclaw-a2a/{}", env!("CARGO_PKG_VERSION"));
    for line in [
        "content-type: application/a2a+json",
        "authorization: Bearer credentials-7",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate: rojo=1",
        "x-a2a-notification-token: token-8",
        "a2a-notification-token: token-8",
        id.as_str(),
        agent.as_str(),
    ] {
        assert_eq!(head.lines().filter(|l| *l == line).count(), 1, "{line}\n{head}");
    }
    for absent in ["accept-encoding", "cookie", "referer"] {
        assert!(!head.contains(absent), "{head}");
    }
    assert_eq!(body, call.body);
}

#[tokio::test]
async fn without_secrets_there_are_no_headers_for_them() {
    let receiver = Receiver::start(Behaviour::status("200 OK")).await;
    let webhooks = Webhooks::new(private()).unwrap();
    let call = WebhookRequest { content_type: ContentType::Json, ..call(receiver.url("/")) };
    webhooks.deliver(&call).await.unwrap();
    let (head, _) = receiver.request().await;
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert!(!head.contains("authorization") && !head.contains("token"), "{head}");
}

#[tokio::test]
async fn names_are_looked_up_by_the_system() {
    let receiver = Receiver::start(Behaviour::status("200 OK")).await;
    let webhooks = Webhooks::new(private()).unwrap();
    let url = format!("http://localhost:{}/", receiver.port());
    webhooks.deliver(&call(url)).await.unwrap();
    let (head, _) = receiver.request().await;
    assert!(head.contains("host: localhost:"), "{head}");
}

#[tokio::test]
async fn only_the_switch_lets_loopback_through() {
    let receiver = Receiver::start(Behaviour::status("200 OK")).await;
    let names = Names::fixed(&["127.0.0.1"]);
    let settings = WebhookSettings { allow_private: false, ..private() };
    let webhooks = Webhooks::with_lookup(settings, names).unwrap();
    let port = receiver.port();
    let loopback =
        AddressRefused { address: IpAddr::from([127, 0, 0, 1]), kind: AddressKind::Loopback };
    for (url, expected) in [
        (format!("https://127.0.0.1:{port}/"), UrlRefused::Address(loopback)),
        (format!("http://127.0.0.1:{port}/"), UrlRefused::Scheme),
        (format!("https://localhost:{port}/"), UrlRefused::LocalName),
    ] {
        assert_eq!(webhooks.check(&url).unwrap_err(), expected);
        // Also for a URL that was not checked, or that was registered when the switch was on.
        let error = webhooks.deliver(&call(&url)).await.unwrap_err();
        assert_eq!(error, DeliveryError::Url(expected), "{url}");
    }

    // Nothing wrong can be seen in this one: its name leads here all the same.
    let url = format!("https://hooks.example.com:{port}/");
    assert!(webhooks.check(&url).is_ok());
    let error = webhooks.deliver(&call(&url)).await.unwrap_err();
    assert_eq!(error, refused("127.0.0.1", AddressKind::Loopback));
    assert_eq!(after_failure(1, &error, webhooks.settings(), 0), RetryDecision::GiveUp);
    assert_eq!(receiver.connections().await, 0);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_judged_at_every_connection() {
    let receiver = Receiver::start(Behaviour::status("200 OK")).await;
    let names = Names::changing(&[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1"]]);
    let webhooks = Webhooks::with_lookup(private(), Arc::clone(&names) as _).unwrap();
    let url = format!("http://rebind.example.com:{}/", receiver.port());

    webhooks.deliver(&call(&url)).await.unwrap();
    assert_eq!(names.asked.load(Ordering::SeqCst), 1, "no second question to answer otherwise");
    let error = webhooks.deliver(&call(&url)).await.unwrap_err();
    assert_eq!(error, refused("169.254.169.254", AddressKind::Metadata));
    webhooks.deliver(&call(&url)).await.unwrap();
    assert_eq!(names.asked.load(Ordering::SeqCst), 3);
    assert_eq!(receiver.connections().await, 2);
}

#[tokio::test]
async fn one_forbidden_address_refuses_them_all() {
    let receiver = Receiver::start(Behaviour::status("200 OK")).await;
    for answers in [
        ["127.0.0.1", "169.254.169.254"],
        ["169.254.169.254", "127.0.0.1"],
        ["127.0.0.1", "::ffff:169.254.169.254"],
        ["127.0.0.1", "64:ff9b::a9fe:a9fe"],
    ] {
        let webhooks = Webhooks::with_lookup(private(), Names::fixed(&answers)).unwrap();
        let url = format!("http://mixed.example.com:{}/", receiver.port());
        let error = webhooks.deliver(&call(url)).await.unwrap_err();
        let DeliveryError::Address(refused) = error else { panic!("{answers:?}: {error:?}") };
        assert_eq!(refused.kind, AddressKind::Metadata, "{answers:?}");
    }
    assert_eq!(receiver.connections().await, 0);
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_tried_again() {
    let webhooks = Webhooks::with_lookup(private(), Names::fixed(&[])).unwrap();
    let error = webhooks.deliver(&call("https://gone.example.com/")).await;
    let error = error.unwrap_err();
    assert!(matches!(error, DeliveryError::Name(_)), "{error:?}");
    assert!(error.is_temporary());
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let inside = Receiver::start(Behaviour::status("200 OK")).await;
    for code in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let answer = format!(
            "HTTP/1.1 {code}\r\nlocation: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            inside.url("/secret")
        );
        let receiver = Receiver::start(Behaviour::Answer(answer.into())).await;
        let webhooks = Webhooks::new(private()).unwrap();
        let error = webhooks.deliver(&call(receiver.url("/"))).await.unwrap_err();
        assert_eq!(error, status(code[..3].parse().unwrap()));
        assert!(!error.is_temporary());
    }
    assert_eq!(inside.connections().await, 0);
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    for head in
        ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\n"]
    {
        let receiver = Receiver::start(Behaviour::Endless(head.into(), vec![b'x'; 65536])).await;
        let webhooks = Webhooks::new(private()).unwrap();
        webhooks.deliver(&call(receiver.url("/"))).await.unwrap();
        // What the kernel holds for both sides is a few megabytes.
        let written = receiver.written_until_cut_off().await;
        assert!(written < 64 << 20, "{written} bytes were taken");
    }
}

#[tokio::test]
async fn an_answer_that_stops_after_its_status_counts() {
    let started = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n1234".to_vec();
    let receiver = Receiver::start(Behaviour::AnswerAndHang(started)).await;
    let webhooks = Webhooks::new(private()).unwrap();
    webhooks.deliver(&call(receiver.url("/"))).await.unwrap();
}

#[tokio::test]
async fn who_does_not_answer_is_cut_off() {
    for behaviour in [
        Behaviour::AnswerAndHang(Vec::new()),
        Behaviour::AnswerAndHang(b"HTTP/1.1 200 OK\r\nx-slow: ".to_vec()),
        Behaviour::Endless(String::new(), b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
    ] {
        let receiver = Receiver::start(behaviour).await;
        let webhooks = Webhooks::new(impatient()).unwrap();
        let error = webhooks.deliver(&call(receiver.url("/"))).await.unwrap_err();
        assert_eq!(error, DeliveryError::Timeout);
        assert!(error.is_temporary());
    }
}

#[tokio::test]
async fn a_name_server_that_does_not_answer_is_cut_off() {
    let webhooks = Webhooks::with_lookup(impatient(), Arc::new(receiver::Silence)).unwrap();
    let error = webhooks.deliver(&call("https://slow.example.com/")).await;
    assert_eq!(error.unwrap_err(), DeliveryError::Timeout);
}

#[tokio::test]
async fn what_is_not_http_is_a_failure() {
    let headers = "x-filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    for behaviour in [
        Behaviour::Answer(b"220 mail.example.com ESMTP\r\n".to_vec()),
        Behaviour::Answer(Vec::new()),
        Behaviour::Endless("HTTP/1.1 200 OK\r\n".into(), headers.into()),
    ] {
        let receiver = Receiver::start(behaviour).await;
        let webhooks = Webhooks::new(private()).unwrap();
        let error = webhooks.deliver(&call(receiver.url("/"))).await.unwrap_err();
        assert!(matches!(error, DeliveryError::Broken(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_closed_port_is_tried_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/?key=hidden", listener.local_addr().unwrap());
    drop(listener);
    let webhooks = Webhooks::new(private()).unwrap();
    let error = webhooks.deliver(&call(url)).await.unwrap_err();
    assert!(matches!(error, DeliveryError::Connect(_)), "{error:?}");
    assert!(error.is_temporary());
    assert!(!format!("{error} {error:?}").contains("hidden"));
}

#[tokio::test]
async fn a_receiver_can_ask_for_a_pause() {
    let answer = "HTTP/1.1 429 Slow Down\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::start(Behaviour::Answer(answer.into())).await;
    let webhooks = Webhooks::new(private()).unwrap();
    let error = webhooks.deliver(&call(receiver.url("/"))).await.unwrap_err();
    let after = Duration::from_secs(120);
    let retry_after = Some(after);
    assert_eq!(error, DeliveryError::Status { status: 429, retry_after });
    assert_eq!(after_failure(1, &error, webhooks.settings(), 0), RetryDecision::Retry { after });
}

#[tokio::test]
async fn the_status_decides_what_follows() {
    for (line, code) in [("500 Oops", 500), ("404 Not Found", 404), ("410 Gone", 410)] {
        let receiver = Receiver::start(Behaviour::status(line)).await;
        let webhooks = Webhooks::new(private()).unwrap();
        let error = webhooks.deliver(&call(receiver.url("/"))).await.unwrap_err();
        assert_eq!(error, status(code));
    }
}

#[tokio::test]
async fn a_slow_receiver_does_not_hold_the_others() {
    let slow = Receiver::start(Behaviour::AnswerAndHang(Vec::new())).await;
    let quick = Receiver::start(Behaviour::status("200 OK")).await;
    let settings = WebhookSettings {
        at_once: NonZeroUsize::new(2).unwrap(),
        at_once_per_host: NonZeroUsize::MIN,
        waiting_per_host: 1,
        ..private()
    };
    let names = Names::fixed(&["127.0.0.1"]);
    let webhooks = Arc::new(Webhooks::with_lookup(settings, names).unwrap());
    let to_slow = call(format!("http://slow.example.com:{}/", slow.port()));

    let first = {
        let (webhooks, to_slow) = (Arc::clone(&webhooks), to_slow.clone());
        tokio::spawn(async move { webhooks.deliver(&to_slow).await })
    };
    slow.request().await;
    let mut second = Box::pin(webhooks.deliver(&to_slow));
    assert!(second.as_mut().now_or_never().is_none());
    let third = webhooks.deliver(&to_slow).now_or_never();
    assert_eq!(third.unwrap().unwrap_err(), DeliveryError::Busy(Busy::Host));

    let url = format!("http://quick.example.com:{}/", quick.port());
    webhooks.deliver(&call(url)).await.unwrap();
    assert!(!first.is_finished() && slow.connections().await == 1);
    first.abort();
}

/// The settings of the program: the system's certificates, the system's resolver.
#[tokio::test]
async fn the_defaults_can_be_set_up() {
    let webhooks = Webhooks::new(WebhookSettings::default()).unwrap();
    assert!(webhooks.check("https://example.com/tck-push-webhook").is_ok());
    let timeout = webhooks.settings().timeout;
    assert!((10..=30).contains(&timeout.as_secs()), "{timeout:?}");
}
