//! A policy: validated layers of rules and the settings merged from them.

use std::collections::BTreeMap;

use protocol::{Digest, Floor, Right, bounds};
use serde::{Deserialize, Serialize};

use crate::{Decision, Hook, Mode};

/// The layers, from the outermost to the innermost; each may only tighten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerName {
    /// Shipped: protected names only; the safety check stands apart.
    BuiltIn,
    /// `/etc/provost/`.
    Organisation,
    /// `--policy NAME|FILE` and what it extends.
    User,
    /// `.provost.toml` of the workspace: says only ask or deny.
    Project,
    /// Added for this session.
    Session,
    /// A sub-agent's own, beside everything that binds its session.
    SubAgent,
}

/// A whole, validated policy. Serialised, it is what the worker gets to read (no secret is in it).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Name of the user layer's policy.
    pub name: String,
    /// Layers that have something to say.
    pub layers: Vec<Layer>,
    /// Settings after merging (each layer only tightens).
    pub settings: Settings,
}

impl Policy {
    /// A policy of defaults, with no rule of its own.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            name: "plain".to_owned(),
            layers: Vec::new(),
            settings: Settings::default(),
        }
    }

    /// The digest over the canonical JSON: fields in the order of the types, maps by key.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // The types hold no map with keys that are not strings, and no float that is not finite, so
        // that writing cannot fail; were it to, the digest of nothing matches no policy.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The rule that a verdict names, for its place in the file ([`Rule::at`]).
    #[must_use]
    pub fn rule(&self, layer: &str, id: &str) -> Option<&Rule> {
        self.layers
            .iter()
            .filter(|candidate| candidate.name.as_str() == layer)
            .flat_map(|layer| &layer.rules)
            .find(|rule| rule.id == id)
    }

    /// The declared database of that name; an empty name means the only one.
    #[must_use]
    pub fn database(&self, name: &str) -> Option<&Database> {
        match (name, self.settings.databases.as_slice()) {
            ("", [only]) => Some(only),
            ("", _) => None,
            (_, all) => all.iter().find(|database| database.name == name),
        }
    }
}

impl LayerName {
    /// As written in verdicts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Organisation => "organisation",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
            Self::SubAgent => "sub-agent",
        }
    }

    /// Whether a layer may set what it likes within the one outside it; the others only tighten.
    #[must_use]
    pub fn is_outer(self) -> bool {
        match self {
            Self::BuiltIn | Self::Organisation | Self::User => true,
            Self::Project | Self::Session | Self::SubAgent => false,
        }
    }
}

/// One layer: a file and what it extends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Which.
    pub name: LayerName,
    /// Files that it came from, for explanations.
    pub sources: Vec<String>,
    /// Its rules; their order never matters.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Unique within the layer.
    pub id: String,
    /// File and line, for explanations (`team.toml:12`).
    pub at: String,
    /// A tool's name or `*`.
    pub tool: String,
    /// Program and leading arguments; empty if the rule is not about commands.
    pub command: Vec<CommandPattern>,
    /// Path globs; relative ones from the workspace; empty if the rule is not about paths.
    pub path: Vec<String>,
    /// Hosts (`host`, `*.host`, `host:port`).
    pub host: Vec<String>,
    /// Tables (`table` or `database.table`).
    pub table: Vec<String>,
    /// MCP tools (`server/tool`).
    pub mcp: Vec<String>,
    /// What it says.
    pub verdict: Decision,
    /// Why, for people and for the model.
    pub reason: String,
    /// What would work instead.
    pub instead: Option<String>,
    /// Checked at load.
    pub examples: Examples,
}

/// A program and leading arguments, as words (`["git", "push"]`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandPattern(pub Vec<String>);

/// Examples of a rule: shell lines, paths or hosts, by what the rule is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examples {
    /// Must match.
    pub r#match: Vec<String>,
    /// Must not match.
    pub differ: Vec<String>,
}

/// Everything of a policy that is not a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The mode.
    pub mode: Mode,
    /// How it is confined.
    pub confinement: Confinement,
    /// Lists of globs.
    pub filesystem: Filesystem,
    /// Hosts.
    pub network: Network,
    /// Bounds.
    pub limits: Limits,
    /// Models.
    pub models: Models,
    /// Databases.
    pub databases: Vec<Database>,
    /// Hooks of all layers, in the order in which they run: the innermost layer's first, so that the
    /// outermost sees what the others left.
    #[serde(default)]
    pub hooks: Vec<Hook>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::OnRequest,
            confinement: Confinement {
                backend: Backend::Landlock,
                image: None,
                runtime: None,
                namespaces: true,
                workspace: None,
                rights: Right::ALL
                    .iter()
                    .map(|&right| (right, right.default_floor()))
                    .collect(),
            },
            filesystem: Filesystem::default(),
            network: Network::default(),
            limits: Limits::default(),
            models: Models::default(),
            databases: Vec::new(),
            hooks: Vec::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: bounds::MEMORY,
            processes: bounds::PROCESSES,
            cpu: None,
            disk: bounds::DISK,
            wall: bounds::WALL.as_secs(),
            output: bounds::OUTPUT_SPOOL,
            turns: bounds::TURNS,
            iterations: bounds::ITERATIONS,
            cost_usd: None,
            tokens: None,
            calls: None,
            day: Budget::default(),
            account: Budget::default(),
            model_day: Budget::default(),
            unpriced: false,
        }
    }
}

/// `[confinement]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// How the outer box is made.
    pub backend: Backend,
    /// The image of the docker backend, by name or digest.
    pub image: Option<String>,
    /// The OCI runtime of the docker backend; `None` takes the engine's own.
    pub runtime: Option<String>,
    /// `auto` or `off` (off = situation B).
    pub namespaces: bool,
    /// How the session sees the workspace.
    /// `None`: an overlay where it works, else a copy.
    pub workspace: Option<WorkspaceMode>,
    /// Right → how much is insisted on its removal; every right is present.
    pub rights: BTreeMap<Right, Floor>,
}

/// How the session sees the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceMode {
    /// A layer of the session's own over the folder.
    Overlay,
    /// A copy.
    Copy,
    /// The folder itself.
    Direct,
}

/// How the outer box is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Landlock and seccomp, with namespaces where the host has them.
    Landlock,
    /// A container of a Docker engine.
    Docker,
}

impl Backend {
    /// The word of the policy.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Docker => "docker",
        }
    }
}

impl WorkspaceMode {
    /// The word of the policy.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Copy => "copy",
            Self::Direct => "direct",
        }
    }
}

/// `[filesystem]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// More read-only trees of the host for the view (absolute).
    pub read: Vec<String>,
    /// More writable private folders of the view (absolute).
    pub write: Vec<String>,
    /// Gitignore-syntax globs of the workspace that are left out of the view.
    pub hide: Vec<String>,
    /// More protected names beside the built-in ones.
    pub protect: Vec<String>,
}

/// `[network]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// `host`, `*.host`, `host:port`.
    pub allow: Vec<String>,
}

/// `[limits]`; sizes in bytes, times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: u64,
    /// Processes.
    pub processes: u64,
    /// Processors that all commands together may keep busy (`1.5`); `None`: all of the machine's,
    /// with a smaller share than other work has.
    #[serde(default)]
    pub cpu: Option<f64>,
    /// Bytes of disk.
    pub disk: u64,
    /// Wall time of the session in seconds.
    pub wall: u64,
    /// Bytes of one command's output that are kept.
    pub output: u64,
    /// Turns.
    pub turns: u32,
    /// Iterations of one turn.
    pub iterations: u32,
    /// Money of the session in US dollars, if bounded.
    pub cost_usd: Option<f64>,
    /// Tokens of the session, if bounded.
    pub tokens: Option<u64>,
    /// Model calls of the session, if bounded.
    #[serde(default)]
    pub calls: Option<u64>,
    /// `[limits.day]`: what all sessions of the account may use between two midnights (UTC).
    #[serde(default)]
    pub day: Budget,
    /// `[limits.account]`: what all sessions of the account may ever use.
    #[serde(default)]
    pub account: Budget,
    /// `[limits.model_day]`: what they may use of any one model between two midnights.
    #[serde(default)]
    pub model_day: Budget,
    /// Whether a model without a known price may be asked under a budget in money.
    #[serde(default)]
    pub unpriced: bool,
}

/// What may be used over some span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Tokens, in and out.
    pub tokens: Option<u64>,
    /// Model calls.
    pub calls: Option<u64>,
}

/// `[models]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// `PROVIDER/MODEL` patterns; empty allows any.
    pub allow: Vec<String>,
    /// `PROVIDER/MODEL`, first is tried first.
    pub route: Vec<String>,
    /// Model of the classifier.
    pub classifier: Option<String>,
}

/// `[[database]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Path as written, from the workspace if relative.
    pub path: String,
    /// Rows that a query returns.
    pub max_rows: u32,
    /// Tables that may be read; empty means all.
    pub tables: Vec<String>,
    /// A sentence about money for the tool's description.
    pub money: Option<String>,
}
