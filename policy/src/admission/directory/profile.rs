//! Agent profiles and their validation.
//!
//! Profiles come from the configuration, from disk and over HTTP, and are shown to every agent. So
//! their size is bounded and they contain no line breaks or control characters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the directory records about an agent beyond its id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Profile {
    /// The role, such as `Staff Engineer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The squad; agents without one form a squad together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub squad: Option<String>,
    /// The tier, such as `T3-Staff`: the number after `T` counts, and lower is more senior.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Whether it belongs to the c-suite.
    pub c_suite: bool,
    /// Its skills, such as `review`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// A profile that exceeds a limit or contains unprintable text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadProfile {
    /// A text that is empty or blank.
    #[error("`{field}` is blank; write something, or leave it out")]
    Blank {
        /// The field.
        field: &'static str,
    },
    /// A text that is too long.
    #[error("`{field}` has {chars} characters; shorten it to at most {}", Profile::MAX_CHARS)]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length in characters.
        chars: usize,
    },
    /// A line break or another control character.
    #[error("`{field}` has a control character in it; write it on one line, as plain text")]
    Control {
        /// The field.
        field: &'static str,
    },
    /// Too many capabilities.
    #[error(
        "there are {count} `capabilities`; name the {} that matter most",
        Profile::MAX_CAPABILITIES
    )]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

impl Profile {
    /// The profile of an agent about which nothing is known yet.
    pub const NEW: Self =
        Self { role: None, squad: None, tier: None, c_suite: false, capabilities: Vec::new() };
    /// The maximum length in characters of a role, squad, tier or capability.
    pub const MAX_CHARS: usize = 128;
    /// The maximum number of capabilities.
    pub const MAX_CAPABILITIES: usize = 64;

    /// Validates the profile.
    ///
    /// # Errors
    /// [`BadProfile`] with the first violation.
    pub fn check(self) -> Result<Self, BadProfile> {
        let texts = [("role", &self.role), ("squad", &self.squad), ("tier", &self.tier)];
        for (field, text) in texts {
            text.as_ref().map_or(Ok(()), |text| check_text(field, text))?;
        }
        let count = self.capabilities.len();
        if count > Self::MAX_CAPABILITIES {
            return Err(BadProfile::TooMany { count });
        }
        self.capabilities.iter().try_for_each(|text| check_text("capabilities", text))?;
        Ok(self)
    }

    /// The number of the tier: 3 for `T3-Staff`; `None` without a number.
    #[must_use]
    pub fn tier_number(&self) -> Option<u32> {
        self.tier.as_deref().and_then(tier_number)
    }
}

fn check_text(field: &'static str, text: &str) -> Result<(), BadProfile> {
    let chars = text.chars().count();
    if chars > Profile::MAX_CHARS {
        Err(BadProfile::TooLong { field, chars })
    } else if text.chars().any(char::is_control) {
        Err(BadProfile::Control { field })
    } else if text.trim().is_empty() {
        Err(BadProfile::Blank { field })
    } else {
        Ok(())
    }
}

/// The number after the leading `T` of a tier; the rest is free text.
pub(crate) fn tier_number(tier: &str) -> Option<u32> {
    let rest = tier.trim_start().strip_prefix(['T', 't'])?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_tier_is_what_follows_the_t() {
        for (tier, number) in [
            ("T1", Some(1)),
            ("T1-VP Arch", Some(1)),
            ("T12-Junior", Some(12)),
            ("t3 staff", Some(3)),
            ("T04", Some(4)),
            ("T0", Some(0)),
            ("T", None),
            ("T-1", None),
            ("Tier 4", None),
            ("4", None),
            ("", None),
            ("T99999999999", None),
        ] {
            assert_eq!(tier_number(tier), number, "{tier:?}");
        }
    }

    #[test]
    fn a_profile_is_bounded_and_fits_on_a_line() {
        let role = |text: &str| Profile { role: Some(text.into()), ..Profile::default() }.check();
        let can = |count, text: &str| {
            Profile { capabilities: vec![text.to_owned(); count], ..Profile::default() }.check()
        };
        assert!(role("VP Architecture").is_ok() && role(&"ä".repeat(128)).is_ok());
        assert_eq!(role(&"ä".repeat(129)), Err(BadProfile::TooLong { field: "role", chars: 129 }));
        assert_eq!(role("VP\nArchitecture"), Err(BadProfile::Control { field: "role" }));
        assert_eq!(role(" "), Err(BadProfile::Blank { field: "role" }));
        assert!(can(64, &"x".repeat(128)).is_ok());
        assert_eq!(can(65, "x"), Err(BadProfile::TooMany { count: 65 }));
        assert!(can(1, &"x".repeat(129)).is_err() && can(1, "\u{7f}").is_err());
    }

    #[test]
    fn what_is_left_out_of_the_json_is_the_default() {
        let read: Profile = serde_json::from_str(r#"{"cSuite":true,"tier":"T1"}"#).unwrap();
        assert_eq!(read, Profile { tier: Some("T1".into()), c_suite: true, ..Profile::default() });
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"tier":"T1","cSuite":true}"#);
        assert_eq!(serde_json::from_str::<Profile>("{}").unwrap(), Profile::default());
    }
}
