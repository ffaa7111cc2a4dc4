//! TLS and HTTP/2 with a real server, and the surroundings of the process: proxies named in the
//! environment, and the log at its most talkative.

use std::process::Command;
use std::sync::{Arc, Mutex};

use a2a_webhooks::{
    Authorization, DeliveryError, NotificationToken, WebhookRequest, WebhookSettings, Webhooks,
};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::receiver::{Behaviour, Names, Receiver};
use super::{call, private};

const NAME: &str = "hooks.example.com";

/// What the server saw: the version of HTTP and the credentials.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server with a certificate made for it: its port, the certificate, what it saw.
fn tls_server() -> (u16, CertificateDer<'static>, Seen) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let seen = Seen::default();
    let data = web::Data::new(Arc::clone(&seen));
    let server =
        HttpServer::new(move || App::new().app_data(data.clone()).default_service(web::to(note)))
            .workers(1)
            .disable_signals()
            .bind_rustls_0_23(("127.0.0.1", 0), tls)
            .unwrap();
    let port = server.addrs()[0].port();
    tokio::spawn(server.run());
    (port, certificate, seen)
}

async fn note(request: HttpRequest, seen: web::Data<Seen>) -> HttpResponse {
    let authorization = request.headers().get("authorization");
    let authorization = authorization.map_or("none", |value| value.to_str().unwrap());
    let line = format!("{:?} {authorization}", request.version());
    seen.lock().unwrap().push(line);
    HttpResponse::Ok().finish()
}

/// One delivery with every kind of secret over HTTP/1.1 and one over TLS and HTTP/2. Run again
/// below as a process of its own, where it also writes the whole log.
#[tokio::test]
async fn secrets_travel() {
    if std::env::var_os("WEBHOOKS_TEST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(std::io::stderr)
            .init();
    }
    let (port, certificate, seen) = tls_server();
    let settings = WebhookSettings { extra_roots: vec![certificate], ..private() };
    let webhooks = Webhooks::with_lookup(settings, Names::fixed(&["127.0.0.1"])).unwrap();
    let with_secrets = |url: String| WebhookRequest {
        authorization: Some(Authorization::new("Bearer", "hidden-credentials").unwrap()),
        token: Some(NotificationToken::new("hidden-token").unwrap()),
        body: bytes::Bytes::from_static(b"hidden-body"),
        ..call(url)
    };

    let secure = with_secrets(format!("https://{NAME}:{port}/hidden-path?key=hidden-key"));
    webhooks.deliver(&secure).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["HTTP/2.0 Bearer hidden-credentials"]);

    let plain = Receiver::start(Behaviour::status("500 Oops")).await;
    let failing = with_secrets(plain.url("/hidden-path?key=hidden-key"));
    let error = webhooks.deliver(&failing).await.unwrap_err();
    assert!(!format!("{error} {error:?} {webhooks:?} {failing:?}").contains("hidden"));
}

#[test]
fn neither_proxies_nor_the_log_get_to_see_a_notification() {
    // No server listens there, so a delivery that takes the detour fails.
    let proxy = "http://127.0.0.1:1";
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "webhooks::wire::secrets_travel", "--nocapture"]);
    again.env("WEBHOOKS_TEST_LOG", "1");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        again.env(name, proxy).env(name.to_lowercase(), proxy);
    }
    again.env_remove("NO_PROXY").env_remove("no_proxy");
    let output = again.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let summary = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{summary}{log}");
    assert!(summary.contains("1 passed"), "{summary}");
    for expected in ["reqwest", "h2::", "notification delivered", "notification not delivered"] {
        assert!(log.contains(expected), "{expected}: {log}");
    }
    let answered: Vec<_> = log.lines().filter(|line| line.contains("hidden")).collect();
    assert!(answered.is_empty(), "{answered:#?}");
}

#[tokio::test]
async fn untrusted_certificate_is_refused() {
    let (port, _, seen) = tls_server();
    let webhooks = Webhooks::with_lookup(private(), Names::fixed(&["127.0.0.1"])).unwrap();
    let url = format!("https://{NAME}:{port}/");
    let error = webhooks.deliver(&call(url)).await.unwrap_err();
    assert!(
        matches!(&error, DeliveryError::Connect(why) if why.contains("certificate")),
        "{error:?}"
    );
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (port, certificate, seen) = tls_server();
    let settings = WebhookSettings { extra_roots: vec![certificate], ..private() };
    let webhooks = Webhooks::with_lookup(settings, Names::fixed(&["127.0.0.1"])).unwrap();
    let url = format!("https://other.example.com:{port}/");
    let error = webhooks.deliver(&call(url)).await.unwrap_err();
    assert!(
        matches!(&error, DeliveryError::Connect(why) if why.contains("certificate")),
        "{error:?}"
    );
    assert!(seen.lock().unwrap().is_empty());
}
