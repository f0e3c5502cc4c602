//! Joining what files and layers say: within a layer the extending file wins, between layers only the
//! stricter word counts.

use std::collections::BTreeMap;

use protocol::{Floor, Right, bounds};

use super::{
    draft::{Draft, LimitsDraft},
    section::{At, Span},
};
use crate::{
    Backend, Budget, Database, Filesystem, Hook, HookEvent, LayerName, Limits, Mode, Models,
    Network, Settings, WorkspaceMode, evaluate::host_contains,
};

/// One layer's word on every setting: its files joined, the extended ones first.
#[derive(Debug, Default)]
pub(super) struct Word {
    mode: Option<Mode>,
    backend: Option<Backend>,
    image: Option<String>,
    runtime: Option<String>,
    workspace: Option<WorkspaceMode>,
    namespaces: Option<bool>,
    rights: BTreeMap<Right, Floor>,
    read: Option<Vec<String>>,
    write: Option<Vec<String>>,
    hide: Vec<String>,
    protect: Vec<String>,
    network: Option<Vec<String>>,
    limits: LimitsDraft,
    models: Option<Vec<String>>,
    route: Option<Vec<String>>,
    classifier: Option<String>,
    databases: Vec<Database>,
    hooks: Vec<Hook>,
    /// Where the layer's last hook stands.
    hooks_at: Option<(usize, Span)>,
    /// Where the layer names models, for a fault that shows only after joining.
    models_at: Option<(usize, Span)>,
}

impl Word {
    /// Adds a file that extends what was added before.
    pub(super) fn add(&mut self, draft: &Draft, file: usize) {
        self.mode = draft.mode.or(self.mode);
        self.backend = draft.backend.or(self.backend);
        self.image = draft.image.clone().or_else(|| self.image.take());
        self.runtime = draft.runtime.clone().or_else(|| self.runtime.take());
        self.workspace = draft.workspace.or(self.workspace);
        self.namespaces = draft.namespaces.or(self.namespaces);
        self.rights.extend(draft.rights.iter().copied());
        join(&mut self.read, draft.read.as_ref());
        join(&mut self.write, draft.write.as_ref());
        extend(&mut self.hide, &draft.hide);
        extend(&mut self.protect, &draft.protect);
        join(&mut self.network, draft.network.as_ref());
        self.limits = over(draft.limits, self.limits);
        let values = |list: &Vec<At<String>>| list.iter().map(|at| at.value.clone()).collect();
        for list in [&draft.models, &draft.route].into_iter().flatten() {
            if let Some(first) = list.first() {
                self.models_at = Some((file, first.span.clone()));
            }
        }
        self.models = draft
            .models
            .as_ref()
            .map(values)
            .or_else(|| self.models.take());
        self.route = draft
            .route
            .as_ref()
            .map(values)
            .or_else(|| self.route.take());
        self.classifier = draft.classifier.clone().or_else(|| self.classifier.take());
        for database in &draft.databases {
            self.databases
                .retain(|other| other.name != database.value.name);
            self.databases.push(database.value.clone());
        }
        for hook in &draft.hooks {
            self.hooks.retain(|other| other.id != hook.value.id);
            self.hooks.push(hook.value.clone());
            self.hooks_at = Some((file, hook.span.clone()));
        }
    }
}

fn extend(list: &mut Vec<String>, more: &[String]) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

fn join(list: &mut Option<Vec<String>>, more: Option<&Vec<String>>) {
    if let Some(more) = more {
        extend(list.get_or_insert_default(), more);
    }
}

fn over(new: LimitsDraft, old: LimitsDraft) -> LimitsDraft {
    LimitsDraft {
        memory: new.memory.or(old.memory),
        processes: new.processes.or(old.processes),
        cpu: new.cpu.or(old.cpu),
        disk: new.disk.or(old.disk),
        wall: new.wall.or(old.wall),
        output: new.output.or(old.output),
        turns: new.turns.or(old.turns),
        iterations: new.iterations.or(old.iterations),
        cost_usd: new.cost_usd.or(old.cost_usd),
        tokens: new.tokens.or(old.tokens),
        calls: new.calls.or(old.calls),
        unpriced: new.unpriced.or(old.unpriced),
        spans: std::array::from_fn(|at| {
            let budget = |draft: LimitsDraft| draft.spans.get(at).copied().unwrap_or_default();
            let (new, old) = (budget(new), budget(old));
            Budget {
                cost_usd: new.cost_usd.or(old.cost_usd),
                tokens: new.tokens.or(old.tokens),
                calls: new.calls.or(old.calls),
            }
        }),
    }
}

/// A fault that shows only when layers meet.
#[derive(Debug)]
pub(super) struct Clash {
    /// File index and span, if one file can be blamed.
    pub(super) at: Option<(usize, Span)>,
    /// What is wrong.
    pub(super) message: String,
}

/// What of a box does not go together.
fn unfit(confinement: &crate::Confinement) -> Option<String> {
    let message = match (
        confinement.backend,
        &confinement.image,
        &confinement.runtime,
    ) {
        (Backend::Docker, None, _) => {
            "`backend = \"docker\"` needs an image that the engine has: `image = \"NAME\"` in [confinement]"
        }
        (Backend::Landlock, Some(_), _) => {
            "`image` is for the backend docker: say `backend = \"docker\"` in [confinement], or leave it out"
        }
        (Backend::Landlock, _, Some(_)) => {
            "`runtime` is for the backend docker: say `backend = \"docker\"` in [confinement], or leave it out"
        }
        (Backend::Docker, Some(_), _) | (Backend::Landlock, None, None) => return None,
    };
    Some(message.to_owned())
}

/// Joins the layers, outermost first.
pub(super) fn settings(layers: &[(LayerName, Word)]) -> (Settings, Vec<Clash>) {
    let words = || layers.iter().map(|(_, word)| word);
    // The organisation and the user may set anything; what comes further inside only tightens what
    // they said, or the defaults if they said nothing.
    let outer = || {
        layers
            .iter()
            .filter(|(name, _)| name.is_outer())
            .map(|(_, word)| word)
    };
    let inner = || {
        layers
            .iter()
            .filter(|(name, _)| !name.is_outer())
            .map(|(_, word)| word)
    };
    let base = Settings::default();
    let mut clashes = Vec::new();
    let modes: Vec<Mode> = outer().filter_map(|word| word.mode).collect();
    if let [a, b, ..] = modes.as_slice()
        && !a.at_most(*b)
        && !b.at_most(*a)
        && a.as_str() != b.as_str()
    {
        // Their meet would be `never`, which nobody wrote.
        let message = format!(
            "mode `{}` of the organisation and mode `{}` of the user do not compare: write the same in both, or never",
            a.as_str(),
            b.as_str()
        );
        clashes.push(Clash { at: None, message });
    }
    let mut confinement = base.confinement;
    // The outermost layer that speaks of the box decides: an inner one could only weaken.
    confinement.backend = outer()
        .find_map(|word| word.backend)
        .unwrap_or(confinement.backend);
    // An empty word takes back what a file that is extended has said.
    let named = |word: Option<String>| word.filter(|word| !word.is_empty());
    confinement.image = named(outer().find_map(|word| word.image.clone()));
    confinement.runtime = named(outer().find_map(|word| word.runtime.clone()));
    if let Some(message) = unfit(&confinement) {
        clashes.push(Clash { at: None, message });
    }
    confinement.workspace = outer().find_map(|word| word.workspace);
    confinement.namespaces = outer()
        .find_map(|word| word.namespaces)
        .unwrap_or(confinement.namespaces);
    for &right in Right::ALL {
        let said = outer()
            .filter_map(|word| word.rights.get(&right).copied())
            .max();
        let floor = inner()
            .filter_map(|word| word.rights.get(&right).copied())
            .fold(said.unwrap_or(right.default_floor()), Floor::max);
        confinement.rights.insert(right, floor);
    }
    // What no outer layer grants, an inner one cannot narrow: it stays nothing.
    let nothing = Vec::new();
    let granted = |pick: fn(&Word) -> Option<&Vec<String>>, contains: fn(&str, &str) -> bool| {
        let first = outer().find_map(pick).is_none().then_some(&nothing);
        narrowed(first.into_iter().chain(words().filter_map(pick)), contains)
    };
    let mut filesystem = Filesystem {
        read: granted(|word| word.read.as_ref(), tree_contains),
        write: granted(|word| word.write.as_ref(), tree_contains),
        ..Filesystem::default()
    };
    for word in words() {
        extend(&mut filesystem.hide, &word.hide);
        extend(&mut filesystem.protect, &word.protect);
    }
    let allow = granted(|word| word.network.as_ref(), host_contains);
    let models = models(layers, &mut clashes);
    let mut databases: Vec<Database> = Vec::new();
    for (name, word) in layers {
        for database in &word.databases {
            if databases.iter().any(|other| other.name == database.name) {
                clashes.push(Clash {
                    at: None,
                    message: format!(
                        "database `{}` of the {} layer is declared by an outer layer already",
                        database.name,
                        name.as_str()
                    ),
                });
            } else {
                databases.push(database.clone());
            }
        }
    }
    let settings = Settings {
        mode: tightest(
            outer().filter_map(|word| word.mode),
            base.mode,
            inner().filter_map(|word| word.mode),
        ),
        confinement,
        filesystem,
        network: Network { allow },
        limits: limits(
            &outer().map(|word| word.limits).collect::<Vec<_>>(),
            &inner().map(|word| word.limits).collect::<Vec<_>>(),
        ),
        models,
        databases,
        hooks: hooks(layers, &mut clashes),
    };
    (settings, clashes)
}

/// Every layer's hooks: none takes another's away. The innermost run first, so that the outermost see
/// what the others have made of an input.
fn hooks(layers: &[(LayerName, Word)], clashes: &mut Vec<Clash>) -> Vec<Hook> {
    let all = layers.iter().rev().flat_map(|(_, word)| &word.hooks);
    let all: Vec<Hook> = all.cloned().collect();
    let crowded = HookEvent::ALL.into_iter().find(|event| {
        all.iter().filter(|hook| hook.event == *event).count() > bounds::HOOKS_PER_EVENT
    });
    let message = match crowded {
        Some(event) => format!(
            "`{}` has more than {} hooks, all layers together",
            event.as_str(),
            bounds::HOOKS_PER_EVENT
        ),
        None if all.len() > bounds::HOOKS => {
            format!(
                "a policy has at most {} hooks, all layers together",
                bounds::HOOKS
            )
        }
        None => return all,
    };
    let at = layers
        .iter()
        .rev()
        .find_map(|(_, word)| word.hooks_at.clone());
    clashes.push(Clash { at, message });
    all
}

/// The outermost list that is said grants, each inner one narrows it; nothing said grants nothing.
fn narrowed<'a>(
    mut lists: impl Iterator<Item = &'a Vec<String>>,
    contains: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let mut granted = lists.next().cloned().unwrap_or_default();
    for list in lists {
        let mut kept: Vec<String> = Vec::new();
        for outer in &granted {
            for inner in list {
                if contains(outer, inner) {
                    kept.push(inner.clone());
                } else if contains(inner, outer) {
                    kept.push(outer.clone());
                }
            }
        }
        kept.sort();
        kept.dedup();
        granted = kept;
    }
    granted
}

fn tree_contains(outer: &str, inner: &str) -> bool {
    let outer = outer.trim_end_matches('/');
    inner
        .trim_end_matches('/')
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn model_contains(outer: &str, inner: &str) -> bool {
    crate::glob::component(outer, inner, false)
}

/// Models: an empty `allow` allows any, so an empty meeting of two lists is a fault and not a list.
fn models(layers: &[(LayerName, Word)], clashes: &mut Vec<Clash>) -> Models {
    let words = || layers.iter().map(|(_, word)| word);
    let at = words()
        .filter_map(|word| word.models_at.clone())
        .next_back();
    let allow = narrowed(
        words().filter_map(|word| word.models.as_ref()),
        model_contains,
    );
    if allow.is_empty() && words().any(|word| word.models.is_some()) {
        let message = "no model is left that every layer allows".to_owned();
        clashes.push(Clash {
            at: at.clone(),
            message,
        });
    }
    let wanted = words().filter_map(|word| word.route.as_ref()).next_back();
    let route: Vec<String> = wanted
        .into_iter()
        .flatten()
        .filter(|model| allow.is_empty() || allow.iter().any(|outer| model_contains(outer, model)))
        .cloned()
        .collect();
    if route.is_empty() && wanted.is_some_and(|wanted| !wanted.is_empty()) {
        let message = "no model of the route is allowed".to_owned();
        clashes.push(Clash { at, message });
    }
    Models {
        allow,
        route,
        classifier: words().filter_map(|word| word.classifier.clone()).next(),
    }
}

fn tightest(
    outer: impl Iterator<Item = Mode>,
    base: Mode,
    inner: impl Iterator<Item = Mode>,
) -> Mode {
    inner.fold(outer.reduce(Mode::meet).unwrap_or(base), Mode::meet)
}

/// The least word of all layers, with the default where no outer one says anything.
fn least<T: PartialOrd + Copy>(
    pick: impl Fn(&LimitsDraft) -> Option<T>,
    (outer, inner): (&[LimitsDraft], &[LimitsDraft]),
    base: Option<T>,
) -> Option<T> {
    let lower = |a: T, b: T| if b < a { b } else { a };
    let said = outer.iter().filter_map(&pick).reduce(lower).or(base);
    said.into_iter()
        .chain(inner.iter().filter_map(&pick))
        .reduce(lower)
}

/// The least of each figure of a budget.
fn budget(all: (&[LimitsDraft], &[LimitsDraft]), span: impl Fn(&LimitsDraft) -> Budget) -> Budget {
    Budget {
        cost_usd: least(|word| span(word).cost_usd, all, None),
        tokens: least(|word| span(word).tokens, all, None),
        calls: least(|word| span(word).calls, all, None),
    }
}

/// The least of what was said; the default where no outer layer said anything.
fn limits(outer: &[LimitsDraft], inner: &[LimitsDraft]) -> Limits {
    let all = (outer, inner);
    let base = Limits::default();
    Limits {
        memory: least(|word| word.memory, all, Some(base.memory)).unwrap_or(base.memory),
        processes: least(|word| word.processes, all, Some(base.processes))
            .unwrap_or(base.processes),
        cpu: least(|word| word.cpu, all, base.cpu),
        disk: least(|word| word.disk, all, Some(base.disk)).unwrap_or(base.disk),
        wall: least(|word| word.wall, all, Some(base.wall)).unwrap_or(base.wall),
        output: least(|word| word.output, all, Some(base.output)).unwrap_or(base.output),
        turns: least(|word| word.turns, all, Some(base.turns)).unwrap_or(base.turns),
        iterations: least(|word| word.iterations, all, Some(base.iterations))
            .unwrap_or(base.iterations),
        cost_usd: least(|word| word.cost_usd, all, base.cost_usd),
        tokens: least(|word| word.tokens, all, base.tokens),
        calls: least(|word| word.calls, all, base.calls),
        // An inner layer cannot allow it; `false` is the lesser word.
        unpriced: least(|word| word.unpriced, all, Some(base.unpriced)).unwrap_or(false),
        day: budget(
            all,
            |&LimitsDraft {
                 spans: [day, ..], ..
             }| day,
        ),
        account: budget(
            all,
            |&LimitsDraft {
                 spans: [_, account, _],
                 ..
             }| account,
        ),
        model_day: budget(
            all,
            |&LimitsDraft {
                 spans: [.., model], ..
             }| model,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn an_inner_layer_narrows_what_an_outer_one_grants() {
        let outer = list(&["*.example.com", "api.test:443"]);
        let inner = list(&["git.example.com", "evil.test", "api.test"]);
        let lists = [outer.clone(), inner.clone()];
        assert_eq!(
            narrowed(lists.iter(), host_contains),
            list(&["api.test:443", "git.example.com"])
        );
        let lists = [inner, outer];
        assert_eq!(
            narrowed(lists.iter(), host_contains),
            list(&["api.test:443", "git.example.com"])
        );
        let none: [Vec<String>; 0] = [];
        assert!(narrowed(none.iter(), host_contains).is_empty());
        let trees = [list(&["/opt/tools"]), list(&["/opt", "/opt/tools-secret"])];
        assert_eq!(narrowed(trees.iter(), tree_contains), list(&["/opt/tools"]));
    }
}
