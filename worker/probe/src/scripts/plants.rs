//! What a session plants for a later program outside: each path is made, and a bulk apply must leave it.

use protocol::escape::{Attack, Way};

/// Name, rows, path, and the script that makes it.
const PLANTS: &[(&str, &[&str], &str, &str)] = &[
    (
        "plant.git-hook",
        &["ES-002", "bypass 2"],
        ".git/hooks/pre-commit",
        "mkdir -p .git/hooks; printf '#!/bin/sh\\nid\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    ),
    (
        "plant.nested-git-hook",
        &["ES-003", "bypass 2"],
        "vendor/sub/.git/hooks/pre-commit",
        "mkdir -p vendor/sub/.git/hooks; echo x > vendor/sub/.git/hooks/pre-commit",
    ),
    (
        "plant.module-git-hook",
        &["ES-003", "bypass 2"],
        ".git/modules/m/hooks/post-checkout",
        "mkdir -p .git/modules/m/hooks; echo x > .git/modules/m/hooks/post-checkout",
    ),
    (
        "plant.hooks-folder",
        &["ES-005", "bypass 2"],
        ".githooks/pre-push",
        "mkdir .githooks; echo x > .githooks/pre-push",
    ),
    (
        "plant.husky",
        &["ES-005", "ES-006"],
        ".husky/pre-commit",
        "mkdir .husky; echo x > .husky/pre-commit",
    ),
    (
        "plant.git-config",
        &["ES-005", "ES-044"],
        ".git/config",
        "mkdir -p .git; printf '[core]\\n\\tfsmonitor = ./x.sh\\n' >> .git/config",
    ),
    (
        "plant.git-worktree-config",
        &["ES-044"],
        ".git/config.worktree",
        "mkdir -p .git; printf '[core]\\n\\thooksPath = h\\n' > .git/config.worktree",
    ),
    (
        "plant.git-alternates",
        &["ES-044"],
        ".git/objects/info/alternates",
        "mkdir -p .git/objects/info; echo / > .git/objects/info/alternates",
    ),
    (
        "plant.git-attributes",
        &["ES-044"],
        ".git/info/attributes",
        "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes",
    ),
    (
        "plant.git-in-other-letters",
        &["ES-002", "bypass 2"],
        ".GIT/hooks/pre-commit",
        "mkdir -p .GIT/hooks; echo x > .GIT/hooks/pre-commit",
    ),
    (
        "plant.git-file",
        &["ES-003"],
        "lib/.git",
        "mkdir lib; echo 'gitdir: /tmp/x' > lib/.git",
    ),
    (
        "plant.bare-repository",
        &["ES-003"],
        "data/HEAD",
        "mkdir -p data/objects data/refs data/hooks; echo 'ref: refs/heads/main' > data/HEAD",
    ),
    (
        "plant.submodules",
        &["ES-003"],
        ".gitmodules",
        "printf '[submodule \"x\"]\\n\\turl = ext::sh -c id\\n' > .gitmodules",
    ),
    (
        "plant.other-hooks",
        &["ES-006"],
        ".github/hooks/start.json",
        "mkdir -p .github/hooks; echo '{}' > .github/hooks/start.json",
    ),
    (
        "plant.workflow",
        &["ES-006", "bypass 2"],
        ".github/workflows/x.yml",
        "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml",
    ),
    (
        "plant.pipeline",
        &["ES-006", "bypass 2"],
        ".gitlab-ci.yml",
        "echo 'x: {script: [id]}' > .gitlab-ci.yml",
    ),
    (
        "plant.editor-settings",
        &["ES-035"],
        ".vscode/settings.json",
        "mkdir .vscode; echo '{\"chat.tools.autoApprove\": true}' > .vscode/settings.json",
    ),
    (
        "plant.editor-tasks",
        &["ES-006"],
        "sub/.vscode/tasks.json",
        "mkdir -p sub/.vscode; echo '{}' > sub/.vscode/tasks.json",
    ),
    (
        "plant.agent-settings",
        &["ES-013", "bypass 2"],
        ".claude/settings.json",
        "mkdir .claude; echo '{\"hooks\":{}}' > .claude/settings.json",
    ),
    (
        "plant.agent-servers",
        &["ES-013", "ES-037"],
        ".mcp.json",
        "echo '{\"mcpServers\":{}}' > .mcp.json",
    ),
    (
        "plant.agent-instructions",
        &["ES-013"],
        "CLAUDE.md",
        "echo obey > CLAUDE.md",
    ),
    (
        "plant.own-policy",
        &["ES-045"],
        ".provost.toml",
        "echo 'version = 1' > .provost.toml",
    ),
    (
        "plant.shell-start",
        &["ES-006"],
        ".bashrc",
        "echo id > .bashrc",
    ),
    (
        "plant.folder-environment",
        &["ES-006"],
        ".envrc",
        "echo id > .envrc",
    ),
    ("plant.pipe", &["RS-018"], "pipe", "mkfifo pipe"),
    (
        "plant.socket",
        &["RS-018"],
        "socket.s",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => \"socket.s\", Listen => 1) or die' || exit 3",
    ),
];

pub(super) fn all() -> impl Iterator<Item = Attack> {
    PLANTS.iter().map(|(name, rows, path, text)| Attack {
        name: (*name).to_owned(),
        rows: rows.iter().map(|&row| row.to_owned()).collect(),
        tries: format!("leave `{path}` in the workspace for a later program"),
        // Bare there is no copy to hold it back.
        ours: true,
        way: Way::Plant {
            path: (*path).to_owned(),
            text: format!("set -e\n{text}\n"),
        },
    })
}
