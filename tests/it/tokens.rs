//! `openclaw-a2a token` beside a running server: who comes in, who no longer does, and when.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use a2a_gateway::auth::A2aCaller;
use a2a_gateway::auth::tokens::{TokenFile, TokenRegistry, Tokens};
use actix_web::{App, HttpResponse, web};
use serde_json::{Value, json};

use crate::attacks::log_lines;
use crate::openclaw_a2a;
use crate::server::{Answer, Client, Server, message, serve_on};

/// Longer than anything takes here; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);

fn command(folder: &Path, args: &[&str]) -> Output {
    openclaw_a2a().args(["token", "--state-dir"]).arg(folder).args(args).output().unwrap()
}

/// Makes a token; its id and itself.
pub(crate) fn create(folder: &Path, args: &[&str]) -> (String, String) {
    let output = command(folder, &[&["create", "--format", "json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

pub(crate) fn revoke(folder: &Path, id: &str) {
    assert!(command(folder, &["revoke", id]).status.success());
}

#[track_caller]
fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{answer:?}");
    assert_eq!(answer.content_type, "application/problem+json");
    assert_eq!(status == 401, answer.headers.contains_key("www-authenticate"), "{answer:?}");
}

/// Opens the stream of the log and reads the line with which it begins.
fn follow(client: &Server, token: Option<&str>) -> BufReader<impl Read + use<>> {
    let config = ureq::Agent::config_builder().proxy(None).timeout_global(Some(TOO_LONG));
    let agent: ureq::Agent = config.build().into();
    let mut request = agent.get(format!("{}/bus/log/stream", client.url()));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = request.call().unwrap().into_body();
    let mut stream = BufReader::new(body.into_with_config().limit(u64::MAX).reader());
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert_eq!(line, "retry: 1000\n");
    stream
}

/// Reads to the end, which comes only if the server ends it.
fn ends(mut stream: BufReader<impl Read>) {
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
}

#[test]
fn a_running_server_knows_what_was_made_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_eq!(server.get("/bus/agents").status, 200, "nobody is asked yet");
    let (id, roman) = create(folder.path(), &["--agent", "roman"]);
    is(&server.get("/bus/agents"), 401, "unauthorized");
    let roman = server.client().bearing(&roman);
    assert_eq!(roman.get("/bus/agents").status, 200);
    is(&roman.send(&message("tim", "roman", "forged")), 403, "forbidden");
    let (_, david) = create(folder.path(), &["--operator", "david"]);
    assert_eq!(server.client().bearing(&david).get("/bus/log").status, 200);
    revoke(folder.path(), &id);
    is(&roman.get("/bus/agents"), 401, "unauthorized");
    assert_eq!(server.client().bearing(&david).get("/bus/log").status, 200);
    assert_eq!(server.get("/healthz").status, 200, "health is for everybody");
    drop(server);
    let server = Server::start(folder.path());
    is(&server.get("/bus/agents"), 401, "unauthorized");
    assert_eq!(server.client().bearing(&david).get("/bus/agents").status, 200);
}

#[test]
fn what_was_opened_with_a_token_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let anybody = follow(&server, None);
    let (david, of_david) = create(folder.path(), &["--operator", "david"]);
    ends(anybody);
    let (_, of_eve) = create(folder.path(), &["--operator", "eve"]);
    let (_, short) = create(folder.path(), &["--operator", "sue", "--expires", "2s"]);
    let (tim, of_tim) = create(folder.path(), &["--agent", "tim"]);
    let (first, second) = (follow(&server, Some(&of_david)), follow(&server, Some(&of_eve)));
    let expiring = follow(&server, Some(&short));
    let waiting = server.client().bearing(&of_tim);
    assert!(waiting.inbox("tim", "").is_empty());
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || waiting.try_inbox("tim", "wait=60s").unwrap());
        revoke(folder.path(), &david);
        revoke(folder.path(), &tim);
        ends(first);
        is(&waits.join().unwrap(), 401, "unauthorized");
    });
    ends(expiring);
    let late = server.client().bearing(&short).get("/bus/log");
    is(&late, 401, "unauthorized");
    assert!(late.body["detail"].as_str().unwrap().contains("expired at"), "{late:?}");
    // The other one continues.
    let sent = message("eve", "nobody", "hello");
    server.client().bearing(&of_eve).send(&sent);
    let id = sent["messageId"].as_str().unwrap();
    assert!(second.lines().any(|line| line.unwrap().contains(id)));
}

#[test]
fn a_client_has_nothing_of_the_bus() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (_, acme) = create(folder.path(), &["--client", "acme"]);
    let acme = server.client().bearing(&acme);
    for path in ["/bus/agents", "/bus/log", "/bus/tasks", "/bus/agents/acme/inbox", "/bus/circuits"]
    {
        is(&acme.get(path), 403, "forbidden");
    }
    is(&acme.send(&message("acme", "tim", "hi")), 403, "forbidden");
    assert_eq!(acme.get("/readyz").status, 200);
}

#[test]
fn guessing_is_slowed_and_a_good_token_still_passes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (_, david) = create(folder.path(), &["--operator", "david"]);
    let guess = |n: usize| server.client().bearing(&format!("oca_{n:064x}")).get("/bus/log");
    let limited = (0..1_000).map(guess).find(|answer| answer.status != 401).unwrap();
    is(&limited, 429, "rate_limited");
    assert!(limited.retry_after.is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 0));
    assert_eq!(server.client().bearing(&david).get("/bus/log").status, 200);
    is(&server.get("/bus/log"), 401, "unauthorized");
}

#[test]
fn others_may_connect_only_when_there_are_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let refused = serve_on(folder.path(), "0.0.0.0:0").output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2), "{text}");
    assert!(text.contains("openclaw-a2a token create --agent"), "{text}");
    let (id, david) = create(folder.path(), &["--operator", "david"]);
    let server = Server::start_by(serve_on(folder.path(), "0.0.0.0:0"), folder.path());
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
    is(&server.get("/bus/log"), 401, "unauthorized");
    assert_eq!(server.client().bearing(&david).get("/bus/log").status, 200);
    // When the last is gone no caller is admitted, and there is no way to start so.
    revoke(folder.path(), &id);
    is(&server.get("/bus/log"), 401, "unauthorized");
    drop(server);
    assert_eq!(serve_on(folder.path(), "0.0.0.0:0").output().unwrap().status.code(), Some(2));
    is(&Server::start(folder.path()).get("/bus/log"), 401, "unauthorized");
}

#[test]
fn the_command_shows_a_token_once_and_lists_whose_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[[auth.tokens]]\nagent = \"roman\"\nsha256 = \"{}\"\n", "a".repeat(64));
    let config = config + "[[agents]]\nid = \"tim\"\n";
    std::fs::write(folder.path().join("a2a.toml"), config).unwrap();
    let args = ["create", "--client", "acme", "--expires", "30d", "--note", "the order desk"];
    let made = command(folder.path(), &args);
    let token = String::from_utf8(made.stdout).unwrap();
    assert!(token.starts_with("oca_") && token.trim_end().len() == 68, "{token}");
    let listed = String::from_utf8(command(folder.path(), &["list"]).stdout).unwrap();
    for words in ["aaaaaaaaaaaa  agent:roman", "client:acme", "the order desk"] {
        assert!(listed.contains(words), "{listed}");
    }
    assert!(!listed.contains(token.trim_end()));
    let file = folder.path().join("data/a2a-tokens.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&file).unwrap();
    for (bad, code, word) in [
        (["create", "--client", "tim"].as_slice(), 2, "an agent and a client"),
        (&["create", "--agent", "acme"], 2, "an agent and a client"),
        (&["create", "--agent", "human"], 2, "no agent's"),
        (&["create", "--client", "a2a-client"], 2, "choose another"),
        (&["create", "--operator", "a b"], 2, "letters, digits"),
        (&["create", "--agent", "x", "--expires", "soon"], 2, "--expires"),
        (&["create", "--agent", "x", "--note", "a\nb"], 2, "--note"),
        (&["create", "--agent", "x", "--client", "y"], 2, "cannot be used with"),
        (&["create"], 2, "required"),
        (&["revoke", "aaaaaaaaaaaa"], 2, "a2a.toml"),
        (&["revoke", "bbbbbbbbbbbb"], 1, "no token"),
    ] {
        let refused = command(folder.path(), bad);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(code) && text.contains(word), "{bad:?}: {text}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_damaged_token_file_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/a2a-tokens.json"), "{\"version\":1").unwrap();
    let refused = serve_on(folder.path(), "127.0.0.1:0").output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && text.contains("damaged"), "{text}");
}

/// What an A2A endpoint learns of its caller.
#[actix_web::test]
async fn an_a2a_caller_has_an_owner_and_a_name() {
    async fn tell(caller: A2aCaller) -> HttpResponse {
        let sees = [caller.sees_everything(), caller.may_see("client:acme")];
        HttpResponse::Ok().json((caller.owner(), caller.sender(), sees))
    }
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::below(folder.path());
    let ring = Arc::new(TokenRegistry::open(Tokens::default(), Vec::new(), file).unwrap());
    let app = App::new().app_data(web::Data::from(ring)).route("/", web::get().to(tell));
    let app = actix_web::test::init_service(app).await;
    let ask = async |token: &str| {
        let request = actix_web::test::TestRequest::get().uri("/");
        let request = request.insert_header(("authorization", format!("Bearer {token}")));
        let answer = actix_web::test::try_call_service(&app, request.to_request()).await;
        let answer = answer.map(|ok| ok.map_into_boxed_body()).unwrap();
        let status = answer.status().as_u16();
        (status, actix_web::test::read_body_json::<Value, _>(answer).await)
    };
    let expected = json!(["anonymous", "a2a-client", [false, false]]);
    assert_eq!(ask("whatever").await, (200, expected));
    for (who, expected) in [
        (["--client", "acme"], json!(["client:acme", "acme", [false, true]])),
        (["--agent", "tim"], json!(["agent:tim", "tim", [false, false]])),
        (["--operator", "david"], json!(["operator:david", "a2a-client", [true, true]])),
    ] {
        let (_, token) = create(folder.path(), &who);
        assert_eq!(ask(&token).await, (200, expected));
    }
    let (status, body) = ask("whatever").await;
    assert_eq!((status, &body["code"]), (401, &json!("unauthorized")));
}

/// A client without a token must not gain an identity by its message.
#[test]
fn only_one_authorization_counts() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (_, david) = create(folder.path(), &["--operator", "david"]);
    let twice: Client = server.client().bearing(&david).bearing("oca_x");
    is(&twice.get("/bus/log"), 401, "unauthorized");
    let lower = server.client().with("authorization", format!("bearer   {david}"));
    assert_eq!(lower.get("/bus/log").status, 200);
}

#[test]
fn denied_caller_is_on_record_without_its_token() {
    const CALLS: u64 = 60;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    create(folder.path(), &["--agent", "roman"]);
    is(&server.get("/bus/agents"), 401, "unauthorized");
    let guess = server.client().bearing("guessed-7f3a9c");
    is(&guess.get("/bus/agents"), 401, "unauthorized");
    for _ in 2..CALLS {
        // Over A2A as well, whether it asks to wait or not.
        assert!(matches!(guess.get("/tasks").status, 401 | 429));
    }
    assert_eq!(server.terminate().code(), Some(0));
    let lines = log_lines(folder.path());
    assert!(!lines.iter().any(|line| line.to_string().contains("7f3a9c")), "{lines:?}");
    let of = |word| lines.iter().filter(move |line| line["event"] == word);
    let reasons: Vec<_> = of("denied").map(|line| line["reason"].as_str().unwrap()).collect();
    assert_eq!(
        reasons[..2],
        ["no token, from 127.0.0.1", "a token that is not known, from 127.0.0.1"]
    );
    let counted: u64 = of("suppressed").map(|line| line["count"].as_u64().unwrap()).sum();
    assert_eq!(reasons.len() as u64 + counted, CALLS, "none is lost");
    assert!(
        (10..20).contains(&reasons.len()),
        "a flood is a few of them and a number: {reasons:?}"
    );
}

#[test]
fn first_token_warns_about_connected_agents() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let waits = server.client();
    let waiting = std::thread::spawn(move || waits.try_inbox("tim", "wait=60s"));
    while server.get("/bus/agents/tim").body["connected"] != true {
        std::thread::yield_now();
    }
    let text = |args: &[&str]| {
        let output = command(folder.path(), args);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, err) = text(&["create", "--operator", "david"]);
    assert_eq!(code, Some(2), "{err}");
    for word in ["this is the first token", "1 connected: tim", "--yes", "token create --agent ID"]
    {
        assert!(err.contains(word), "no {word:?} in {err}");
    }
    assert_eq!(server.get("/bus/agents").status, 200, "nothing has changed");
    let (code, err) = text(&["create", "--operator", "david", "--yes"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("from now on the running server asks every call for one"), "{err}");
    is(&server.get("/bus/agents"), 401, "unauthorized");
    is(&waiting.join().unwrap().unwrap(), 401, "unauthorized");
    let (code, err) = text(&["create", "--agent", "tim"]);
    assert!(code == Some(0) && !err.contains("first token"), "{err}");
}
