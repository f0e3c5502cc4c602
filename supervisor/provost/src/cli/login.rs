//! `provost login`, `provost logout`: a key or a sign-in into `keys/PROVIDER`, and out of it.

use std::{
    io::{IsTerminal as _, Read as _},
    process::ExitCode,
    sync::Arc,
};

use protocol::bounds;
use supervisor_core::Secret;
use supervisor_providers::{Auth, Config, KeyFailure, KeyFile, Row, SignIn, Vault, check_key};
use supervisor_record::Places;

use super::args::{LoginArgs, LogoutArgs};
use crate::{
    exit::{CONFIG, DONE, ENDED, Failure, USAGE},
    harden::Keys,
    output, prompt,
    session::own_places,
};

/// `provost login`
pub(super) fn login(args: &LoginArgs, keys: &Keys) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let row = row(&places, keys, &args.provider)?;
    let passphrase = args.seal.then(|| passphrase(keys)).transpose()?;
    let sealed = passphrase.is_some();
    let file = KeyFile::own(places.config(), &row.name, passphrase.map(Arc::new));
    let content = match row.auth {
        Auth::None => {
            return Err(Failure::new(USAGE, format!("`{}` takes no key", row.name)));
        }
        Auth::Codex => sign_in(&row)?,
        _ => given(&row)?,
    };
    check_key(&row, &content, &file).map_err(|error| bad(&error))?;
    file.write(&content).map_err(|error| bad(&error))?;
    let how = if sealed {
        "mode 0600, sealed"
    } else {
        "mode 0600"
    };
    output::err(&format!("kept in {} ({how})\n", file.path().display()));
    Ok(ExitCode::from(DONE))
}

/// `provost logout`
pub(super) fn logout(args: &LogoutArgs, keys: &Keys) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let row = row(&places, keys, &args.provider)?;
    let file = KeyFile::own(places.config(), &row.name, None);
    let removed = file.remove().map_err(|error| bad(&error))?;
    let path = file.path().display();
    output::err(&match removed {
        true => {
            format!("removed {path}; the key itself still works until its provider revokes it\n")
        }
        false => format!("there is no {path}\n"),
    });
    // What would still be used instead, said so that nobody takes it for gone.
    let environment = |name: &str| keys.get(name);
    let left = Vault::new().take(&row, Some(places.config()), &environment);
    if let Ok(source) = left
        && let Some(words) = source.words()
    {
        output::err(&format!("note: `{}` still finds {words}\n", row.name));
    }
    Ok(ExitCode::from(DONE))
}

fn row(places: &Places, keys: &Keys, provider: &str) -> Result<Row, Failure> {
    let environment = |name: &str| keys.get(name);
    let config = Config::load(Some(places.config()), &environment);
    let config = config.map_err(|error| Failure::new(CONFIG, error.to_string()))?;
    let row = config.row(provider).cloned();
    row.ok_or_else(|| {
        let known: Vec<&str> = config.rows().map(|row| row.name.as_str()).collect();
        Failure::new(USAGE, format!("no provider is named `{provider}`"))
            .help(format!("one of: {}", known.join(", ")))
    })
}

fn bad(error: &KeyFailure) -> Failure {
    Failure::new(CONFIG, error.to_string())
}

/// A key from standard input, or typed without an echo.
fn given(row: &Row) -> Result<Secret, Failure> {
    let name = &row.name;
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::new(CONFIG, format!("cannot read the key: {error}"))
    };
    if std::io::stdin().is_terminal() {
        let typed = prompt::hidden(&format!("Key of {name} (it is not shown): "));
        return typed.map_err(|error| unreadable(&error));
    }
    let mut text = String::new();
    let read = std::io::stdin()
        .lock()
        .take(bounds::KEY_FILE + 1)
        .read_to_string(&mut text);
    let text = Secret::new(text);
    read.map_err(|error| unreadable(&error))?;
    if text.expose().trim().is_empty() {
        return Err(
            Failure::new(USAGE, "standard input holds no key".to_owned()).help(format!(
                "write it there, as in `provost login {name} < FILE`"
            )),
        );
    }
    Ok(text)
}

/// By a code that the person types into a browser.
fn sign_in(row: &Row) -> Result<Secret, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(ENDED, error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    runtime.block_on(async {
        let sign_in = SignIn::begin(row.issuer()).await.map_err(|error| failed(&error))?;
        output::err(&format!(
            "Open {} in a browser, sign in, and type this code: {}\n\
             Type it nowhere else, and only if you have just started this. Waiting, at most 15 minutes…\n",
            sign_in.url, sign_in.code
        ));
        tokio::select! {
            tokens = sign_in.finish() => tokens.map_err(|error| failed(&error)),
            _ = tokio::signal::ctrl_c() => Err(Failure::new(crate::exit::CANCELLED, "cancelled")),
        }
    })
}

/// The passphrase to seal with.
fn passphrase(keys: &Keys) -> Result<Secret, Failure> {
    if let Some(text) = keys
        .get("PROVOST_PASSPHRASE")
        .filter(|text| !text.is_empty())
    {
        return Ok(Secret::new(text));
    }
    let ask = |words: &str| {
        prompt::hidden(words).map_err(|error| {
            Failure::new(CONFIG, format!("cannot ask for a passphrase: {error}"))
                .help("set PROVOST_PASSPHRASE")
        })
    };
    let first = ask("Passphrase to seal it with: ")?;
    if first.expose().chars().count() < 8 {
        return Err(Failure::new(
            USAGE,
            "a passphrase has at least eight characters",
        ));
    }
    if ask("The same again: ")?.expose() != first.expose() {
        return Err(Failure::new(USAGE, "the two passphrases differ"));
    }
    Ok(first)
}
