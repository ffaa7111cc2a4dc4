//! Baseline without a bus: the same bytes appended to a file, one fsync per batch, 64 senders.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::{SENDERS, per_second, sample};

const EACH: usize = 1_000;

type Entry = (Arc<[u8]>, oneshot::Sender<()>);

pub async fn run() -> f64 {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let file = File::create(folder.path().join("log")).unwrap_or_else(|error| panic!("{error}"));
    let (queue, entries) = mpsc::unbounded_channel();
    let writer = std::thread::spawn(move || write(file, entries));
    let message = sample::message(&sample::agent("roman"), &sample::agent("tim")).to_json();
    let bytes: Arc<[u8]> = message.into();
    let start = Instant::now();
    let tasks: Vec<_> = (0..SENDERS)
        .map(|_| {
            let (queue, bytes) = (queue.clone(), Arc::clone(&bytes));
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let (reply, durable) = oneshot::channel();
                    queue.send((Arc::clone(&bytes), reply)).unwrap_or_else(|e| panic!("{e}"));
                    durable.await.unwrap_or_else(|error| panic!("{error}"));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("{error}"));
    }
    let elapsed = start.elapsed();
    drop(queue);
    writer.join().unwrap_or_else(|_| panic!("the writer panicked"));
    per_second(SENDERS * EACH, elapsed)
}

fn write(mut file: File, mut entries: mpsc::UnboundedReceiver<Entry>) {
    let mut batch = Vec::new();
    let mut buffer = Vec::new();
    while entries.blocking_recv_many(&mut batch, 1_024) > 0 {
        buffer.clear();
        for (bytes, _) in &batch {
            buffer.extend_from_slice(bytes);
            buffer.push(b'\n');
        }
        file.write_all(&buffer).and_then(|()| file.sync_data()).unwrap_or_else(|e| panic!("{e}"));
        for (_, reply) in batch.drain(..) {
            let _ = reply.send(());
        }
    }
}
