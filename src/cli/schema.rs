//! `openclaw-a2a schema`: prints JSON Schemas, or writes them to files.

use std::io::Write;
use std::path::{Path, PathBuf};

use a2a_protocol::{Kind, schema};
use anyhow::{Context, bail};
use serde_json::{Map, Value};

use a2a_gateway::openapi;

use super::Answer;

/// Name of the OpenAPI document among the schemas.
const OPENAPI: &str = "openapi";

/// Print the JSON Schemas of the protocol, or write them to files
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a schema                         any message
  openclaw-a2a schema task_request            a whole message of one kind
  openclaw-a2a schema task_request --payload  only its payload, for a tool definition
  openclaw-a2a schema --all --dir schemas     every schema, one file each
  openclaw-a2a schema --openapi               the HTTP calls of the server, as OpenAPI 3.1")]
pub(super) struct Args {
    /// Schema [default: envelope]
    #[arg(value_parser = parse_name, value_name = "KIND", conflicts_with = "all")]
    #[arg(help = help())]
    kind: Option<&'static str>,

    /// All schemas, as one JSON object by name, or with --dir one file each
    #[arg(long)]
    all: bool,

    /// The OpenAPI document of the HTTP API, as GET /openapi.json serves it
    #[arg(long, conflicts_with_all = ["kind", "all", "payload"])]
    openapi: bool,

    /// Only the payload of KIND: what a language model fills in when a program adds the rest
    #[arg(long, requires = "kind", conflicts_with = "all")]
    payload: bool,

    /// Write to DIR/KIND.schema.json (DIR/openapi.json) instead of standard output
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn names() -> impl Iterator<Item = &'static str> {
    let kinds = Kind::ALL.iter().map(|kind| kind.as_str());
    std::iter::once(schema::ENVELOPE).chain(kinds).chain(std::iter::once(schema::TASK_PROGRESS))
}

fn help() -> String {
    let names: Vec<_> = names().collect();
    format!("Which schema: {} [default: {}]", names.join(", "), schema::ENVELOPE)
}

/// Accepts `task-request` for `task_request`.
fn parse_name(given: &str) -> Result<&'static str, String> {
    let plain = |name: &str| name.replace('_', "-");
    names()
        .find(|name| plain(name) == plain(given))
        .ok_or_else(|| format!("the schemas are {}", names().collect::<Vec<_>>().join(", ")))
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let schemas = chosen(args)?;
    if let Some(dir) = &args.dir {
        return write_files(dir, &schemas);
    }
    let mut out = std::io::stdout().lock();
    let value = match schemas.as_slice() {
        [(_, only)] if !args.all => only.clone(),
        many => Value::Object(many.iter().cloned().collect::<Map<_, _>>()),
    };
    writeln!(out, "{value:#}")?;
    Ok(Answer::Yes)
}

fn chosen(args: &Args) -> anyhow::Result<Vec<(String, Value)>> {
    if args.openapi {
        return Ok(vec![(OPENAPI.to_owned(), openapi::document())]);
    }
    let named = |(name, schema): (&str, Value)| (name.to_owned(), schema);
    if args.all {
        return Ok(schema::all().into_iter().map(named).collect());
    }
    let name = args.kind.unwrap_or(schema::ENVELOPE);
    if args.payload {
        let Some(kind) = Kind::from_name(name) else {
            bail!("--payload needs one of the seven kinds of message, and {name} is none of them");
        };
        return Ok(vec![(format!("{name}.payload"), schema::payload(kind))]);
    }
    Ok(schema::all().into_iter().filter(|(each, _)| *each == name).map(named).collect())
}

fn write_files(dir: &Path, schemas: &[(String, Value)]) -> anyhow::Result<Answer> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut out = std::io::stdout().lock();
    for (name, schema) in schemas {
        let kind = if name == OPENAPI { "" } else { ".schema" };
        let file = dir.join(format!("{name}{kind}.json"));
        let text = serde_json::to_string_pretty(schema)? + "\n";
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        writeln!(out, "{}", file.display())?;
    }
    Ok(Answer::Yes)
}
