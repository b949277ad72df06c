//! Bash and zsh: one function that walks over the words written so far. Both shells read the same walk.

use std::fmt::Write as _;

use super::{AGENTS, Kind, Room};

/// For bash; it needs nothing that is not in bash itself.
pub fn bash(rooms: &[Room]) -> String {
    let mut out =
        "# Completion of polylogue for bash, made by: polylogue completions bash\n_polylogue() {\n".to_owned();
    // Bash takes `--option=value` for three words.
    out += "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} place= value= i\n    \
            [[ $word == = ]] && word=\n    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}\n    \
            local -a seen=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n    COMPREPLY=()\n";
    out += &walk(rooms);
    out += "    case $before in\n";
    for (names, kind) in values(rooms) {
        line(&mut out, &format!("        {names}) {}; return ;;\n", bash_offer(kind)));
    }
    out += "    esac\n    case $place:$word in\n";
    for room in rooms {
        let options: Vec<String> = room.options.iter().flat_map(super::Opt::names).collect();
        line(&mut out, &format!("        '{}':-*) {} ;;\n", room.path, bash_offer(&Kind::OneOf(options))));
        let names: Vec<String> = room.subcommands.iter().map(|(name, _)| name.clone()).collect();
        let words = if names.is_empty() { room.words.clone() } else { Kind::OneOf(names) };
        line(&mut out, &format!("        '{}':*) {} ;;\n", room.path, bash_offer(&words)));
    }
    out += "    esac\n}\ncomplete -F _polylogue polylogue\n";
    out
}

/// For zsh: a file `_polylogue` in `fpath`, or something to be evaluated.
pub fn zsh(rooms: &[Room]) -> String {
    let mut out = "#compdef polylogue\n# Completion of polylogue for zsh, made by: polylogue completions zsh\n\
                   _polylogue() {\n    \
                   local word=${words[CURRENT]} before=${words[CURRENT-1]} place= value= i\n    \
                   local -a found seen=(\"${(@)words[2,CURRENT-1]}\")\n"
        .to_owned();
    out += &walk(rooms);
    out += "    case $before in\n";
    for (names, kind) in values(rooms) {
        line(&mut out, &format!("        {names}) {}; return ;;\n", zsh_offer(kind)));
    }
    out += "    esac\n    case $place:$word in\n";
    for room in rooms {
        let named = |name: &str, about: &str| format!("'{name}:{}'", about.replace(':', "\\:"));
        let options =
            room.options.iter().flat_map(|option| option.names().into_iter().map(|name| (name, &option.about)));
        let options: Vec<String> = options.map(|(name, about)| named(&name, about)).collect();
        line(
            &mut out,
            &format!("        '{}':-*) found=({}); _describe option found ;;\n", room.path, options.join(" ")),
        );
        let inner: Vec<String> = room.subcommands.iter().map(|(name, about)| named(name, about)).collect();
        let offer = match &inner[..] {
            [] => zsh_offer(&room.words),
            inner => format!("found=({}); _describe command found", inner.join(" ")),
        };
        line(&mut out, &format!("        '{}':*) {offer} ;;\n", room.path));
    }
    out += "    esac\n}\nif [ \"$funcstack[1]\" = _polylogue ]; then\n    _polylogue \"$@\"\nelse\n    \
            compdef _polylogue polylogue\nfi\n";
    out
}

/// Goes over `seen` and leaves in `place` where the last one is. A word that is no subcommand of the program begins a
/// prompt, in which nothing is completed.
fn walk(rooms: &[Room]) -> String {
    let mut out = "    for i in \"${seen[@]}\"; do\n        [[ $i == = ]] && continue\n        [[ -n $value ]] && { value=; continue; }\n        \
                   case \"$place $i\" in\n"
        .to_owned();
    let with_value: Vec<String> = values(rooms).into_iter().map(|(names, _)| names).collect();
    let after: Vec<String> = with_value.join("|").split('|').map(|name| format!("*' {name}'")).collect();
    line(&mut out, &format!("            {}) value=1 ;;\n", after.join("|")));
    out += "            ' --') place=prompt ;;\n            *' '-?*) ;;\n";
    for room in rooms {
        for (name, _) in &room.subcommands {
            let below = room.below(name);
            line(&mut out, &format!("            '{below}') place='{below}' ;;\n"));
        }
    }
    out += "            ' '*) [[ -n $place ]] || place=prompt ;;\n        esac\n    done\n";
    out
}

/// The options that take a value, in the form of a pattern, by what the value is. An option means the same everywhere.
fn values(rooms: &[Room]) -> Vec<(String, &Kind)> {
    let mut values: Vec<(Vec<String>, &Kind)> = Vec::new();
    for option in rooms.iter().flat_map(|room| &room.options) {
        let Some(kind) = &option.value else { continue };
        let place = values.iter().position(|(_, other)| *other == kind).unwrap_or_else(|| {
            values.push((Vec::new(), kind));
            values.len() - 1
        });
        let known = &mut values[place].0;
        for name in option.names() {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    values.into_iter().map(|(names, kind)| (names.join("|"), kind)).collect()
}

fn bash_offer(kind: &Kind) -> String {
    match kind {
        Kind::Anything => "COMPREPLY=()".into(),
        Kind::File => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\")".into(),
        Kind::Directory => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$word\")".into(),
        Kind::Agent => format!("mapfile -t COMPREPLY < <(compgen -W \"$({AGENTS})\" -- \"$word\")"),
        Kind::OneOf(words) => format!("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\")", words.join(" ")),
    }
}

fn zsh_offer(kind: &Kind) -> String {
    match kind {
        Kind::Anything => ":".into(),
        Kind::File => "_files".into(),
        Kind::Directory => "_files -/".into(),
        Kind::Agent => format!("compadd -- ${{(f)\"$({AGENTS})\"}}"),
        Kind::OneOf(words) => format!("compadd -- {}", words.join(" ")),
    }
}

fn line(out: &mut String, text: &str) {
    // A string takes everything.
    let _ = out.write_str(text);
}
