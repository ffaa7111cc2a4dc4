//! Row 24: no credential appears in a log, in the record, in an answer or in what
//! the program prints, whatever was done right or wrong with it.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::openclaw_a2a;
use crate::server::{Client, Server, message, serve};
use crate::tls;

const CONFIGURED: &str = "configured-Tk7QxWbN2sLq";
const WRONG: &str = "oca_wrong-Ry2LcVfH8dTz";
const BASIC: &str = "YmFzaWMtVWI4S2RGOg==";

fn token(folder: &Path, args: &[&str]) -> Vec<u8> {
    let output = openclaw_a2a().args(["token", "--state-dir"]).arg(folder).args(args).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn create(folder: &Path, args: &[&str]) -> Value {
    let made = token(folder, &[&["create", "--format", "json"], args].concat());
    serde_json::from_slice(&made).unwrap()
}

/// Right and wrong calls; everything that came back.
fn call(client: &Client) -> String {
    let mut printed = String::new();
    for sent in [message("roman", "tim", "hi"), message("tim", "roman", "forged"), json!({})] {
        printed += &format!("{:?}", client.send(&sent));
    }
    for path in [
        "/bus/log",
        "/bus/log/head",
        "/bus/log/verify",
        "/bus/log/stream?until=yesterday",
        "/bus/agents",
        "/bus/circuits",
        "/bus/agents/roman/inbox",
        "/bus/tasks/x",
        "/bus/log?nonsense=1",
        "/readyz",
        "/metrics",
        "/nowhere",
    ] {
        printed += &format!("{:?}", client.get(path));
    }
    // Its answer is no JSON, so it is read as it is.
    let mut numbers = client.open("GET", "/metrics", &Value::Null).unwrap();
    printed += &numbers.body_mut().read_to_string().unwrap();
    printed += &format!("{:?}", client.with("host", "evil.example").get("/bus/log"));
    printed += &format!("{:?}", client.with("origin", "https://evil.example").get("/bus/log"));
    printed += &format!("{:?}", client.with("a2a-on-behalf-of", "a b").get("/bus/log"));
    printed + &format!("{:?}", client.with("x", "y".repeat(40 << 10)).get("/bus/log"))
}

/// The contents of every file below a folder, but for the key, which is the secret itself.
fn everything_below(folder: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything_below(&path));
        } else if path.file_name().is_some_and(|name| name != "key.pem") {
            found.extend(std::fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn secrets_are_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = tls::certify(folder.path());
    let hash: String = Sha256::digest(CONFIGURED).iter().map(|b| format!("{b:02x}")).collect();
    let config = format!("[[auth.tokens]]\noperator = \"david\"\nsha256 = \"{hash}\"\n");
    std::fs::write(folder.path().join("a2a.toml"), config + tls::CONFIG).unwrap();
    let mut command = serve(folder.path());
    command.env("OPENCLAW_LOG", "trace");
    let server = Server::start_by(command, folder.path());
    let made: Vec<_> = [["--agent", "roman"], ["--client", "acme"], ["--operator", "eve"]]
        .iter()
        .map(|who| create(folder.path(), who))
        .collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut secrets: Vec<_> = made.iter().map(|made| text(&made["token"])).collect();
    secrets.extend([CONFIGURED, WRONG, BASIC].map(str::to_owned));
    let client = server.client().trusting(&certificate);
    let mut printed = call(&client.with("authorization", format!("Basic {BASIC}")));
    for secret in secrets.iter().filter(|secret| *secret != BASIC) {
        printed += &call(&client.bearing(secret));
    }
    // One is revoked and tried again; the commands are used with good and bad ones.
    printed +=
        &String::from_utf8(token(folder.path(), &["revoke", &text(&made[2]["id"])])).unwrap();
    printed += &call(&client.bearing(&secrets[2]));
    printed += &String::from_utf8(token(folder.path(), &["list"])).unwrap();
    for secret in &secrets {
        let output = openclaw_a2a()
            .args(["log", "--token", secret, "--state-dir"])
            .arg(folder.path())
            .output()
            .unwrap();
        printed += &String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    }
    let (status, stdout) = server.terminate_and_read();
    assert_eq!(status.code(), Some(0));

    let everything = [printed.into_bytes(), stdout.into_bytes(), everything_below(folder.path())];
    let everything = String::from_utf8_lossy(&everything.concat()).into_owned();
    for word in
        ["roman", "unauthorized", "misdirected", "head_too_large", "openclaw_a2a_build_info"]
    {
        assert!(everything.contains(word), "nothing was looked at: {word}");
    }
    assert!(everything.contains("DEBUG") || everything.contains("TRACE"), "it said little");
    let key = std::fs::read_to_string(folder.path().join("key.pem")).unwrap();
    secrets.push(key.lines().nth(1).unwrap().to_owned());
    for secret in secrets {
        assert!(!everything.contains(&secret), "{}", around(&everything, &secret));
    }
}

fn around(text: &str, secret: &str) -> String {
    let at = text.find(secret).unwrap();
    let from = text[..at].rfind('\n').unwrap_or(0).max(at.saturating_sub(400));
    text.get(from..at + secret.len()).unwrap_or(secret).to_owned()
}
