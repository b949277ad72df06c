//! The scripts that run elsewhere, for any POSIX `sh`. Each ends with one word that says how it went.
//!
//! All paths that come in are absolute. `$n` is the nonce of the call.

use std::path::Path;

use crate::domain::instructions::FILES;
use crate::domain::rule::shell_quote;

/// Ends a script with a word.
const WITH_WORD: &str = "f() { printf '\\n%s:%s\\n' \"$n\" \"$1\"; exit 0; }\n";

/// `l PATH` sets `p` to the path without symbolic links; its end need not exist. `m` is the missing part of it.
const LOCATE: &str = r#"
h=$(cd -P "${HOME:-/}" 2>/dev/null && pwd -P)
l() {
  p=$1 i=0
  while :; do
    if [ -d "$p" ]; then p=$(cd -P "$p" 2>/dev/null && pwd -P) || f denied; return 0; fi
    d=${p%/*} b=${p##*/}
    while [ -n "$d" ] && [ ! -d "$d" ]; do
      if [ -e "$d" ] || [ -h "$d" ]; then f directory; fi
      b=${d##*/}/$b d=${d%/*}
    done
    d=$(cd -P "${d:-/}" 2>/dev/null && pwd -P) || f denied
    [ "$d" = / ] && d=
    p=$d/$b
    [ -h "$p" ] || return 0
    i=$((i + 1))
    [ "$i" -lt 40 ] || f links
    t=$(readlink "$p") || f links
    case $t in /*) p=$t ;; *) p=$d/$t ;; esac
  done
}
"#;

fn with_path(path: &Path) -> String {
    format!("{WITH_WORD}{LOCATE}l {}\n", quote(path))
}

/// A path as one word of the shell.
pub fn quote(path: &Path) -> String {
    shell_quote(&path.to_string_lossy())
}

/// The canonical path of a directory. `~` is the home directory, and so is where relative paths start.
pub fn find_directory(written: &str) -> String {
    let rest = written.strip_prefix('~').map_or(written, |rest| rest.strip_prefix('/').unwrap_or(rest));
    let path = if written.starts_with('/') {
        shell_quote(written)
    } else if rest.is_empty() {
        "\"${HOME:-/}\"".to_owned()
    } else {
        format!("\"${{HOME:-/}}\"/{}", shell_quote(rest))
    };
    format!("{WITH_WORD}[ -d {path} ] || f none\np=$(cd -P {path} && pwd -P) || f denied\nprintf '%s' \"$p\"\nf ok\n")
}

/// The target of a path, and the content of a file. Fields that end with NUL: home, workspace, canonical path, kind
/// (`f`ile, `d`irectory, `o`ther, `a`bsent), size, checksum (`-` for a large file); then the content, up to `blocks` of
/// 64 KiB.
pub fn read(path: &Path, workspace: &Path, checked: u64, blocks: u64) -> String {
    format!(
        r#"{}w=$(cd -P {} 2>/dev/null && pwd -P)
s=0 c=
if [ -d "$p" ]; then k=d; elif [ -f "$p" ]; then k=f; elif [ -e "$p" ]; then k=o; else k=a; fi
if [ "$k" = f ]; then
  [ -r "$p" ] || f denied
  s=$(($(wc -c <"$p"))) c=-
  if [ "$s" -le {checked} ]; then c=$(cksum <"$p"); fi
fi
printf '%s\0' "$h" "$w" "$p" "$k" "$s" "$c"
if [ "$k" = f ]; then dd if="$p" bs=65536 count={blocks} 2>/dev/null; fi
f ok
"#,
        with_path(path),
        quote(workspace),
    )
}

/// Replaces a file by the rest of standard input, if it is unchanged: `old` is its checksum, empty if it did not exist,
/// `-` if it was too large for one.
pub fn write(path: &Path, old: &str, length: usize) -> String {
    format!(
        r#"{}[ "$p" = {} ] || f moved
o={}
u() {{
  if [ -e "$p" ]; then
    [ -f "$p" ] || f kind
    [ -w "$p" ] || f denied
    [ "$o" = - ] || [ "$(cksum <"$p")" = "$o" ] || g changed
  else
    [ -z "$o" ] || g changed
  fi
}}
g() {{ rm -f "$t"; f "$1"; }}
d=${{p%/*}}
t=$d/.polylogue-$n
u
if [ -e "$p" ]; then cp -p "$p" "$t" 2>/dev/null || g denied; else mkdir -p "${{d:-/}}" 2>/dev/null || f denied; fi
{{ cat >"$t"; }} 2>/dev/null || g full
[ $(($(wc -c <"$t"))) -eq {length} ] || g cut
u
set -f
set -- $(ls -ld "$p" 2>/dev/null)
if [ "${{2:-1}}" -gt 1 ]; then
  {{ cat "$t" >"$p"; }} 2>/dev/null || g full
  g linked
fi
mv -f "$t" "$p" 2>/dev/null || g denied
f ok
"#,
        with_path(path),
        quote(path),
        shell_quote(old),
    )
}

/// Runs a command in a process group of its own, which ends with it, and when standard input ends: the connection was cut,
/// or the call was ended.
pub fn command(command: &str, directory: &Path) -> String {
    let (command, directory) = (shell_quote(command), quote(directory));
    format!(
        r#"{WITH_WORD}cd {directory} 2>/dev/null || f directory
c={command}
exec 3<&0 4>&1 </dev/null 2>&1
trap : HUP INT TERM
(
  exec 3<&- 4>&-
  PAGER=cat GIT_TERMINAL_PROMPT=0 TERM=dumb
  export PAGER GIT_TERMINAL_PROMPT TERM
  if command -v bash >/dev/null 2>&1; then exec bash --norc --noprofile -c "$c"; fi
  exec sh -c "$c"
) &
b=$!
(
  trap : HUP INT TERM
  exec 4>&- >/dev/null 2>&1
  cat <&3
  kill -s TERM 0
  sleep 1
  kill -s KILL 0
) &
exec 3<&- 2>/dev/null
wait "$b"
s=$?
printf '\n%s:%s\n' "$n" "$s" >&4
exec 4>&- >/dev/null 2>&1
kill -s TERM 0
sleep 1
kill -s KILL 0
"#
    )
}

/// `r KIND PATH BLOCKS` writes a record: kind, path and the start of a file in blocks of 1 KiB, each with NUL at its end.
const RECORD: &str = r#"r() {
  printf '%s\0%s\0' "$1" "$2"
  dd if="$2" bs=1024 count="$3" 2>/dev/null | tr -d '\000'
  printf '\0'
}
"#;

/// The project around a directory, in records: `t`, the root of its repository; `i`, instructions, from the root down,
/// and `x` where there is no file; `s`, `SKILL.md` files, the nearest first. Links are not followed.
pub fn project(directory: &Path, places: &[&str]) -> String {
    let places: Vec<String> = places.iter().map(|place| shell_quote(place)).collect();
    format!(
        r#"{WITH_WORD}{RECORD}w={}
cd "$w" 2>/dev/null || f denied
t=$w d=$w c=0
while [ -n "$d" ]; do
  if [ -e "$d/.git" ]; then t=$d; break; fi
  d=${{d%/*}}
done
i() {{
  [ "$1" = "$t" ] || i "${{1%/*}}"
  for b in {}; do
    p=$1/$b
    if [ -f "$p" ] && [ ! -h "$p" ] && [ -r "$p" ]; then r i "$p" 33; break; fi
    if [ -e "$p" ] || [ -h "$p" ]; then printf 'x\0%s\0\0' "$p"; break; fi
  done
}}
s() {{
  for b in {}; do
    [ -h "$1/$b" ] || [ -h "$1/${{b%/*}}" ] && continue
    for p in "$1/$b"/*/SKILL.md; do
      [ -f "$p" ] && [ ! -h "$p" ] && [ ! -h "${{p%/*}}" ] && [ -r "$p" ] || continue
      c=$((c + 1))
      [ "$c" -le 64 ] || return 0
      r s "$p" 257
    done
  done
  [ "$1" = "$t" ] || s "${{1%/*}}"
}}
printf 't\0%s\0\0' "$t"
i "$w"
s "$w"
f ok
"#,
        quote(directory),
        FILES.join(" "),
        places.join(" "),
    )
}

/// The same for imported files, as far as no link leads to them.
pub fn imported(paths: &[&Path]) -> String {
    let mut script = format!(
        r#"{WITH_WORD}{LOCATE}{RECORD}
e() {{
  (
    f() {{ exit 0; }}
    l "$1"
    if [ "$p" = "$1" ] && [ -f "$p" ] && [ -r "$p" ]; then r i "$p" 33; fi
  )
}}
"#
    );
    paths.iter().for_each(|path| script.push_str(&format!("e {}\n", quote(path))));
    script + "f ok\n"
}

/// The names of the files in the folder of a skill, one a line.
pub fn files_of_skill(folder: &Path) -> String {
    format!(
        "{WITH_WORD}cd {} 2>/dev/null || f denied\n\
         find . ! -name . \\( -name '.*' -o -path './*/*/*/*' \\) -prune -o -type f ! -path ./SKILL.md -print 2>/dev/null\n\
         f ok\n",
        quote(folder)
    )
}

/// The wanted parts of a listing.
pub struct Wanted<'a> {
    /// How many levels; all without it.
    pub depth: Option<usize>,
    /// Only files with a line that this extended regular expression matches.
    pub lines: Option<&'a str>,
}

/// The entries below a path. First the fields home, workspace, canonical path and kind, as of [`read`]. Then records:
/// `i`, the path of a `.gitignore` or `.ignore` file and its text; `d`, `f`, `l` (with its target) or `o` and a path
/// from the start. With `lines`, a record `g` and then the paths of files, one a line.
pub fn list(path: &Path, workspace: &Path, wanted: &Wanted<'_>) -> String {
    let entries = match wanted.lines {
        Some(pattern) => format!(
            "printf 'g\\0'\nfind . -name .git -prune -o -type f -exec grep -l -s -E -e {} /dev/null {{}} +\n",
            shell_quote(pattern)
        ),
        None => {
            let pruned = wanted.depth.map_or("! -name .git -o -prune".to_owned(), |depth| {
                format!("! -path '.{}' -o -prune", "/*".repeat(depth))
            });
            let links = "for x; do printf 'l%s\\0%s\\0' \"$x\" \"$(readlink \"$x\")\"; done";
            format!(
                // The find of busybox runs no `-exec ... +` within parentheses.
                "find . \\( {pruned} \\) ! -name . -type d -exec printf 'd%s\\0' {{}} + \\
  -o ! -name . -type l -exec sh -c {} sh {{}} + \\
  -o ! -name . -type f -exec printf 'f%s\\0' {{}} + \\
  -o ! -name . -exec printf 'o%s\\0' {{}} +\n",
                shell_quote(links)
            )
        }
    };
    let ignore_files =
        "for x; do [ -f \"$x\" ] || continue; printf 'i%s\\0' \"$x\"; tr -d '\\000' <\"$x\"; printf '\\0'; done";
    format!(
        r#"exec 3<&0 </dev/null 2>/dev/null
( exec >/dev/null; cat <&3; kill -s TERM 0; sleep 1; kill -s KILL 0 ) &
exec 3<&-
{}w=$(cd -P {} && pwd -P)
LC_ALL=C
export LC_ALL
if [ -d "$p" ]; then k=d; elif [ -f "$p" ]; then k=f; elif [ -e "$p" ]; then k=o; else k=a; fi
printf '%s\0' "$h" "$w" "$p" "$k"
[ "$k" = d ] || f ok
cd "$p" || f denied
ls . >/dev/null || f denied
d=$p
while [ "$d" != "$w" ] && [ "${{d#"$w"/}}" != "$d" ]; do
  d=${{d%/*}}
  sh -c {ignore} sh "$d/.gitignore" "$d/.ignore"
done
find . -name .git -prune -o -type f \( -name .gitignore -o -name .ignore \) -size -2048 -exec sh -c {ignore} sh {{}} +
{entries}f ok
"#,
        with_path(path),
        quote(workspace),
        ignore = shell_quote(ignore_files),
    )
}

/// The start of each of these files, after a line with the separator and its number.
pub fn contents(paths: &[&Path], separator: &str, blocks: u64) -> String {
    let mut script = format!(
        r#"{WITH_WORD}c() {{
  if [ -f "$2" ] && [ ! -h "$2" ]; then
    printf '\n%s=%s\n' {separator} "$1"
    dd if="$2" bs=65536 count={blocks} 2>/dev/null
  fi
}}
"#
    );
    for (number, path) in paths.iter().enumerate() {
        script.push_str(&format!("c {number} {}\n", quote(path)));
    }
    script.push_str("f ok\n");
    script
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// The output of a script, by this shell. Its standard input stays open, because its end would end the process
    /// group.
    fn run(shell: &[&str], script: &str) -> Vec<u8> {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).args(["-c", &format!("n=N\n{script}")]).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let input = child.stdin.take();
        let mut output = Vec::new();
        let mut written = child.stdout.take().expect("a pipe");
        written.read_to_end(&mut output).expect("the output");
        drop(input);
        child.wait().expect("the end");
        output
    }

    /// Those that are installed.
    fn shells() -> Vec<Vec<&'static str>> {
        let all = [vec!["dash"], vec!["busybox", "sh"], vec!["bash", "--posix"], vec!["sh"]];
        let works = |shell: &Vec<&str>| {
            let is_installed = Command::new(shell[0]).args(&shell[1..]).args(["-c", ":"]).output().is_ok();
            if !is_installed {
                eprintln!("skipped: {} is not installed", shell[0]);
            }
            is_installed
        };
        all.into_iter().filter(works).collect()
    }

    #[test]
    fn a_path_is_followed_as_the_kernel_follows_it() {
        let directory = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir_all(top.join("a b/deep")).unwrap();
        fs::write(top.join("a b/it's"), "one\n").unwrap();
        for (target, link) in [("a b", "to"), ("to/it's", "file"), ("../nowhere", "a b/gone"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, top.join(link)).unwrap();
        }
        for shell in shells() {
            let found = |path: &str| {
                let script = read(&top.join(path), &top, 100, 1);
                String::from_utf8(run(&shell, &script)).unwrap()
            };
            let fields = |path: &str| found(path).split('\0').skip(2).take(2).collect::<Vec<_>>().join(" ");
            let at = |path: &str, kind: &str| format!("{} {kind}", top.join(path).display());
            assert_eq!(fields("to/it's"), at("a b/it's", "f"), "{shell:?}");
            assert_eq!(fields("file"), at("a b/it's", "f"));
            assert_eq!(fields("to"), at("a b", "d"));
            assert_eq!(fields("to/gone"), at("nowhere", "a"));
            assert_eq!(fields("to/new/er/x"), at("a b/new/er/x", "a"));
            assert!(found("file").ends_with("\0one\n\nN:ok\n"));
            assert!(found("loop").ends_with("\nN:links\n") && found("file/x").ends_with("\nN:directory\n"));
        }
    }

    #[test]
    fn a_project_is_read_from_its_root_down_and_without_links() {
        let directory = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(directory.path()).unwrap();
        for (name, text) in [
            ("AGENTS.md", "outside"),
            ("p q/.git/HEAD", ""),
            ("p q/AGENTS.md", "root\0"),
            ("p q/CLAUDE.md", "hidden by the other"),
            ("p q/a/b/CLAUDE.md", "near"),
            ("p q/a/b/.claude/skills/x/SKILL.md", "skill"),
            ("p q/.agents/skills/y/SKILL.md", "far"),
        ] {
            fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
            fs::write(top.join(name), text).unwrap();
        }
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(top.join(to), top.join(name)).unwrap();
        link("AGENTS.md", "p q/a/AGENTS.md");
        link("p q/.agents/skills/y", "p q/a/b/.claude/skills/z");
        for shell in shells() {
            let found = |script: &str| {
                let out = String::from_utf8(run(&shell, script)).unwrap();
                out.replace(&format!("{}/", top.display()), "").replace('\0', " ")
            };
            let places = [".claude/skills", ".agents/skills"];
            assert_eq!(
                found(&project(&top.join("p q/a/b"), &places)),
                "t p q  i p q/AGENTS.md root x p q/a/AGENTS.md  i p q/a/b/CLAUDE.md near \
                 s p q/a/b/.claude/skills/x/SKILL.md skill s p q/.agents/skills/y/SKILL.md far \nN:ok\n",
                "{shell:?}"
            );
            let paths = ["p q/a/AGENTS.md", "p q/AGENTS.md", "p q/none"].map(|name| top.join(name));
            let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
            assert_eq!(found(&imported(&paths)), "i p q/AGENTS.md root \nN:ok\n", "{shell:?}");
        }
    }

    #[test]
    fn a_listing_has_every_entry_once_and_the_files_that_say_what_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir_all(top.join("src/deep")).unwrap();
        fs::create_dir_all(top.join(".git")).unwrap();
        for (name, text) in
            [(".gitignore", "out\n"), ("src/.ignore", "x\n"), ("src/deep/f g", "needle\n"), (".git/c", "")]
        {
            fs::write(top.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("deep", top.join("src/link")).unwrap();
        for shell in shells() {
            let records = |wanted: &Wanted<'_>| {
                let out = String::from_utf8(run(&shell, &list(&top.join("src"), &top, wanted))).unwrap();
                let mut all: Vec<String> = out.split('\0').skip(4).map(|field| field.replace('\n', "~")).collect();
                all.sort();
                all.join(" ")
            };
            let all = records(&Wanted { depth: None, lines: None });
            for record in ["d./deep ", "f./deep/f g ", "f./.ignore ", "i./.ignore ", "l./link ", "out~ ", "x~ "] {
                assert_eq!(all.matches(record).count(), 1, "{shell:?} {record}: {all}");
            }
            assert!(all.contains(&format!("i{}/.gitignore ", top.display())) && !all.contains(".git/c"), "{all}");
            let shallow = records(&Wanted { depth: Some(1), lines: None });
            assert!(shallow.contains("d./deep") && !shallow.contains("f g"), "{shallow}");
            let matching = records(&Wanted { depth: None, lines: Some("ne+dle") });
            assert!(matching.contains("./deep/f g~~N:ok~") && !matching.contains("f./"), "{matching}");
        }
    }
}
