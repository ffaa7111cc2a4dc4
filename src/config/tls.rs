//! `[http.tls]`: the certificate and its key, as PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[http.tls]`. Paths are relative to the configuration file.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TlsValues {
    /// A PEM file: the certificate, then those that vouch for it. Relative to this file
    #[schemars(example = &"cert.pem", extend("x-default" = "no TLS"))]
    cert: Option<PathBuf>,
    /// A PEM file: its key
    #[schemars(example = &"key.pem", extend("x-default" = "no TLS"))]
    key: Option<PathBuf>,
}

impl TlsValues {
    fn is_off(&self) -> bool {
        self.cert.is_none() && self.key.is_none()
    }

    /// What the server needs, if it shall speak TLS; which versions of HTTP it offers is added
    /// where it listens.
    pub(super) fn server(&self, folder: &Path) -> Result<Option<ServerConfig>, String> {
        if self.is_off() {
            return Ok(None);
        }
        let chain = self.chain(folder)?;
        let key = self.key.as_ref();
        let key = key.ok_or("[http.tls] has a `cert` and no `key`; TLS needs both")?;
        let file = folder.join(key);
        let key = PrivateKeyDer::from_pem_file(&file)
            .map_err(|error| format!("[http.tls] key: {}: {error}", file.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("[http.tls]: {error}"))?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        config
            .map(Some)
            .map_err(|error| format!("[http.tls] the certificate and the key do not fit: {error}"))
    }

    /// The certificates as they stand, for those who want to know the server by them.
    pub(super) fn trusted(&self, folder: &Path) -> Result<Vec<Vec<u8>>, String> {
        if self.is_off() {
            return Ok(Vec::new());
        }
        Ok(self.chain(folder)?.into_iter().map(|cert| cert.to_vec()).collect())
    }

    fn chain(&self, folder: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
        let cert = self.cert.as_ref();
        let cert = cert.ok_or("[http.tls] has a `key` and no `cert`; TLS needs both")?;
        let file = folder.join(cert);
        let bad =
            |error: &dyn std::fmt::Display| format!("[http.tls] cert: {}: {error}", file.display());
        let chain = CertificateDer::pem_file_iter(&file).map_err(|error| bad(&error))?;
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| bad(&error))?;
        if chain.is_empty() {
            return Err(bad(&"there is no certificate in it"));
        }
        Ok(chain)
    }
}
