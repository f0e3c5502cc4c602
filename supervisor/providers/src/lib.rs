//! supervisor-providers
