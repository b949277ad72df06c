//! `polylogue -p` as scripts meet it: the real program with real pipes, against scripted servers.

mod agents;
mod ends;
mod formats;
mod pipes;
mod served;

use crate::support::program::{Home, PROGRAM, Program, texts};
