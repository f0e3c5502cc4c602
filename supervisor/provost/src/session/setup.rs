//! From the command line to what a session needs: the policy in layers, the mode in force, the
//! workspace, the databases. Each fault names its place and what to do.

use std::path::{Path, PathBuf};

use policies::{
    Database, Facts, LayerName, Mode, Policy,
    parse::{self, Source},
};
use protocol::{
    bounds,
    jail::{Identity, JailSpec},
};
use supervisor_record::Places;

use super::databases;
use crate::{
    cli::SetupArgs,
    exit::{CONFIG, Failure, REFUSED_AT_START, USAGE},
    input,
};

/// Name of a workspace's own policy, which can only tighten.
const PROJECT_POLICY: &str = ".provost.toml";
/// The organisation's policy.
const ORGANISATION_POLICY: &str = "/etc/provost/policy.toml";
/// Longest policy file.
const POLICY_BYTES: u64 = bounds::MIB;

/// What a session needs from its caller.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setup {
    /// The law.
    pub(crate) policy: Policy,
    /// The mode in force.
    pub(crate) mode: Mode,
    /// The mode that no change at run time goes beyond.
    #[serde(default = "unbounded")]
    pub(crate) ceiling: Mode,
    /// Whether it starts in plan mode.
    #[serde(default)]
    pub(crate) plan: bool,
    /// The workspace on the host, canonical.
    pub(crate) workspace: PathBuf,
    /// Declared databases with their files on the host, canonical.
    pub(crate) databases: Vec<(Database, PathBuf)>,
    /// Globs of the workspace that no session sees: the policy's, and databases that lie in it.
    pub(crate) hide: Vec<String>,
    /// A notice for the start line (a project policy was found).
    pub(crate) notices: Vec<String>,
}

/// Sessions of before had no ceiling.
fn unbounded() -> Mode {
    Mode::Bypass
}

/// Resolves everything; what lies below an account's folders is looked at as that account, if root works
/// for one.
pub(crate) fn setup(
    args: &SetupArgs,
    places: &Places,
    account: Option<Identity>,
) -> Result<Setup, Failure> {
    let workspace = sight(account, || workspace(args.workspace.as_deref()))?;
    let own = [places.config(), places.state(), places.runtime()];
    for place in own {
        let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
        if place.starts_with(&workspace) || workspace.starts_with(&place) {
            let message = format!(
                "`{}` cannot be a workspace: Provost's own `{}` lies there",
                workspace.display(),
                place.display()
            );
            return Err(Failure::new(REFUSED_AT_START, message).help(
                "give --workspace a folder below, or move Provost's place with PROVOST_STATE_DIR",
            ));
        }
    }
    let said = confinement_of(args)?;
    let (mut policy, (mode, ceiling), notices) = policy_with(
        &args.policy,
        args.mode.as_deref(),
        &workspace,
        places,
        said,
        account,
    )?;
    obeyed(args, &policy.settings.confinement)?;
    built(&policy.settings.confinement)?;
    let databases = sight(account, || {
        databases::declared(&mut policy, &args.database, &workspace)
    })?;
    let mut hide = policy.settings.filesystem.hide.clone();
    for (_, file) in &databases {
        // A declared database is in nobody's view: run_sql is the only door.
        if let Ok(relative) = file.strip_prefix(&workspace) {
            let escaped = databases::escape_glob(&relative.to_string_lossy());
            hide.extend(["", "-wal", "-shm", "-journal"].map(|end| format!("/{escaped}{end}")));
        }
    }
    Ok(Setup {
        policy,
        mode,
        ceiling,
        plan: false,
        workspace,
        databases,
        hide,
        notices,
    })
}

/// Looks at something as the account, or as this process.
fn sight<T: Send>(
    account: Option<Identity>,
    look: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let Some(account) = account else {
        return look();
    };
    supervisor_sandbox::as_account(account, look).unwrap_or_else(|error| {
        let message = format!("cannot take the rights of user {}: {error}", account.uid);
        Err(Failure::new(REFUSED_AT_START, message))
    })
}

/// Refuses what a policy may say and this release does not build.
fn built(confinement: &policies::Confinement) -> Result<(), Failure> {
    let Some(policies::WorkspaceMode::Direct) = confinement.workspace else {
        return Ok(());
    };
    let missing = "workspace = \"direct\"";
    let message = format!("[confinement] {missing} is not built by this release");
    Err(Failure::new(REFUSED_AT_START, message)
        .help("leave it out: a session works in an overlay or a copy, confined by Landlock"))
}

/// The facts that calls are judged by: the workspace by its own name, wherever its files lie inside.
pub(crate) fn facts(
    workspace: &str,
    spec: &JailSpec,
    system: Vec<String>,
    interactive: bool,
) -> Facts {
    Facts {
        workspace: workspace.to_owned(),
        home: spec.home.clone(),
        system,
        interactive,
        tree: (spec.workspace != workspace).then(|| spec.workspace.clone()),
    }
}

/// The workspace, canonical: the current folder if none was given.
pub(crate) fn workspace(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let given = given.unwrap_or(Path::new("."));
    let path = given.canonicalize().map_err(|error| {
        Failure::new(USAGE, format!("--workspace `{}`: {error}", given.display()))
            .help("name a folder that exists")
    })?;
    if !path.is_dir() {
        return Err(Failure::new(
            USAGE,
            format!("--workspace `{}` is not a folder", path.display()),
        ));
    }
    Ok(path)
}

/// The policy in its layers and the mode in force.
pub(crate) fn policy(
    name: &str,
    mode: Option<&str>,
    workspace: &Path,
    places: &Places,
) -> Result<(Policy, Mode, Vec<String>), Failure> {
    let (policy, (mode, _), notices) = policy_with(name, mode, workspace, places, None, None)?;
    Ok((policy, mode, notices))
}

/// What the command line says of the box, as the last word of the user's own layer.
fn confinement_of(args: &SetupArgs) -> Result<Option<Source>, Failure> {
    let mut text = String::from("version = 1\n[confinement]\n");
    let backend = args.backend.as_deref();
    if let Some(word) = backend {
        if ![policies::Backend::Landlock, policies::Backend::Docker]
            .iter()
            .any(|known| known.as_str() == word)
        {
            return Err(Failure::new(USAGE, format!("no backend `{word}`"))
                .help("the backends are landlock, docker"));
        }
        text.push_str(&format!("backend = \"{word}\"\n"));
    }
    for (key, given) in [("image", &args.image), ("runtime", &args.runtime)] {
        // Without the backend that they are for, a policy's own do not count.
        let unset = (backend == Some("landlock")).then_some("");
        if let Some(word) = given.as_deref().or(unset) {
            if word
                .chars()
                .any(|c| c.is_control() || c == '"' || c == '\\')
            {
                return Err(Failure::new(USAGE, format!("--{key}: `{word}` is no name")));
            }
            text.push_str(&format!("{key} = \"{word}\"\n"));
        }
    }
    Ok((text.lines().count() > 2).then(|| Source {
        name: "the command line".to_owned(),
        text,
        layer: LayerName::User,
    }))
}

/// An organisation's word on the box stands over the command line's, and that is said.
fn obeyed(args: &SetupArgs, confinement: &policies::Confinement) -> Result<(), Failure> {
    let in_force = [
        ("backend", &args.backend, Some(confinement.backend.as_str())),
        ("image", &args.image, confinement.image.as_deref()),
        ("runtime", &args.runtime, confinement.runtime.as_deref()),
    ];
    for (key, asked, found) in in_force {
        if let Some(asked) = asked
            && Some(asked.as_str()) != found
        {
            let found = found.unwrap_or("none");
            let message =
                format!("--{key} {asked}: `{ORGANISATION_POLICY}` says {found}, and decides");
            return Err(Failure::new(CONFIG, message).help(format!("leave --{key} out")));
        }
    }
    Ok(())
}

/// A policy, the mode in force with its ceiling, and what is to be said.
type Found = (Policy, (Mode, Mode), Vec<String>);

fn policy_with(
    name: &str,
    mode: Option<&str>,
    workspace: &Path,
    places: &Places,
    said: Option<Source>,
    account: Option<Identity>,
) -> Result<Found, Failure> {
    let mut notices = Vec::new();
    let find = |name: &str| find(name, places);
    let user = find(name).ok_or_else(|| {
        Failure::new(CONFIG, format!("no policy `{name}`")).help(format!(
            "name a shipped one (default, ci, locked-down), a file, or one of `{}`",
            places.config().join("policies").display()
        ))
    })?;
    let mut sources = Vec::new();
    if let Some(text) = read_policy(Path::new(ORGANISATION_POLICY), false)? {
        sources.push(Source {
            name: ORGANISATION_POLICY.to_owned(),
            text,
            layer: LayerName::Organisation,
        });
    }
    sources.push(user);
    sources.extend(said);
    let without_project = load(&sources, &find)?;
    let file = workspace.join(PROJECT_POLICY);
    let mut policy = without_project.clone();
    // What comes from the workspace is untrusted: never through a link, and it can only tighten.
    if let Some(text) = sight(account, || read_policy(&file, true))? {
        notices.push(format!(
            "`{PROJECT_POLICY}` of the workspace tightens the policy"
        ));
        let name = PROJECT_POLICY.to_owned();
        sources.push(Source {
            name,
            text,
            layer: LayerName::Project,
        });
        policy = load(&sources, &find)?;
    }
    for hook in &mut policy.settings.hooks {
        // Where the user's words stand, whatever folder the session is taken up from.
        if hook.layer == LayerName::User
            && let Ok(file) = std::path::absolute(&hook.file)
        {
            hook.file = file.display().to_string();
        }
    }
    if !policy.settings.network.allow.is_empty() {
        let hosts = policy.settings.network.allow.len();
        notices.push(format!("the policy allows {hosts} host(s), but sessions have no network in this release: nothing is reachable"));
    }
    let given = mode.map(|word| {
        Mode::parse(word).ok_or_else(|| {
            let known = Mode::ALL.map(Mode::as_str).join(", ");
            Failure::new(USAGE, format!("no mode `{word}`")).help(format!("the modes are {known}"))
        })
    });
    let mut in_force = given.transpose()?.unwrap_or(policy.settings.mode);
    let mut ceiling = Mode::Bypass;
    if policy.settings.mode != without_project.settings.mode {
        ceiling = policy.settings.mode;
    }
    if policy.settings.mode != without_project.settings.mode
        && !in_force.at_most(policy.settings.mode)
    {
        in_force = in_force.meet(policy.settings.mode);
        notices.push(format!(
            "the workspace's policy lowers the mode to {}",
            in_force.as_str()
        ));
    }
    let organisation = organisation_mode(&sources, &find)?;
    ceiling = organisation.map_or(ceiling, |mode| ceiling.meet(mode));
    if let Some(organisation) = organisation
        && !in_force.at_most(organisation)
    {
        in_force = in_force.meet(organisation);
        notices.push(format!(
            "the organisation's policy lowers the mode to {}",
            in_force.as_str()
        ));
    }
    Ok((policy, (in_force, ceiling), notices))
}

/// What the organisation leaves of the mode, if it has a policy.
fn organisation_mode(
    sources: &[Source],
    find: &dyn Fn(&str) -> Option<Source>,
) -> Result<Option<Mode>, Failure> {
    let own = sources
        .iter()
        .find(|source| source.layer == LayerName::Organisation);
    own.map(|source| parse::mode_ceiling(source, find).map_err(|faults| faulty(&faults)))
        .transpose()
}

fn load(sources: &[Source], find: &dyn Fn(&str) -> Option<Source>) -> Result<Policy, Failure> {
    parse::load(sources, find).map_err(|faults| faulty(&faults))
}

fn faulty(faults: &[parse::Diagnostic]) -> Failure {
    let shown: Vec<_> = faults
        .iter()
        .map(|fault| fault.rendered.trim_end().to_owned())
        .collect();
    let message = format!(
        "the policy has {} fault(s)\n{}",
        faults.len(),
        shown.join("\n")
    );
    Failure::new(CONFIG, message)
}

/// A policy by name or file. One that is there and cannot be read is a fault and never replaced by
/// another of the same name: its text is then one that no policy may have, and loading tells why.
pub(crate) fn find(name: &str, places: &Places) -> Option<Source> {
    let layer = LayerName::User;
    let source = |name: String, text| Some(Source { name, text, layer });
    let broken = |file: &Path, failure: &Failure| {
        let why = failure.message.replace(['"', '\\', '\n'], "'");
        source(
            file.display().to_string(),
            format!("cannot-be-read = \"{why}\"\n"),
        )
    };
    let is_name = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if is_name {
        let file = places
            .config()
            .join("policies")
            .join(format!("{name}.toml"));
        match read_policy(&file, false) {
            Ok(Some(text)) => return source(file.display().to_string(), text),
            Ok(None) => {}
            Err(failure) => return broken(&file, &failure),
        }
        if let Some(text) = parse::profile(name) {
            return source(format!("built-in:{name}"), text.to_owned());
        }
    }
    match read_policy(Path::new(name), false) {
        Ok(text) => text.and_then(|text| source(name.to_owned(), text)),
        Err(failure) => broken(Path::new(name), &failure),
    }
}

/// A policy's text; `None` if the file does not exist. A link is refused where `strict`.
pub(crate) fn read_policy(path: &Path, strict: bool) -> Result<Option<String>, Failure> {
    input::read(path, POLICY_BYTES, strict).map_err(|why| {
        let message = format!("cannot read the policy `{}`: {why}", path.display());
        Failure::new(CONFIG, message)
            .help("a policy that cannot be read is not skipped: make it readable or remove it")
    })
}

/// A time as people write it (`90s`, `30m`, `2h`), at least a second and at most a day.
pub(crate) fn seconds(word: &str) -> Result<u64, Failure> {
    let bad = || {
        Failure::new(USAGE, format!("`{word}` is not a time"))
            .help("write 90s, 30m or 2h, at most 24h")
    };
    let (number, unit) = word.split_at(
        word.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(word.len()),
    );
    let number: u64 = number.parse().map_err(|_| bad())?;
    let factor = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        _ => return Err(bad()),
    };
    number
        .checked_mul(factor)
        .filter(|s| (1..=86_400).contains(s))
        .ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(seconds("90s").expect("valid"), 90);
        assert_eq!(seconds("30m").expect("valid"), 1_800);
        assert_eq!(seconds("2h").expect("valid"), 7_200);
        for word in ["", "0", "1d", "-1", "25h", "s", "99999999999999999999h"] {
            assert!(seconds(word).is_err(), "{word}");
        }
    }
}
