//! The safety check: detectors over actions, one file each; no mode, rule or grant lowers them.
