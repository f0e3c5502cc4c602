//! The fuzzing harness itself: every example of every target is taken, each target has one that it
//! accepts, and a planted fault is found, kept and found again.

#[cfg(test)]
mod fuzzing {
    use std::process::Command;

    use provost_tests::{
        fuzz::{TARGETS, Target, examples},
        harness::{must, some},
    };

    /// How a refusal begins, in the words of the targets.
    const REFUSED: [&str; 2] = ["a frame does not decode", "a frame nests"];

    #[test]
    fn every_example_is_survived_and_each_target_accepts_one() {
        for target in TARGETS {
            let mut accepted = 0;
            for (path, bytes) in must(target.name, examples(target.name)) {
                let said = target.feed(&bytes);
                let refused = said
                    .as_deref()
                    .is_none_or(|said| REFUSED.iter().any(|words| said.starts_with(words)));
                let broken = path.to_string_lossy().contains("refused");
                assert_eq!(refused, broken, "{}: {said:?}", path.display());
                accepted += usize::from(!refused);
            }
            assert!(accepted > 0, "{}: no example is accepted", target.name);
        }
    }

    #[test]
    fn a_planted_fault_is_found_and_kept() {
        let folder = must("a folder", tempfile::tempdir());
        let run = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
            let done = command.args(args).arg("--crashes").arg(folder.path());
            let done = must("fuzz", done.output());
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            (done.status.code(), said)
        };
        let (code, said) = run(&["planted", "--seconds", "60"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the planted fault"), "{said}");
        let mut files = must("the folder", std::fs::read_dir(folder.path())).flatten();
        let crash = some("a crash file", files.next()).path();
        assert!(files.next().is_none(), "nothing else is left");
        let crash = crash.display().to_string();
        let (code, said) = run(&["planted", "--replay", &crash]);
        assert_eq!(code, Some(101), "{said}");
        assert!(Target::find("planted").is_some());
    }

    #[test]
    fn a_target_that_does_not_exist_is_a_usage_error() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
        let done = must("fuzz", command.arg("nothing").output());
        assert_eq!(done.status.code(), Some(64));
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(said.contains("there are frame, request"), "{said}");
    }
}
