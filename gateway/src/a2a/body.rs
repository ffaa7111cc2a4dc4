//! Extractor of the body of an A2A call, with a size limit and a deadline.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::web::{self, Bytes, BytesMut};
use actix_web::{FromRequest, HttpRequest};
use futures_util::StreamExt;

use crate::HttpSettings;
use crate::problem::refuse;

/// The body of a call.
pub(crate) struct Body(Bytes);

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl FromRequest for Body {
    type Error = actix_web::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Self::Error>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let limits = request.app_data::<web::Data<HttpSettings>>();
        let of = |settings: &HttpSettings| (settings.body_bytes, settings.body);
        let (most, longest) = limits.map_or_else(|| of(&HttpSettings::default()), |data| of(data));
        let mut payload = payload.take();
        Box::pin(async move {
            let read = async {
                let mut body = BytesMut::new();
                while let Some(chunk) = payload.next().await {
                    let chunk = chunk?;
                    if body.len() + chunk.len() > most {
                        let detail = format!("The body is larger than {most} bytes.");
                        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &detail));
                    }
                    body.extend_from_slice(&chunk);
                }
                Ok(Self(body.freeze()))
            };
            tokio::time::timeout(longest, read).await.unwrap_or_else(|_| {
                let detail = "The body did not come in time.";
                Err(refuse(StatusCode::REQUEST_TIMEOUT, "too_slow", detail))
            })
        })
    }
}
