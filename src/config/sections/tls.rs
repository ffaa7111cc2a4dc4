//! `[http.tls]`: certificate and key as PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[http.tls]`. Paths are relative to the configuration file.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TlsValues {
    /// A PEM file: the certificate, then those that vouch for it. Relative to this file
    #[schemars(example = &"cert.pem", extend("x-default" = "no TLS"))]
    cert: Option<PathBuf>,
    /// A PEM file: its key
    #[schemars(example = &"key.pem", extend("x-default" = "no TLS"))]
    key: Option<PathBuf>,
}

/// TLS of the listener, with its replaceable certificate.
#[derive(Debug)]
pub struct Tls {
    /// Configuration of the listener.
    pub config: ServerConfig,
    /// Certificate presented to new connections.
    pub certificates: Arc<Certificates>,
}

/// Certificate presented to new connections. Replacing it does not affect open ones.
#[derive(Debug)]
pub struct Certificates(RwLock<Arc<CertifiedKey>>);

impl Certificates {
    /// Replaces the certificate; `false` when it is unchanged.
    pub fn replace(&self, new: Arc<CertifiedKey>) -> bool {
        let mut shown = self.0.write();
        let is_another = shown.cert != new.cert;
        *shown = new;
        is_another
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

/// Whether a certificate is an authority's (basic constraints with CA:TRUE). Strict clients refuse
/// such a certificate as a server's own.
#[must_use]
pub fn is_ca(der: &[u8]) -> bool {
    /// DER encoding of the OID 2.5.29.19.
    const BASIC_CONSTRAINTS: [u8; 5] = [0x06, 0x03, 0x55, 0x1d, 0x13];
    const TRUE: [u8; 3] = [0x01, 0x01, 0xff];
    let Some(at) = memchr::memmem::find(der, &BASIC_CONSTRAINTS) else { return false };
    let rest = &der[at + BASIC_CONSTRAINTS.len()..];
    // An optional critical flag, then an octet string: a sequence that begins with CA.
    let rest = rest.strip_prefix(&TRUE).unwrap_or(rest);
    matches!(rest, [0x04, _, 0x30, _, value @ ..] if value.starts_with(&TRUE))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl TlsValues {
    fn is_off(&self) -> bool {
        self.cert.is_none() && self.key.is_none()
    }

    /// TLS settings for the listener, which adds the offered HTTP versions.
    pub(in crate::config) fn server(&self, folder: &Path) -> Result<Option<Tls>, String> {
        let Some(key) = self.certified_key(folder)? else { return Ok(None) };
        let certificates = Arc::new(Certificates(RwLock::new(key)));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("[http.tls]: {error}"))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Certificates>::clone(&certificates));
        Ok(Some(Tls { config, certificates }))
    }

    /// Reads the certificate and its key from their files.
    pub(in crate::config) fn certified_key(
        &self,
        folder: &Path,
    ) -> Result<Option<Arc<CertifiedKey>>, String> {
        if self.is_off() {
            return Ok(None);
        }
        let chain = self.chain(folder)?;
        let key = self.key.as_ref();
        let key = key.ok_or("[http.tls] has a `cert` and no `key`; TLS needs both")?;
        let file = folder.join(key);
        let key = PrivateKeyDer::from_pem_file(&file)
            .map_err(|error| format!("[http.tls] key: {}: {error}", file.display()))?;
        CertifiedKey::from_der(chain, key, &provider())
            .map(|key| Some(Arc::new(key)))
            .map_err(|error| format!("[http.tls] the certificate and the key do not fit: {error}"))
    }

    /// Certificates in DER form, for clients that are to trust the server.
    pub(in crate::config) fn trusted(&self, folder: &Path) -> Result<Vec<Vec<u8>>, String> {
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
