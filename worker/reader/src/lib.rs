//! worker-reader
