//! Whether anything can be taken at the moment: what readiness asks.

use actix::prelude::*;

use super::Router;

/// Asks why a message that is sent now would be refused, whatever it says.
#[derive(Message)]
#[rtype(result = "Option<&'static str>")]
pub(crate) struct AskUnavailable;

impl Handler<AskUnavailable> for Router {
    type Result = Option<&'static str>;

    fn handle(&mut self, _: AskUnavailable, _: &mut Self::Context) -> Self::Result {
        self.unavailable()
    }
}
