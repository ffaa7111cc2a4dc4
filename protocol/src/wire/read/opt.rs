//! The parameters of the OPT methods as callers write them.

use serde::Deserialize;

use super::{Count, Flag, Object, Str, Word};
use crate::task::Metadata;

/// The parameters of every method; each takes what it knows.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(in crate::wire) struct Opt<'a> {
    pub tenant: Option<Str<'a>>,
    pub id: Option<Str<'a>>,
    #[serde(alias = "objective_id")]
    pub objective_id: Option<Str<'a>>,
    #[serde(alias = "plan_id")]
    pub plan_id: Option<Str<'a>>,
    pub name: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub status: Option<Word<'a>>,
    pub tasks: Option<Vec<Object<Step<'a>>>>,
    pub dependencies: Option<Vec<Str<'a>>>,
    #[serde(deserialize_with = "super::unique::metadata")]
    pub metadata: Option<Metadata>,
    #[serde(alias = "include_plans")]
    pub include_plans: Option<Flag>,
    #[serde(alias = "include_tasks")]
    pub include_tasks: Option<Flag>,
    #[serde(alias = "since_revision")]
    pub since_revision: Option<Count>,
    #[serde(alias = "wait_ms")]
    pub wait_ms: Option<Count>,
    #[serde(alias = "page_size")]
    pub page_size: Option<Count>,
    #[serde(alias = "page_token")]
    pub page_token: Option<Str<'a>>,
}

/// A new task of a plan.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(in crate::wire) struct Step<'a> {
    pub name: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub dependencies: Option<Vec<Str<'a>>>,
    #[serde(deserialize_with = "super::unique::metadata")]
    pub metadata: Option<Metadata>,
}
