//! The tour that `make demo` plays: the real program in a real terminal, and a person who types. First a new user's first
//! minutes, then echo agents, then ten agents of three projects, whose model server is scripted, and three changes in
//! worktrees.
//! With `--pictures DIR` the screens that the README shows are drawn as well; `--only NAME` plays one part.

#[path = "../support/mod.rs"]
mod support;

mod first_minutes;
mod first_steps;
mod picture;
mod provider;
mod ten_agents;
mod three_branches;
mod tour;

use std::path::{Path, PathBuf};

use provider::Provider;
use ten_agents::Projects;
use tour::{Place, Tour};

const SIZE: (u16, u16) = (92, 26);

fn main() {
    support::flood::serve_if_asked();
    support::pty::become_the_program_if_asked();
    let option = |name: &str| std::env::args().skip_while(|word| word != name).nth(1);
    let pictures = option("--pictures").map(|path| std::path::absolute(path).expect("a path"));
    let only = option("--only");
    let app = tempfile::Builder::new().prefix("tour").rand_bytes(0).tempdir().expect("no other tour is played");
    for (name, play) in [
        ("first-minutes", first_minutes as fn(&Path, Option<PathBuf>)),
        ("first-steps", first_steps),
        ("ten-agents", ten_agents),
        ("three-branches", three_branches),
    ] {
        if only.as_deref().is_none_or(|only| only == name) {
            let home = app.path().join(name);
            std::fs::create_dir(&home).expect("a directory");
            play(&home, pictures.clone());
        }
    }
}

fn first_minutes(home: &Path, pictures: Option<PathBuf>) {
    let variables = vec![("POLYLOGUE_MODEL".to_owned(), String::new())];
    let place = Place { home: home.into(), variables, size: SIZE };
    first_minutes::play(&mut Tour::new(place, home, &[], pictures));
}

fn first_steps(home: &Path, pictures: Option<PathBuf>) {
    let variables = vec![("POLYLOGUE_MODEL".to_owned(), "echo".to_owned())];
    let place = Place { home: home.into(), variables, size: SIZE };
    first_steps::play(&mut Tour::new(place.clone(), home, &[], pictures), &place);
}

fn three_branches(home: &Path, pictures: Option<PathBuf>) {
    let place = Place { home: home.into(), variables: Vec::new(), size: SIZE };
    three_branches::play(&place, &three_branches::repository(home), pictures);
}

fn ten_agents(home: &Path, pictures: Option<PathBuf>) {
    let provider = Provider::start();
    let variables = [
        ("OPENAI_BASE_URL", provider.url.as_str()),
        ("POLYLOGUE_MODEL", "openai/gpt-5"),
        ("POLYLOGUE_APPROVAL", "ask"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let place = Place { home: home.into(), variables, size: SIZE };
    let projects = Projects::create(&place);
    ten_agents::play(&mut Tour::new(place, &projects.shop, &[], pictures), &projects);
}
