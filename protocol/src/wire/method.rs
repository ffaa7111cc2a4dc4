//! The names of the methods, in both versions.

use super::Version;
use crate::operation::{Operation, OptOperation};
use crate::validate::violation_text::nearest;

macro_rules! methods {
    (
        $( #[doc = $doc:literal] $name:ident = $old:literal, $new:literal; )+
        opt: $( #[doc = $about:literal] $opt:ident = $both:literal; )+
    ) => {
        /// What can be called: one for each [`Operation`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method {
            $( #[doc = $doc] $name, )+
            $( #[doc = $about] $opt, )+
        }

        impl Method {
            /// Every method.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+ $( Self::$opt, )+];

            /// The method of this name, and the version that names it so; `None` for the names of
            /// OPT, which are the same in both. Then the header says it, or it is
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

            /// Its name in JSON-RPC.
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
    opt:
    /// Make an objective.
    CreateObjective = "objectives/create";
    /// Look at one.
    GetObjective = "objectives/get";
    /// Look at many.
    ListObjectives = "objectives/list";
    /// Change one.
    UpdateObjective = "objectives/update";
    /// Watch one.
    SubscribeObjective = "objectives/subscribe";
    /// Add a plan to an objective.
    CreatePlan = "plans/create";
    /// Look at one.
    GetPlan = "plans/get";
    /// Change one.
    UpdatePlan = "plans/update";
    /// Add tasks to a plan.
    AddTasks = "plans/addTasks";
}

impl Method {
    /// The name nearest to one that is unknown, in these versions, if any is near.
    pub(super) fn nearest(name: &str, versions: &[Version]) -> Option<&'static str> {
        let names =
            Self::ALL.iter().flat_map(|method| versions.iter().map(|v| method.rpc_name(*v)));
        let names: Vec<&'static str> = names.collect();
        let known: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let near = nearest(name, &known)?;
        names.into_iter().find(|name| *name == near)
    }

    /// Whether its answer is a stream of events.
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
    fn a_name_says_method_and_version() {
        for &method in Method::ALL {
            for &version in Version::ALL {
                let name = method.rpc_name(version);
                let said = (!method.is_opt()).then_some(version);
                assert_eq!(Method::from_rpc_name(name), Some((said, method)), "{name}");
            }
        }
        for unknown in ["", "message/ssend", "sendMessage", "tasks/send", "Message/Send", "plans"] {
            assert_eq!(Method::from_rpc_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_name_that_is_near_is_found_among_those_that_are_spoken() {
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
