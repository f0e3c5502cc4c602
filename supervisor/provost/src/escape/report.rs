//! What the suite found, for people and for programs.

use protocol::escape::{Attack, Came, Found, Way};
use serde::Serialize;
use serde_json::{Value, json};
use supervisor_core::{Certificate, escape::escape};

use super::Asked;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Refused, or it met nothing.
    Held,
    /// It got through.
    Escaped,
    /// It said nothing, so nothing is known: counted like an escape.
    Unanswered,
    /// What it needs is not here, or the certificate says that this right is not held: not counted.
    Absent,
}

/// One attempt.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Attempt {
    pub(super) name: String,
    /// What it stands for.
    pub(super) rows: Vec<String>,
    pub(super) tries: String,
    /// `static`, `script`, `apply`, `agent`, `command`, `outside`.
    pub(super) way: String,
    /// Whether the layer is ours.
    pub(super) ours: bool,
    pub(super) verdict: Verdict,
    /// The kernel's answer, or what was seen.
    pub(super) answer: String,
}

impl Attempt {
    /// An attempt of an attack that has not answered.
    pub(super) fn of(attack: &Attack, way: &str) -> Self {
        Self {
            name: attack.name.clone(),
            rows: attack.rows.clone(),
            tries: attack.tries.clone(),
            way: way.to_owned(),
            ours: attack.ours,
            verdict: Verdict::Unanswered,
            answer: "no answer".to_owned(),
        }
    }
}

/// Reads what the session said into one attempt an attack; plants are looked at elsewhere, unless they
/// could not be made.
pub(super) fn judge(attacks: &[Attack], said: &str, marker: &str) -> Vec<Attempt> {
    let found: Vec<Found> = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut attempts = Vec::new();
    for attack in attacks {
        let (way, told) = match &attack.way {
            Way::Probe => {
                let told = found.iter().find(|found| found.name == attack.name);
                let told =
                    told.map(|found| (verdict(found.came, &found.answer), found.answer.clone()));
                ("static", told)
            }
            Way::Script { .. } => ("script", script(part(said, &attack.name), marker)),
            Way::Plant { .. } => continue,
        };
        let mut attempt = Attempt::of(attack, way);
        if let Some((verdict, answer)) = told {
            (attempt.verdict, attempt.answer) = (verdict, answer);
        }
        attempts.push(attempt);
    }
    attempts
}

/// Attacks that only see processes of their own session: an engine's proc has no `hidepid`, so there
/// these see each other, and no more. The certificate says it of `proc.see`.
const SEEN: [&str; 2] = ["see-hands", "list-processes"];

/// Does not count what is only seen of a session's own within a container.
pub(super) fn excuse(attempts: &mut [Attempt]) {
    for attempt in attempts {
        if attempt.verdict == Verdict::Escaped && SEEN.contains(&attempt.name.as_str()) {
            attempt.verdict = Verdict::Absent;
            attempt.answer = "seen: a session's own processes, in one container".to_owned();
        }
    }
}

fn verdict(came: Came, answer: &str) -> Verdict {
    match came {
        Came::Escaped => Verdict::Escaped,
        Came::Absent => Verdict::Absent,
        Came::Refused if answer.starts_with("absent:") => Verdict::Absent,
        Came::Refused => Verdict::Held,
    }
}

/// What a script printed, between the two lines that name it.
fn part<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let begin = format!("@@ {name}\n");
    let (_, rest) = said.split_once(&begin)?;
    let end = rest.find("@@ end ")?;
    let line = rest.get(end..)?.find('\n').unwrap_or(rest.len() - end);
    rest.get(..end + line)
}

/// What a script came to: its last word, unless the secret stands in what it printed.
fn script(printed: Option<&str>, marker: &str) -> Option<(Verdict, String)> {
    let printed = printed?;
    if printed.contains(marker) {
        return Some((Verdict::Escaped, "it told the secret".to_owned()));
    }
    let words = [
        ("ESCAPED: ", Verdict::Escaped),
        ("refused: ", Verdict::Held),
        ("absent: ", Verdict::Absent),
    ];
    let mut told = None;
    for line in printed.lines() {
        for (word, verdict) in words {
            if let Some(answer) = line.strip_prefix(word) {
                told = Some((verdict, answer.to_owned()));
            }
        }
    }
    // 128 and SIGSYS: the filter ended it.
    if told.is_none() && printed.contains("@@ end 159") {
        told = Some((Verdict::Held, "SIGSYS".to_owned()));
    }
    told.or_else(|| {
        let last = printed.lines().rev().find(|line| !line.trim().is_empty());
        Some((
            Verdict::Unanswered,
            last.unwrap_or_default().chars().take(200).collect(),
        ))
    })
}

/// The whole.
#[derive(Debug)]
pub(super) struct Report {
    backend: String,
    certificate: Certificate,
    attempts: Vec<Attempt>,
}

impl Report {
    pub(super) fn new(
        asked: &Asked<'_>,
        certificate: &Certificate,
        attempts: Vec<Attempt>,
    ) -> Self {
        Self {
            backend: asked.backend.to_owned(),
            certificate: certificate.clone(),
            attempts,
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.verdict == verdict)
            .count()
    }

    /// Whether everything that was tried was held, and something was.
    pub(super) fn is_held(&self) -> bool {
        self.count(Verdict::Held) > 0
            && self.count(Verdict::Escaped) == 0
            && self.count(Verdict::Unanswered) == 0
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let certificate = &self.certificate;
        json!({
            "v": 1,
            "suite": "escape",
            "backend": self.backend,
            "situation": certificate.situation,
            "held": self.is_held(),
            "totals": {
                "attempts": self.attempts.len() - self.count(Verdict::Absent),
                "held": self.count(Verdict::Held),
                "escaped": self.count(Verdict::Escaped),
                "unanswered": self.count(Verdict::Unanswered),
                "absent": self.count(Verdict::Absent),
            },
            "host": {
                "kernel": certificate.kernel,
                "arch": std::env::consts::ARCH,
                "landlock_abi": certificate.abi,
                "uid": nix::unistd::geteuid().as_raw(),
                "uid_inside": certificate.uid,
                "worker": certificate.worker,
            },
            "certificate": certificate.line(),
            "attempts": self.attempts,
        })
    }

    /// For people: what did not hold, and the sums.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for attempt in &self.attempts {
            let word = match attempt.verdict {
                Verdict::Held | Verdict::Absent => continue,
                Verdict::Escaped => "ESCAPED",
                Verdict::Unanswered => "UNKNOWN",
            };
            let (tries, answer) = (&attempt.tries, escape(&attempt.answer, false));
            let rows = attempt.rows.join(", ");
            text.push_str(&format!(
                "{word} {:<32} {tries} [{rows}]: {answer}\n",
                attempt.name
            ));
        }
        let absent: Vec<&str> = self
            .attempts
            .iter()
            .filter(|attempt| attempt.verdict == Verdict::Absent)
            .map(|attempt| attempt.name.as_str())
            .collect();
        if !absent.is_empty() {
            text.push_str(&format!(
                "not tried here ({}): {}\n",
                absent.len(),
                absent.join(", ")
            ));
        }
        text.push_str(&format!(
            "{} {}: {} attempts, {} held, {} escaped, {} unknown\n{}\n",
            self.backend,
            self.certificate.situation,
            self.attempts.len() - absent.len(),
            self.count(Verdict::Held),
            self.count(Verdict::Escaped),
            self.count(Verdict::Unanswered),
            self.certificate.line(),
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_judged_by_its_last_word_and_by_the_secret() {
        let said = "@@ one\nnoise\nrefused: EACCES\n@@ end 0\n@@ two\nmarker-1\nrefused: x\n@@ end 0\n\
                    @@ three\n@@ end 159\n@@ four\nboom\n@@ end 1\n";
        let of = |name| script(part(said, name), "marker-1");
        assert_eq!(of("one"), Some((Verdict::Held, "EACCES".to_owned())));
        assert_eq!(of("two").map(|told| told.0), Some(Verdict::Escaped));
        assert_eq!(of("three"), Some((Verdict::Held, "SIGSYS".to_owned())));
        assert_eq!(of("four").map(|told| told.0), Some(Verdict::Unanswered));
        assert_eq!(of("five"), None);
    }
}
