//! Ten agents of three projects: the inbox, the wall, a comparison, the timeline, and the search.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tour::{Place, Tour};

const CART: &str = "pub fn total(cart: &Cart) -> u32 {\n    cart.lines.iter().map(|line| line.price).sum()\n}\n";

/// The directories of the projects.
pub struct Projects {
    pub shop: PathBuf,
    infra: PathBuf,
    site: PathBuf,
}

impl Projects {
    pub fn create(place: &Place) -> Self {
        let [shop, infra, site] = ["shop", "infra", "site"].map(|name| place.home.join(name));
        let write = |file: &Path, text: &str| {
            fs::create_dir_all(file.parent().expect("a directory"))
                .and_then(|()| fs::write(file, text))
                .expect("a file");
        };
        write(&shop.join("src/cart.rs"), CART);
        write(&shop.join("test.sh"), "for name in adds counts pays; do echo \"test cart::$name ok\"; done\n");
        write(&infra.join("runner.toml"), "linker = \"ld\"\n");
        write(&site.join("README.md"), "# Shop\n");
        Self { shop, infra, site }
    }
}

pub fn play(tour: &mut Tour, projects: &Projects) {
    set_ten_to_work(tour, projects);
    handle_all_in_the_inbox(tour);
    write_to_several_on_the_wall(tour);
    compare_three_models(tour);
    fork_from_an_earlier_message(tour);
    take_files_back(tour);
    find_what_a_killed_agent_said(tour);
    tour.line("/exit");
    tour.see_it_end();
}

fn new(tour: &mut Tour, name: &str, prompt: &str) {
    tour.line(&format!("/new --name {name} {prompt}"));
}

/// Four agents of the shop here, and three each of two other projects, from a second terminal.
fn set_ten_to_work(tour: &mut Tour, projects: &Projects) {
    tour.until("> ");
    tour.line("/name plan");
    tour.line("what is left before the release?");
    tour.until("does not mention the cart");
    new(tour, "api", "make the total use the count");
    new(tour, "test", "run the tests");
    new(tour, "web", "describe the checkout page");
    tour.keys("\x1b0");
    let here = tour.open(&projects.infra, &["publish the new version"]);
    tour.until("publish the new version");
    tour.line("/name deploy");
    new(tour, "ci", "--model openai/gpt-5-codex why is main red?");
    new(tour, "db", "--model openai/gpt-5 which queries are slow?");
    tour.line("/detach");
    tour.see_it_end();
    tour.open(&projects.site, &["describe the cart in the README"]);
    tour.until("describe the cart");
    tour.line("/name docs");
    new(tour, "blog", "draft the release notes");
    new(tour, "seo", "check the sitemap");
    tour.until("shop.example/cart");
    tour.line("and the pages that it links to?");
    tour.line("/detach");
    tour.see_it_end();
    tour.return_to(here);
    tour.look();
}

/// Three ask, one has failed, two have finished; nobody is visited.
fn handle_all_in_the_inbox(tour: &mut Tour) {
    tour.keys("\x1ba");
    tour.until("3 ask ─ 1 failed ─ 2 finished");
    question(tour, "src/cart.rs");
    tour.look();
    tour.picture("inbox");
    tour.keys("y");
    question(tour, "sh test.sh");
    tour.press("y");
    question(tour, "git push");
    tour.press("r");
    tour.line("rebase first and push without force");
    marked(tour, " ci: ");
    tour.press("i");
    tour.line("/model openai/gpt-5");
    tour.keys("i");
    tour.line("why is main red?");
    while !tour.sees("no agent needs you") {
        tour.press("x");
    }
    tour.look();
    tour.escape();
}

/// Waits until a question about this can be answered.
fn question(tour: &mut Tour, about: &str) {
    tour.until_seen(about, |screen| screen.contains("to refuse it") && below_list(screen).contains(about));
}

fn below_list(screen: &str) -> &str {
    screen.rsplit_once("───\n").map_or("", |(_, below)| below)
}

/// Waits until the marked row has this text.
fn marked(tour: &mut Tour, text: &str) {
    let is_it = |row: &str| row.starts_with('>') && row.contains(text);
    tour.until_seen(text, |screen| screen.lines().any(is_it));
}

fn write_to_several_on_the_wall(tour: &mut Tour) {
    tour.press("\x1bw");
    tour.until("10 agents");
    for number in ["0", "2", "4", "7", "8"] {
        tour.keys(number);
        tour.keys(" ");
    }
    tour.press("*");
    tour.line("name one risk of this release");
    tour.look();
    tour.picture("wall");
    tour.until("10 agents ─ 3 at work");
    tour.escape();
    for key in ["3", "s", "6", "s", "9", "X", "X"] {
        tour.press(key);
    }
    tour.until("9 agents");
    tour.escape();
}

fn compare_three_models(tour: &mut Tour) {
    tour.line("/ask --models openai/gpt-5,openai/gpt-5-mini,openai/gpt-5-nano which crate reads the store?");
    tour.until("3 of 3 answered");
    tour.look();
    tour.picture("compare");
    tour.keys("a");
    tour.until_seen("the conversation", |screen| !screen.contains("compare ─"));
    tour.line("then sketch the tables");
    tour.until("foreign key");
}

fn fork_from_an_earlier_message(tour: &mut Tour) {
    tour.press("\x1b1");
    tour.line("refuse a count of zero");
    tour.until("to refuse it");
    tour.press("y");
    tour.until("is an error now");
    tour.escape();
    tour.escape();
    tour.until("api ─ timeline");
    up_to(tour, "The count is used now");
    tour.press("f");
    tour.until_seen("the child", |screen| !screen.contains("─ timeline ─"));
    tour.line("write a test for it");
    tour.until("expects 30");
}

/// Marks the newest entry above that has this text.
fn up_to(tour: &mut Tour, text: &str) {
    while !tour.sees_row(|row| row.starts_with('>') && row.contains(text)) {
        tour.keys("k");
    }
}

fn take_files_back(tour: &mut Tour) {
    tour.press("\x1b1");
    tour.escape();
    tour.escape();
    tour.until("api ─ timeline");
    up_to(tour, "refuse a count of zero");
    tour.look();
    tour.picture("timeline");
    tour.keys("u");
    tour.until("brought back");
    tour.line("!!cat src/cart.rs");
    tour.look();
    tour.picture("undo");
}

fn find_what_a_killed_agent_said(tour: &mut Tour) {
    tour.keys("\x06");
    for part in ["canonical", " is:reply"] {
        tour.press(part);
    }
    tour.press("\t");
    tour.until("seo (killed)");
    tour.picture("search");
    tour.press("f");
    tour.until_seen("the child", |screen| !screen.contains("── search ─"));
    tour.line("put it into the page");
    tour.until("has its canonical link now");
    tour.look();
}
