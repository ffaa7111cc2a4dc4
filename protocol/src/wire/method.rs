//! The names of the methods, in both versions.

use super::Version;
use crate::operation::Operation;

macro_rules! methods {
    ($( #[doc = $doc:literal] $name:ident = $old:literal, $new:literal; )+) => {
        /// What can be called: one for each [`Operation`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method {
            $( #[doc = $doc] $name, )+
        }

        impl Method {
            /// Every method.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// The method of this name, and the version that names it so.
            #[must_use]
            pub fn from_rpc_name(name: &str) -> Option<(Version, Self)> {
                match name {
                    $( $old => Some((Version::V0_3, Self::$name)), )+
                    $( $new => Some((Version::V1_0, Self::$name)), )+
                    _ => None,
                }
            }

            /// Its name in JSON-RPC.
            #[must_use]
            pub const fn rpc_name(self, version: Version) -> &'static str {
                match (version, self) {
                    $( (Version::V0_3, Self::$name) => $old, )+
                    $( (Version::V1_0, Self::$name) => $new, )+
                }
            }
        }
    };
}

methods! {
    /// Say something and get what comes of it.
    SendMessage = "message/send", "SendMessage";
    /// The same, with everything that happens on the way.
    StreamMessage = "message/stream", "SendStreamingMessage";
    /// Look at a task.
    GetTask = "tasks/get", "GetTask";
    /// Look at many. 0.3 has no such method; here it answers to this name.
    ListTasks = "tasks/list", "ListTasks";
    /// Call a task off.
    CancelTask = "tasks/cancel", "CancelTask";
    /// Watch a task.
    Subscribe = "tasks/resubscribe", "SubscribeToTask";
    /// Be told by a call of the server.
    SetPush = "tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig";
    /// Look at such a wish.
    GetPush = "tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig";
    /// Look at all of them for a task.
    ListPushes = "tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs";
    /// Take it back.
    DeletePush = "tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig";
    /// The card for callers who are known.
    ExtendedCard = "agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard";
}

impl Method {
    /// Whether its answer is a stream of events.
    #[must_use]
    pub const fn streams(self) -> bool {
        matches!(self, Self::StreamMessage | Self::Subscribe)
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_method_and_version() {
        for &method in Method::ALL {
            for &version in Version::ALL {
                let name = method.rpc_name(version);
                assert_eq!(Method::from_rpc_name(name), Some((version, method)), "{name}");
            }
        }
        for unknown in ["", "message/ssend", "sendMessage", "tasks/send", "Message/Send"] {
            assert_eq!(Method::from_rpc_name(unknown), None, "{unknown}");
        }
    }
}
