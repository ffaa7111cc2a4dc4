//! Reload on SIGHUP: reads the configuration again and applies what can change in a running server.
//!
//! A reload is atomic. All checks precede the first change.

use std::path::PathBuf;
use std::sync::Arc;

use a2a_actors::BusSystem;
use a2a_actors::tasks::TaskSystem;
use a2a_gateway::LogSettings;
use a2a_gateway::auth::tokens::TokenRegistry;
use anyhow::{Context, bail};
use openclaw_a2a::RateSettings;
use openclaw_a2a::agents::demo;
use openclaw_a2a::config::{Certificates, Change, Config};

/// State needed for a reload.
pub(super) struct Reloader {
    pub(super) file: PathBuf,
    /// The file was named explicitly and must exist.
    pub(super) required: bool,
    /// Rates that override the file.
    pub(super) rates: Option<RateSettings>,
    /// The cast of the demo stays listed.
    pub(super) demo: bool,
    pub(super) bus: BusSystem,
    pub(super) tasks: TaskSystem,
    pub(super) keys: Arc<TokenRegistry>,
    pub(super) log: LogSettings,
    /// Certificates of the server under TLS.
    pub(super) certificates: Option<Arc<Certificates>>,
    /// The configuration in force.
    pub(super) config: Config,
}

impl Reloader {
    /// Applies the current configuration, and logs the result.
    pub(super) async fn reload(&mut self) {
        match self.apply().await {
            Ok(changes) => report(&changes),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(
                    error,
                    "the configuration was not reloaded; nothing has changed, and the certificate in use stays"
                );
            }
        }
    }

    async fn apply(&mut self) -> anyhow::Result<Vec<Change>> {
        let (file, required) = (self.file.clone(), self.required);
        let read = actix_web::rt::task::spawn_blocking(move || Config::read(&file, required));
        let new = read.await.context("reading it panicked")??;
        let changes = self.config.changes(&new).map_err(anyhow::Error::msg)?;
        let merged = self.config.reloaded(&new).map_err(anyhow::Error::msg)?;
        let mut settings = merged.settings().map_err(anyhow::Error::msg)?;
        if self.demo {
            demo::enlist(&mut settings.agents)?;
        }
        let listed = settings.agents.iter().map(|(agent, _)| agent.clone()).collect();
        let mut bus = settings.live();
        bus.rates = self.rates.unwrap_or(bus.rates);
        let tasks = merged.tasks().map_err(anyhow::Error::msg)?.live();
        let redaction = merged.redaction().map_err(anyhow::Error::msg)?;
        let tokens = merged.tokens().map_err(anyhow::Error::msg)?;
        // A changed path needs a restart; changed content of the files does not.
        let renewed = match &self.certificates {
            Some(_) => merged.certified_key().map_err(anyhow::Error::msg)?,
            None => None,
        };
        // First, because it is the only step that can be refused.
        self.keys.reconfigure(tokens, listed)?;
        self.log.hide(redaction);
        if !self.bus.reload(bus).await || !self.tasks.reload(tasks).await {
            bail!("the server is stopping");
        }
        if let Some((certificates, renewed)) = self.certificates.as_ref().zip(renewed)
            && certificates.replace(renewed)
        {
            tracing::info!("another certificate is shown to new connections from now on");
        }
        self.config = merged;
        Ok(changes)
    }
}

/// Logs what has changed, and what needs a restart.
fn report(changes: &[Change]) {
    let named = |reloads: bool| {
        let these = changes.iter().filter(|change| change.reloads == reloads);
        these.map(Change::to_string).collect::<Vec<_>>().join(", ")
    };
    let (changed, waiting) = (named(true), named(false));
    if !waiting.is_empty() {
        tracing::warn!(keys = waiting, "changed in the configuration, but needs a restart");
    }
    match changed.as_str() {
        "" => tracing::info!("configuration reloaded; nothing that takes effect has changed"),
        changed => tracing::info!(changed, "configuration reloaded"),
    }
}
