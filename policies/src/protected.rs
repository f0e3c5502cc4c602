//! Names in a workspace that other programs run or obey by themselves: `apply` takes each of them
//! only by its digest, and a tool that would write one asks first.

use crate::glob::{self, Pattern};

/// Folders (with all that is below) and files, at any depth, and why each is protected.
const NAMES: &[(&str, &str)] = &[
    (".gitmodules", "git follows it to other repositories"),
    (".gitattributes", "git runs the filters that it names"),
    (".github", "CI settings"),
    (".gitlab-ci.yml", "CI settings"),
    (".gitlab", "CI settings"),
    (".circleci", "CI settings"),
    (".travis.yml", "CI settings"),
    (".drone.yml", "CI settings"),
    (".woodpecker.yml", "CI settings"),
    (".woodpecker", "CI settings"),
    (".forgejo", "CI settings"),
    (".gitea", "CI settings"),
    (".buildkite", "CI settings"),
    (".cirrus.yml", "CI settings"),
    (".appveyor.yml", "CI settings"),
    ("appveyor.yml", "CI settings"),
    ("azure-pipelines.yml", "CI settings"),
    ("bitbucket-pipelines.yml", "CI settings"),
    ("jenkinsfile", "CI settings"),
    (".ci", "CI settings"),
    (".pre-commit-config.yaml", "git hooks"),
    (".husky", "git hooks"),
    (".githooks", "git hooks"),
    ("lefthook.yml", "git hooks"),
    ("lefthook.yaml", "git hooks"),
    (".lefthook.yml", "git hooks"),
    (".vscode", "editor settings"),
    (".idea", "editor settings"),
    (".fleet", "editor settings"),
    (".zed", "editor settings"),
    (".vs", "editor settings"),
    (".nvim.lua", "editor settings"),
    (".nvimrc", "editor settings"),
    (".exrc", "editor settings"),
    (".vimrc", "editor settings"),
    (".dir-locals.el", "editor settings"),
    (".dir-locals-2.el", "editor settings"),
    (".devcontainer", "editor settings"),
    (".devcontainer.json", "editor settings"),
    (".claude", "agent settings"),
    (".claude.json", "agent settings"),
    (".mcp.json", "agent settings"),
    (".codex", "agent settings"),
    (".cursor", "agent settings"),
    (".cursorrules", "agent settings"),
    (".gemini", "agent settings"),
    (".kiro", "agent settings"),
    (".opencode", "agent settings"),
    ("opencode.json", "agent settings"),
    (".aider.conf.yml", "agent settings"),
    (".continue", "agent settings"),
    (".clinerules", "agent settings"),
    (".roo", "agent settings"),
    (".roomodes", "agent settings"),
    (".windsurf", "agent settings"),
    (".windsurfrules", "agent settings"),
    (".goosehints", "agent settings"),
    (".qwen", "agent settings"),
    (".agents", "agent settings"),
    (".provost.toml", "the rules of this workspace"),
    (".provost", "the rules of this workspace"),
    ("agents.md", "agent instructions"),
    ("agent.md", "agent instructions"),
    ("agents.override.md", "agent instructions"),
    ("claude.md", "agent instructions"),
    ("claude.local.md", "agent instructions"),
    ("gemini.md", "agent instructions"),
    ("qwen.md", "agent instructions"),
    ("copilot-instructions.md", "agent instructions"),
    (".bashrc", "shell start-up"),
    (".bash_profile", "shell start-up"),
    (".bash_login", "shell start-up"),
    (".bash_logout", "shell start-up"),
    (".bash_aliases", "shell start-up"),
    (".profile", "shell start-up"),
    (".zshrc", "shell start-up"),
    (".zshenv", "shell start-up"),
    (".zprofile", "shell start-up"),
    (".zlogin", "shell start-up"),
    (".zlogout", "shell start-up"),
    (".kshrc", "shell start-up"),
    (".cshrc", "shell start-up"),
    (".tcshrc", "shell start-up"),
    (".login", "shell start-up"),
    (".inputrc", "shell start-up"),
    ("config.fish", "shell start-up"),
    (".envrc", "direnv runs it"),
    (".gitconfig", "git runs what it names"),
    (".mise.toml", "mise runs what it names"),
    ("mise.toml", "mise runs what it names"),
    (".tool-versions", "it decides which programs run"),
    ("rust-toolchain", "it decides which compiler runs"),
    ("rust-toolchain.toml", "it decides which compiler runs"),
    (".yarnrc.yml", "yarn runs what it names"),
    (".yarn", "yarn runs what lies in it"),
    (".pnpmfile.cjs", "pnpm runs it"),
    (".npmrc", "npm obeys it"),
    (".pypirc", "it decides where uploads go"),
    (".gdbinit", "the debugger runs it"),
    (".lldbinit", "the debugger runs it"),
    (".ssh", "ssh obeys it"),
    ("sitecustomize.py", "python runs it at its start"),
    ("usercustomize.py", "python runs it at its start"),
    (".tmux.conf", "tmux runs it"),
];

/// Files that are protected in a folder of one name only: folder, file, why.
const IN_FOLDER: &[(&str, &str, &str)] = &[
    (".cargo", "config.toml", "cargo runs what it names"),
    (".cargo", "config", "cargo runs what it names"),
];

/// What of a git folder is data that git itself checks.
const GIT_DATA: &[&str] = &[
    "objects",
    "refs",
    "packed-refs",
    "head",
    "index",
    "index.lock",
    "logs",
];

/// Why the path is protected, `None` if it is not. `extra` are the policy's own patterns.
///
/// `path` is relative to the workspace root. Case does not count, because a name that differs in
/// case only is the same file on the machine where the change may land. A `.git` that is a file or a
/// link, and a folder that becomes a repository by its content, is seen by whoever sees the tree.
#[must_use]
pub fn protected(path: &str, extra: &[String]) -> Option<String> {
    let parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(fold)
        .collect();
    if let Some(reason) = below_git(&parts) {
        return Some(reason.to_owned());
    }
    for part in &parts {
        if let Some((name, reason)) = NAMES.iter().find(|(name, _)| name == part) {
            return Some(format!("{reason} ({name})"));
        }
        if part.len() > 4 && part.ends_with(".pth") {
            return Some("python runs its lines at its start (*.pth)".to_owned());
        }
    }
    if let Some(reason) = in_folder(&parts, |part, name| part == name) {
        return Some(reason);
    }
    extra
        .iter()
        .find(|text| Pattern::parse(text).is_ok_and(|pattern| pattern.covers(path, true)))
        .map(|text| format!("protected by the policy ({text})"))
}

/// Why a path could be protected that is spelled with globs, as `.git*/x` and `.bash?c`. A glob counts
/// from two characters on that it begins with: `*.md` is about Markdown.
pub(crate) fn could_be_protected(path: &str, extra: &[String]) -> Option<String> {
    protected(path, extra)
        .or_else(|| {
            path.split('/').find_map(|part| {
                let open = part.find(['*', '?', '['])?;
                let (name, reason) = NAMES
                    .iter()
                    .chain(&[(".git", "a repository's own folder")])
                    .find(|(name, _)| open >= 2 && glob::component(&fold(part), name, false))?;
                Some(format!("{reason} ({name})"))
            })
        })
        .or_else(|| {
            let parts: Vec<String> = path
                .split('/')
                .filter(|part| !part.is_empty())
                .map(fold)
                .collect();
            in_folder(&parts, |part, name| {
                part == name
                    || part.find(['*', '?', '[']).is_some_and(|open| open >= 2)
                        && glob::component(part, name, false)
            })
        })
}

/// Why a file of a folder is protected; `same` compares a part of the path with a name.
fn in_folder(parts: &[String], same: impl Fn(&str, &str) -> bool) -> Option<String> {
    parts.windows(2).find_map(|pair| {
        let [folder, file] = pair else { return None };
        let (within, name, reason) = IN_FOLDER
            .iter()
            .find(|(within, name, _)| same(folder, within) && same(file, name))?;
        Some(format!("{reason} ({within}/{name})"))
    })
}

/// Names compare without case, and without the blanks and dots at the end that some file systems drop.
fn fold(part: &str) -> String {
    let lower: String = part
        .chars()
        // Characters that HFS+ ignores in names, with which `.git` can be written in disguise.
        .filter(|c| !matches!(*c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        // By way of upper case `ſ` becomes `s` and a ligature its letters, as in a case folding.
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    let trimmed = lower.trim_end_matches([' ', '.']);
    // `git~1` is the short name of `.git` on file systems that have such names.
    if trimmed == "git~1" {
        ".git".to_owned()
    } else {
        trimmed.to_owned()
    }
}

fn below_git(parts: &[String]) -> Option<&'static str> {
    let at = parts.iter().position(|part| part == ".git")?;
    let inside = parts.get(at + 1..).unwrap_or(&[]);
    let Some(first) = inside.first() else {
        return Some("a repository's own folder (.git)");
    };
    // Alternates make git read objects from any other place.
    if inside
        .iter()
        .map(String::as_str)
        .eq(["objects", "info", "alternates"])
        || inside
            .iter()
            .map(String::as_str)
            .eq(["objects", "info", "http-alternates"])
    {
        return Some("git reads other object stores that it names (alternates)");
    }
    // A nested repository inside the data folders is judged by its own `.git`.
    if let Some(reason) = below_git(inside) {
        return Some(reason);
    }
    if GIT_DATA.contains(&first.as_str()) {
        return None;
    }
    Some("git runs or obeys it (.git)")
}

#[cfg(test)]
mod tests {
    use super::protected;

    #[test]
    fn what_runs_by_itself_is_protected_at_any_depth_and_in_any_case() {
        let protected_ones = [
            ".git/hooks/pre-commit",
            ".GIT/Hooks/pre-commit",
            "vendor/sub/.git/config",
            ".git",
            ".git/info/attributes",
            ".git/objects/info/alternates",
            ".git/config.worktree",
            ".git/modules/x/hooks/post-checkout",
            ".gitmodules",
            ".github/workflows/ci.yml",
            "a/.vscode/settings.json",
            "CLAUDE.md",
            "docs/AGENTS.md",
            ".envrc",
            ".bashrc",
            "git~1/config",
            ".git./config",
            ".provost.toml",
            ".cargo/config.toml",
            "sub/.Cargo/config",
            "mise.toml",
            "web/.npmrc",
            ".yarn/releases/yarn.cjs",
            "rust-toolchain.toml",
            "lib/python3/site-packages/x.pth",
            "sitecustomize.py",
            ".ssh/config",
            ".hu\u{17f}ky/pre-commit",
            ".ba\u{17f}hrc",
            ".lldbinit",
            ".\u{212a}iro/x",
            ".gitcon\u{fb01}g",
        ];
        for path in protected_ones {
            assert!(protected(path, &[]).is_some(), "{path}");
        }
    }

    #[test]
    fn ordinary_files_and_a_commits_own_data_are_not() {
        let free = [
            "src/main.rs",
            ".git/objects/ab/cdef",
            ".git/refs/heads/main",
            ".git/HEAD",
            ".git/index",
            ".git/logs/HEAD",
            ".git/packed-refs",
            ".gitignore",
            "git/config",
            "README.md",
            "config.toml",
            ".cargo/audit.toml",
            "yarn.lock",
            "",
        ];
        for path in free {
            assert_eq!(protected(path, &[]), None, "{path}");
        }
    }

    #[test]
    fn the_policys_own_names_count_too() {
        let extra = vec!["migrations/**".to_owned()];
        assert!(protected("migrations/1.sql", &extra).is_some());
        assert_eq!(protected("src/1.sql", &extra), None);
    }
}
