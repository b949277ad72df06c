//! What models may do: pure verdicts, without access to files or processes.

pub mod paths;
