//! supervisor-record
