//! How many answers without an end may be open at once, in all and for one caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::StatusCode;

use super::problem::refuse;

/// The places there are.
#[derive(Debug)]
pub struct Streams {
    most: usize,
    most_per_caller: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    per_caller: HashMap<String, usize>,
}

/// There is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyStreams {
    /// For anybody.
    #[error("Too many streams are open already. Try again when one of them has ended.")]
    InAll,
    /// For this caller.
    #[error("You have {0} streams open already. Close one of them first.")]
    OfYours(usize),
}

impl From<TooManyStreams> for actix_web::Error {
    fn from(error: TooManyStreams) -> Self {
        let status = match error {
            TooManyStreams::InAll => StatusCode::SERVICE_UNAVAILABLE,
            TooManyStreams::OfYours(_) => StatusCode::TOO_MANY_REQUESTS,
        };
        refuse(status, "too_many_streams", &error.to_string())
    }
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub struct StreamPlace {
    open: Arc<Mutex<Open>>,
    caller: Option<String>,
}

impl Streams {
    /// So many in all, and for one caller.
    #[must_use]
    pub fn new(most: usize, most_per_caller: usize) -> Self {
        Self { most, most_per_caller, open: Arc::default() }
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Takes a place. `caller` is `None` where nobody is told from another: then only the total
    /// counts.
    ///
    /// # Errors
    /// When there is none.
    pub fn enter(&self, caller: Option<String>) -> Result<StreamPlace, TooManyStreams> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.total >= self.most {
            return Err(TooManyStreams::InAll);
        }
        if let Some(caller) = &caller {
            let of_caller = open.per_caller.get(caller).copied().unwrap_or_default();
            if of_caller >= self.most_per_caller {
                return Err(TooManyStreams::OfYours(of_caller));
            }
            open.per_caller.insert(caller.clone(), of_caller + 1);
        }
        open.total += 1;
        Ok(StreamPlace { open: Arc::clone(&self.open), caller })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.total -= 1;
        let Some(caller) = self.caller.take() else { return };
        if let Some(count) = open.per_caller.get_mut(&caller) {
            *count -= 1;
            if *count == 0 {
                open.per_caller.remove(&caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_all_and_for_each_and_given_back() {
        let streams = Streams::new(4, 2);
        let of = |name: &str| streams.enter(Some(name.to_owned()));
        let first = of("agent:a").unwrap();
        let _second = of("agent:a").unwrap();
        assert_eq!(of("agent:a").unwrap_err(), TooManyStreams::OfYours(2));
        let _third = of("agent:b").unwrap();
        let fourth = streams.enter(None).unwrap();
        assert_eq!(streams.enter(None).unwrap_err(), TooManyStreams::InAll);
        drop((first, fourth));
        let _fifth = of("agent:a").unwrap();
        drop(_third);
        assert_eq!(streams.open.lock().unwrap().per_caller.len(), 1, "who left is forgotten");
    }
}
