//! A WebSocket client that is an agent: frames as JSON, and how the connection ended.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::listener::SOON;
use crate::server::{Server, id_of};

/// The connection, and what was read while something else was waited for.
pub(crate) struct Socket(WebSocket<TcpStream>, VecDeque<Value>);

/// Ends a test that waits in vain; pings come all the time.
struct Patience(Instant);

impl Patience {
    fn new() -> Self {
        Self(Instant::now() + SOON)
    }

    #[track_caller]
    fn check(&self) {
        assert!(Instant::now() < self.0, "nothing but pings came");
    }
}

/// The status and the body of an answer that is no session.
pub(crate) type Refused = (u16, Value);

impl Socket {
    /// Connects with these headers, or returns the answer that refused it.
    pub(crate) fn try_connect(
        server: &Server,
        agent: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, Refused> {
        let address = server.url().strip_prefix("http://").unwrap();
        let url = format!("ws://{address}/bus/agents/{agent}/session");
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self(socket, VecDeque::new())),
            Err(HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                let body = response.body().as_deref().unwrap_or_default();
                let body = serde_json::from_slice(body).unwrap_or(Value::Null);
                Err((response.status().as_u16(), body))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Connects, and has read the first `hello`.
    pub(crate) fn connect(server: &Server, agent: &str) -> (Self, Value) {
        let mut socket = Self::try_connect(server, agent, &[]).unwrap();
        let hello = socket.receive();
        assert_eq!(hello["type"], "hello", "{hello}");
        assert_eq!(hello["agentId"], agent);
        (socket, hello)
    }

    /// Connects and sends hello; returns the answer.
    pub(crate) fn greet(server: &Server, agent: &str, mut hello: Value) -> (Self, Value) {
        let (mut socket, _) = Self::connect(server, agent);
        hello["type"] = json!("hello");
        socket.say(&hello);
        let answer = socket.receive();
        assert_eq!(answer["type"], "hello", "{answer}");
        (socket, answer)
    }

    pub(crate) fn say(&mut self, frame: &Value) {
        self.say_raw(Message::text(frame.to_string()));
    }

    pub(crate) fn say_raw(&mut self, message: Message) {
        self.0.send(message).unwrap();
    }

    /// The same when the other end may be closing already.
    pub(crate) fn try_send_raw(&mut self, message: Message) -> bool {
        self.0.send(message).is_ok()
    }

    /// The next frame.
    pub(crate) fn receive(&mut self) -> Value {
        match self.1.pop_front() {
            Some(earlier) => earlier,
            None => self.read(),
        }
    }

    fn read(&mut self) -> Value {
        let patience = Patience::new();
        loop {
            patience.check();
            match self.0.read().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next frame; `None` when the connection has ended.
    pub(crate) fn try_receive(&mut self) -> Option<Value> {
        let patience = Patience::new();
        loop {
            patience.check();
            match self.0.read().ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// The content of the next pong.
    pub(crate) fn pong(&mut self) -> String {
        let patience = Patience::new();
        loop {
            patience.check();
            match self.0.read().unwrap() {
                Message::Pong(data) => return String::from_utf8(data.to_vec()).unwrap(),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// One text in pieces of this size.
    pub(crate) fn say_fragments(&mut self, text: &str, size: usize) {
        let mut pieces = text.as_bytes().chunks(size).peekable();
        let mut kind = Data::Text;
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            let frame = Frame::message(piece.to_vec(), OpCode::Data(kind), is_last);
            if self.0.send(Message::Frame(frame)).is_err() {
                return; // it has enough
            }
            kind = Data::Continue;
        }
    }

    /// Bytes that claim to be text.
    pub(crate) fn say_bytes_as_text(&mut self, bytes: &[u8]) {
        let frame = Frame::message(bytes.to_vec(), OpCode::Data(Data::Text), true);
        self.0.send(Message::Frame(frame)).unwrap();
    }

    /// The next message that is handed out: its text, and the frame.
    pub(crate) fn delivered(&mut self) -> Value {
        let frame = self.receive();
        assert_eq!(frame["type"], "deliver", "{frame}");
        frame
    }

    /// Acknowledges what was handed out; durable when this returns.
    pub(crate) fn ack(&mut self, frame: &Value) {
        let id = id_of(frame);
        self.say(&json!({"type": "ack", "messageId": id}));
        self.expect_frame(&json!({"type": "ack", "messageId": id, "durable": true}));
    }

    pub(crate) fn nack(&mut self, frame: &Value, reason: &str) {
        let id = id_of(frame);
        self.say(&json!({"type": "nack", "messageId": id, "reason": reason}));
        self.expect_frame(&json!({"type": "nack", "messageId": id, "durable": true}));
    }

    /// Waits for this frame; others are read later.
    fn expect_frame(&mut self, expected: &Value) {
        let patience = Patience::new();
        loop {
            patience.check();
            let frame = self.read();
            if frame == *expected {
                return;
            }
            self.1.push_back(frame);
        }
    }

    /// Nothing else was on its way: the answer to a ping is what comes next.
    pub(crate) fn is_quiet(&mut self) {
        self.say(&json!({"type": "ping", "id": "quiet?"}));
        assert_eq!(self.receive(), json!({"type": "ping", "id": "quiet?", "answer": true}));
    }

    /// An error with this code, and its text.
    pub(crate) fn error(&mut self, code: &str) -> Value {
        let frame = self.receive();
        assert_eq!((&frame["type"], &frame["code"]), (&json!("error"), &json!(code)), "{frame}");
        assert!(frame["message"].as_str().unwrap().len() > 10, "{frame}");
        frame
    }

    /// Reads to the end; the frames before it, the code and the reason.
    pub(crate) fn closed(mut self) -> (Vec<Value>, u16, String) {
        let mut frames = Vec::new();
        let patience = Patience::new();
        loop {
            patience.check();
            match self.0.read() {
                Ok(Message::Text(text)) => frames.push(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(Some(close))) => {
                    let reason = close.reason.to_string();
                    return (frames, close.code.into(), reason);
                }
                Ok(Message::Close(None)) => panic!("closed without a reason"),
                Ok(_) => {}
                Err(error) => panic!("{error} after {frames:?}"),
            }
        }
    }

    /// Closes as a client that is done does, and waits for the answer.
    pub(crate) fn leave(mut self) {
        let normal =
            tungstenite::protocol::CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.0.close(Some(normal)).unwrap();
        while self.0.read().is_ok() {}
    }
}

/// The text of a delivered status update.
pub(crate) fn text(frame: &Value) -> &str {
    frame["message"]["payload"]["progress"].as_str().unwrap()
}
