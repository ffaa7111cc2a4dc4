//! `GET /bus/log`: the record, newest first, page by page.

use a2a_actors::BusSystem;
use a2a_store::StoredRecord;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use serde::Deserialize;

use super::auth::Who;
use super::problem::refuse;

const MOST: usize = 1_000;

#[derive(Deserialize)]
struct Query {
    limit: Option<usize>,
    cursor: Option<String>,
}

#[get("/bus/log")]
pub(super) async fn page(
    who: Who,
    query: web::Query<Query>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let cursor = query.cursor.as_deref().filter(|cursor| !cursor.is_empty());
    let before = match cursor.map(str::parse::<u64>) {
        None => None,
        Some(Ok(before)) => Some(before),
        Some(Err(_)) => {
            let detail = "`cursor` must be the `nextCursor` of an earlier page.";
            return Err(refuse(StatusCode::BAD_REQUEST, "bad_request", detail));
        }
    };
    let limit = query.limit.unwrap_or(50).clamp(1, MOST);
    let reader = bus.reader();
    let page = web::block(move || reader.page(before, limit)).await;
    match page {
        Ok(Ok(page)) => {
            let records: Vec<_> = page.records.iter().map(with_deliveries).collect();
            let next = page.next.map(|next| next.to_string()).unwrap_or_default();
            let body = format!("{{\"records\":[{}],\"nextCursor\":\"{next}\"}}", records.join(","));
            Ok(HttpResponse::Ok().content_type("application/json").body(body))
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "the log could not be read");
            let detail = "The log could not be read.";
            Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail))
        }
        Err(_) => {
            Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The bus is stopping."))
        }
    }
}

/// The record's own line with the events so far; the line is passed on as it stands in the log.
fn with_deliveries(record: &StoredRecord) -> String {
    let line = record.line.get().trim_end();
    let open = line.strip_suffix('}').unwrap_or(line);
    let deliveries: Vec<_> = record.deliveries.iter().map(|event| event.get()).collect();
    format!("{open},\"deliveries\":[{}]}}", deliveries.join(","))
}
