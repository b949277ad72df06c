//! What people do all day works behind the walls.

use std::process::Command;

use super::{Place, everywhere};

/// The program that it needs, a script, and how its output ends.
const WORK: &[(&str, &str, &str)] = &[
    ("bash", "cat <<END\na heredoc\nEND", "a heredoc\n"),
    ("mktemp", "f=$(mktemp) && echo temporary > $f && cat $f && rm $f", "temporary\n"),
    ("bash", "mkdir -p a/b && echo x > a/b/c && cp -a a d && mv d e && rm -r a && cat e/b/c", "x\n"),
    ("bash", "mkfifo p && (echo through > p &) && cat p && rm p", "through\n"),
    ("bash", "seq 1000 | xargs -n 10 -P 4 echo | wc -l", "100\n"),
    ("tar", "mkdir t && echo x > t/f && tar cf t.tar t && rm -r t && tar xf t.tar && cat t/f", "x\n"),
    ("flock", "flock lock echo locked", "locked\n"),
    ("script", "script -qec 'echo on a terminal' /dev/null | tr -d '\\r'", "on a terminal\n"),
    (
        "git",
        "mkdir r && cd r && git init -q . && git config user.name t && git config user.email t@localhost &&
         echo x > f && git add f && git commit -q -m first && git checkout -q -b other && git log --format=%s",
        "first\n",
    ),
    ("make", "printf 'all: one two\\n\\t@echo made\\none two:\\n\\t@touch $@\\n' > Makefile && make -s -j 2", "made\n"),
    ("gcc", "echo 'int main(void) { return 7; }' > m.c && gcc -o m m.c && ./m; echo $?", "7\n"),
    ("node", "node -e 'require(\"child_process\").execSync(\"true\"); console.log(6 * 7)'", "42\n"),
    ("python3", "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'", "[1, 2]\n"),
    ("python3", "python3 -m venv --without-pip v && v/bin/python -c 'print(42)'", "42\n"),
];

/// Needs Unix or network sockets, which Landlock cannot tell apart.
fn needs_sockets(script: &str) -> bool {
    script.contains("multiprocessing")
}

fn works_outside(place: &Place, program: &str) -> bool {
    let works = place.command(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("there is no {program} for {:?}: it is not tried", place.user);
    }
    works
}

#[test]
fn ordinary_commands_work() {
    everywhere(|place, level| {
        for (program, script, expected) in WORK {
            let place = Place::new(place.user);
            if !works_outside(&place, program) || !level.has_namespaces() && needs_sockets(script) {
                continue;
            }
            let response = place.run(level, script);
            assert!(response.out.ends_with(expected), "{level:?} {:?} {script}: {}", place.user, response.out);
            assert_eq!(response.code, Some(0), "{level:?} {script}: {}", response.out);
        }
    });
}

/// With the real home, whose tool chains are seen through the walls.
#[test]
fn cargo_builds_and_tests_a_crate_offline() {
    let Some(home) = std::env::home_dir().filter(|home| home.join(".cargo").is_dir()) else { return };
    if !Command::new("cargo").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return eprintln!("there is no cargo here");
    }
    let script = "mkdir -p c/src && cd c && printf '[package]\\nname = \"c\"\\nedition = \"2021\"\\n' > Cargo.toml &&
        echo 'fn main() { println!(\"built\") }' > src/main.rs && cargo run -q --offline";
    let place = Place::new(None);
    for level in super::levels(&place) {
        let place = Place::new(None);
        let response = place.run_at_home(&home, level, script);
        assert!(response.out.ends_with("built\n"), "{level:?}: {}", response.out);
    }
}
