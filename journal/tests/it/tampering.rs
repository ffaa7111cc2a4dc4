//! Every kind of tampering is detected and named.

use std::fs;
use std::path::{Path, PathBuf};

use a2a_journal::{
    Commit, Fault, Head, MemoryJournal, Record, Tampering, VerifyError, recorded_heads,
    verify_journal, verify_log,
};
use a2a_protocol::Event;

use crate::setup::*;

const DAY: i64 = 86_400_000;

/// Three days of six records each, the last one an event.
fn history() -> Vec<Record> {
    (1..=18)
        .map(|seq| {
            let day = (seq - 1) / 6;
            if seq % 6 == 0 {
                return event(seq, Event::Acknowledged, seq - 1, "tim");
            }
            let mut line = accepted(seq, &["tim"]);
            line.time = at(day as i64 * DAY + seq as i64);
            Record::Message(line)
        })
        .collect()
}

struct Rig {
    dir: tempfile::TempDir,
    head: Head,
    packed: bool,
}

/// A closed journal with that history, its two closed segments compressed or not.
fn rig(packed: bool) -> Rig {
    let mut bench = fresh();
    for line in history() {
        commit(&mut bench.journal, &[line]);
    }
    let head = bench.journal.reader().head();
    bench.journal.close().unwrap();
    drop(bench.journal);
    let rig = Rig { dir: bench.dir, head, packed };
    for n in 0..3 {
        let lines = rig.lines(n);
        rig.write(n, &lines);
    }
    rig
}

impl Rig {
    fn plain(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("a2a-log/2026-02-{}.jsonl", 21 + n))
    }

    fn file(&self, n: usize) -> PathBuf {
        let plain = self.plain(n);
        if self.packed && n < 2 { plain.with_extension("jsonl.zst") } else { plain }
    }

    fn lines(&self, n: usize) -> Vec<String> {
        let text = match fs::read(self.file(n)) {
            Ok(bytes) if self.packed && n < 2 => zstd::decode_all(&bytes[..]).unwrap(),
            Ok(bytes) => bytes,
            Err(_) => fs::read(self.plain(n)).unwrap(),
        };
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    fn write(&self, n: usize, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        if self.packed && n < 2 {
            fs::write(self.file(n), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
            let _ = fs::remove_file(self.plain(n));
        } else {
            fs::write(self.file(n), text).unwrap();
        }
    }

    /// The fault after one segment was edited.
    fn edited(&self, n: usize, edit: impl Fn(&mut Vec<String>)) -> Fault {
        let before = self.lines(n);
        let mut lines = before.clone();
        edit(&mut lines);
        self.write(n, &lines);
        let fault = self.fault(&[]);
        self.write(n, &before);
        fault
    }

    fn fault(&self, known: &[Head]) -> Fault {
        match verify_log(self.dir.path(), known) {
            Err(VerifyError::Fault(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }

    fn forget_heads(&self) {
        fs::remove_file(self.dir.path().join("data/a2a-heads.jsonl")).unwrap();
    }

    fn expect(&self, fault: &Fault, file: usize, line: u64, seq: u64, what: Tampering) {
        assert_eq!(fault.file, Some(self.file(file)), "{fault}");
        assert_eq!((fault.line, fault.seq), (line, Some(seq)), "{fault}");
        assert_eq!(fault.what, what, "{fault}");
    }
}

fn on_each(test: impl Fn(&Rig)) {
    for packed in [false, true] {
        test(&rig(packed));
    }
}

/// Changes a line and seals it again, like a forger with knowledge of the format.
fn resealed(line: &str, from: &str, to: &str) -> String {
    let (covered, _) = line.rsplit_once(",\"hash\":").unwrap();
    let covered = covered.replace(from, to);
    format!("{covered},\"hash\":\"{}\"}}", hex(covered.as_bytes()))
}

#[test]
fn complete_log_verifies_with_its_head() {
    on_each(|rig| {
        let verified = verify_log(rig.dir.path(), &[rig.head]).unwrap();
        assert_eq!((verified.records, verified.lines, verified.from), (15, 18, 1));
        assert_eq!(verified.to_string(), format!("ok, 15 records, head {}", rig.head));
        let head: Head = rig.head.to_string().parse().unwrap();
        assert_eq!(verified.head, head);
        assert_eq!(verify_journal(rig.dir.path(), &[head]).unwrap(), verified);
        // It does not depend on the other form.
        fs::remove_dir_all(rig.dir.path().join("data/a2a-journal")).unwrap();
        assert_eq!(verify_log(rig.dir.path(), &[head]).unwrap(), verified);
    });
}

#[test]
fn any_changed_byte_is_found_in_its_line() {
    on_each(|rig| {
        let lines = rig.lines(1);
        for at in (0..lines[2].len()).step_by(7) {
            let fault = rig.edited(1, |lines| {
                let mut bytes = lines[2].clone().into_bytes();
                bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
                lines[2] = String::from_utf8(bytes).unwrap();
            });
            assert_eq!(fault.file, Some(rig.file(1)), "{fault}");
            assert_eq!((fault.line, &fault.what), (3, &Tampering::Changed), "byte {at}: {fault}");
        }
        let fault = rig.edited(1, |lines| lines[2] = resealed(&lines[2], "\"n\":9", "\"n\":8"));
        rig.expect(&fault, 1, 3, 9, Tampering::Changed);
        let fault = rig.edited(1, |lines| lines[2] = "what?".to_owned());
        assert_eq!((fault.line, fault.what), (3, Tampering::Unreadable));
        assert!(fault.to_string().ends_with("line 3 is no line of the log"));
    });
}

#[test]
fn removed_lines_are_detected_at_the_next() {
    on_each(|rig| {
        let fault = rig.edited(1, |lines| drop(lines.remove(2)));
        rig.expect(&fault, 1, 3, 10, Tampering::Removed);
        let fault = rig.edited(1, |lines| drop(lines.drain(1..4)));
        rig.expect(&fault, 1, 2, 11, Tampering::Removed);
        let fault = rig.edited(0, |lines| drop(lines.remove(0)));
        rig.expect(&fault, 0, 1, 2, Tampering::Removed);
        let fault = rig.edited(0, |lines| drop(lines.pop()));
        rig.expect(&fault, 1, 1, 7, Tampering::Removed);
        // A whole segment, the first or one in between.
        for (n, next, seq) in [(0, 1, 7), (1, 2, 13)] {
            let aside = rig.dir.path().join("aside");
            fs::rename(rig.file(n), &aside).unwrap();
            rig.expect(&rig.fault(&[]), next, 1, seq, Tampering::Removed);
            fs::rename(&aside, rig.file(n)).unwrap();
        }
    });
}

#[test]
fn moved_lines_are_distinguished_from_removed_ones() {
    on_each(|rig| {
        let fault = rig.edited(1, |lines| lines.swap(2, 3));
        rig.expect(&fault, 1, 3, 10, Tampering::Reordered);
        let fault = rig.edited(1, |lines| lines.swap(1, 4));
        rig.expect(&fault, 1, 2, 11, Tampering::Reordered);
        let fault = rig.edited(0, |lines| lines.swap(0, 1));
        rig.expect(&fault, 0, 1, 2, Tampering::Reordered);
        let fault = rig.edited(0, |lines| {
            let line = lines.remove(1);
            lines.push(line);
        });
        rig.expect(&fault, 0, 2, 3, Tampering::Reordered);
    });
}

#[test]
fn inserted_lines_are_named_themselves() {
    on_each(|rig| {
        // A copy, a line from elsewhere, one with a made-up hash, one that is not a record.
        let fault = rig.edited(1, |lines| lines.insert(3, lines[1].clone()));
        rig.expect(&fault, 1, 4, 8, Tampering::Inserted);
        let fault = rig.edited(1, |lines| lines.insert(1, lines[4].clone()));
        rig.expect(&fault, 1, 2, 11, Tampering::Inserted);
        let forged = |line: &str| line.replace("roman", "mallo");
        let fault = rig.edited(1, |lines| lines.insert(3, forged(&lines[3])));
        rig.expect(&fault, 1, 4, 10, Tampering::Inserted);
        let fault = rig.edited(1, |lines| lines.insert(3, String::new()));
        assert_eq!((fault.line, fault.what), (4, Tampering::Inserted));
        // A line that follows the one before correctly.
        let fault = rig.edited(1, |lines| {
            lines.insert(3, resealed(&lines[3], "roman", "mallo"));
        });
        rig.expect(&fault, 1, 4, 10, Tampering::Inserted);
        // A line with a valid hash that follows nothing.
        let fault = rig.edited(1, |lines| {
            let other = resealed(&lines[0], "roman", "mallo");
            lines.insert(3, other);
        });
        rig.expect(&fault, 1, 4, 7, Tampering::Inserted);
    });
}

#[test]
fn cut_tail_is_detected_by_a_known_head_only() {
    on_each(|rig| {
        let before = rig.lines(2);
        rig.write(2, &before[..4]);
        // The server wrote the head to its file when it closed.
        rig.expect(&rig.fault(&[]), 2, 4, 18, Tampering::CutOff);
        assert!(rig.fault(&[]).to_string().contains("line 4 is the last"));
        rig.forget_heads();
        assert_eq!(verify_log(rig.dir.path(), &[]).unwrap().head.seq, 16);
        rig.expect(&rig.fault(&[rig.head]), 2, 4, 18, Tampering::CutOff);
        fs::remove_file(rig.file(2)).unwrap();
        rig.expect(&rig.fault(&[rig.head]), 1, 6, 18, Tampering::CutOff);
        assert!(matches!(
            verify_journal(rig.dir.path(), &[Head { seq: 19, ..rig.head }]),
            Err(VerifyError::Fault(Fault { what: Tampering::CutOff, line: 18, .. }))
        ));
    });
}

/// The log of another bus with the same numbers.
fn other_log(packed: bool) -> Rig {
    let mut bench = fresh();
    for mut line in history() {
        if let Record::Message(line) = &mut line {
            line.by = Some(agent("eve"));
        }
        commit(&mut bench.journal, &[line]);
    }
    bench.journal.close().unwrap();
    let rig = Rig { head: bench.journal.reader().head(), dir: bench.dir, packed };
    drop(bench.journal);
    (0..3).for_each(|n| rig.write(n, &rig.lines(n)));
    rig
}

#[test]
fn swapped_file_is_detected_by_a_known_head() {
    on_each(|rig| {
        let other = other_log(rig.packed);
        let known = |seq: u64| {
            let line: serde_json::Value =
                serde_json::from_str(&rig.lines((seq as usize - 1) / 6)[(seq as usize - 1) % 6])
                    .unwrap();
            format!("{seq}:{}", line["hash"].as_str().unwrap()).parse::<Head>().unwrap()
        };
        let known = [known(9), known(14)];
        // One segment: it does not follow the one before, and lacks a known record.
        let before = rig.lines(1);
        rig.write(1, &other.lines(1));
        rig.expect(&rig.fault(&known), 1, 1, 7, Tampering::Swapped);
        rig.write(1, &before);
        // All of them: a correct chain, but without the known head.
        rig.forget_heads();
        (0..3).for_each(|n| rig.write(n, &other.lines(n)));
        assert_eq!(verify_log(rig.dir.path(), &[]).unwrap().head, other.head);
        rig.expect(&rig.fault(&known), 1, 3, 9, Tampering::Swapped);
    });
}

#[test]
fn unfinished_line_is_no_fault() {
    on_each(|rig| {
        let text = fs::read_to_string(rig.file(2)).unwrap();
        fs::write(rig.file(2), format!("{text}{{\"seq\":19,\"ti")).unwrap();
        let verified = verify_log(rig.dir.path(), &[rig.head]).unwrap();
        assert_eq!((verified.lines, verified.unfinished), (18, 13));
    });
}

#[test]
fn damaged_compressed_segment_is_named() {
    let rig = rig(true);
    let bytes = fs::read(rig.file(1)).unwrap();
    for damaged in [&bytes[..bytes.len() / 2], b"no zstd at all", b""] {
        fs::write(rig.file(1), damaged).unwrap();
        let fault = rig.fault(&[]);
        assert!(fault.file == Some(rig.file(1)) || fault.file == Some(rig.file(2)), "{fault}");
        // The bus still works: the index has the records.
        let copy = tempfile::tempdir().unwrap();
        copy_dir(rig.dir.path(), copy.path());
        let (journal, _) = open(copy.path());
        assert_eq!(all(&journal.reader(), 100).len(), 15);
    }
}

#[test]
fn an_open_journal_verifies_itself_and_its_log_meanwhile() {
    let mut bench = fresh();
    let lines: Vec<Record> = (1..=1_300).map(|seq| message(seq, &["tim"])).collect();
    for batch in lines.chunks(100) {
        commit(&mut bench.journal, batch);
        let reader = bench.journal.reader();
        let verified = reader.verify(&[reader.head()]).unwrap();
        assert_eq!((verified.head, verified.records), (reader.head(), reader.head().seq));
        assert_eq!(verify_log(bench.dir.path(), &[reader.head()]).unwrap(), verified);
        let wrong = Head { seq: reader.head().seq, hash: Head::START.hash };
        assert!(matches!(
            reader.verify(&[wrong]),
            Err(VerifyError::Fault(Fault { what: Tampering::Swapped, .. }))
        ));
    }
    let mut memory = MemoryJournal::new();
    commit(&mut memory, &lines);
    let verified = memory.reader().verify(&[]).unwrap();
    assert_eq!(verified, bench.journal.reader().verify(&[]).unwrap());
    let noted = recorded_heads(bench.dir.path()).unwrap();
    assert_eq!(noted.len(), 1, "one a minute");
    bench.journal.close().unwrap();
    assert_eq!(recorded_heads(bench.dir.path()).unwrap().last(), Some(&verified.head));
}

#[test]
fn blocks_changed_in_sled_are_found() {
    let rig = rig(false);
    let db = crate::gaps::open_sled(rig.dir.path());
    let blocks = db.open_tree("blocks").unwrap();
    let (key, value) = blocks.first().unwrap().unwrap();
    let text = zstd::decode_all(&value[4..]).unwrap();
    let text = String::from_utf8(text).unwrap().replacen("\"n\":3", "\"n\":4", 1);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let value = [&(text.len() as u32).to_be_bytes()[..], &packed].concat();
    blocks.insert(key, value).unwrap();
    db.flush().unwrap();
    drop((blocks, db));
    let Err(VerifyError::Fault(fault)) = verify_journal(rig.dir.path(), &[]) else { panic!() };
    assert_eq!((fault.line, fault.seq, fault.what), (3, Some(3), Tampering::Changed));
    assert!(verify_log(rig.dir.path(), &[]).is_ok());
}

#[test]
fn an_empty_journal_is_whole() {
    let bench = fresh();
    let verified = bench.journal.reader().verify(&[]).unwrap();
    assert_eq!((verified.records, verified.head, verified.from), (0, Head::START, 0));
    assert_eq!(verify_log(bench.dir.path(), &[Head::START]).unwrap(), verified);
    assert!(verify_log(Path::new("/nowhere/at/all"), &[]).is_err());
}
