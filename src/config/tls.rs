//! `[http.tls]`: the certificate and its key, as PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;

/// `[http.tls]`. Paths are relative to the configuration file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsValues {
    /// The certificate, then those that vouch for it.
    cert: PathBuf,
    key: PathBuf,
}

impl TlsValues {
    /// What the server needs; which versions of HTTP it offers is added where it listens.
    pub(super) fn server(&self, folder: &Path) -> Result<ServerConfig, String> {
        let chain = self.chain(folder)?;
        let file = folder.join(&self.key);
        let key = PrivateKeyDer::from_pem_file(&file)
            .map_err(|error| format!("[http.tls] key: {}: {error}", file.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("[http.tls]: {error}"))?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        config
            .map_err(|error| format!("[http.tls] the certificate and the key do not fit: {error}"))
    }

    /// The certificates as they stand, for those who want to know the server by them.
    pub(super) fn trusted(&self, folder: &Path) -> Result<Vec<Vec<u8>>, String> {
        Ok(self.chain(folder)?.into_iter().map(|cert| cert.to_vec()).collect())
    }

    fn chain(&self, folder: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
        let file = folder.join(&self.cert);
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
