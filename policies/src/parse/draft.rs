//! One policy file as it was written: what it says of each setting, and its rules with their places.

use protocol::{Floor, Right, bounds};

use super::{
    Diagnostic, Source, hooks, places, rules,
    section::{At, Faults, Section, cut, document, suggestion},
    tighten, units,
};
use crate::{Backend, Category, Database, Hook, Mode, Switch, WorkspaceMode};

/// What one file says; a field that it does not name is `None` or empty.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) extends: Option<At<String>>,
    pub(super) mode: Option<Mode>,
    pub(super) backend: Option<Backend>,
    pub(super) image: Option<String>,
    pub(super) runtime: Option<String>,
    pub(super) workspace: Option<WorkspaceMode>,
    pub(super) namespaces: Option<bool>,
    pub(super) rights: Vec<(Right, Floor)>,
    pub(super) read: Option<Vec<String>>,
    pub(super) write: Option<Vec<String>>,
    pub(super) hide: Vec<String>,
    pub(super) protect: Vec<String>,
    pub(super) network: Option<Vec<String>>,
    pub(super) limits: LimitsDraft,
    pub(super) models: Option<Vec<At<String>>>,
    pub(super) route: Option<Vec<At<String>>>,
    pub(super) classifier: Option<String>,
    pub(super) databases: Vec<At<Database>>,
    pub(super) hooks: Vec<At<Hook>>,
    pub(super) rules: Vec<rules::Draft>,
}

/// `[limits]` as written.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LimitsDraft {
    pub(super) memory: Option<u64>,
    pub(super) processes: Option<u64>,
    pub(super) cpu: Option<f64>,
    pub(super) disk: Option<u64>,
    pub(super) wall: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) turns: Option<u32>,
    pub(super) iterations: Option<u32>,
    pub(super) cost_usd: Option<f64>,
    pub(super) tokens: Option<u64>,
    pub(super) calls: Option<u64>,
    pub(super) unpriced: Option<bool>,
    /// Of a day, of the account, of one model on one day.
    pub(super) spans: [crate::Budget; 3],
}

/// The tables of `[limits]` that are budgets over a span.
pub(super) const SPANS: [&str; 3] = ["day", "account", "model_day"];

const TOP: &[&str] = &[
    "version",
    "name",
    "extends",
    "mode",
    "granular",
    "confinement",
    "filesystem",
    "network",
    "limits",
    "models",
    "database",
    "hook",
    "rule",
];

/// Reads one file. Faults do not stop the reading: all of them are told.
pub(super) fn read(source: &Source, file: usize) -> (Draft, Vec<Diagnostic>) {
    let mut faults = Faults {
        source,
        list: Vec::new(),
    };
    let mut draft = Draft::default();
    if source.text.len() > bounds::POLICY_FILE {
        faults.add(&(0..0), "a policy file has at most 1 MiB", None);
        return (draft, faults.list);
    }
    let document = document(&source.text, &mut faults);
    if !faults.list.is_empty() {
        // What the recovery made of a broken file would only add noise.
        return (draft, faults.list);
    }
    let top = Section::new(document.get_ref(), "a policy", TOP, &mut faults);
    version(&top, &mut faults);
    if !source.layer.is_outer() {
        tighten::only_tightens(&top, &mut faults);
    }
    draft.name = top.text("name", &mut faults).map(|name| name.value);
    draft.extends = top.text("extends", &mut faults);
    draft.mode = top
        .text("mode", &mut faults)
        .and_then(|word| mode(&word, &mut faults));
    granular(&top, &mut draft, &mut faults);
    confinement(&top, &mut draft, &mut faults);
    places::filesystem(&top, &mut draft, &mut faults);
    places::network(&top, &mut draft, &mut faults);
    limits(&top, &mut draft, &mut faults);
    models(&top, &mut draft, &mut faults);
    databases(&top, &mut draft, &mut faults);
    draft.hooks = hooks::read(&top, source.layer, &mut faults);
    draft.rules = rules::read(&top, file, &mut faults);
    (draft, faults.list)
}

fn version(top: &Section<'_, '_>, faults: &mut Faults<'_>) {
    if top.key("version").is_none() {
        faults.add(
            &(0..0),
            "`version` is missing",
            Some("write `version = 1` first".to_owned()),
        );
    } else if let Some(version) = top.count("version", faults)
        && version.value != 1
    {
        let help = Some("this build reads version 1".to_owned());
        faults.add(
            &version.span,
            format!("version {} is not known", version.value),
            help,
        );
    }
}

/// The mode of a word.
pub(crate) fn mode(word: &At<String>, faults: &mut Faults<'_>) -> Option<Mode> {
    let found = Mode::parse(&word.value);
    if found.is_none() {
        let known = Mode::ALL.map(Mode::as_str);
        let message = format!("no mode is named `{}`", cut(&word.value));
        let help = match word.value.as_str() {
            "plan" => "plan mode is a person's choice for a session, and no policy's".to_owned(),
            other => suggestion(other, &known),
        };
        faults.add(&word.span, message, Some(help));
    }
    found
}

/// `[granular]`: a switch for each category, beside `mode = "granular"`.
fn granular(top: &Section<'_, '_>, draft: &mut Draft, faults: &mut Faults<'_>) {
    let Some(span) = top.key("granular") else {
        return;
    };
    let known = Category::ALL.map(Category::as_str);
    let section = top.table("granular", &known, faults);
    let Some(Mode::Granular(mut switches)) = draft.mode else {
        let help = "write `mode = \"granular\"` in the same file".to_owned();
        faults.add(&span, "unreachable: the mode is not granular", Some(help));
        return;
    };
    let Some(section) = section else { return };
    for category in Category::ALL {
        let words = [("ask", Switch::Ask), ("deny", Switch::Deny)];
        if let Some(switch) = word_of(&section, category.as_str(), &words, faults) {
            switches = switches.with(category, switch);
        }
    }
    draft.mode = Some(Mode::Granular(switches));
}

/// The value of a key that knows a few words.
fn word_of<T: Copy>(
    section: &Section<'_, '_>,
    key: &str,
    words: &[(&str, T)],
    faults: &mut Faults<'_>,
) -> Option<T> {
    let word = section.text(key, faults)?;
    if let Some((_, value)) = words.iter().find(|(name, _)| *name == word.value) {
        return Some(*value);
    }
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let message = format!("no {key} is named `{}`", cut(&word.value));
    let help = Some(suggestion(&word.value, &names));
    faults.add(&word.span, message, help);
    None
}

fn confinement(top: &Section<'_, '_>, draft: &mut Draft, faults: &mut Faults<'_>) {
    let known = [
        "backend",
        "image",
        "runtime",
        "workspace",
        "namespaces",
        "rights",
    ];
    let Some(section) = top.table("confinement", &known, faults) else {
        return;
    };
    draft.backend = word_of(
        &section,
        "backend",
        &[("landlock", Backend::Landlock), ("docker", Backend::Docker)],
        faults,
    );
    draft.workspace = word_of(
        &section,
        "workspace",
        &[
            ("overlay", WorkspaceMode::Overlay),
            ("copy", WorkspaceMode::Copy),
            ("direct", WorkspaceMode::Direct),
        ],
        faults,
    );
    draft.image = section.text("image", faults).map(|word| word.value);
    draft.runtime = section.text("runtime", faults).map(|word| word.value);
    if let Some(word) = section.text("namespaces", faults) {
        match word.value.as_str() {
            "auto" => draft.namespaces = Some(true),
            "off" => draft.namespaces = Some(false),
            other => faults.add(
                &word.span,
                format!("`namespaces` cannot be `{}`", cut(other)),
                Some("auto or off".to_owned()),
            ),
        }
    }
    let words: Vec<&str> = Right::ALL.iter().map(|right| right.as_str()).collect();
    let Some(rights) = section.table("rights", &words, faults) else {
        return;
    };
    for (name, floor) in rights.named(faults) {
        let level = match floor.value.as_str() {
            "required" => Some(Floor::Required),
            "preferred" => Some(Floor::Preferred),
            "off" => Some(Floor::Off),
            other => {
                let message = format!("a right cannot be `{}`", cut(other));
                let help = Some(suggestion(other, &["required", "preferred", "off"]));
                faults.add(&floor.span, message, help);
                None
            }
        };
        if let (Some(right), Some(level)) = (Right::parse(&name.value), level) {
            draft.rights.push((right, level));
        }
    }
}

fn limits(top: &Section<'_, '_>, draft: &mut Draft, faults: &mut Faults<'_>) {
    let known = [
        "memory",
        "processes",
        "cpu",
        "disk",
        "wall",
        "output",
        "turns",
        "iterations",
        "cost_usd",
        "calls",
        "unpriced",
        "day",
        "account",
        "model_day",
        "tokens",
    ];
    let Some(section) = top.table("limits", &known, faults) else {
        return;
    };
    if let Some(cpus) = section.amount("cpu", faults) {
        // A quota of less than a hundredth of a processor would not even start a shell in time.
        if (0.01..=4_096.0).contains(&cpus.value) {
            draft.limits.cpu = Some(cpus.value);
        } else {
            let help = Some("write processors, as 0.5 or 2.0".to_owned());
            faults.add(&cpus.span, "`cpu` is not a number of processors", help);
        }
    }
    let mut size = |key: &str, least: u64| -> Option<u64> {
        let text = section.text(key, faults)?;
        match units::size(&text.value) {
            Some(bytes) if bytes >= least => Some(bytes),
            Some(_) => {
                let help = Some(format!("at least {} KiB", least / 1024));
                faults.add(
                    &text.span,
                    format!("`{key}` is too small to work with"),
                    help,
                );
                None
            }
            None => {
                let message = format!("`{}` is not a size", cut(&text.value));
                faults.add(
                    &text.span,
                    message,
                    Some("write it as 512MiB or 2GiB".to_owned()),
                );
                None
            }
        }
    };
    draft.limits.memory = size("memory", 32 * bounds::MIB);
    draft.limits.disk = size("disk", bounds::MIB);
    draft.limits.output = size("output", bounds::KIB);
    if let Some(text) = section.text("wall", faults) {
        draft.limits.wall = units::time(&text.value).filter(|seconds| *seconds > 0);
        if draft.limits.wall.is_none() {
            let message = format!("`{}` is not a time", cut(&text.value));
            faults.add(
                &text.span,
                message,
                Some("write it as 90s, 30m or 1h30m".to_owned()),
            );
        }
    }
    let mut small = |key: &str| -> Option<u32> {
        let number = section.count(key, faults)?;
        let value = u32::try_from(number.value).ok();
        if value.is_none() {
            faults.add(&number.span, format!("`{key}` is beyond any use"), None);
        }
        value
    };
    draft.limits.turns = small("turns");
    draft.limits.iterations = small("iterations");
    draft.limits.processes = section
        .count("processes", faults)
        .map(|number| number.value);
    draft.limits.tokens = section.count("tokens", faults).map(|number| number.value);
    draft.limits.calls = section.count("calls", faults).map(|number| number.value);
    draft.limits.unpriced = section.flag("unpriced", faults).map(|flag| flag.value);
    draft.limits.cost_usd = section
        .amount("cost_usd", faults)
        .map(|number| number.value);
    for (name, budget) in SPANS.into_iter().zip(&mut draft.limits.spans) {
        let Some(span) = section.table(name, &["cost_usd", "tokens", "calls"], faults) else {
            continue;
        };
        budget.cost_usd = span.amount("cost_usd", faults).map(|number| number.value);
        budget.tokens = span.count("tokens", faults).map(|number| number.value);
        budget.calls = span.count("calls", faults).map(|number| number.value);
    }
}

fn models(top: &Section<'_, '_>, draft: &mut Draft, faults: &mut Faults<'_>) {
    let known = ["allow", "route", "classifier"];
    let Some(section) = top.table("models", &known, faults) else {
        return;
    };
    let mut list = |key: &str| -> Option<Vec<At<String>>> {
        let words = section.texts(key, faults)?;
        for word in &words {
            let parts = word.value.split_once('/');
            if !parts.is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty()) {
                let message = format!("`{}` is not a model", cut(&word.value));
                faults.add(&word.span, message, Some("write PROVIDER/MODEL".to_owned()));
            }
        }
        Some(words)
    };
    draft.models = list("allow").filter(|words| !words.is_empty());
    draft.route = list("route");
    if let Some(word) = section.text("classifier", faults) {
        draft.classifier = Some(word.value);
    }
}

fn databases(top: &Section<'_, '_>, draft: &mut Draft, faults: &mut Faults<'_>) {
    let known = ["name", "path", "max_rows", "tables", "money"];
    for At {
        value: section,
        span,
    } in top.tables("database", &known, faults)
    {
        for key in ["name", "path"] {
            if section.key(key).is_none() {
                faults.add(&span, format!("a database has a `{key}`"), None);
            }
        }
        let name = section.text("name", faults);
        let path = section.text("path", faults);
        let rows = section.count("max_rows", faults);
        let max_rows = match &rows {
            Some(rows) => u32::try_from(rows.value)
                .ok()
                .filter(|rows| *rows <= 10_000),
            None => u32::try_from(bounds::SQL_ROWS).ok(),
        };
        if max_rows.is_none()
            && let Some(rows) = rows
        {
            faults.add(&rows.span, "`max_rows` is at most 10,000", None);
        }
        let tables = section.texts("tables", faults).unwrap_or_default();
        let money = section.text("money", faults).map(|text| text.value);
        let (Some(name), Some(path)) = (name, path) else {
            continue;
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.value.is_empty() || name.value.len() > 64 || !name.value.chars().all(fits) {
            let message = format!("`{}` is not a database's name", cut(&name.value));
            faults.add(
                &name.span,
                message,
                Some("letters, digits, `_` and `-`".to_owned()),
            );
        }
        if draft
            .databases
            .iter()
            .any(|other| other.value.name == name.value)
        {
            faults.add(
                &name.span,
                format!("database `{}` is declared twice", name.value),
                None,
            );
            continue;
        }
        if path.value.is_empty() || path.value.contains('\0') {
            faults.add(&path.span, "a database has a path", None);
        }
        draft.databases.push(At {
            value: Database {
                name: name.value,
                path: path.value,
                max_rows: max_rows.unwrap_or(1),
                tables: tables.into_iter().map(|table| table.value).collect(),
                money,
            },
            span: name.span,
        });
    }
}
