//! Fills the vault for one provider: what was handed over, files, environment; a passphrase is asked
//! for at the terminal if there is one.

use std::io::IsTerminal as _;

use supervisor_providers::{KeyFailure, KeySource, Row, Vault};
use supervisor_record::Places;

use crate::{harden::Keys, output, prompt};

/// Takes a provider's credentials into the vault, and asks nobody for a passphrase.
pub(super) fn find(
    vault: &mut Vault,
    row: &Row,
    places: &Places,
    keys: &Keys,
) -> Result<KeySource, KeyFailure> {
    if let Some(key) = keys.handed(&row.name) {
        vault.put(&row.name, key)?;
    }
    let environment = |name: &str| keys.get(name);
    vault.take(row, Some(places.config()), &environment)
}

/// Takes a provider's credentials into the vault.
pub(super) fn take(
    vault: &mut Vault,
    row: &Row,
    places: &Places,
    keys: &Keys,
) -> Result<KeySource, KeyFailure> {
    let taken = find(vault, row, places, keys);
    let Err(KeyFailure::Sealed { file }) = &taken else {
        return taken;
    };
    if !(std::io::stdin().is_terminal() && output::err_is_terminal()) {
        return taken;
    }
    match prompt::hidden(&format!("Passphrase of {file}: ")) {
        Ok(passphrase) => vault.unlock(passphrase),
        Err(_) => return taken,
    }
    find(vault, row, places, keys)
}
