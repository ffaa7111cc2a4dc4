//! `POST /bus/log/rebuild`: writes days that only the index holds to files, for a backup.
//!
//! The files go to a fixed folder in the server's state folder, and the response has only their
//! names. So a caller chooses no path, and nothing that `[audit] redact` hides leaves over HTTP.

use crate::openapi::{Operation, array, object, text};
use std::sync::Arc;

use a2a_actors::BusSystem;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, post, web};
use chrono::NaiveDate;
use serde::Deserialize;
use serde_json::json;

use super::{LogSettings, unreadable};
use crate::auth::BusCaller;
use crate::problem::refuse;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebuildRequest {
    before: NaiveDate,
}

#[post("/bus/log/rebuild")]
pub(crate) async fn rebuild(
    who: BusCaller,
    wanted: web::Json<RebuildRequest>,
    bus: web::Data<BusSystem>,
    settings: web::Data<LogSettings>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    // It reads everything, as verifying does.
    let Ok(turn) = Arc::clone(&settings.verifying).try_acquire_owned() else {
        let detail = "The journal is being read through already. Try again when that is done.";
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail));
    };
    let (reader, before) = (bus.reader(), wanted.before);
    let written = web::block(move || {
        let _turn = turn;
        reader.rebuild_before(before)
    });
    let written = written.await.map_err(|_| unreadable(&a2a_journal::ReadError::Closed))?;
    let written = written.map_err(|error| unreadable(&error))?;
    let names = written.iter().filter_map(|path| path.file_name()?.to_str());
    Ok(HttpResponse::Ok().json(json!({ "files": names.collect::<Vec<_>>() })))
}

/// Description of the route above for the OpenAPI document.
pub(crate) fn operation() -> Operation {
    Operation::new("POST", "/bus/log/rebuild", "rebuildDays", "log", "Rebuild day files that only the index holds, for a backup")
        .description("For people. They go to `data/a2a-rebuilt` in the server's state folder; `openclaw-a2a backup` calls this.")
        .json_request(&object(&[("before", json!({ "type": "string", "format": "date" }))]))
        .json(200, "The names of the files", &object(&[("files", array(&text()))]))
        .problems(&[400, 408, 413, 415, 500])
}
