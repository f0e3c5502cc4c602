//! worker-tools
