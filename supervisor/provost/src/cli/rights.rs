//! The table of rights for people: what `doctor` and `certificate` print.

use protocol::{Floor, State};
use supervisor_core::{Certificate, RightState};

/// The word of a right's state: probed rights are held or not, resources say more.
pub(super) fn word(state: &RightState) -> &'static str {
    match (state.state, state.held) {
        (_, true) if state.right.domains() != [protocol::ProbeDomain::Outside] => "held",
        (State::Absent, false) if state.right.domains() != [protocol::ProbeDomain::Outside] => {
            "NOT held"
        }
        (state, _) => state.as_str(),
    }
}

/// The word of a floor.
pub(super) fn floor(floor: Floor) -> &'static str {
    match floor {
        Floor::Off => "off",
        Floor::Preferred => "preferred",
        Floor::Required => "required",
    }
}

/// What was found where a right is not held, and what to do; `None` where it is.
pub(super) fn remedy(state: &RightState) -> Option<String> {
    if state.held {
        return None;
    }
    let found = state.probes.iter().filter(|probe| !probe.held());
    let mut said: Vec<String> = found
        .map(|probe| format!("{}: {}", probe.case, probe.answer))
        .collect();
    said.extend(
        supervisor_sandbox::row_of(state.right).map(|row| format!("remedy: {}", row.remedy)),
    );
    Some(said.join("; "))
}

/// One line a right, and one more where it is not held.
pub(super) fn table(states: &[RightState]) -> String {
    let mut text = String::new();
    for state in states {
        text.push_str(&format!(
            "{:<20} {:<9} {:<9} {}\n",
            state.right.as_str(),
            floor(state.floor),
            word(state),
            state.by
        ));
        if let Some(remedy) = remedy(state) {
            text.push_str(&format!("{:20} {remedy}\n", ""));
        }
    }
    text
}

/// A whole certificate, probes included.
pub(super) fn certificate(session: &str, certificate: &Certificate) -> String {
    let mut text = format!(
        "session        {session}\nnonce          {}\nboot           {}\ntime           {} (Unix, ms)\n\
         worker         {}\npolicy         {}\nkernel         {}\nLandlock       ABI {}, errata {}\n\
         backend        {}, situation {}\nuid            {}\ncapabilities   {}\n\n",
        certificate.nonce,
        certificate.boot_id,
        certificate.time_ms,
        certificate.worker,
        certificate.policy,
        certificate.kernel,
        certificate.abi,
        certificate.errata,
        certificate.backend,
        certificate.situation,
        certificate.uid,
        certificate.capabilities,
    );
    text.push_str(&table(&certificate.rights));
    text.push_str("\nprobes: what was tried, where, whether it was refused, whether its twin worked, the answer\n");
    for probe in certificate.rights.iter().flat_map(|state| &state.probes) {
        let domain = format!("{:?}", probe.domain).to_lowercase();
        let said = |yes, word: &'static str, no: &'static str| if yes { word } else { no };
        text.push_str(&format!(
            "{:<18} {:<24} {domain:<8} {:<11} {:<11} {}\n",
            probe.right.as_str(),
            probe.case,
            said(probe.refused, "refused", "NOT refused"),
            said(probe.twin, "twin works", "twin FAILS"),
            probe.answer
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use protocol::{Probe, ProbeDomain, Right};

    use super::*;

    #[test]
    fn resources_are_enforced_watched_or_absent_and_the_rest_is_held_or_not() {
        let state = |right: Right, held, state| RightState {
            right,
            floor: Floor::Required,
            held,
            state,
            by: "x".to_owned(),
            probes: vec![Probe {
                right,
                case: "case".to_owned(),
                domain: ProbeDomain::Outside,
                refused: held,
                twin: true,
                answer: "said".to_owned(),
            }],
        };
        for (shown, right, held, of) in [
            ("held", Right::NetTcp, true, State::Enforced),
            ("NOT held", Right::NetTcp, false, State::Absent),
            ("enforced", Right::Memory, true, State::Enforced),
            ("watched", Right::Disk, false, State::Watched),
            ("absent", Right::Cpu, false, State::Absent),
        ] {
            let state = state(right, held, of);
            assert_eq!(word(&state), shown);
            let text = table(&[state]);
            assert!(text.contains(shown), "{text}");
            assert_eq!(text.contains("remedy: "), !held, "{text}");
            assert_eq!(text.contains("case: said"), !held, "{text}");
        }
    }
}
