//! `polylogue -p`: the program as a process with pipes, against scripted servers.

mod agents;
mod ends;
mod formats;
mod pipes;
mod served;

use crate::support::program::{Home, PROGRAM, Program, texts};
