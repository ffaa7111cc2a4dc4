//! Decodes push notification configurations.

use super::param_errors::{ParamErrors, ParamPath};
use super::{Decoded, PathIds, filled, task_of};
use crate::fault::Fault;
use crate::operation::{Authentication, Operation, PushConfig};
use crate::validate::violation::Code;
use crate::wire::params::{self, Object, PushParams};
use crate::wire::{Dialect, Version};

/// Id of a configuration of 0.3 that has none.
const DEFAULT_CONFIG_ID: &str = "default";

/// Decodes the call that registers a configuration.
pub(super) fn set(
    version: Version,
    mut read: PushParams<'_>,
    path_ids: &PathIds,
) -> Result<Decoded, Fault> {
    let mut errors = ParamErrors::new();
    let tenant = filled(read.tenant.as_ref()).map(str::to_owned);
    let task_id = task_of(&mut errors, "taskId", read.task_id.as_ref(), path_ids);
    let (root, mut dialect) = (ParamPath::Root, version.dialect());
    let config_id = read.config_id.take();
    let in_config = ParamPath::Key(&root, "config");
    let mut at = root;
    if version == Version::V0_3 {
        if path_ids.task.is_some() && (read.config.is_some() || read.task_id.is_none()) {
            dialect = Dialect::V0_3Proto;
        }
        if let Some(inner) = read.config.take() {
            at = in_config;
            read = inner.0;
        }
        match read.push_notification_config.take() {
            Some(inner) => read = inner.0,
            None if read.url.is_none() => {
                let path = ParamPath::Key(&at, "pushNotificationConfig");
                errors.missing(&path, "an object with at least `url`");
                return Err(Fault::InvalidParams(errors.into_violations()));
            }
            None => {}
        }
    }
    let outer = at;
    let nested = ParamPath::Key(&outer, "pushNotificationConfig");
    let path = if version == Version::V0_3 { nested } else { outer };
    read.task_id = None; // checked above, together with the path
    read.id = read.id.filter(|id| !id.0.is_empty()).or(config_id);
    let push = config(&mut errors, version, &path, read);
    let push = task_id.zip(push).map(|(task, push)| PushConfig { task_id: Some(task), ..push });
    let operation = Operation::SetPush(errors.finish(push)?);
    Ok(Decoded { tenant, operation, dialect })
}

/// Decodes the configuration at `at`.
pub(super) fn config(
    errors: &mut ParamErrors,
    version: Version,
    at: &ParamPath<'_>,
    read: PushParams<'_>,
) -> Option<PushConfig> {
    let id = filled(read.id.as_ref());
    // In 0.3 a configuration without an id is the only one of the task; setting it again replaces
    // it.
    let id = if version == Version::V0_3 { id.or(Some(DEFAULT_CONFIG_ID)) } else { id };
    let id = errors.optional_id(&ParamPath::Key(at, "id"), id);
    let task_id = errors.optional_id(&ParamPath::Key(at, "taskId"), filled(read.task_id.as_ref()));
    let url = read.url.filter(|url| !url.trim().is_empty());
    if url.is_none() {
        errors.missing(&ParamPath::Key(at, "url"), "the URL to call");
    }
    let set = |text: Option<String>| text.filter(|text| !text.is_empty());
    let path = ParamPath::Key(at, "authentication");
    let authentication =
        read.authentication.and_then(|Object(read)| authentication(errors, version, &path, read));
    let token = set(read.token);
    Some(PushConfig {
        id,
        task_id,
        url: url?,
        token,
        authentication,
        legacy: false,
        progress: false,
        opt: false,
    })
}

fn authentication(
    errors: &mut ParamErrors,
    version: Version,
    at: &ParamPath<'_>,
    read: params::AuthenticationParams,
) -> Option<Authentication> {
    let schemes = read.schemes.unwrap_or_default();
    let bearer = schemes.iter().find(|scheme| scheme.eq_ignore_ascii_case("bearer")).cloned();
    let scheme = read.scheme.or(bearer).or_else(|| schemes.into_iter().next());
    let scheme = scheme.filter(|scheme| !scheme.is_empty());
    let credentials = read.credentials.filter(|text| !text.is_empty());
    match (scheme, version) {
        (Some(scheme), _) if is_token(&scheme) && credentials.as_deref().is_none_or(is_header) => {
            Some(Authentication { scheme, credentials })
        }
        (Some(_), _) => {
            let message = "Scheme and credentials become a header: `Authorization: {scheme} {credentials}`. They must be visible ASCII, the scheme one word.";
            errors.wrong(at, Code::NotAllowed, message);
            None
        }
        // ProtoJSON writes an unset message as an empty object.
        (None, Version::V0_3) if credentials.is_none() => None,
        (None, Version::V0_3) => {
            errors.missing(&ParamPath::Key(at, "schemes"), "such as [\"Bearer\"]");
            None
        }
        (None, Version::V1_0) => {
            errors.missing(&ParamPath::Key(at, "scheme"), "such as `Bearer`");
            None
        }
    }
}

/// Whether it is a token of an HTTP header.
fn is_token(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Whether it is a valid value of an HTTP header: visible ASCII and spaces.
fn is_header(text: &str) -> bool {
    text.bytes().all(|b| (b' '..=b'~').contains(&b))
}
