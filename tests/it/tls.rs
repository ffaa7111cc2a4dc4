//! `[http.tls]`: the server under TLS with a certificate made for the test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};

use crate::openclaw_a2a;
use crate::server::{Server, message, serve};

/// Longer than anything takes here; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);

/// Writes `cert.pem` and `key.pem` for this machine; the certificate.
pub(crate) fn certify(folder: &Path) -> CertificateDer<'static> {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

pub(crate) const CONFIG: &str = "[http.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";

#[test]
fn a_server_under_tls_is_reached_by_those_who_know_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let server = Server::with_config(folder.path(), CONFIG);
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    let address = std::fs::read_to_string(folder.path().join("a2a.addr")).unwrap();
    assert_eq!(address.trim(), server.url());
    let client = server.client().trusting(&certificate);
    client.inbox("tim", "");
    client.accepted(&message("roman", "tim", "under TLS"));
    let stranger = certify(tempfile::tempdir().unwrap().path());
    assert!(server.client().trusting(&stranger).try_get("/healthz").is_err());
    // Our own command knows the certificate from the configuration, and follows under TLS too.
    let log = openclaw_a2a().args(["log", "--state-dir"]).arg(folder.path()).output().unwrap();
    let text = String::from_utf8(log.stdout).unwrap();
    assert!(log.status.success() && text.contains("roman"), "{text}{:?}", log.stderr);
    assert!(log.stderr.is_empty(), "the server answered: {:?}", log.stderr);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn both_versions_of_http_are_offered() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let server = Server::with_config(folder.path(), CONFIG);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    for protocol in ["h2", "http/1.1"] {
        let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots.clone()).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = TcpStream::connect(server.host()).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).unwrap();
        }
        assert_eq!(connection.alpn_protocol(), Some(protocol.as_bytes()));
    }
}

#[test]
fn what_is_no_tls_gets_no_answer_and_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let server = Server::with_config(folder.path(), &format!("[http]\nhead_seconds = 1\n{CONFIG}"));
    for bytes in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut socket = TcpStream::connect(server.host()).unwrap();
        socket.set_read_timeout(Some(TOO_LONG)).unwrap();
        socket.write_all(bytes.as_bytes()).unwrap();
        let mut answer = Vec::new();
        match socket.read_to_end(&mut answer) {
            Ok(_) => assert!(!answer.starts_with(b"HTTP"), "{answer:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(server.client().trusting(&certificate).get("/healthz").status, 200);
}

#[test]
fn a_certificate_that_cannot_be_used_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let other = tempfile::tempdir().unwrap();
    certify(other.path());
    let other = other.path().join("key.pem");
    let config = |cert: &str, key: &str| format!("[http.tls]\ncert = {cert:?}\nkey = {key:?}\n");
    for (config, word) in [
        (config("missing.pem", "key.pem"), "cert: "),
        (config("cert.pem", "missing.pem"), "key: "),
        (config("a2a.toml", "key.pem"), "no certificate"),
        (config("cert.pem", "a2a.toml"), "key: "),
        (config("cert.pem", other.to_str().unwrap()), "do not fit"),
        ("[http.tls]\ncert = \"cert.pem\"\n".to_owned(), "key"),
    ] {
        std::fs::write(folder.path().join("a2a.toml"), &config).unwrap();
        let refused = serve(folder.path()).output().unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && text.contains(word), "{config}{text}");
    }
}

/// A client of one connection that stays open: it sends requests, and returns the certificate it was shown.
struct Open {
    stream: rustls::StreamOwned<rustls::ClientConnection, TcpStream>,
}

impl Open {
    fn to(server: &Server, trusted: &[&CertificateDer<'static>]) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        trusted.iter().for_each(|certificate| roots.add((*certificate).clone()).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(server.host()).unwrap();
        socket.set_read_timeout(Some(TOO_LONG)).unwrap();
        Self { stream: rustls::StreamOwned::new(connection, socket) }
    }

    fn ask(&mut self, host: &str) -> String {
        let request = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n");
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        String::from_utf8(answer).unwrap()
    }

    fn shown(&self) -> CertificateDer<'static> {
        self.stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

#[test]
fn a_renewed_certificate_is_shown_after_sighup_and_open_connections_stay() {
    let folder = tempfile::tempdir().unwrap();
    let first = certify(folder.path());
    std::fs::write(folder.path().join("a2a.toml"), CONFIG).unwrap();
    let mut command = serve(folder.path());
    command.env("OPENCLAW_LOG", "warn,openclaw_a2a=info");
    let server = Server::start_by(command, folder.path());
    let mut old = Open::to(&server, &[&first]);
    assert!(old.ask(server.host()).starts_with("HTTP/1.1 200"));
    let second = certify(folder.path());
    assert_eq!(Open::to(&server, &[&first]).ask_and_show(server.host()), first, "not yet");
    let text = server.hang_up();
    assert!(text.contains("another certificate"), "{text}");
    assert_eq!(Open::to(&server, &[&first, &second]).ask_and_show(server.host()), second);
    assert!(old.ask(server.host()).starts_with("HTTP/1.1 200"), "it goes on");
    assert_eq!(old.shown(), first);
    // A broken one, or a key that does not fit: the current one stays, and the log has the reason.
    let key = std::fs::read(folder.path().join("key.pem")).unwrap();
    certify(folder.path());
    std::fs::write(folder.path().join("key.pem"), key).unwrap();
    let text = server.hang_up();
    assert!(text.contains("do not fit") && text.contains("certificate in use stays"), "{text}");
    std::fs::write(folder.path().join("cert.pem"), "no certificate").unwrap();
    let text = server.hang_up();
    assert!(text.contains("no certificate") && text.contains("not reloaded"), "{text}");
    assert_eq!(Open::to(&server, &[&first, &second]).ask_and_show(server.host()), second);
    assert!(old.ask(server.host()).starts_with("HTTP/1.1 200"));
}

impl Open {
    fn ask_and_show(mut self, host: &str) -> CertificateDer<'static> {
        assert!(self.ask(host).starts_with("HTTP/1.1 200"));
        self.shown()
    }
}

#[test]
fn a_certificate_of_an_authority_is_named_as_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    std::fs::write(folder.path().join("cert.pem"), made.pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    let server = Server::with_config(folder.path(), CONFIG);
    assert!(crate::server::stderr(folder.path()).contains("CA:TRUE"), "it says so at the start");
    let text = openclaw_a2a().args(["agents", "--state-dir"]).arg(folder.path()).output().unwrap();
    let text = String::from_utf8(text.stderr).unwrap();
    assert!(!text.contains("no server is running"), "{text}");
    assert!(text.contains("a server runs on") && text.contains("CA:TRUE"), "{text}");
    drop(server);
}

#[test]
fn a_folder_with_nothing_but_an_address_leads_to_the_server() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    std::fs::write(elsewhere.path().join("a2a.addr"), format!("{}\n", server.url())).unwrap();
    let ask =
        || openclaw_a2a().args(["agents", "--state-dir"]).arg(elsewhere.path()).output().unwrap();
    let found = ask();
    assert!(String::from_utf8_lossy(&found.stdout).contains("tim"), "{found:?}");
    drop(server);
    let gone = String::from_utf8(ask().stderr).unwrap();
    assert!(gone.contains("does not answer"), "{gone}");
}
