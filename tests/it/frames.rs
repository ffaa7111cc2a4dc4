//! Support: HTTP/2 written frame by frame over TLS, for clients that no library would be.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};

use crate::server::Server;

const TOO_LONG: Duration = Duration::from_secs(60);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A connection whose client takes `window` bytes of each answer and no more.
pub(crate) struct Http2 {
    stream: StreamOwned<ClientConnection, TcpStream>,
    host: String,
    next: u32,
}

/// What the server sends, as far as a test asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The head of an answer.
    Head(u32),
    /// A piece of an answer, and whether it is the last.
    Piece(u32, bool),
    Other,
}

impl Http2 {
    pub(crate) fn connect(
        server: &Server,
        certificate: &CertificateDer<'static>,
        window: u32,
    ) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(server.host()).unwrap();
        socket.set_read_timeout(Some(TOO_LONG)).unwrap();
        socket.set_write_timeout(Some(TOO_LONG)).unwrap();
        let stream = StreamOwned::new(connection, socket);
        let mut client = Self { stream, host: server.host().to_owned(), next: 1 };
        client.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE
        let setting = [&4_u16.to_be_bytes()[..], &window.to_be_bytes()].concat();
        client.frame(SETTINGS, 0, 0, &setting).unwrap();
        client
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> std::io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.stream.write_all(&[&head, payload].concat())
    }

    /// Asks for a path; the number of its stream, unless the server has closed the connection.
    pub(crate) fn get(&mut self, path: &str, token: Option<&str>) -> std::io::Result<u32> {
        let stream = self.next;
        self.next += 2;
        // Entries 2 and 7 of HPACK's static table are `:method: GET` and `:scheme: https`.
        let mut head = vec![0x82, 0x87];
        let host = self.host.clone();
        let bearer = token.map(|token| format!("Bearer {token}"));
        literal(&mut head, &[0x04], path);
        literal(&mut head, &[0x01], &host);
        if let Some(bearer) = &bearer {
            // Entry 23 is `authorization`.
            literal(&mut head, &[0x0f, 23 - 15], bearer);
        }
        self.frame(HEADERS, END_STREAM | END_HEADERS, stream, &head)?;
        Ok(stream)
    }

    /// Gives a stream up.
    pub(crate) fn reset(&mut self, stream: u32) {
        self.frame(RESET, 0, stream, &8_u32.to_be_bytes()).unwrap();
    }

    /// The next frame; `None` when the server has closed the connection. It is answered as a
    /// client must that is to be kept.
    pub(crate) fn next(&mut self) -> Option<Came> {
        let mut head = [0; 9];
        self.read(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.read(&mut payload)?;
        let flags = head[4];
        Some(match head[3] {
            HEADERS => Came::Head(stream),
            DATA => Came::Piece(stream, flags & END_STREAM != 0),
            SETTINGS | PING if flags & ACK == 0 => {
                let payload = if head[3] == PING { payload } else { Vec::new() };
                // One that was closed meanwhile shows at the next read.
                let _ = self.frame(head[3], ACK, 0, &payload);
                Came::Other
            }
            _ => Came::Other,
        })
    }

    fn read(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) => {
                let closed =
                    [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                assert!(closed.contains(&error.kind()), "not closed: {error}");
                None
            }
        }
    }

    /// Reads until the server has closed the connection.
    pub(crate) fn until_closed(mut self) {
        while self.next().is_some() {}
    }
}

/// A header that is not indexed, with its value as it is.
fn literal(head: &mut Vec<u8>, name: &[u8], value: &str) {
    head.extend_from_slice(name);
    let length = u8::try_from(value.len()).unwrap();
    assert!(length < 127, "longer values have another form");
    head.push(length);
    head.extend_from_slice(value.as_bytes());
}
