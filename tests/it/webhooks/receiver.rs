//! Receivers of notifications that misbehave on request, and name servers that answer from a list.
//! Knows nothing of what is tested with them.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2a_webhooks::{Answer, Lookup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, watch};

/// What a receiver does once it has read a request.
pub enum Behaviour {
    /// Sends this and closes.
    Answer(Vec<u8>),
    /// Sends this and then nothing more, without closing.
    AnswerAndHang(Vec<u8>),
    /// Sends the first, and the second for ever.
    Endless(String, Vec<u8>),
}

impl Behaviour {
    /// An ordinary answer without a body.
    pub fn status(line: &str) -> Self {
        let answer = format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        Self::Answer(answer.into_bytes())
    }
}

type Request = (String, Vec<u8>);

/// A listener on a port of its own.
pub struct Receiver {
    port: u16,
    /// The ports of those who connected, in order.
    callers: watch::Receiver<Vec<u16>>,
    requests: Mutex<mpsc::UnboundedReceiver<Request>>,
    cut_off: Mutex<mpsc::UnboundedReceiver<usize>>,
}

impl Receiver {
    pub async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (calling, callers) = watch::channel(Vec::new());
        let (to_test, requests) = mpsc::unbounded_channel();
        let (cutting, cut_off) = mpsc::unbounded_channel();
        let behaviour = Arc::new(behaviour);
        tokio::spawn(async move {
            while let Ok((stream, caller)) = listener.accept().await {
                calling.send_modify(|callers| callers.push(caller.port()));
                let behaviour = Arc::clone(&behaviour);
                tokio::spawn(serve(stream, behaviour, to_test.clone(), cutting.clone()));
            }
        });
        Self { port, callers, requests: requests.into(), cut_off: cut_off.into() }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// How many connections were made so far. Connections are accepted in order, so when one that
    /// is made now has been seen, none is missing.
    pub async fn connections(&self) -> usize {
        let probe = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let own = probe.local_addr().unwrap().port();
        let mut callers = self.callers.clone();
        let seen = callers.wait_for(|callers| callers.contains(&own)).await;
        seen.unwrap().iter().position(|port| *port == own).unwrap()
    }

    /// The next request: head and body.
    pub async fn request(&self) -> Request {
        self.requests.lock().await.recv().await.unwrap()
    }

    /// How many bytes an endless answer had when the client stopped reading.
    pub async fn written_until_cut_off(&self) -> usize {
        self.cut_off.lock().await.recv().await.unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    behaviour: Arc<Behaviour>,
    to_test: mpsc::UnboundedSender<Request>,
    cutting: mpsc::UnboundedSender<usize>,
) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    // A test may be over before its receiver is: its channels are closed then.
    to_test.send(request).ok();
    match &*behaviour {
        Behaviour::Answer(bytes) => {
            stream.write_all(bytes).await.ok();
        }
        Behaviour::AnswerAndHang(bytes) => {
            stream.write_all(bytes).await.ok();
            std::future::pending().await
        }
        Behaviour::Endless(first, again) => {
            let mut written = 0;
            let mut last = stream.write_all(first.as_bytes()).await;
            while last.is_ok() {
                last = stream.write_all(again).await;
                written += again.len();
            }
            cutting.send(written).ok();
        }
    }
}

/// Head and body, or nothing if the other side left before they were complete.
async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |text| text.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some((head, bytes[end + 4..].to_vec()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A name server that gives one list after the other, the last for ever, whatever the name.
pub struct Names {
    answers: std::sync::Mutex<Vec<Vec<IpAddr>>>,
    /// How often it was asked.
    pub asked: AtomicUsize,
}

impl Names {
    pub fn fixed(addresses: &[&str]) -> Arc<Self> {
        Self::changing(&[addresses])
    }

    pub fn changing(answers: &[&[&str]]) -> Arc<Self> {
        let read = |list: &&[&str]| list.iter().map(|a| a.parse().unwrap()).collect();
        let answers: Vec<_> = answers.iter().rev().map(read).collect();
        Arc::new(Self { answers: answers.into(), asked: AtomicUsize::new(0) })
    }
}

impl Lookup for Names {
    fn addresses(&self, _name: &str) -> Answer {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer: io::Result<_> = match answers.len() {
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.pop().unwrap()),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A name server that never answers.
pub struct Silence;

impl Lookup for Silence {
    fn addresses(&self, _name: &str) -> Answer {
        Box::pin(std::future::pending())
    }
}
