//! What the rules say: within each layer, and the strictest over all.

use super::{
    Word,
    pattern::{Hit, hits, pattern_contains},
    subject::{Kind, Subject},
};
use crate::{Category, Decision, Facts, Layer, Policy, Rule};

/// The strictest word of all layers, of equals the outermost layer's; `None` if nobody spoke.
pub(super) fn layers(policy: &Policy, subject: &Subject<'_>, facts: &Facts) -> Option<Word> {
    let mut ordered: Vec<&Layer> = policy.layers.iter().collect();
    ordered.sort_by_key(|layer| layer.name);
    ordered
        .into_iter()
        .filter_map(|layer| one(layer, subject, facts))
        .reduce(Word::or_stricter)
}

/// One layer's word: a deny, else an ask that no more specific allow lowers, else an allow.
fn one(layer: &Layer, subject: &Subject<'_>, facts: &Facts) -> Option<Word> {
    let mut matching: Vec<(&Rule, Hit)> = layer
        .rules
        .iter()
        .flat_map(|rule| {
            hits(rule, subject, facts)
                .into_iter()
                .map(move |hit| (rule, hit))
        })
        .collect();
    // By id, so that the order in the file decides nothing, not even who is named.
    matching.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    let of = |decision: Decision| {
        matching
            .iter()
            .filter(move |(rule, _)| rule.verdict == decision)
    };
    if let Some((rule, hit)) = of(Decision::Deny).min_by_key(|(_, hit)| !hit.sure) {
        return Some(word(layer, rule, *hit, subject));
    }
    let standing = of(Decision::Ask).find(|(ask, ask_hit)| {
        !of(Decision::Allow).any(|(allow, allow_hit)| {
            let (ask, allow) = ((*ask, ask_hit.pattern), (*allow, allow_hit.pattern));
            pattern_contains(ask, allow) && !pattern_contains(allow, ask)
        })
    });
    standing
        .or_else(|| of(Decision::Allow).next())
        .map(|(rule, hit)| word(layer, rule, *hit, subject))
}

fn word(layer: &Layer, rule: &Rule, hit: Hit, subject: &Subject<'_>) -> Word {
    let mut instead = rule.instead.clone();
    let mut reason = rule.reason.clone();
    if !hit.sure {
        let what = match &subject.kind {
            Kind::Opaque { doubt } => format!("the line is not understood ({doubt})"),
            Kind::Command { .. } | Kind::Redirect { .. } => {
                let text: String = subject.text.chars().take(60).collect();
                format!("what `{text}` does shows only when it runs")
            }
            _ => "it could be more than it says".to_owned(),
        };
        reason = format!(
            "{what}, so it counts as what rule `{}` is about: {reason}",
            rule.id
        );
        instead =
            Some("write each word out plainly, or run a script from the workspace".to_owned());
    }
    Word {
        decision: rule.verdict,
        rule: rule.id.clone(),
        layer: Some(layer.name.as_str().to_owned()),
        reason,
        instead,
        unread: false,
        category: match rule {
            _ if !rule.mcp.is_empty() => Category::Mcp,
            _ if !rule.host.is_empty() => Category::Network,
            _ => Category::Rules,
        },
        edit: false,
    }
}
