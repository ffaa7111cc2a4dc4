//! Sessions over WebSocket: sending, and frames that are not as they should be.

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::Message;

use crate::server::{Server, message};
use crate::socket::{Socket, text};

fn started() -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[limits]\nburst = 1000\n");
    server.inbox("ann", "");
    (folder, server)
}

fn sent(socket: &mut Socket, name: &str, message: &Value) -> Value {
    socket.say(&json!({"type": "send", "ref": name, "message": message}));
    let receipt = socket.receive();
    assert_eq!((&receipt["type"], &receipt["ref"]), (&json!("receipt"), &json!(name)), "{receipt}");
    receipt
}

#[test]
fn what_is_sent_gets_the_receipt_it_would_get_over_http() {
    let (_folder, server) = started();
    let (mut tim, _) = Socket::connect(&server, "tim");
    let (mut ann, _) = Socket::connect(&server, "ann");
    let hi = message("tim", "ann", "hi");
    let mut receipt = sent(&mut tim, "1", &hi);
    assert_eq!(receipt["outcome"], "delivered");
    assert_eq!(receipt["recipients"], json!([{"agentId": "ann", "outcome": "delivered"}]));
    let frame = ann.delivered();
    assert_eq!((&frame["message"], &frame["seq"]), (&hi, &receipt["seq"]));
    let again = sent(&mut tim, "2", &hi);
    assert_eq!((&again["outcome"], &again["seq"]), (&json!("duplicate"), &receipt["seq"]));
    // The same over HTTP, apart from what makes it a frame.
    let over_http = server.send(&hi).body;
    for part in ["type", "ref"] {
        receipt.as_object_mut().unwrap().remove(part);
    }
    receipt["outcome"] = json!("duplicate");
    assert_eq!(over_http, receipt);
}

#[test]
fn refusal_has_its_cause_and_the_session_continues() {
    let (_folder, server) = started();
    let (mut tim, _) = Socket::connect(&server, "tim");
    let forged = sent(&mut tim, "a", &message("roman", "ann", "hi"));
    assert_eq!(forged["outcome"], "forbidden");
    assert!(forged["reason"].as_str().unwrap().contains("`tim`"), "{forged}");
    let unknown = sent(&mut tim, "b", &message("tim", "nobody", "hi"));
    assert_eq!(unknown["outcome"], "unknown_recipient");
    let mut bad = message("tim", "ann", "hi");
    bad["prioritty"] = json!("high");
    bad["payload"]["status"] = json!("started");
    let invalid = sent(&mut tim, "c", &bad);
    assert_eq!(invalid["outcome"], "invalid");
    let mut paths: Vec<_> = invalid["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/payload/status", "/prioritty"]);
    for no_message in [json!(7), json!([]), json!({})] {
        assert_eq!(sent(&mut tim, "d", &no_message)["outcome"], "invalid");
    }
    // Larger than a message may be, and not too large for a frame.
    let mut large = message("tim", "ann", "hi");
    large["payload"]["metadata"] = json!({"https://example.org/x": vec!["x".repeat(1_000); 262]});
    let large = sent(&mut tim, "e", &large);
    assert_eq!(
        (&large["outcome"], &large["errors"][0]["code"]),
        (&json!("invalid"), &json!("too_large"))
    );
    assert_eq!(sent(&mut tim, "f", &message("tim", "ann", "hi"))["outcome"], "queued");
    // Nothing but the last arrived.
    assert_eq!(server.inbox("ann", "").len(), 1);
}

#[test]
fn many_requests_may_be_under_way_and_messages_keep_their_order() {
    let (_folder, server) = started();
    let (mut tim, _) = Socket::connect(&server, "tim");
    let (mut ann, _) = Socket::greet(&server, "ann", json!({"window": 256}));
    for n in 0..100 {
        let message = message("tim", "ann", &n.to_string());
        tim.say(&json!({"type": "send", "ref": n.to_string(), "message": message}));
    }
    let mut answered: Vec<_> =
        (0..100).map(|_| tim.receive()["ref"].as_str().unwrap().to_owned()).collect();
    answered.sort_by_key(|name| name.parse::<u32>().unwrap());
    let names: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(answered, names);
    let received: Vec<_> = (0..100).map(|_| text(&ann.delivered()).to_owned()).collect();
    assert_eq!(received, names);
}

#[test]
fn a_frame_that_cannot_be_read_is_answered_with_what_can() {
    let (_folder, server) = started();
    let (mut socket, _) = Socket::connect(&server, "tim");
    for (frame, expected) in [
        ("{", "JSON"),
        ("[]", "JSON"),
        ("\"hello\"", "JSON"),
        ("{\"type\":7}", "JSON"),
        ("{\"typ\":\"ack\"}", "`type`"),
        ("{\"type\":\"deliver\"}", "deliver"),
        ("{\"type\":\"ack\"}", "messageId"),
        ("{\"type\":\"ack\",\"messageId\":\"x\"}", "UUID"),
        ("{\"type\":\"ping\",\"nonce\":1}", "nonce"),
        ("{\"type\":\"hello\",\"window\":0}", "1 to 256"),
        ("{\"type\":\"hello\",\"window\":257}", "1 to 256"),
        ("{\"type\":\"hello\",\"graceSeconds\":61}", "0 to 60"),
        ("{\"type\":\"hello\",\"inHands\":[]}", "resume"),
    ] {
        socket.say_raw(Message::text(frame));
        let error = socket.error("bad_frame");
        assert!(error["message"].as_str().unwrap().contains(expected), "{frame}: {error}");
    }
    socket.say_raw(Message::binary(b"{}".to_vec()));
    socket.error("binary");
    // A frame that is right makes up for those before it.
    socket.say(&json!({"type": "hello"}));
    assert_eq!(socket.receive()["type"], "hello");
    socket.is_quiet();
}

#[test]
fn session_with_repeated_errors_is_closed() {
    let (_folder, server) = started();
    let (mut socket, _) = Socket::connect(&server, "tim");
    for _ in 0..16 {
        assert!(socket.try_send_raw(Message::text("no")));
    }
    let (frames, code, _) = socket.closed();
    let codes: Vec<_> = frames.iter().map(|frame| frame["code"].as_str().unwrap()).collect();
    assert_eq!(codes[..16], ["bad_frame"; 16]);
    assert_eq!((codes[16], code), ("too_many_errors", 1008));
}

#[test]
fn a_frame_that_is_too_large_ends_the_connection_and_nothing_else() {
    let (_folder, server) = started();
    for fragmented in [false, true] {
        let (mut socket, _) = Socket::connect(&server, "tim");
        let large = "x".repeat(400_000);
        match fragmented {
            false => drop(socket.try_send_raw(Message::text(large))),
            true => socket.say_fragments(&large, 100_000),
        }
        let (frames, code, reason) = socket.closed();
        assert_eq!((code, &frames[0]["code"]), (1009, &json!("too_large")), "{reason} {frames:?}");
    }
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn what_is_no_text_ends_the_connection() {
    let (_folder, server) = started();
    let (mut socket, _) = Socket::connect(&server, "tim");
    socket.say_bytes_as_text(b"\xff\xfe");
    let (frames, code, _) = socket.closed();
    assert_eq!((code, &frames[0]["code"]), (1007, &json!("not_utf8")));
}
