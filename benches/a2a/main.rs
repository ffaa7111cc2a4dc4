//! A2A tasks per second through this server, which stores them, beside other servers, which do not;
//! and the cost of open streams and of objectives.
//!
//! Each server is a process of its own. One generator sends all of them the same requests, in
//! rounds whose order rotates, so ratios are comparable between machines.
//!
//! `cargo bench --bench a2a`, or with `-- tasks`, `-- ours` (without peers), `-- streams` or
//! `-- objectives`. `A2A_BENCH_BEFORE=program` adds another build of this server.
//! `A2A_BENCH_CONNECTIONS=n` uses n connections instead of 64.

mod generator;
mod http;
mod objectives;
mod servers;
mod streams;

use std::path::Path;

use hdrhistogram::Histogram;
use serde_json::json;
use servers::Server;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 6;
/// Environment variable with the path of another build to measure, such as one before a change.
const BEFORE: &str = "A2A_BENCH_BEFORE";
/// Concurrent connections, unless the environment sets another number.
const CONNECTIONS: usize = 64;

/// Another server: the script that starts it with its options, its requests per round, and the
/// required ratio of our rate to its rate.
struct Peer {
    name: &'static str,
    script: &'static str,
    options: &'static [&'static str],
    requests: usize,
    bar: Option<f64>,
}

/// Each is built and started as its documentation describes. The tuned Rust builds have no required
/// ratio; they show its best case.
const PEERS: [Peer; 5] = [
    Peer {
        name: "a2a-server-lf 0.5 (Rust), in memory",
        script: "rust.sh",
        options: &[],
        requests: 12_000,
        bar: Some(1.0),
    },
    Peer {
        name: "a2a-server-lf, our build and allocator",
        script: "rust.sh",
        options: &["tuned"],
        requests: 12_000,
        bar: None,
    },
    Peer {
        name: "a2a-server-lf, tuned, task in one event",
        script: "rust.sh",
        options: &["tuned", "whole"],
        requests: 12_000,
        bar: None,
    },
    Peer {
        name: "a2a-js 1.3 + express",
        script: "javascript.sh",
        options: &[],
        requests: 2_000,
        bar: Some(5.0),
    },
    Peer {
        name: "a2a-python 1.3 + uvicorn",
        script: "python.sh",
        options: &[],
        requests: 600,
        bar: Some(20.0),
    },
];

/// A running server with its requests per round, required ratio and results.
struct Contender {
    server: Server,
    requests: usize,
    bar: Option<f64>,
    rates: Vec<f64>,
    times: Histogram<u64>,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test` runs benches without `--bench`: measure nothing then.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    let asked = |what: &str| args.iter().any(|arg| arg == what);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        let one = ["tasks", "ours", "streams", "objectives"].iter().any(|what| asked(what));
        if !one || asked("tasks") || asked("ours") {
            tasks(!asked("ours")).await;
        }
        if !one || asked("streams") {
            streams::run().await;
        }
        if !one || asked("objectives") {
            objectives::run().await;
        }
    });
}

async fn tasks(with_peers: bool) {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let mut contenders = contenders(folder.path(), with_peers).await;
    let connections = std::env::var("A2A_BENCH_CONNECTIONS").ok();
    let connections = connections.and_then(|text| text.parse().ok()).unwrap_or(CONNECTIONS);
    let mut generator = generator::Generator::new(connections);
    for contender in &mut contenders {
        generator.run(&contender.server, contender.requests / 2).await;
    }
    let before = load_average();
    for round in 0..ROUNDS {
        let count = contenders.len();
        for which in 0..count {
            let contender = &mut contenders[(round + which) % count];
            let (rate, times) = generator.run(&contender.server, contender.requests).await;
            contender.rates.push(rate);
            contender.times.add(times).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    report(&contenders, [&before, &load_average()]);
}

async fn contenders(folder: &Path, with_peers: bool) -> Vec<Contender> {
    let mut all = vec![(Ok(Server::ours(&folder.join("ours"))), 12_000, None)];
    if let Some(program) = std::env::var_os(BEFORE) {
        let (program, folder) = (Path::new(&program), folder.join("before"));
        all.push((Ok(Server::of_ours("ours, another build", program, &folder)), 12_000, None));
    }
    if with_peers {
        for Peer { name, script, options, requests, bar } in PEERS {
            all.push((Server::script(name, script, options).await, requests, bar));
        }
    }
    let mut found = Vec::new();
    for (server, requests, bar) in all {
        match server {
            Ok(server) => {
                let times = Histogram::new(3).unwrap_or_else(|error| panic!("{error}"));
                found.push(Contender { server, requests, bar, rates: Vec::new(), times });
            }
            Err(why) => println!("SKIPPED {why}"),
        }
    }
    found
}

fn report(contenders: &[Contender], load: [&str; 2]) {
    let [before, after] = load;
    println!("load average: {before} before, {after} after");
    let head = ("a completed task for a message", "tasks/s", "p50 ms", "p99 ms", "ours/it");
    println!("{:<40} {:>9} {:>8} {:>8} {:>8}", head.0, head.1, head.2, head.3, head.4);
    let ours = median(&contenders[0].rates);
    let mut rows = Vec::new();
    for Contender { server, bar, rates, times, .. } in contenders {
        let rate = median(rates);
        let ratio = ours / rate;
        let [p50, p99] = [0.5, 0.99].map(|at| times.value_at_quantile(at) as f64 / 1_000.0);
        let verdict = bar.map(|bar| {
            let met = if ratio >= bar { "met" } else { "MISSED" };
            format!("bar {bar}: {met}")
        });
        println!(
            "{:<40} {rate:>9.0} {p50:>8.2} {p99:>8.2} {ratio:>8.2}  {}",
            server.name(),
            verdict.unwrap_or_default()
        );
        let spread: Vec<u64> = rates.iter().map(|rate| rate.round() as u64).collect();
        rows.push(json!({
            "server": server.name(), "tasks_per_s": rate.round() as u64, "p50_ms": p50,
            "p99_ms": p99, "ours_to_it": (ratio * 100.0).round() / 100.0, "rounds": spread,
        }));
    }
    println!("{}", json!({ "tasks": rows, "load_average": load }));
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Load average of the machine over the last minute.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
