//! Tells an answer that announces a next step from one that is finished.

/// Words that say the work is over, or hand it back. Matched as whole words.
const FINISH: &[&str] = &[
    "done",
    "finished",
    "complete",
    "all set",
    "that's all",
    "there you go",
    "let me know",
    "feel free",
    "hope that",
    "hope this",
    "happy to",
    "if you need",
    "if you want",
    "summary",
    "terminé",
    "c'est tout",
    "n'hésitez pas",
    "terminado",
    "eso es todo",
    "fertig",
    "das war alles",
    "完成了",
    "已完成",
    "完了しました",
];

/// Words that announce a step of one's own. Matched as whole words.
const FORWARD: &[&str] = &[
    "let me continue",
    "i'll continue",
    "i will continue",
    "next i'll",
    "next i will",
    "next, i'll",
    "next, i will",
    "next step is",
    "moving on",
    "continuing with",
    "proceeding to",
    "i'll now",
    "i will now",
    "now i'll",
    "now i will",
    "je vais continuer",
    "je continue",
    "passons à",
    "ensuite je",
    "prochaine étape",
    "je vais maintenant",
    "voy a continuar",
    "continuando con",
    "siguiente paso",
    "ahora voy a",
    "procedo a",
    "ich fahre fort",
    "weiter mit",
    "als nächstes",
    "ich werde nun",
    "接下来我",
    "下一步我",
    "我将继续",
    "我会继续",
    "现在我将",
    "次に進み",
    "続けます",
    "引き続き",
];

/// Whether the text announces a step after the last word that would finish it, and asks nothing.
///
/// Both may occur ("Step one is done. I'll now run the tests."): what comes last counts. A question
/// at the end is for the person, not a step.
#[must_use]
pub fn announces_next_step(text: &str) -> bool {
    let text = text.to_lowercase().replace('\u{2019}', "'");
    if text.trim_end().ends_with(['?', '？']) {
        return false;
    }
    match (last_of(&text, FORWARD), last_of(&text, FINISH)) {
        (Some(forward), Some(finish)) => forward > finish,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// Where the last of the phrases begins.
fn last_of(text: &str, phrases: &[&str]) -> Option<usize> {
    phrases
        .iter()
        .filter_map(|phrase| last_whole(text, phrase))
        .max()
}

/// Where a phrase last begins as whole words: "abandoned" holds no "done", "completed" no "complete".
fn last_whole(text: &str, phrase: &str) -> Option<usize> {
    // Scripts without blanks between words have no word edges to check.
    let edged =
        phrase.is_ascii() || phrase.chars().any(|c| c == ' ') || phrase.starts_with("termin");
    text.rmatch_indices(phrase).map(|(at, _)| at).find(|at| {
        let before = text.get(..*at).and_then(|head| head.chars().next_back());
        let after = text
            .get(at + phrase.len()..)
            .and_then(|tail| tail.chars().next());
        let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !edged || !(inside(before) || inside(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_and_ends_are_told_apart() {
        let nudged = [
            "Let me continue with the remaining files.",
            "I'll continue from where I left off.",
            "Next I will run the tests.",
            "Moving on to the second module.",
            "Proceeding to the final check.",
            "I'll now apply the patch.",
            "I’ll now apply the patch.",
            "I abandoned the first idea. Let me continue with the second.",
            "I completed step 1. I'll now run the tests.",
            "Step one is done. I'll now run the tests.",
            "Je vais maintenant lancer les tests.",
            "Ahora voy a ejecutar las pruebas.",
            "Ich werde nun die Tests starten.",
            "Als nächstes kommen die Tests.",
            "接下来我运行测试。",
        ];
        for text in nudged {
            assert!(announces_next_step(text), "{text}");
        }
        let left = [
            "All done.",
            "The work is complete.",
            "Let me know if you need anything.",
            "Here is a summary of the changes.",
            "I will look into it.",
            "Next, you should run the tests.",
            "Time to wrap up.",
            "I abandoned the attempt.",
            "I'll now stop: everything is done.",
            "Shall I go on? I'll now wait. Is that fine?",
            "All tests pass. Feel free to ask if you want me to go on moving on to the docs?",
            "",
        ];
        for text in left {
            assert!(!announces_next_step(text), "{text}");
        }
    }
}
