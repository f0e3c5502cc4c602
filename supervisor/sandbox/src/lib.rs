//! supervisor-sandbox
