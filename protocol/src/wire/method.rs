//! Methods and their names in both versions.

use super::Version;
use crate::operation::{Operation, OptOperation};
use crate::validate::violation_text::nearest;

macro_rules! methods {
    (
        $( #[doc = $doc:literal] $name:ident = $old:literal, $new:literal; )+
        opt: $( #[doc = $about:literal] $opt:ident = $both:literal; )+
    ) => {
        /// A method: one for each [`Operation`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method {
            $( #[doc = $doc] $name, )+
            $( #[doc = $about] $opt, )+
        }

        impl Method {
            /// Every method.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+ $( Self::$opt, )+];

            /// The method with this name, and the version that uses the name. The version is `None`
            /// for OPT, whose names are the same in both; then the header decides, or it is
            /// [`Version::DEFAULT`].
            #[must_use]
            pub fn from_rpc_name(name: &str) -> Option<(Option<Version>, Self)> {
                match name {
                    $( $old => Some((Some(Version::V0_3), Self::$name)), )+
                    $( $new => Some((Some(Version::V1_0), Self::$name)), )+
                    $( $both => Some((None, Self::$opt)), )+
                    _ => None,
                }
            }

            /// The name in JSON-RPC.
            #[must_use]
            pub const fn rpc_name(self, version: Version) -> &'static str {
                match (version, self) {
                    $( (Version::V0_3, Self::$name) => $old, )+
                    $( (Version::V1_0, Self::$name) => $new, )+
                    $( (_, Self::$opt) => $both, )+
                }
            }

            /// Whether it belongs to the OPT extension.
            #[must_use]
            pub const fn is_opt(self) -> bool {
                matches!(self, $( Self::$opt )|+)
            }
        }
    };
}

methods! {
    /// Send a message.
    SendMessage = "message/send", "SendMessage";
    /// Send a message and stream the events of the task.
    StreamMessage = "message/stream", "SendStreamingMessage";
    /// Get a task.
    GetTask = "tasks/get", "GetTask";
    /// List tasks. 0.3 does not define this method; the server accepts this name for it.
    ListTasks = "tasks/list", "ListTasks";
    /// Cancel a task.
    CancelTask = "tasks/cancel", "CancelTask";
    /// Subscribe to a task.
    Subscribe = "tasks/resubscribe", "SubscribeToTask";
    /// Register a push notification configuration.
    SetPush = "tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig";
    /// Get a push notification configuration.
    GetPush = "tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig";
    /// List the push notification configurations of a task.
    ListPushes = "tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs";
    /// Delete a push notification configuration.
    DeletePush = "tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig";
    /// Get the card for authenticated callers.
    ExtendedCard = "agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard";
    opt:
    /// Create an objective.
    CreateObjective = "objectives/create";
    /// Get an objective.
    GetObjective = "objectives/get";
    /// List objectives.
    ListObjectives = "objectives/list";
    /// Update an objective.
    UpdateObjective = "objectives/update";
    /// Subscribe to an objective.
    SubscribeObjective = "objectives/subscribe";
    /// Add a plan to an objective.
    CreatePlan = "plans/create";
    /// Get a plan.
    GetPlan = "plans/get";
    /// Update a plan.
    UpdatePlan = "plans/update";
    /// Add tasks to a plan.
    AddTasks = "plans/addTasks";
}

impl Method {
    /// The method name most similar to an unknown one, in these versions, if one is similar.
    pub(super) fn nearest(name: &str, versions: &[Version]) -> Option<&'static str> {
        let names =
            Self::ALL.iter().flat_map(|method| versions.iter().map(|v| method.rpc_name(*v)));
        let names: Vec<&'static str> = names.collect();
        let known: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let near = nearest(name, &known)?;
        names.into_iter().find(|name| *name == near)
    }

    /// Whether the reply is a stream of events.
    #[must_use]
    pub const fn streams(self) -> bool {
        matches!(self, Self::StreamMessage | Self::Subscribe | Self::SubscribeObjective)
    }
}

impl From<&Operation> for Method {
    fn from(operation: &Operation) -> Self {
        match operation {
            Operation::SendMessage(_) => Self::SendMessage,
            Operation::StreamMessage(_) => Self::StreamMessage,
            Operation::GetTask(_) => Self::GetTask,
            Operation::ListTasks(_) => Self::ListTasks,
            Operation::CancelTask(_) => Self::CancelTask,
            Operation::Subscribe(_) => Self::Subscribe,
            Operation::SetPush(_) => Self::SetPush,
            Operation::GetPush(_) => Self::GetPush,
            Operation::ListPushes(_) => Self::ListPushes,
            Operation::DeletePush(_) => Self::DeletePush,
            Operation::ExtendedCard => Self::ExtendedCard,
            Operation::Opt(asked) => Self::from(&**asked),
        }
    }
}

impl From<&OptOperation> for Method {
    fn from(asked: &OptOperation) -> Self {
        match asked {
            OptOperation::CreateObjective(_) => Self::CreateObjective,
            OptOperation::GetObjective(_) => Self::GetObjective,
            OptOperation::ListObjectives(_) => Self::ListObjectives,
            OptOperation::UpdateObjective(_) => Self::UpdateObjective,
            OptOperation::SubscribeObjective(_) => Self::SubscribeObjective,
            OptOperation::CreatePlan(_) => Self::CreatePlan,
            OptOperation::GetPlan(_) => Self::GetPlan,
            OptOperation::UpdatePlan(_) => Self::UpdatePlan,
            OptOperation::AddTasks(_) => Self::AddTasks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_determines_method_and_version() {
        for &method in Method::ALL {
            for &version in Version::ALL {
                let name = method.rpc_name(version);
                let expected = (!method.is_opt()).then_some(version);
                assert_eq!(Method::from_rpc_name(name), Some((expected, method)), "{name}");
            }
        }
        for unknown in ["", "message/ssend", "sendMessage", "tasks/send", "Message/Send", "plans"] {
            assert_eq!(Method::from_rpc_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn similar_name_of_a_supported_version_is_found() {
        for (given, versions, near) in [
            ("message/sned", Version::ALL, Some("message/send")),
            ("sendMessage", Version::ALL, Some("SendMessage")),
            ("GetTasks", Version::ALL, Some("GetTask")),
            (
                "tasks/pushNotificationConfigs/list",
                Version::ALL,
                Some("tasks/pushNotificationConfig/list"),
            ),
            ("objective/get", Version::ALL, Some("objectives/get")),
            ("message/sned", &[Version::V1_0], None),
            ("quit", Version::ALL, None),
            ("", Version::ALL, None),
        ] {
            assert_eq!(Method::nearest(given, versions), near, "{given}");
        }
    }
}
