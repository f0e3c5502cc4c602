//! Modes that change while a session runs, and plan mode.

use policies::Granular;
use supervisor_core::{By, Question, ViewEvent, standing};

use super::*;

const PERSON: By = By::Person { uid: 1000 };
const PLAN: &str = "first read,\nthen tag";

fn of(mode: Mode, planning: bool) -> Config {
    Config {
        mode,
        planning,
        ..config(true)
    }
}

fn change(play: &mut Play, to: Mode, by: By) -> (Vec<Entry>, Vec<Effect>) {
    play.take(Message::Mode { to, by })
}

/// Mode, plan mode and who, as the record has the last change.
fn recorded(entries: &[Entry]) -> Option<(Mode, Mode, bool, &str)> {
    entries.iter().find_map(|entry| match entry {
        Entry::Mode {
            from,
            to,
            planning,
            by,
        } => Some((*from, *to, *planning, by.as_str())),
        _ => None,
    })
}

fn asked(effects: &[Effect]) -> Option<&Question> {
    effects.iter().find_map(|effect| match effect {
        Effect::Approve(question) => Some(question),
        _ => None,
    })
}

fn runs(effects: &[Effect]) -> bool {
    effects.iter().any(|e| matches!(e, Effect::Run(_)))
}

fn tag(play: &mut Play, id: &str) -> (Vec<Entry>, Vec<Effect>) {
    play.call(id, "bash", json!({ "command": "git tag v1" }))
}

fn submit(play: &mut Play, id: &str) -> (Vec<Entry>, Vec<Effect>) {
    play.call(id, "submit_plan", json!({ "plan": PLAN }))
}

fn reply(
    play: &mut Play,
    question: &Question,
    answer: QuestionAnswer,
) -> (Vec<Entry>, Vec<Effect>) {
    play.take(Message::Answer {
        question: question.id,
        nonce: question.nonce.clone(),
        answer,
    })
}

#[test]
fn anyone_lowers_a_mode_and_a_person_alone_raises_it() {
    use Mode::{AcceptEdits, Auto, Bypass, Never, OnRequest};
    let free = Mode::Granular(Granular::default());
    let modes = [OnRequest, Auto, AcceptEdits, Bypass, Never, free];
    for from in modes {
        for to in modes {
            for (by, person) in [(By::Other("a hook"), false), (PERSON, true)] {
                let mut play = Play::of(of(from, false));
                let (entries, effects) = change(&mut play, to, by);
                let changes = from != to && (person || !from.is_raised_by(to));
                assert_eq!(
                    recorded(&entries).is_some(),
                    changes,
                    "{from:?} {to:?} {person}"
                );
                let told = effects.iter().any(|effect| {
                    matches!(effect, Effect::View(ViewEvent::Mode { mode, .. }) if *mode == to)
                });
                assert_eq!(told, changes);
                let heard = effects
                    .iter()
                    .any(|e| matches!(e, Effect::Reply(Reply::Standing { .. })));
                assert_eq!(heard, changes, "the agent is told");
                // A change that is refused is said, never silent.
                let notice = entries.iter().any(|e| matches!(e, Entry::Notice { .. }));
                assert_eq!(notice, from != to && !changes);
            }
        }
    }
}

#[test]
fn nobody_goes_beyond_what_the_organisation_leaves() {
    let mut bound = of(Mode::Never, false);
    bound.ceiling = Mode::OnRequest;
    let mut play = Play::of(bound);
    for to in [Mode::AcceptEdits, Mode::Bypass, Mode::Auto] {
        let (entries, _) = change(&mut play, to, PERSON);
        assert_eq!(recorded(&entries), None, "{to:?}");
    }
    let (entries, _) = change(&mut play, Mode::OnRequest, PERSON);
    assert_eq!(
        recorded(&entries),
        Some((Mode::Never, Mode::OnRequest, false, "a person of uid 1000"))
    );
    let (_, effects) = tag(&mut play, "a");
    assert!(
        asked(&effects).is_some(),
        "the new mode is the one in force"
    );
}

#[test]
fn a_lowered_mode_denies_what_is_open_and_a_raised_one_answers_nothing() {
    let mut play = Play::of(of(Mode::OnRequest, false));
    let (_, effects) = tag(&mut play, "a");
    let question = asked(&effects).expect("asked").clone();
    let (_, effects) = change(&mut play, Mode::Bypass, PERSON);
    assert!(!runs(&effects), "an open question stays a person's");
    let (entries, effects) = change(&mut play, Mode::Never, By::Other("a hook"));
    assert!(
        entries
            .iter()
            .any(|e| matches!(e, Entry::Answered { answer, .. } if answer == "mode"))
    );
    assert!(effects.iter().any(|e| matches!(e, Effect::Withdraw { .. })));
    assert!(refusal(&effects).is_some_and(|refusal| refusal.reason.contains("never")));
    let (entries, effects) = reply(&mut play, &question, QuestionAnswer::Allow(Scope::Once));
    assert!(entries.is_empty() && effects.is_empty(), "too late");

    let mut play = Play::of(of(Mode::Auto, false));
    let (_, effects) = tag(&mut play, "a");
    assert!(effects.iter().any(|e| matches!(e, Effect::Classify(_))));
    let (_, effects) = change(&mut play, Mode::OnRequest, PERSON);
    assert!(
        effects
            .iter()
            .any(|e| matches!(e, Effect::CancelClassify { .. }))
    );
    assert!(asked(&effects).is_some(), "a person is asked instead");
}

#[test]
fn before_the_plan_is_approved_nothing_but_reads_is_allowed_in_any_mode() {
    for mode in [Mode::OnRequest, Mode::Auto, Mode::AcceptEdits, Mode::Bypass] {
        let mut play = Play::of(of(mode, true));
        let (_, effects) = play.call("r", "bash", json!({ "command": "git status" }));
        assert!(runs(&effects), "a proven read: {mode:?}");
        for (id, line) in [("w", "touch a"), ("t", "git tag v1"), ("x", "make")] {
            let (_, effects) = play.call(id, "bash", json!({ "command": line }));
            assert!(
                !runs(&effects) && asked(&effects).is_none(),
                "{line} {mode:?}"
            );
            let refusal = refusal(&effects).expect("refused");
            assert_eq!(
                refusal.rule.as_deref(),
                Some("plan-mode"),
                "{line} {mode:?}"
            );
        }
        let (_, effects) = submit(&mut play, "p");
        let question = asked(&effects)
            .expect("a person, whatever the mode")
            .clone();
        assert!(question.once_only && question.shown == PLAN, "{question:?}");
        assert!(!effects.iter().any(|e| matches!(e, Effect::Classify(_))));
        let (entries, effects) = reply(&mut play, &question, QuestionAnswer::Allow(Scope::Session));
        assert_eq!(
            recorded(&entries),
            Some((mode, mode, false, "a person approved the plan"))
        );
        assert!(effects.iter().any(|effect| matches!(effect,
            Effect::Reply(Reply::Outcome { outcome, .. }) if matches!(&**outcome, Outcome::Answer { text } if text.contains("approved")))));
        let (_, effects) = play.call("m", "bash", json!({ "command": "touch a" }));
        assert!(runs(&effects), "plan mode is over");
    }
}

#[test]
fn a_no_keeps_plan_mode_and_brings_its_word() {
    let mut play = Play::of(of(Mode::OnRequest, true));
    let (_, effects) = submit(&mut play, "p");
    let question = asked(&effects).expect("asked").clone();
    let no = QuestionAnswer::Deny(Some("test it first".into()));
    let (entries, effects) = reply(&mut play, &question, no);
    assert_eq!(recorded(&entries), None);
    assert!(refusal(&effects).is_some_and(|refusal| refusal.reason.contains("test it first")));
    let (_, effects) = play.call("w", "bash", json!({ "command": "touch a" }));
    assert!(!runs(&effects));
}

#[test]
fn nobody_to_ask_is_no_approval() {
    let mut silent = Config {
        planning: true,
        ..config(false)
    };
    let (_, effects) = submit(&mut Play::of(silent.clone()), "p");
    assert!(refusal(&effects).is_some() && asked(&effects).is_none());
    // Nor is mode never.
    (silent.mode, silent.facts.interactive) = (Mode::Never, true);
    let mut play = Play::of(silent);
    let (entries, effects) = submit(&mut play, "p");
    assert!(refusal(&effects).is_some() && asked(&effects).is_none());
    assert_eq!(recorded(&entries), None);
}

#[test]
fn outside_plan_mode_a_plan_changes_nothing() {
    let mut play = Play::of(of(Mode::OnRequest, false));
    let (entries, effects) = submit(&mut play, "p");
    assert!(asked(&effects).is_none() && recorded(&entries).is_none());
    assert!(effects.iter().any(|effect| matches!(effect,
        Effect::Reply(Reply::Outcome { outcome, .. }) if matches!(**outcome, Outcome::Failed { .. }))));
}

#[test]
fn a_session_that_goes_on_stands_where_it_stood() {
    let entry = |to, planning| Entry::Mode {
        from: Mode::OnRequest,
        to,
        planning,
        by: "x".into(),
    };
    let rows = [
        (vec![], (Mode::OnRequest, true)),
        (vec![entry(Mode::Never, true)], (Mode::Never, true)),
        (
            vec![entry(Mode::Never, true), entry(Mode::Auto, false)],
            (Mode::Auto, false),
        ),
    ];
    for (entries, wanted) in rows {
        assert_eq!(standing(Mode::OnRequest, true, &entries), wanted);
        let session = Session::new(of(Mode::OnRequest, true), Tick(0)).after(&entries);
        let mut play = Play {
            session: Some(session),
            now: 0,
        };
        play.take(Message::Task(Some("do it".into())));
        play.agent(Request::Hello(Hello::new("agent", session_id())));
        let (_, effects) = play.call("w", "bash", json!({ "command": "touch a" }));
        assert_eq!(runs(&effects), !wanted.1);
    }
}
