//! Both journals behave alike: pages, lookups, events, order, closing.

use a2a_journal::{Commit, CommitError, Head, MAX_PAGE, MemoryJournal};
use a2a_protocol::Event;

use crate::setup::*;

/// Runs a test on the journal on disk and on the one in memory.
fn on_each(test: impl Fn(&mut dyn Commit)) {
    test(&mut fresh().journal);
    test(&mut MemoryJournal::new());
}

#[test]
fn an_empty_journal_has_nothing() {
    on_each(|journal| {
        let reader = journal.reader();
        assert_eq!(reader.head(), Head::START);
        assert!(reader.get(0).unwrap().is_none());
        assert!(reader.get(1).unwrap().is_none());
        assert!(all(&reader, 10).is_empty());
        commit(journal, &[]);
        assert_eq!(reader.head(), Head::START);
    });
}

#[test]
fn commit_is_visible_at_once_to_every_reader() {
    on_each(|journal| {
        let reader = journal.reader();
        commit(journal, &[message(1, &["tim"]), refused(2)]);
        commit(journal, &[event(3, Event::Acknowledged, 1, "tim")]);
        assert_eq!(reader.head().seq, 3);
        let record = reader.get(1).unwrap().unwrap();
        assert_eq!(record.deliveries.len(), 1);
        assert!(
            record.deliveries[0].get().ends_with(&format!("\"hash\":\"{}\"}}", reader.head().hash))
        );
        assert!(reader.get(2).unwrap().unwrap().deliveries.is_empty());
        assert!(reader.get(3).unwrap().is_none(), "an event is no record");
        assert!(reader.get(4).unwrap().is_none());
    });
}

#[test]
fn pages_run_from_the_newest_to_the_oldest_over_many_blocks() {
    on_each(|journal| {
        let reader = journal.reader();
        let mut expected = Vec::new();
        // Gaps in the numbers, late acknowledgements, and batches that do not align with blocks.
        let mut seq = 0;
        let mut acks = std::collections::VecDeque::new();
        for size in [1, 7, 512, 1, 700, 64, 1_500, 3] {
            let mut batch = Vec::new();
            for _ in 0..size {
                seq += 2;
                batch.push(message(seq, &["tim"]));
                expected.push((seq, Vec::new()));
                acks.push_back(seq);
                if acks.len() > 600 {
                    let of = acks.pop_front().unwrap();
                    seq += 1;
                    batch.push(event(seq, Event::Acknowledged, of, "tim"));
                    let at = expected.binary_search_by_key(&of, |(seq, _)| *seq).unwrap();
                    expected[at].1.push("acknowledged".to_owned());
                }
            }
            commit(journal, &batch);
        }
        expected.reverse();
        for limit in [1_000, 333] {
            assert_eq!(all(&reader, limit), expected);
        }
        let page = reader.page(Some(expected[5].0), 2).unwrap();
        assert_eq!(page.records[0].seq, expected[6].0);
        assert_eq!(page.next, Some(expected[7].0));
        assert_eq!(reader.page(None, usize::MAX).unwrap().records.len(), MAX_PAGE);
        assert_eq!(reader.page(None, 0).unwrap().records.len(), 1, "a page is never empty");
        assert_eq!(reader.page(Some(2), 10).unwrap().records.len(), 0);
        assert_eq!(reader.get(2).unwrap().unwrap().deliveries.len(), 1);
    });
}

#[test]
fn commit_with_a_lower_number_is_refused() {
    on_each(|journal| {
        commit(journal, &[message(5, &["tim"])]);
        for bad in [vec![message(5, &[])], vec![message(6, &[]), message(6, &[])], vec![refused(0)]]
        {
            let error = journal.commit(&bad).unwrap_err();
            assert!(matches!(error, CommitError::OutOfOrder { .. }), "{error}");
        }
        assert_eq!(journal.reader().head().seq, 5);
        commit(journal, &[message(6, &["tim"])]);
        assert_eq!(all(&journal.reader(), 10).len(), 2);
    });
}

#[test]
fn both_write_the_same_chain() {
    let mut heads = Vec::new();
    on_each(|journal| {
        commit(journal, &[joined(1, "tim"), message(2, &["tim"])]);
        assert_ne!(journal.reader().head().hash, Head::START.hash);
    });
    for journal in [&mut fresh().journal as &mut dyn Commit, &mut MemoryJournal::new()] {
        commit(journal, &[joined(1, "tim"), message(2, &["tim"])]);
        commit(journal, &[refused(3)]);
        heads.push(journal.reader().head());
    }
    assert_eq!(heads[0], heads[1]);
}

#[test]
fn a_closed_journal_refuses() {
    on_each(|journal| {
        commit(journal, &[message(1, &["tim"])]);
        journal.close().unwrap();
        journal.close().unwrap();
        assert!(matches!(journal.commit(&[message(2, &[])]), Err(CommitError::Closed)));
        assert_eq!(journal.reader().head().seq, 1);
    });
}
