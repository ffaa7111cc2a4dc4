//! `openclaw-a2a serve`: the bus, and HTTP in front of it.

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use actix_web::web::Data;
use actix_web::{App, HttpServer};
use anyhow::{Context, bail};
use openclaw_a2a::Bus;
use openclaw_a2a::config::{Config, StateDir};
use openclaw_a2a::gateway::{self, Lobby, LogSettings, Tokens};
use tokio::signal::unix::{SignalKind, signal};

use super::{Answer, Global};

const DEFAULT_LISTEN: &str = "127.0.0.1:7420";
/// How long handlers and requests may go on after a signal to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Start the bus and listen for agents
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a serve
  openclaw-a2a serve --listen 127.0.0.1:0 --state-dir ./state   any free port, see ./state/a2a.addr

Stops cleanly on SIGTERM and Ctrl-C: running work finishes, everything is written, exit code 0.")]
pub(super) struct Args {
    /// Where to listen [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    start_log();
    let state = StateDir::find(global.state_dir.clone());
    let file = global.config.clone().unwrap_or_else(|| state.config_file());
    let config = Config::read(&file, global.config.is_some())?;
    let tokens = config.tokens().map_err(anyhow::Error::msg)?;
    let log = config.log().map_err(anyhow::Error::msg)?;
    let lobby = Lobby::new(config.sessions().map_err(anyhow::Error::msg)?);
    let address = args.listen.as_deref().or(config.listen()).unwrap_or(DEFAULT_LISTEN);
    let listener = listen(address, &tokens)?;
    create_folder(state.path())?;
    let settings = config.settings().map_err(anyhow::Error::msg)?;
    let bus = Bus::builder()
        .state_dir(state.path())
        .retention(config.retention())
        .settings(settings)
        .start()?;
    actix_web::rt::System::new().block_on(serve(listener, bus, &state, tokens, log, lobby))?;
    Ok(Answer::Yes)
}

fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("OPENCLAW_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,actix_server=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}

fn listen(text: &str, tokens: &Tokens) -> anyhow::Result<TcpListener> {
    let addr: SocketAddr = text.parse().with_context(|| {
        format!("{text:?} is not an address and a port, such as {DEFAULT_LISTEN}")
    })?;
    if !addr.ip().is_loopback() && tokens.is_empty() {
        bail!(
            "refusing to listen on {addr}: without tokens anyone who reaches it could speak for any agent. Listen on 127.0.0.1, or give every agent a token in [[auth.tokens]]."
        );
    }
    TcpListener::bind(addr).with_context(|| {
        format!("cannot listen on {addr}; is another server running? --listen 127.0.0.1:0 takes any free port")
    })
}

fn create_folder(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

async fn serve(
    listener: TcpListener,
    bus: Bus,
    state: &StateDir,
    tokens: Tokens,
    log: LogSettings,
    lobby: Lobby,
) -> anyhow::Result<()> {
    let url = format!("http://{}", listener.local_addr()?);
    let system = bus.system().clone();
    let (tokens, log, lobby) = (Data::new(tokens), Data::new(log), Data::new(lobby));
    let stalled = log.stalled();
    let sessions = lobby.clone();
    let server = HttpServer::new(move || {
        let (system, tokens, log) = (system.clone(), tokens.clone(), log.clone());
        let lobby = lobby.clone();
        App::new().configure(move |config| gateway::routes(config, system, tokens, log, lobby))
    })
    .on_connect(move |connection, _| gateway::prepare_connection(connection, stalled))
    .listen(listener)?
    .disable_signals()
    .shutdown_timeout(STOP_DEADLINE.as_secs())
    .run();
    let handle = server.handle();
    let server = actix_web::rt::spawn(server);
    // Before anybody can know that we are here: whoever does may tell us to stop.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let address = write_address(&state.address_file(), &url)?;
    say_hello(&url, state, &bus);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping: running work may finish for {} s", STOP_DEADLINE.as_secs());
    // Agents elsewhere give back what they have; their code goes on and connects again later.
    sessions.close();
    let stopped = bus.stop_within(STOP_DEADLINE).await;
    handle.stop(true).await;
    server.await??;
    std::fs::remove_file(&address)
        .with_context(|| format!("cannot remove {}", address.display()))?;
    if stopped.interrupted > 0 {
        tracing::warn!(handlers = stopped.interrupted, "interrupted; their messages come again");
    }
    tracing::info!("stopped");
    Ok(())
}

/// Tells other programs where we are; written aside and moved, so nobody reads half of it.
fn write_address(file: &Path, url: &str) -> anyhow::Result<PathBuf> {
    if let Ok(old) = std::fs::read_to_string(file) {
        tracing::warn!("{} named {}, which did not stop cleanly", file.display(), old.trim());
    }
    let aside = file.with_extension("addr.new");
    let written =
        std::fs::write(&aside, format!("{url}\n")).and_then(|()| std::fs::rename(&aside, file));
    written.with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file.to_owned())
}

fn say_hello(url: &str, state: &StateDir, bus: &Bus) {
    let folder = state.path().display();
    let text = format!(
        "OpenClaw A2A listens on {url}\nState: {folder} ({})\n\nTry, in another terminal:\n  curl {url}/bus/agents\n  curl '{url}/bus/agents/tim/inbox'\n  curl '{url}/bus/log?limit=10'\n",
        bus.recovery()
    );
    // Nobody has to read it.
    let _ = writeln!(anstream::stdout(), "{text}");
}
