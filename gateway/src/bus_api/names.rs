//! `/bus/names`: list tokens that are refused for their name, show the holder of a name.

use crate::openapi::{Operation, array, object, text};
use a2a_actors::BusSystem;
use a2a_policy::Holder;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use schemars::SchemaGenerator;
use serde_json::Value;
use serde_json::json;

use crate::auth::tokens::{Principal, TokenRegistry};
use crate::auth::{A2aCaller, BusCaller};
use crate::problem::refuse;

/// Lists tokens that are refused because their name belongs to another holder.
#[get("/bus/names")]
pub(crate) async fn list(
    who: BusCaller,
    keys: web::Data<TokenRegistry>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let refused = keys.refused().into_iter().map(|refused| {
        json!({
            "token": refused.id,
            "name": refused.principal.name(),
            "holder": refused.principal.holder(),
            "taken": { "name": refused.taken.held, "holder": refused.taken.holder },
            "reason": refused.taken.to_string(),
        })
    });
    Ok(HttpResponse::Ok().json(json!({ "refused": refused.collect::<Vec<_>>() })))
}

/// Shows the holder of a name. Agents and clients may only look up their own.
#[get("/bus/names/{name}")]
pub(crate) async fn show(
    caller: A2aCaller,
    name: web::Path<String>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let name = name.into_inner();
    if let Some(Principal::Agent(own) | Principal::Client(own)) = caller.principal()
        && !own.as_str().eq_ignore_ascii_case(&name)
    {
        let detail = format!("You are `{own}`; other names are for operators to look up.");
        return Err(refuse(StatusCode::FORBIDDEN, "forbidden", &detail));
    }
    match bus.name_holder(name.clone()).await {
        Some((name, holder)) => {
            Ok(HttpResponse::Ok().json(json!({ "name": name, "holder": holder })))
        }
        None => {
            let shown: String = name.chars().take(64).collect();
            let detail = format!("No agent and no client is called `{shown}`.");
            Err(refuse(StatusCode::NOT_FOUND, "unknown_name", &detail))
        }
    }
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let holder: Value = schemas.subschema_for::<Holder>().into();
    let held = object(&[("name", text()), ("holder", holder.clone())]);
    let refused = object(&[
        ("token", text()),
        ("name", text()),
        ("holder", holder),
        ("taken", held.clone()),
        ("reason", text()),
    ]);
    vec![
        Operation::new("GET", "/bus/names", "listRefusedNames", "directory", "List tokens whose name is taken")
            .description("For people. Agents, A2A clients and operators share one list of names, whatever their case; such a token is refused.")
            .json(200, "The tokens", &object(&[("refused", array(&refused))])),
        Operation::new("GET", "/bus/names/{name}", "showName", "directory", "Show the holder of a name")
            .description("Whatever its case. Agents and clients can look up their own.")
            .json(200, "The holder", &held),

    ]
}
