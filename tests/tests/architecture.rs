//! The shape of the workspace: the drawn graph is the real one, and seven promises about every file.

#[cfg(test)]
mod shape {
    use provost_tests::shape::{Crate, SourceFile, Workspace, drawn, rules};

    fn real() -> Workspace {
        Workspace::read().expect("the workspace must be readable as a whole")
    }

    #[track_caller]
    fn holds(objections: Vec<String>) {
        assert!(objections.is_empty(), "\n  {}\n", objections.join("\n  "));
    }

    #[test]
    fn the_crates_depend_on_each_other_exactly_as_drawn() {
        holds(rules::arrows(&real()));
    }

    #[test]
    fn the_pure_crates_name_only_these_outsiders() {
        holds(rules::outsiders(&real()));
    }

    #[test]
    fn unsafe_is_forbidden_everywhere_but_in_the_jail() {
        holds(rules::unsafe_code(&real()));
    }

    #[test]
    fn every_file_says_what_it_is_for() {
        holds(rules::first_lines_and_names(&real()));
    }

    #[test]
    fn every_file_can_be_read_in_one_sitting() {
        holds(rules::lengths(&real()));
    }

    #[test]
    fn the_trusted_base_stays_under_its_ceiling() {
        holds(rules::ceilings(&real()));
    }

    /// A change to the real workspace that one rule must object to, and a word of the objection.
    struct Sabotage {
        what: &'static str,
        rule: fn(&Workspace) -> Vec<String>,
        word: &'static str,
        act: fn(&mut Workspace),
    }

    fn of<'w>(workspace: &'w mut Workspace, name: &str) -> &'w mut Crate {
        workspace
            .crates
            .iter_mut()
            .find(|one| one.name == name)
            .expect("exists")
    }

    fn add(workspace: &mut Workspace, name: &str, path: &str, text: &str) {
        of(workspace, name)
            .files
            .push(SourceFile::new(path.into(), text.into()));
    }

    fn arrow(workspace: &mut Workspace, from: &str, to: &str) {
        of(workspace, from).arrows.insert(to.into());
    }

    fn test_arrow(workspace: &mut Workspace, from: &str, to: &str) {
        of(workspace, from).test_arrows.insert(to.into());
    }

    const SABOTAGE: &[Sabotage] = &[
        Sabotage {
            what: "the worker names the supervisor",
            rule: rules::arrows,
            word: "of the house worker names `supervisor-core` of the house supervisor",
            act: |w| arrow(w, "worker-agent", "supervisor-core"),
        },
        Sabotage {
            what: "a test of the worker names the supervisor",
            rule: rules::arrows,
            word: "of the house worker names",
            act: |w| test_arrow(w, "worker-jail", "supervisor-record"),
        },
        Sabotage {
            what: "the core names a room that does effects",
            rule: rules::arrows,
            word: "names `supervisor-record`, which is not drawn",
            act: |w| arrow(w, "supervisor-core", "supervisor-record"),
        },
        Sabotage {
            what: "a drawn arrow is gone",
            rule: rules::arrows,
            word: "is drawn and not there",
            act: |w| assert!(of(w, "supervisor-core").arrows.remove("policies")),
        },
        Sabotage {
            what: "a crate is not drawn",
            rule: rules::arrows,
            word: "`stray` exists and is not drawn",
            act: |w| {
                w.crates.push(Crate {
                    name: "stray".into(),
                    ..Crate::default()
                })
            },
        },
        Sabotage {
            what: "a dependency is never used",
            rule: rules::arrows,
            word: "depends on `left-over` and never uses it",
            act: |w| assert!(of(w, "protocol").outsiders.insert("left-over".into())),
        },
        Sabotage {
            what: "the core names an async runtime",
            rule: rules::outsiders,
            word: "names `tokio`, which is not listed",
            act: |w| assert!(of(w, "supervisor-core").outsiders.insert("tokio".into())),
        },
        Sabotage {
            what: "the sandbox speaks HTTP",
            rule: rules::outsiders,
            word: "`supervisor-sandbox` names `reqwest`, which is not its to name",
            act: |w| {
                assert!(
                    of(w, "supervisor-sandbox")
                        .outsiders
                        .insert("reqwest".into())
                )
            },
        },
        Sabotage {
            what: "the law reads a file",
            rule: rules::outsiders,
            word: "policies/src/x.rs: `std::fs` in a pure crate",
            act: |w| {
                add(
                    w,
                    "policies",
                    "src/x.rs",
                    "fn a() { std::fs::read(\"x\"); }",
                )
            },
        },
        Sabotage {
            what: "the core reads the clock",
            rule: rules::outsiders,
            word: "`Instant` in a pure crate",
            act: |w| {
                add(
                    w,
                    "supervisor-core",
                    "src/x.rs",
                    "fn a() { Instant::now(); }",
                )
            },
        },
        Sabotage {
            what: "unsafe code in the law",
            rule: rules::unsafe_code,
            word: "policies/src/x.rs: unsafe code",
            act: |w| add(w, "policies", "src/x.rs", "fn a() { unsafe { b() } }"),
        },
        Sabotage {
            what: "unsafe code in another file of the jail",
            rule: rules::unsafe_code,
            word: "worker/jail/src/x.rs: unsafe code",
            act: |w| add(w, "worker-jail", "src/x.rs", "unsafe fn a() {}"),
        },
        Sabotage {
            what: "a manifest without the lints",
            rule: rules::unsafe_code,
            word: "does not inherit the workspace's lints",
            act: |w| of(w, "provost").manifest.clear(),
        },
        Sabotage {
            what: "a file that does not say what it is for",
            rule: rules::first_lines_and_names,
            word: "does not say what it is for",
            act: |w| add(w, "provost", "src/x.rs", "fn a() {}"),
        },
        Sabotage {
            what: "a name that says nothing",
            rule: rules::first_lines_and_names,
            word: "`utils` says nothing",
            act: |w| add(w, "provost", "src/utils/x.rs", "//! This and that.\n"),
        },
        Sabotage {
            what: "a file that is too long",
            rule: rules::lengths,
            word: "501 lines, at most 500",
            act: |w| add(w, "provost", "src/x.rs", &"//! Long.\n".repeat(501)),
        },
        Sabotage {
            what: "a main that does more than wire",
            rule: rules::lengths,
            word: "81 lines, at most 80",
            act: |w| add(w, "worker-agent", "src/main.rs", &"//! Long.\n".repeat(81)),
        },
        Sabotage {
            what: "a trusted base that grows",
            rule: rules::ceilings,
            word: "`supervisor-core` has",
            act: |w| {
                add(
                    w,
                    "supervisor-core",
                    "src/x.rs",
                    &"fn a() {}\n".repeat(50_000),
                )
            },
        },
        Sabotage {
            what: "a trusted base that links too much",
            rule: rules::ceilings,
            word: "crates from outside that it links",
            act: |w| {
                of(w, "policies")
                    .reached
                    .extend((0..100).map(|n| format!("crate-{n}")))
            },
        },
        Sabotage {
            what: "an empty workspace",
            rule: rules::floors,
            word: "only 0 files were scanned",
            act: |w| w.crates.clear(),
        },
        Sabotage {
            what: "crates without files",
            rule: rules::floors,
            word: "files were scanned",
            act: |w| w.crates.iter_mut().for_each(|one| one.files.clear()),
        },
    ];

    #[test]
    fn this_test_can_fail() {
        let real = real();
        holds(rules::floors(&real));
        for sabotage in SABOTAGE {
            let before = (sabotage.rule)(&real);
            let mut workspace = real.clone();
            (sabotage.act)(&mut workspace);
            let objections = (sabotage.rule)(&workspace);
            let told = objections
                .iter()
                .any(|told| told.contains(sabotage.word) && !before.contains(told));
            assert!(
                told,
                "{}: no objection with `{}` in {objections:?}",
                sabotage.what, sabotage.word
            );
        }
        let empty = Workspace::default();
        for rule in [
            rules::arrows,
            rules::outsiders,
            rules::unsafe_code,
            rules::ceilings,
        ] {
            assert!(!rule(&empty).is_empty(), "an empty workspace passes");
        }
        assert_eq!(drawn::house("supervisor/core"), Some("supervisor"));
        assert_eq!(drawn::house("protocol"), None);
    }
}
