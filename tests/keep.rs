//! Agents that are kept: archived, brought back, deleted, and found again where they worked.

mod archive;
mod delete;
mod directories;
mod start_matrix;
mod starts;
mod titles;
