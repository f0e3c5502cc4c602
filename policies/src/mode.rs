//! Modes: how an *ask* is answered, their order, and where two of them meet.

use serde::{Deserialize, Serialize};

/// How an *ask* is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// By a person.
    #[serde(rename = "onRequest")]
    OnRequest,
    /// By a classifier; where it fails or doubts by a person, or by no where nobody can be asked.
    #[serde(rename = "auto")]
    Auto,
    /// Edits of files in the workspace by yes, protected names apart; everything else by a person.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// By yes; deny rules, the safety check, the jail and the budgets stay.
    #[serde(rename = "bypass")]
    Bypass,
    /// By no, with the reason.
    #[serde(rename = "never")]
    Never,
    /// By a person or by no, category by category.
    #[serde(rename = "granular")]
    Granular(Granular),
}

/// What an *ask* is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// The jail or the law's own names: what leaves the view, protected names, what is not understood.
    Sandbox,
    /// A rule of a policy says ask.
    Rules,
    /// A skill that brings code of its own.
    Skills,
    /// More rights, credentials, what starts again by itself: the asks of the safety check.
    Permissions,
    /// A tool of an MCP server.
    Mcp,
    /// A host.
    Network,
}

impl Category {
    /// All of them, in the order of the policy's keys.
    pub const ALL: [Self; 6] = [
        Self::Sandbox,
        Self::Rules,
        Self::Skills,
        Self::Permissions,
        Self::Mcp,
        Self::Network,
    ];

    /// The key of the policy's `[granular]`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Rules => "rules",
            Self::Skills => "skills",
            Self::Permissions => "permissions",
            Self::Mcp => "mcp",
            Self::Network => "network",
        }
    }
}

/// For each category whether its asks are refused; the others are put to a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Granular {
    /// [`Category::Sandbox`].
    pub sandbox: Switch,
    /// [`Category::Rules`].
    pub rules: Switch,
    /// [`Category::Skills`].
    pub skills: Switch,
    /// [`Category::Permissions`].
    pub permissions: Switch,
    /// [`Category::Mcp`].
    pub mcp: Switch,
    /// [`Category::Network`].
    pub network: Switch,
}

/// One switch of [`Granular`]; the stricter is the greater.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// A person is asked.
    #[default]
    Ask,
    /// It is refused.
    Deny,
}

impl Granular {
    /// The switch of a category.
    #[must_use]
    pub fn of(self, category: Category) -> Switch {
        match category {
            Category::Sandbox => self.sandbox,
            Category::Rules => self.rules,
            Category::Skills => self.skills,
            Category::Permissions => self.permissions,
            Category::Mcp => self.mcp,
            Category::Network => self.network,
        }
    }

    /// With one switch set.
    #[must_use]
    pub fn with(mut self, category: Category, switch: Switch) -> Self {
        match category {
            Category::Sandbox => self.sandbox = switch,
            Category::Rules => self.rules = switch,
            Category::Skills => self.skills = switch,
            Category::Permissions => self.permissions = switch,
            Category::Mcp => self.mcp = switch,
            Category::Network => self.network = switch,
        }
        self
    }

    fn each(self, other: Self, join: impl Fn(Switch, Switch) -> Switch) -> Self {
        Category::ALL.into_iter().fold(self, |all, category| {
            all.with(category, join(self.of(category), other.of(category)))
        })
    }
}

impl Mode {
    /// All modes; `granular` with every category asked about.
    pub const ALL: [Self; 6] = [
        Self::OnRequest,
        Self::Auto,
        Self::AcceptEdits,
        Self::Bypass,
        Self::Never,
        Self::Granular(Granular {
            sandbox: Switch::Ask,
            rules: Switch::Ask,
            skills: Switch::Ask,
            permissions: Switch::Ask,
            mcp: Switch::Ask,
            network: Switch::Ask,
        }),
    ];

    /// As written in policies and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnRequest => "onRequest",
            Self::Auto => "auto",
            Self::AcceptEdits => "acceptEdits",
            Self::Bypass => "bypass",
            Self::Never => "never",
            Self::Granular(_) => "granular",
        }
    }

    /// Parses the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// What the mode makes of an *ask*, in one line for people.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::OnRequest => "a person answers what asks".to_owned(),
            Self::Auto => {
                "a classifier answers what asks; a person answers where it doubts".to_owned()
            }
            Self::AcceptEdits => {
                "edits of the workspace's files are allowed; a person answers the rest".to_owned()
            }
            Self::Bypass => {
                "what asks is allowed; denials, the safety check and the jail stay".to_owned()
            }
            Self::Never => "what asks is denied".to_owned(),
            Self::Granular(switches) => {
                let denied: Vec<&str> = Category::ALL
                    .into_iter()
                    .filter(|category| switches.of(*category) == Switch::Deny)
                    .map(Category::as_str)
                    .collect();
                match denied.as_slice() {
                    [] => "a person answers what asks, in every category".to_owned(),
                    _ => format!(
                        "what asks about {} is denied; a person answers the rest",
                        denied.join(", ")
                    ),
                }
            }
        }
    }

    /// Whether this mode lets through no more than `other`: never < onRequest < acceptEdits < bypass;
    /// `auto` and `granular` compare only with `never` and `bypass`, and `granular` with itself,
    /// switch by switch.
    #[must_use]
    pub fn at_most(self, other: Self) -> bool {
        let rank = |mode: Self| match mode {
            Self::Never => Some(0_u8),
            Self::OnRequest => Some(1),
            Self::AcceptEdits => Some(2),
            Self::Bypass => Some(3),
            Self::Auto | Self::Granular(_) => None,
        };
        match (self, other) {
            (Self::Never, _) | (_, Self::Bypass) | (Self::Auto, Self::Auto) => true,
            (Self::Granular(a), Self::Granular(b)) => Category::ALL
                .into_iter()
                .all(|category| a.of(category) >= b.of(category)),
            _ => rank(self).zip(rank(other)).is_some_and(|(a, b)| a <= b),
        }
    }

    /// Whether a change from this mode to `to` is a raise, which only a person may make.
    #[must_use]
    pub fn is_raised_by(self, to: Self) -> bool {
        !to.at_most(self)
    }

    /// The laxest mode that is at most both.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Self::Granular(a), Self::Granular(b)) => Self::Granular(a.each(b, Switch::max)),
            (a, b) if a.at_most(b) => a,
            (a, b) if b.at_most(a) => b,
            _ => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Mode> {
        let mut all = Mode::ALL.to_vec();
        for bits in 1..64_u8 {
            let mut switches = Granular::default();
            for (at, category) in Category::ALL.into_iter().enumerate() {
                if bits & (1 << at) != 0 {
                    switches = switches.with(category, Switch::Deny);
                }
            }
            all.push(Mode::Granular(switches));
        }
        all
    }

    #[test]
    fn the_order_is_one_and_the_meet_is_its_greatest_lower_bound() {
        let all = all();
        for &a in &all {
            assert!(a.at_most(a) && Mode::Never.at_most(a) && a.at_most(Mode::Bypass));
            for &b in &all {
                if a.at_most(b) && b.at_most(a) {
                    assert_eq!(a, b);
                }
                let meet = a.meet(b);
                assert_eq!(meet, b.meet(a));
                assert!(meet.at_most(a) && meet.at_most(b), "{a:?} {b:?}");
                for &c in &all {
                    if a.at_most(b) && b.at_most(c) {
                        assert!(a.at_most(c), "{a:?} {b:?} {c:?}");
                    }
                    if c.at_most(a) && c.at_most(b) {
                        assert!(c.at_most(meet), "{a:?} {b:?} {c:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_raise_is_every_change_that_is_not_a_lowering() {
        use Mode::{AcceptEdits, Auto, Bypass, Never, OnRequest};
        let free = Mode::Granular(Granular::default());
        for (from, to, raise) in [
            (OnRequest, Never, false),
            (OnRequest, AcceptEdits, true),
            (AcceptEdits, OnRequest, false),
            (OnRequest, Auto, true),
            (Auto, OnRequest, true),
            (Auto, Never, false),
            (Bypass, Auto, false),
            (Bypass, free, false),
            (free, OnRequest, true),
            (OnRequest, free, true),
            (Never, Never, false),
        ] {
            assert_eq!(from.is_raised_by(to), raise, "{from:?} {to:?}");
        }
    }

    #[test]
    fn modes_are_written_as_they_are_read() {
        for mode in all() {
            let text = serde_json::to_string(&mode).expect("writes");
            assert_eq!(serde_json::from_str::<Mode>(&text).expect("reads"), mode);
            assert!(!mode.describe().is_empty());
        }
        for mode in Mode::ALL {
            assert_eq!(Mode::parse(mode.as_str()), Some(mode));
        }
        assert_eq!(
            serde_json::to_string(&Mode::OnRequest).expect("writes"),
            "\"onRequest\""
        );
        assert!(serde_json::from_str::<Mode>("{\"granular\":{\"x\":\"ask\"}}").is_err());
        assert_eq!(Mode::parse("plan"), None);
    }
}
