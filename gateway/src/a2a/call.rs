//! One call, whatever its binding: checks that it is offered and valid, then calls the task
//! service.

use std::sync::Arc;

use a2a_actors::tasks::{SendOutcome, TaskCaller, TaskStream};
use a2a_policy::Directory;
use a2a_protocol::AgentId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{Operation, OptOperation, PushConfig, Reply, SendMessage};
use a2a_protocol::opt::{OPT_EXTENSION, OptHints};
use a2a_protocol::task::Message;
use a2a_protocol::wire::{Method, Version};
use a2a_protocol::{Code, Violation};
use actix_web::HttpRequest;
use actix_web::http::header::HeaderValue;
use serde_json::Value;

use super::A2a;
use super::card::ServerLocation;
use super::extensions::Extensions;
use crate::auth::A2aCaller;
use crate::auth::tokens::Principal;
use crate::bus_api::log::stream::last_seen;
use crate::observability::trace;
use a2a_webhooks::{Authorization, HeaderRefused, NotificationToken};

/// Caller, agent, version and extensions of one call.
#[derive(Debug)]
pub(super) struct CallContext {
    pub(super) caller: TaskCaller,
    pub(super) agent: AgentId,
    pub(super) version: Version,
    pub(super) extensions: Extensions,
    /// `Last-Event-ID` of the request.
    last_event: Option<HeaderValue>,
    /// The base URL as the caller reached it.
    pub(super) location: ServerLocation,
    /// The call names no agent: it is for the host.
    pub(super) for_host: bool,
}

impl CallContext {
    /// The sequence number of the last event the caller has seen; only streams need it.
    fn last_event(&self) -> Result<Option<u64>, Fault> {
        last_seen(self.last_event.as_ref())
            .map_err(|why| Fault::InvalidParams(vec![Violation::new("", Code::NotAllowed, why)]))
    }
}

/// The result of a call.
pub(super) enum CallOutcome {
    Reply(Reply),
    Card(Value),
    Stream(TaskStream),
}

impl A2a {
    /// The context of a call; the tenant of 1.0 is an agent, too.
    pub(super) fn context(
        &self,
        caller: &A2aCaller,
        request: &HttpRequest,
        version: Version,
        agent: Option<AgentId>,
        tenant: Option<String>,
    ) -> Result<CallContext, Fault> {
        let tenant = tenant.filter(|tenant| !tenant.is_empty());
        let tenant = tenant.map(|name| name.parse().map_err(|_| no_such_agent(&name)));
        let tenant: Option<AgentId> = tenant.transpose()?;
        let for_host = agent.is_none() && tenant.is_none();
        let agent = match (agent, tenant) {
            (Some(agent), Some(tenant)) if agent != tenant => {
                return Err(no_such_agent(tenant.as_str()));
            }
            (agent, tenant) => agent.or(tenant).unwrap_or_else(|| self.settings.host.clone()),
        };
        // People receive messages on the bus, but do no A2A tasks.
        if Directory::is_for_people(&agent) {
            return Err(no_such_agent(agent.as_str()));
        }
        Ok(CallContext {
            caller: TaskCaller {
                owner: caller.owner().into(),
                principal: caller.sender().clone(),
                is_client: !matches!(caller.principal(), Some(Principal::Agent(_))),
                sees_all: caller.sees_everything(),
                trace: trace::given(request.headers()),
                version: (version == Version::V0_3).then(|| version.as_str().into()),
            },
            agent,
            version,
            extensions: Extensions::of(request, &self.settings.required_extensions),
            last_event: request.headers().get("last-event-id").cloned(),
            location: ServerLocation::of(self, request),
            for_host,
        })
    }

    /// Performs the call. Rare branches with large futures are boxed, to keep the future of a
    /// message small.
    pub(super) async fn perform(
        &self,
        context: &mut CallContext,
        operation: Operation,
    ) -> Result<CallOutcome, Fault> {
        context.extensions.activate_for(&operation);
        let context = &*context;
        self.check(context, Method::from(&operation))?;
        let (caller, agent) = (&context.caller, &context.agent);
        let tasks = &self.tasks;
        let reply = match operation {
            Operation::SendMessage(send) => self.send(context, *send).await?,
            Operation::StreamMessage(send) => {
                return Box::pin(self.stream(context, *send)).await.map(CallOutcome::Stream);
            }
            Operation::Subscribe(mut watch) => {
                watch.after = watch.after.or(context.last_event()?);
                return tasks.subscribe(caller, agent, watch).await.map(CallOutcome::Stream);
            }
            Operation::GetTask(get) => Reply::Task(Arc::new(tasks.get(caller, agent, get).await?)),
            Operation::ListTasks(list) => {
                if self.view(agent).await.is_none() {
                    return Err(no_such_agent(agent.as_str()));
                }
                Reply::Tasks(tasks.list(caller, agent, list).await?)
            }
            Operation::CancelTask(cancel) => {
                Reply::Task(Arc::new(tasks.cancel(caller, agent, cancel).await?))
            }
            Operation::SetPush(config) => {
                let config = self.checked(context, config)?;
                Reply::Push(shown(tasks.set_push(caller, agent, config).await?))
            }
            Operation::GetPush(key) => {
                Reply::Push(shown(tasks.get_push(caller, agent, key).await?))
            }
            Operation::ListPushes(list) => {
                let (configs, next_page_token) = tasks.list_pushes(caller, agent, list).await?;
                let configs = configs.into_iter().map(shown).collect();
                Reply::Pushes { configs, next_page_token }
            }
            Operation::DeletePush(key) => {
                tasks.delete_push(caller, agent, key).await?;
                Reply::Deleted
            }
            Operation::ExtendedCard => {
                return Box::pin(self.extended_card(context)).await.map(CallOutcome::Card);
            }
            Operation::Opt(operation) => return Box::pin(self.opt(context, *operation)).await,
        };
        Ok(CallOutcome::Reply(context.extensions.veiled(reply)))
    }

    async fn send(&self, context: &CallContext, send: SendMessage) -> Result<Reply, Fault> {
        let (caller, agent) = (&context.caller, &context.agent);
        let send = self.soundly(context, send)?;
        if let Some(hints) = hints(context, &send)? {
            return Box::pin(self.tasks.send_with_opt(caller, agent, send, hints)).await;
        }
        Ok(match self.tasks.send(caller, agent, send).await? {
            SendOutcome::Task(task) => Reply::Task(task),
            SendOutcome::Message(message) => Reply::Message(message),
        })
    }

    async fn stream(&self, context: &CallContext, send: SendMessage) -> Result<TaskStream, Fault> {
        let (caller, agent, after) = (&context.caller, &context.agent, context.last_event()?);
        let send = self.soundly(context, send)?;
        match hints(context, &send)? {
            Some(hints) => self.tasks.stream_with_opt(caller, agent, send, hints, after).await,
            None => self.tasks.stream(caller, agent, send, after).await,
        }
    }

    /// Objectives and plans require the OPT extension.
    async fn opt(
        &self,
        context: &CallContext,
        operation: OptOperation,
    ) -> Result<CallOutcome, Fault> {
        if !context.extensions.show_opt() {
            return Err(Fault::ExtensionRequired { uri: OPT_EXTENSION.to_owned() });
        }
        let (caller, agent) = (&context.caller, &context.agent);
        match operation {
            OptOperation::SubscribeObjective(watch) => {
                self.tasks.watch_objective(caller, watch).await.map(CallOutcome::Stream)
            }
            operation => self.tasks.opt(caller, agent, operation).await.map(CallOutcome::Reply),
        }
    }

    /// The version of a call: from the name of its method, else from its header, else the only one
    /// offered.
    pub(super) fn spoken(&self, request: &HttpRequest, shown: Option<Version>) -> Version {
        // An invalid header is refused by `check_version`.
        let stated = || header_version(request).ok().flatten();
        let only = || match self.settings.versions[..] {
            [only] => Some(only),
            _ => None,
        };
        shown.or_else(stated).or_else(only).unwrap_or(Version::DEFAULT)
    }

    /// Checks the version of the header and that of the method.
    ///
    /// # Errors
    /// When one of them is not offered.
    pub(super) fn check_version(&self, request: &HttpRequest, shown: Version) -> Result<(), Fault> {
        let stated = header_version(request)?;
        let unknown = |version: &Version| !self.settings.versions.contains(version);
        match stated.into_iter().chain([shown]).find(unknown) {
            Some(version) => {
                Err(Fault::VersionNotSupported { version: version.as_str().to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Whether the method is offered.
    fn check(&self, context: &CallContext, method: Method) -> Result<(), Fault> {
        let missing = |uri: &&String| !context.extensions.is_active(uri);
        if let Some(uri) = self.settings.required_extensions.iter().find(missing) {
            return Err(Fault::ExtensionRequired { uri: uri.clone() });
        }
        let pushes = [Method::SetPush, Method::GetPush, Method::ListPushes, Method::DeletePush];
        if pushes.contains(&method) && !self.settings.push {
            return Err(Fault::PushNotSupported);
        }
        if method.streams() && !self.settings.streaming {
            let reason = "this agent offers no streams; send without streaming and get the task";
            return Err(Fault::Unsupported { reason: reason.into() });
        }
        Ok(())
    }

    /// Validates a message for the task service.
    fn soundly(&self, context: &CallContext, mut send: SendMessage) -> Result<SendMessage, Fault> {
        self.check_media_types(&send.message)?;
        if let Some(push) = send.push.take() {
            if !self.settings.push {
                return Err(Fault::PushNotSupported);
            }
            send.push = Some(self.checked(context, push)?);
        }
        Ok(send)
    }

    /// Validates the URL and the headers of a push config.
    fn checked(&self, context: &CallContext, config: PushConfig) -> Result<PushConfig, Fault> {
        let violation = |path: &str, why: String| {
            Fault::InvalidParams(vec![Violation::new(path, Code::NotAllowed, why)])
        };
        self.webhooks.check(&config.url).map_err(|error| violation("/url", error.to_string()))?;
        secrets(&config).map_err(|error| violation("/authentication", error.to_string()))?;
        let legacy = context.version == Version::V0_3;
        let (progress, opt) = (context.extensions.show_progress(), context.extensions.show_opt());
        Ok(PushConfig { legacy, progress, opt, ..config })
    }

    fn check_media_types(&self, message: &Message) -> Result<(), Fault> {
        for part in &message.parts {
            let Some(given) = part.media_type.as_deref() else { continue };
            let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            if !self.settings.input_modes.iter().any(|mode| matches(mode, &essence)) {
                let shown: String = given.chars().take(100).collect();
                let taken = self.settings.input_modes.join(", ");
                let reason =
                    format!("the media type {shown:?} is not taken here; these are: {taken}");
                return Err(Fault::ContentType { reason });
            }
        }
        Ok(())
    }
}

/// The OPT hints of a message. Without the extension they are ignored: metadata is the client's
/// own.
fn hints(context: &CallContext, send: &SendMessage) -> Result<Option<OptHints>, Fault> {
    context.extensions.show_opt().then(|| OptHints::of(&send.message)).transpose()
}

/// The version that a header or the query names.
fn header_version(request: &HttpRequest) -> Result<Option<Version>, Fault> {
    let header = request.headers().get("a2a-version");
    let header = header.map(|value| value.to_str().unwrap_or("?"));
    let query = request.query_string().split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.eq_ignore_ascii_case("a2a-version").then_some(value)
    });
    Version::from_header(header.or(query))
}

pub(super) fn no_such_agent(name: &str) -> Fault {
    Fault::no_such_agent(name)
}

/// A push config as its owner sees it.
fn shown(config: PushConfig) -> PushConfig {
    PushConfig { legacy: false, progress: false, opt: false, ..config }
}

/// The headers that carry the secrets of a webhook.
pub(super) fn secrets(
    config: &PushConfig,
) -> Result<(Option<Authorization>, Option<NotificationToken>), HeaderRefused> {
    let authorization = config.authentication.as_ref().and_then(|authentication| {
        let credentials = authentication.credentials.as_deref()?;
        Some(Authorization::new(&authentication.scheme, credentials))
    });
    let token = config.token.as_deref().map(NotificationToken::new);
    Ok((authorization.transpose()?, token.transpose()?))
}

/// Whether a media type is one of a pattern such as `text/*`.
fn matches(pattern: &str, essence: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some("*") => true,
        Some(family) => essence.split_once('/').is_some_and(|(first, _)| first == family),
        None => pattern == essence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_match_by_family_or_exactly() {
        assert!(matches("text/*", "text/csv"));
        assert!(!matches("text/*", "image/png"));
        assert!(matches("*/*", "a/b"));
        assert!(matches("application/json", "application/json"));
        assert!(!matches("application/json", "application/xml"));
        assert!(!matches("text/*", "text"));
    }
}
