//! `openclaw-a2a serve`: starts the bus with its HTTP server, and stops them in order.
//!
//! ```text
//! config ─▶ bus, tasks, webhooks (Backend) ─▶ listener, routes (Frontend) ─▶ ready ─▶ signal ─▶ drain
//! ```

mod banner;
mod open_files;
mod reload;

use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::EndedPart;
use a2a_actors::tasks::{TaskJoinHandle, TaskSystem};
use a2a_backup::check_formats;
use a2a_gateway::a2a::{A2a, PushDispatcher};
use a2a_gateway::auth::tokens::{TokenFile, TokenRegistry, UNNAMED_CLIENT};
use a2a_gateway::{AppState, HttpSettings, SessionRegistry};
use a2a_taskdb::{Options, TaskDb};
use a2a_webhooks::Webhooks;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer};
use anyhow::{Context, bail};
use clap::ValueEnum;
use openclaw_a2a::agents::conformance::{self, Conformance};
use openclaw_a2a::agents::demo::{self, Demo, Pace};
use openclaw_a2a::agents::host;
use openclaw_a2a::config::{Config, LogFormat, StateDir, Tls, is_ca, listen_addresses};
use openclaw_a2a::protocol::AgentId;
use openclaw_a2a::{Bus, BusSettings, Profile, RateSettings};
use rustix::fs::Access;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use super::{Answer, Global};
use banner::{Banner, print_stopped};
pub(super) use open_files::files_for;
use reload::Reloader;

/// Time that handlers and requests may take after a stop signal.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Maximum lag of the HTTP server's clock; added to its timeouts, so that none fires early.
const CLOCK_LAG: Duration = Duration::from_millis(500);

/// Start the bus and its HTTP server
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a serve
  openclaw-a2a serve --listen 127.0.0.1:0 --state-dir ./state   any free port, see ./state/a2a.addr
  openclaw-a2a serve --listen localhost:7421                    a name is looked up, IPv4 first
  openclaw-a2a serve --demo --state-dir ./demo                  with a small team at work
  openclaw-a2a serve --format json                              one JSON object a line instead of text

Prints on stdout where it listens and what to try next; its log is on stderr (OPENCLAW_LOG=debug for
more). With --demo a lead, a worker, a reviewer and a researcher play 20 rounds, one every half minute. They
write into the state folder like all agents, so give them one of their own.

Stops cleanly on SIGTERM and Ctrl-C: running work finishes, everything is written, exit code 0; 1 when
the disk did not take all of it, and 2 when a part of the program failed and it had to end.
Reads the configuration again on SIGHUP, and the certificate under TLS: what changed is in the log, and what
needs a restart.")]
pub(super) struct Args {
    /// Address to listen on [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Built-in agent that answers for the host; `conformance` is for conformance kits
    #[arg(long, value_name = "NAME")]
    agent: Option<BuiltIn>,
    /// Attach a small team of demo agents, so that there is traffic to look at
    #[arg(long)]
    demo: bool,
    /// Format of the log on stderr [default: text; also OPENCLAW_LOG_FORMAT, or `format` in
    /// [logging]]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

/// Built-in agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BuiltIn {
    /// Answers simple requests
    Openclaw,
    /// Behaves as conformance kits expect
    Conformance,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let state = StateDir::find(global.state_dir.clone());
    let file = global.config.clone().unwrap_or_else(|| state.config_file());
    let config = Config::read(&file, global.config.is_some())?;
    start_log(log_format(args, &config)?)?;
    // Before anything is opened, because opening changes files.
    check_formats(state.path())?;
    let mut settings = config.settings().map_err(anyhow::Error::msg)?;
    if args.demo {
        demo::enlist(&mut settings.agents)?;
    }
    let listed = settings.agents.iter().map(|(agent, _)| agent.clone()).collect();
    let tokens = config.tokens().map_err(anyhow::Error::msg)?;
    let keys = TokenRegistry::open(tokens, listed, TokenFile::below(state.path()))?;
    let log = config.log().map_err(anyhow::Error::msg)?;
    let mut http = config.http().map_err(anyhow::Error::msg)?;
    let tls = config.tls().map_err(anyhow::Error::msg)?;
    if config.trusted().is_ok_and(|chain| chain.first().is_some_and(|cert| is_ca(cert))) {
        tracing::warn!(
            "the first certificate in [http.tls] cert is that of an authority (CA:TRUE); callers that look at it refuse it as the server's own"
        );
    }
    let address = args.listen.as_deref().unwrap_or(config.listen());
    let listener = listen(address, &keys)?;
    let is_new = create_folder(state.path())?;
    http.connections = open_files::allow_connections(http.connections);
    let mut a2a = config.a2a().map_err(anyhow::Error::msg)?;
    let mut tasks = config.tasks().map_err(anyhow::Error::msg)?;
    if args.agent == Some(BuiltIn::Conformance) {
        // A kit sends faster than the rate limit allows, and reuses few message ids.
        settings.rates = RateSettings::unlimited();
        a2a.host = conformance::NAME.parse()?;
        tasks.reused_ids.push(a2a.host.clone());
    }
    let rates = (args.agent == Some(BuiltIn::Conformance)).then_some(settings.rates);
    list_host_agent(&mut settings, &a2a.host);
    settings.clients = keys.clients();
    settings.unnamed.push(UNNAMED_CLIENT.parse()?);
    // No built-in agent if another agent answers for the host.
    let agent = args.agent.or((a2a.host.as_str() == host::NAME).then_some(BuiltIn::Openclaw));
    a2a.secured = keys.has_tokens();
    a2a.tls = tls.is_some();
    a2a.url.clone_from(&http.url);
    let bus = Bus::builder()
        .state_dir(state.path())
        .retention(config.retention())
        .settings(settings)
        .start()?;
    let store = TaskDb::open(&Options::new(state.path()))?;
    let (tasks, tasks_work) = TaskSystem::start(tasks, bus.system().clone(), Box::new(store))?;
    let webhooks = Arc::new(Webhooks::new(config.webhooks())?);
    let a2a = A2a::new(bus.system().clone(), tasks.clone(), Arc::clone(&webhooks), a2a);
    let keys = Arc::new(keys);
    let reloader = Reloader {
        file,
        required: global.config.is_some(),
        rates,
        demo: args.demo,
        bus: bus.system().clone(),
        tasks: tasks.clone(),
        keys: Arc::clone(&keys),
        log: log.clone(),
        certificates: tls.as_ref().map(|tls| Arc::clone(&tls.certificates)),
        config: config.clone(),
    };
    let lobby = Arc::new(SessionRegistry::new(config.sessions().map_err(anyhow::Error::msg)?));
    let local = listener.local_addr()?;
    let url = base_url(&http, tls.is_some(), local);
    let edge = AppState::new(
        a2a,
        Arc::clone(&keys),
        log,
        http.clone(),
        Arc::clone(&lobby),
        tls.is_some(),
        local,
    )
    .map_err(anyhow::Error::msg)?;
    let (recovery, secured, demo) = (bus.recovery().to_string(), keys.has_tokens(), args.demo);
    let banner = Banner { url: url.clone(), local, state: &state, is_new, recovery, demo, secured };
    let frontend = Frontend { listener, edge, http, tls, keys, url };
    let backend = Backend { bus, tasks, tasks_work, webhooks, lobby, agent, demo, reloader };
    let print_banner = || banner.print(global);
    let unwritten =
        actix_web::rt::System::new().block_on(serve(frontend, backend, &state, print_banner))?;
    print_stopped(global.format, unwritten);
    Ok(if unwritten == 0 { Answer::Yes } else { Answer::No })
}

/// Default log filter. The HTTP library logs every malformed request as an error, with which any
/// client could fill the disk.
const DEFAULT_LOG: &str = "info,actix_server=warn,actix_http=off";

/// Format of the log: the flag, else the environment, else the file.
fn log_format(args: &Args, config: &Config) -> anyhow::Result<LogFormat> {
    if let Some(format) = args.log_format {
        return Ok(format);
    }
    match std::env::var("OPENCLAW_LOG_FORMAT").ok().filter(|word| !word.is_empty()) {
        Some(word) => LogFormat::from_str(&word, true)
            .map_err(|_| anyhow::anyhow!("OPENCLAW_LOG_FORMAT is text or json, not {word:?}")),
        None => Ok(config.log_format()),
    }
}

fn start_log(format: LogFormat) -> anyhow::Result<()> {
    let given = std::env::var("OPENCLAW_LOG").ok().filter(|filter| !filter.is_empty());
    let directives = given.as_deref().unwrap_or(DEFAULT_LOG);
    let mut filter = EnvFilter::try_new(directives).with_context(|| {
        format!("OPENCLAW_LOG={directives:?} is not a filter such as info,a2a_gateway=debug")
    })?;
    if !directives.contains("sled")
        && let Ok(quiet) = "sled=off".parse()
    {
        // sled logs an error for every write while the disk is full. The journal logs the condition
        // once.
        filter = filter.add_directive(quiet);
    }
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Spans exist at `debug` and below; each is logged with its duration when it closes.
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => {
            log.json().flatten_event(true).with_current_span(false).with_ansi(false).init();
            // Panics are logged as JSON, too, so that every line parses.
            std::panic::set_hook(Box::new(|panic| {
                tracing::error!(%panic, "a thread panicked");
            }));
        }
    }
    Ok(())
}

/// Lists the host's agent, so that also a closed directory admits it.
fn list_host_agent(settings: &mut BusSettings, agent: &AgentId) {
    let is_built_in = [host::NAME, conformance::NAME].contains(&agent.as_str());
    if is_built_in && !settings.agents.iter().any(|(listed, _)| listed == agent) {
        let role = Some("built-in agent of the host".to_owned());
        settings.built_in.push((agent.clone(), Profile { role, ..Profile::default() }));
    }
}

fn listen(text: &str, keys: &TokenRegistry) -> anyhow::Result<TcpListener> {
    let all = listen_addresses(text).with_context(|| format!("cannot listen on {text:?}"))?;
    // A name may resolve to several addresses; the rule applies to each.
    let reachable = all.iter().find(|addr| !addr.ip().is_loopback());
    if let Some(addr) = reachable.filter(|_| !keys.has_tokens()) {
        bail!(
            "refusing to listen on {addr}: without tokens anyone who reaches it could speak for any agent. Listen on 127.0.0.1, or make a token for every agent first: openclaw-a2a token create --agent ID"
        );
    }
    TcpListener::bind(&all[..]).with_context(|| {
        format!("cannot listen on {text}; is another server running? --listen 127.0.0.1:0 takes any free port")
    })
}

/// Creates the folder; `true` when it did not exist.
fn create_folder(folder: &Path) -> anyhow::Result<bool> {
    const ADVICE: &str =
        "run it as the owner of the folder, or choose another one with --state-dir";
    let is_new = !folder.exists();
    std::fs::create_dir_all(folder).with_context(|| {
        format!("cannot create the state folder {}; {ADVICE}", folder.display())
    })?;
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).with_context(|| {
        format!("cannot write to the state folder {}; {ADVICE}", folder.display())
    })?;
    Ok(is_new)
}

/// Components behind the HTTP server.
struct Backend {
    bus: Bus,
    tasks: TaskSystem,
    tasks_work: TaskJoinHandle,
    webhooks: Arc<Webhooks>,
    lobby: Arc<SessionRegistry>,
    agent: Option<BuiltIn>,
    demo: bool,
    reloader: Reloader,
}

/// The HTTP server and what it needs.
struct Frontend {
    listener: TcpListener,
    edge: AppState,
    http: HttpSettings,
    tls: Option<Tls>,
    keys: Arc<TokenRegistry>,
    url: String,
}

/// Address for our own commands on this machine. Under TLS it is the public URL if one is
/// configured, because the certificate is issued for that name.
fn base_url(http: &HttpSettings, tls: bool, local: SocketAddr) -> String {
    if let Some(url) = http.url.as_ref().filter(|_| tls) {
        return url.clone();
    }
    let mut local = local;
    if local.ip().is_unspecified() {
        local.set_ip(match local {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("{}://{local}", if tls { "https" } else { "http" })
}

fn start_http(frontend: Frontend) -> anyhow::Result<actix_web::dev::Server> {
    let Frontend { listener, edge, http, tls, .. } = frontend;
    let connections = Arc::clone(edge.http_metrics().connections());
    let watch = Arc::clone(&connections).watch();
    actix_web::rt::spawn(edge.liveness().endlessly("connection_watcher", watch));
    let workers = http.workers.or(std::thread::available_parallelism().ok().map(Into::into));
    let workers = workers.unwrap_or(1);
    let server = HttpServer::new(move || {
        let edge = edge.clone();
        App::new()
            .wrap(from_fn(a2a_gateway::guard))
            .wrap(from_fn(a2a_gateway::observe))
            .configure(move |config| a2a_gateway::routes(config, edge))
    })
    .on_connect(move |connection, data| connections.adopt(connection, data))
    .workers(workers)
    // Our own limit is lower and closes idle connections. This one would leave further connections
    // unanswered.
    .max_connections(open_files::accepted(http.connections).div_ceil(workers))
    .client_request_timeout(http.head + CLOCK_LAG)
    .tls_handshake_timeout(http.head)
    .keep_alive(http.idle + CLOCK_LAG)
    .disable_signals()
    .shutdown_timeout(STOP_DEADLINE.as_secs());
    Ok(match tls {
        Some(tls) => server.listen_rustls_0_23(listener, tls.config)?.run(),
        None => server.listen(listener)?.run(),
    })
}

/// Exits after a component has ended unexpectedly. Accepted messages are in the journal, and the
/// next start recovers them as after a crash. An orderly shutdown would need the missing component.
fn end_at_once(ended: &EndedPart) -> ! {
    tracing::error!(part = ended.part, panicked = ended.panicked, "a part of the program ended");
    anstream::eprintln!(
        "error: {ended}, and without it nothing can be promised. The server ends; start it again: what was accepted is in the journal"
    );
    std::process::exit(2)
}

async fn serve(
    frontend: Frontend,
    backend: Backend,
    state: &StateDir,
    print_banner: impl FnOnce(),
) -> anyhow::Result<u64> {
    let Backend { bus, tasks, tasks_work, webhooks, lobby, agent, demo, mut reloader } = backend;
    let url = frontend.url.clone();
    let vitals = frontend.edge.http_metrics();
    match agent {
        Some(BuiltIn::Openclaw) => drop(host::attach(&bus).await?),
        Some(BuiltIn::Conformance) => drop(Conformance::default().attach(&bus).await?),
        None => {}
    }
    let demo = if demo {
        let secured = frontend.keys.has_tokens();
        Some(Arc::new(Demo::attach(&bus, tasks.clone(), secured, Pace::default()).await?))
    } else {
        None
    };
    let parts = bus.system().liveness().clone();
    let pump = PushDispatcher::new(tasks.clone(), webhooks).run();
    let pump = actix_web::rt::spawn(parts.endlessly("webhooks", pump));
    let watch = Arc::clone(&frontend.keys).watch(bus.system().clone());
    actix_web::rt::spawn(parts.endlessly("token_watcher", watch));
    let server = start_http(frontend)?;
    let handle = server.handle();
    let server = actix_web::rt::spawn(parts.endlessly("http", server));
    // Installed before the server is announced, because a client may send a signal as soon as it
    // is.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    vitals.set_ready();
    let address = write_address(&state.address_file(), &url)?;
    print_banner();
    let rounds = demo.clone().map(|demo| actix_web::rt::spawn(async move { demo.run().await }));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => reloader.reload().await,
            ended = parts.first_end() => end_at_once(&ended),
        }
    }
    tracing::debug!("stopping: running work may finish for {} s", STOP_DEADLINE.as_secs());
    if let Some((demo, rounds)) = demo.zip(rounds) {
        rounds.abort();
        demo.leave();
    }
    vitals.set_stopping();
    // Remote agents return their messages in flight; their code reconnects later.
    lobby.close();
    let stopped = bus.stop_within(STOP_DEADLINE).await;
    // Answers sent during the shutdown still count; then waiting callers are released.
    pump.abort();
    tasks.stop().await;
    actix_web::rt::task::spawn_blocking(move || tasks_work.join()).await?;
    handle.stop(true).await;
    server.await??;
    std::fs::remove_file(&address)
        .with_context(|| format!("cannot remove {}", address.display()))?;
    if stopped.interrupted > 0 {
        tracing::warn!(handlers = stopped.interrupted, "interrupted; their messages come again");
    }
    Ok(stopped.unwritten + tasks.stats().unwritten())
}

/// Writes the address file for other programs. Written aside and renamed, so that no reader sees
/// half of it.
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
