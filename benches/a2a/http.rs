//! Minimal HTTP/1.1 client, so that the load generator uses little CPU.

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A persistent connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap_or_else(|error| panic!("{error}"));
        stream.set_nodelay(true).unwrap_or_else(|error| panic!("{error}"));
        Self { stream, buffer: Vec::with_capacity(4_096) }
    }

    pub async fn post(&mut self, address: &str, path: &str, body: &str) {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nA2A-Version: 1.0\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        let sent = self.stream.write_all(request.as_bytes()).await;
        sent.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Posts with an A2A extension activated.
    pub async fn post_with(&mut self, address: &str, path: &str, body: &str, extension: &str) {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             A2A-Version: 1.0\r\nA2A-Extensions: {extension}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        let sent = self.stream.write_all(request.as_bytes()).await;
        sent.unwrap_or_else(|error| panic!("{error}"));
    }

    pub async fn get(&mut self, address: &str, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let sent = self.stream.write_all(request.as_bytes()).await;
        sent.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The body of the next response, which must have a `Content-Length`.
    pub async fn answer(&mut self) -> &[u8] {
        self.buffer.clear();
        let head = loop {
            if let Some(at) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await;
        };
        let text = String::from_utf8_lossy(&self.buffer[..head]).to_ascii_lowercase();
        assert!(text.starts_with("http/1.1 20"), "{text}");
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.and_then(|length| length.trim().parse::<usize>().ok());
        let Some(length) = length else { panic!("an answer without a length: {text}") };
        while self.buffer.len() < head + length {
            self.more().await;
        }
        assert_eq!(self.buffer.len(), head + length, "more came than was announced");
        &self.buffer[head..]
    }

    /// Reads until the bytes since the last call contain `text`. Returns their number.
    pub async fn until(&mut self, text: &[u8]) -> usize {
        self.buffer.clear();
        let mut looked = 0;
        while memmem::find(&self.buffer[looked..], text).is_none() {
            looked = self.buffer.len().saturating_sub(text.len());
            self.more().await;
        }
        self.buffer.len()
    }

    async fn more(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await;
        let read = read.unwrap_or_else(|error| panic!("{error}"));
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&self.buffer));
    }
}
