//! What a run says of itself at its start, and what it has learned at its end.

use supervisor_core::Entry;
use supervisor_record::Record;

use super::sessions;
use crate::{
    exit::Failure,
    session::{self, AskedWhere, Saved},
    view::View,
};

/// The first line: law, mode, model, and who can be asked.
pub(super) fn announce(
    view: &mut View,
    session: &str,
    saved: &Saved,
    (mode, planning): (policies::Mode, bool),
    classifier: Option<&(String, String)>,
    asking: AskedWhere,
) {
    let judge = classifier.filter(|_| mode == policies::Mode::Auto);
    let judge = judge.map_or_else(String::new, |(provider, model)| {
        format!(" (classifier {provider}/{model})")
    });
    let asked = match asking {
        AskedWhere::Terminal => "questions go to this terminal",
        AskedWhere::Operator => "questions wait for `provost approve`",
        AskedWhere::Nowhere => "no terminal: every question is denied at once",
    };
    let mut route = format!("{}/{}", saved.provider, saved.model);
    for next in &saved.fallbacks {
        route.push_str(&format!(", then {next}"));
    }
    let account = saved.account.as_ref();
    let account = account.map_or_else(String::new, |account| {
        let (name, uid) = (&account.name, account.identity.uid);
        format!(" · works as {name} (user {uid})")
    });
    let text = format!(
        "{session}{account} · policy {} · mode {}{judge} · {route} · {asked}",
        saved.setup.policy.name,
        mode.as_str(),
    );
    view.head("session", &text);
    if planning {
        let nobody = asking == AskedWhere::Nowhere || mode == policies::Mode::Never;
        let text = if nobody {
            "plan mode is on, and nobody can approve a plan here: this session only reads (--approvals operator lets one wait)"
        } else {
            "on: everything but a proven read is denied until a person approves the plan"
        };
        view.head("plan", text);
    }
}

/// How much of what was asked a policy could answer next time.
pub(super) fn learned(store: &session::Store, view: &mut View) -> Result<(), Failure> {
    let session = store.session().clone();
    let entries = store.with(|record: &mut Record| sessions::entries(record, &session))?;
    let asked = entries.iter().filter(|entry| match entry {
        Entry::Verdict { verdict, .. } => match verdict.decision {
            policies::Decision::Ask => true,
            // What a mode has answered was an ask.
            policies::Decision::Deny => verdict.stage == policies::Stage::Mode,
            policies::Decision::Allow => false,
        },
        _ => false,
    });
    let text = format!(
        "{} call(s) were asked about: provost policy suggest --from-session {session}",
        asked.count()
    );
    view.head("learned", &text);
    Ok(())
}
