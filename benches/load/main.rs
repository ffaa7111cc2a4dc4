//! Throughput and memory of the bus, beside its parts without a bus.
//!
//! Each figure is the median of interleaved rounds in one process, so ratios are comparable between
//! machines. The last line is a JSON object.
//!
//! `cargo bench --bench load`; `-- route` for the first rows only, `-- inbox` for those of the
//! inbox.

mod bare_log;
mod conversations;
mod fan_out;
mod idle;
mod inbox;
mod mailbox;
mod recovery;
mod route;
mod sample;

use std::time::Duration;

use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Tasks that send and wait for their receipts.
const SENDERS: usize = 64;
const ROUNDS: usize = 6;

fn main() {
    // `cargo test` runs benches without `--bench`: measure nothing then.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    if std::env::args().any(|arg| arg == "inbox") {
        inbox::rows();
    } else if std::env::args().any(|arg| arg == "route") {
        runtime.block_on(route_alone());
    } else {
        runtime.block_on(run());
    }
}

async fn route_alone() {
    let mut latency = hdrhistogram::Histogram::<u64>::new(3).unwrap_or_else(|e| panic!("{e}"));
    let (mut route, mut plain, mut log) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ledger, mut breaker) = (Vec::new(), Vec::new());
    for round in 0..3 * 4 {
        // The order rotates, because it affects the results.
        for which in 0..4 {
            match (round + which) % 4 {
                0 => route.push(route::typed(&mut latency).await),
                1 => plain.push(route::plain().await),
                2 => ledger.push(route::with(true, false).await),
                _ => breaker.push(route::with(false, true).await),
            }
        }
        log.push(bare_log::run().await);
    }
    let [route, plain, log, ledger, breaker] = [route, plain, log, ledger, breaker].map(median);
    println!("route {route:.0}/s, {:.2} of bare log ({log:.0}/s)", route / log);
    println!("  … {:.2} of route without ledger and breaker ({plain:.0}/s)", route / plain);
    println!("  ledger alone {:.2}, breaker alone {:.2}", ledger / plain, breaker / plain);
}

async fn run() {
    // First, before any memory was freed; the smaller limit before the larger.
    let breaker_mb = [10_000, 100_000].map(conversations::megabytes);
    let mut route = Vec::new();
    let (mut route_json, mut plain) = (Vec::new(), Vec::new());
    let (mut few, mut many) = (Vec::new(), Vec::new());
    let mut latency = hdrhistogram::Histogram::<u64>::new(3).unwrap_or_else(|e| panic!("{e}"));
    let (mut log, mut boxes, mut kameo) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fan, mut fan_handled, mut bare_fan) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Alternating, because the first of a round is slower.
        if round % 2 == 0 {
            route.push(route::typed(&mut latency).await);
            plain.push(route::plain().await);
        } else {
            plain.push(route::plain().await);
            route.push(route::typed(&mut latency).await);
        }
        log.push(bare_log::run().await);
        route_json.push(route::json().await);
        boxes.push(mailbox::actix().await);
        kameo.push(mailbox::kameo().await);
        let (delivered, handled) = fan_out::bus().await;
        fan.push(delivered);
        fan_handled.push(handled);
        bare_fan.push(fan_out::bare().await);
        let (to_few, to_many) = fan_out::to_few_and_many().await;
        few.push(to_few);
        many.push(to_many);
    }
    let idle_bytes = idle::bytes_per_session().await;
    let recovery = recovery::seconds_per_million();
    let [route, route_json, log, boxes, kameo] = [route, route_json, log, boxes, kameo].map(median);
    let [fan, fan_handled, bare_fan] = [fan, fan_handled, bare_fan].map(median);
    let [plain, few, many] = [plain, few, many].map(median);
    let row = |name: &str, value: f64, note: String| println!("{name:<44} {value:>12.0}  {note}");
    row(
        "route, typed, fsynced, handled (msgs/s)",
        route,
        format!("{:.2} of bare log", route / log),
    );
    row(
        "  … without ledger and breaker (msgs/s)",
        plain,
        format!("with them {:.2} of it", route / plain),
    );
    row("route, from JSON (msgs/s)", route_json, format!("{:.2} of bare log", route_json / log));
    row("bare log: append + fsync, no bus (msgs/s)", log, String::new());
    row("bare actix mailbox, request-reply (msgs/s)", boxes, String::new());
    row("kameo, request-reply, not durable (msgs/s)", kameo, String::new());
    row("fan-out to 1,000 sessions (deliveries/s)", fan, format!("{:.2} of bare", fan / bare_fan));
    row("  … handled and acknowledged (deliveries/s)", fan_handled, String::new());
    row("bare actix fan-out of an Arc (deliveries/s)", bare_fan, String::new());
    row("broadcast to 100 (deliveries/s)", few, String::new());
    row(
        "broadcast to 10,000 (deliveries/s)",
        many,
        format!("one costs {:.2} of one to 100", few / many),
    );
    row("receipt, median (µs)", latency.value_at_quantile(0.5) as f64, String::new());
    row("receipt, 99th percentile (µs)", latency.value_at_quantile(0.99) as f64, String::new());
    row("idle session (bytes)", idle_bytes, String::new());
    for (kept, megabytes) in ["10,000", "100,000"].into_iter().zip(breaker_mb) {
        let name = format!("breaker, 1,000,000 conversations, {kept} kept (MB)");
        println!("{name:<52} {megabytes:>4.0}");
    }
    println!("{:<44} {recovery:>12.2}", "recovery, a million records (s)");
    inbox::rows();
    let whole = |value: f64| value.round() as u64;
    println!(
        "{}",
        json!({
            "route_msgs_per_s": whole(route),
            "route_plain_msgs_per_s": whole(plain),
            "broadcast_100_deliveries_per_s": whole(few),
            "broadcast_10000_deliveries_per_s": whole(many),
            "breaker_mb_10000_kept": whole(breaker_mb[0]),
            "breaker_mb_100000_kept": whole(breaker_mb[1]),
            "route_json_msgs_per_s": whole(route_json),
            "bare_log_msgs_per_s": whole(log),
            "bare_mailbox_msgs_per_s": whole(boxes),
            "fanout_deliveries_per_s": whole(fan),
            "fanout_handled_per_s": whole(fan_handled),
            "bare_fanout_deliveries_per_s": whole(bare_fan),
            "receipt_p50_us": latency.value_at_quantile(0.5),
            "receipt_p99_us": latency.value_at_quantile(0.99),
            "idle_session_bytes": whole(idle_bytes),
            "recovery_s_per_million": (recovery * 100.0).round() / 100.0,
        })
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
