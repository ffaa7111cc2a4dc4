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
    let said = String::from_utf8(log.stdout).unwrap();
    assert!(log.status.success() && said.contains("roman"), "{said}{:?}", log.stderr);
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
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && said.contains(word), "{config}{said}");
    }
}
