//! worker-agent
