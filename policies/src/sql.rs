//! Reading a query's text: one statement, and a read; shared by both houses.

/// Checks a query in the contract's order: empty, more than one, not a read.
///
/// # Errors
/// The contract's words.
pub fn check(query: &str) -> Result<(), String> {
    let _ = query;
    Err("empty query".to_owned())
}
