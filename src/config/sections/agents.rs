//! `[[agents]]` and `[directory]`: listed agents, and whether others are admitted.

use std::collections::HashMap;

use a2a_policy::Profile;
use a2a_protocol::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[[agents]]`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct AgentEntry {
    /// The name under which it sends and is written to
    #[schemars(example = &"tim")]
    id: String,
    /// What it is, in words
    #[schemars(example = &"VP Architecture")]
    role: Option<String>,
    /// Its squad, which gets broadcasts of that scope
    #[schemars(example = &"core")]
    squad: Option<String>,
    /// How senior it is; T1 is the most
    #[schemars(example = &"T1")]
    tier: Option<String>,
    /// Whether it gets broadcasts of scope c-suite
    #[serde(default)]
    c_suite: bool,
    /// What it can do, in words of your own
    #[serde(default)]
    #[schemars(example = ["review"])]
    capabilities: Vec<String>,
}

/// `[directory]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Directory {
    /// Whether senders that are not listed are admitted
    #[schemars(extend("x-default" = "true while no agent is listed"))]
    pub(in crate::config) open: Option<bool>,
}

/// Listed agents, checked for duplicates. Names that differ in case only are one name.
pub(in crate::config) fn read(entries: &[AgentEntry]) -> Result<Vec<(AgentId, Profile)>, String> {
    let agents = entries.iter().map(AgentEntry::read).collect::<Result<Vec<_>, _>>()?;
    let mut ids = HashMap::new();
    for (id, _) in &agents {
        match ids.insert(id.as_str().to_ascii_lowercase(), id) {
            Some(other) if other == id => {
                return Err(format!("[[agents]] id = \"{id}\" is there twice; leave one out"));
            }
            Some(other) => {
                return Err(format!(
                    "[[agents]] id = \"{id}\" and \"{other}\" differ in case only, which makes them one name; leave one out"
                ));
            }
            None => {}
        }
    }
    Ok(agents)
}

impl AgentEntry {
    fn read(&self) -> Result<(AgentId, Profile), String> {
        let id =
            self.id.parse().map_err(|error| format!("[[agents]] id = {:?}: {error}", self.id))?;
        if a2a_policy::Directory::is_reserved(&id) {
            return Err(format!("[[agents]] id = {:?}: the name is reserved", self.id));
        }
        let profile = Profile {
            role: self.role.clone(),
            squad: self.squad.clone(),
            tier: self.tier.clone(),
            c_suite: self.c_suite,
            capabilities: self.capabilities.clone(),
        };
        let checked = profile.check();
        let profile = checked.map_err(|error| format!("[[agents]] id = {:?}: {error}", self.id))?;
        Ok((id, profile))
    }
}
