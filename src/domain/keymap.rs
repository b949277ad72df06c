//! Which keys do what: the actions with their names and default keys, and the keys that a person has chosen.
//!
//! A binding is one key, or a prefix and a key. A key that types a character acts only on an empty draft.

mod chord;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::base::text;
use crate::domain::change::ViewName;
use crate::domain::key::{Key, KeyCode};
pub use chord::Chord;

/// What a key does, as far as it does not depend on the situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyAction {
    Send,
    /// Sends the draft to a new agent in a git worktree of its own.
    Delegate,
    Newline,
    Cancel,
    Leave,
    DeleteOrLeave,
    Complete,
    ShowKeys,
    SearchHistory,
    Editor,
    PasteImage,
    NextPolicy,
    ToggleFolds,
    Redraw,
    Suspend,
    Background,
    Up,
    Down,
    OlderInput,
    NewerInput,
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    LineUp,
    LineDown,
    DeleteLeft,
    DeleteRight,
    KillToEnd,
    KillToStart,
    KillWord,
    KillWordLeft,
    KillWordRight,
    Yank,
    YankOlder,
    Undo,
    Redo,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Parent,
    Child,
    PreviousSibling,
    NextSibling,
    View(ViewName),
    /// The agent with this number.
    Agent(u8),
}

/// A row of the table of actions.
pub struct KeyActionSpec {
    pub action: KeyAction,
    /// In the configuration.
    pub name: &'static str,
    pub group: &'static str,
    pub keys: &'static [&'static str],
    pub about: &'static str,
}

const fn spec(
    action: KeyAction,
    name: &'static str,
    group: &'static str,
    keys: &'static [&'static str],
    about: &'static str,
) -> KeyActionSpec {
    KeyActionSpec { action, name, group, keys, about }
}

const INPUT: &str = "Input";
const MOTION: &str = "Motion";
const EDITING: &str = "Editing";
const SCREEN: &str = "Screen";
const AGENTS: &str = "Agents";

/// All actions, in the order of help.
pub const KEY_ACTIONS: &[KeyActionSpec] = &[
    spec(KeyAction::Send, "send", INPUT, &["enter"], "send; if empty: retry now, or send queued text"),
    spec(KeyAction::Newline, "newline", INPUT, &["ctrl+j", "alt+enter", "shift+enter"], "insert a line break"),
    spec(KeyAction::Complete, "complete", INPUT, &["tab"], "complete a command, a name or a file"),
    spec(KeyAction::Delegate, "delegate", INPUT, &["leader enter"], "send to a new agent in a worktree"),
    spec(KeyAction::Up, "up", INPUT, &["up"], "line above, queued text or earlier input"),
    spec(KeyAction::Down, "down", INPUT, &["down"], "line below, else later input"),
    spec(KeyAction::OlderInput, "older_input", INPUT, &["ctrl+p"], "earlier input"),
    spec(KeyAction::NewerInput, "newer_input", INPUT, &["ctrl+n"], "later input"),
    spec(KeyAction::SearchHistory, "search_history", INPUT, &["ctrl+r"], "search earlier input"),
    spec(KeyAction::Editor, "editor", INPUT, &["ctrl+g", "leader ctrl+e"], "edit the draft in $VISUAL or $EDITOR"),
    spec(KeyAction::PasteImage, "paste_image", INPUT, &["ctrl+v"], "attach the image in the clipboard"),
    spec(KeyAction::Cancel, "cancel", INPUT, &["esc"], "stop this agent, else clear the draft"),
    spec(KeyAction::Leave, "leave", INPUT, &["ctrl+c"], "clear the draft, exit if it is empty"),
    spec(KeyAction::DeleteOrLeave, "delete_or_leave", INPUT, &["ctrl+d"], "delete to the right, exit if empty"),
    spec(KeyAction::NextPolicy, "next_policy", INPUT, &["shift+tab"], "next policy: plan, ask, auto"),
    spec(KeyAction::ShowKeys, "show_keys", INPUT, &["?", "f1"], "show the keys"),
    spec(KeyAction::Left, "left", MOTION, &["left", "ctrl+b"], "one character to the left"),
    spec(KeyAction::Right, "right", MOTION, &["right"], "one character to the right"),
    spec(KeyAction::WordLeft, "word_left", MOTION, &["alt+b", "alt+left"], "one word to the left"),
    spec(KeyAction::WordRight, "word_right", MOTION, &["alt+f", "alt+right"], "one word to the right"),
    spec(KeyAction::LineStart, "line_start", MOTION, &["ctrl+a", "home"], "start of the line"),
    spec(KeyAction::LineEnd, "line_end", MOTION, &["ctrl+e", "end"], "end of the line"),
    spec(KeyAction::LineUp, "line_up", MOTION, &["alt+up"], "line above; if empty, a call above, which Enter opens"),
    spec(KeyAction::LineDown, "line_down", MOTION, &["alt+down"], "line below; if empty, a call below"),
    spec(KeyAction::DeleteLeft, "delete_left", EDITING, &["backspace", "ctrl+h"], "delete to the left"),
    spec(KeyAction::DeleteRight, "delete_right", EDITING, &["delete"], "delete to the right"),
    spec(KeyAction::KillToEnd, "kill_to_end", EDITING, &["ctrl+k"], "kill to the end of the line"),
    spec(KeyAction::KillToStart, "kill_to_start", EDITING, &["ctrl+u"], "kill to the start of the line"),
    spec(KeyAction::KillWord, "kill_word", EDITING, &["ctrl+w"], "kill back to a space"),
    spec(KeyAction::KillWordLeft, "kill_word_left", EDITING, &["alt+backspace"], "kill the word to the left"),
    spec(KeyAction::KillWordRight, "kill_word_right", EDITING, &["alt+d"], "kill the word to the right"),
    spec(KeyAction::Yank, "yank", EDITING, &["ctrl+y"], "insert the text killed last"),
    spec(KeyAction::YankOlder, "yank_older", EDITING, &["alt+y"], "replace it by the text killed before"),
    spec(KeyAction::Undo, "undo", EDITING, &["ctrl+_", "ctrl+/", "leader u"], "undo"),
    spec(KeyAction::Redo, "redo", EDITING, &["alt+_", "leader ctrl+r"], "redo"),
    spec(KeyAction::PageUp, "page_up", SCREEN, &["pageup"], "scroll up; in a question the page before"),
    spec(KeyAction::PageDown, "page_down", SCREEN, &["pagedown"], "scroll down; in a question the next page"),
    spec(KeyAction::Top, "top", SCREEN, &["ctrl+home"], "start of the conversation"),
    spec(KeyAction::Bottom, "bottom", SCREEN, &["ctrl+end"], "end of the conversation"),
    spec(KeyAction::ToggleFolds, "fold", SCREEN, &["ctrl+o"], "show output of tools and reasoning, or fold it"),
    spec(KeyAction::Redraw, "redraw", SCREEN, &["ctrl+l"], "redraw the screen"),
    spec(KeyAction::Suspend, "suspend", SCREEN, &["ctrl+z"], "suspend polylogue"),
    spec(KeyAction::Background, "background", SCREEN, &["leader b"], "leave this terminal; the agents keep running"),
    spec(KeyAction::Parent, "parent", AGENTS, &["ctrl+up", "leader up"], "go to the parent"),
    spec(KeyAction::Child, "child", AGENTS, &["ctrl+down", "leader down"], "go to the newest child"),
    spec(KeyAction::PreviousSibling, "previous_sibling", AGENTS, &["ctrl+left", "leader left"], "previous sibling"),
    spec(KeyAction::NextSibling, "next_sibling", AGENTS, &["ctrl+right", "leader right"], "next sibling"),
    spec(
        KeyAction::View(ViewName::Inbox),
        "inbox",
        AGENTS,
        &["alt+a", "leader a"],
        "the inbox: who needs you, of all agents",
    ),
    spec(KeyAction::View(ViewName::Wall), "wall", AGENTS, &["alt+w", "leader w"], "the wall: all agents as live tiles"),
    spec(
        KeyAction::View(ViewName::Review),
        "review",
        AGENTS,
        &["alt+r", "leader r"],
        "review this agent's changes: comment, land, discard",
    ),
    spec(
        KeyAction::View(ViewName::Compare),
        "compare",
        AGENTS,
        &["alt+c", "leader c"],
        "answers to one prompt, side by side",
    ),
    spec(
        KeyAction::View(ViewName::Timeline),
        "timeline",
        AGENTS,
        &["leader t"],
        "all that happened; also Esc Esc if empty",
    ),
    spec(
        KeyAction::View(ViewName::Search),
        "search",
        AGENTS,
        &["ctrl+f", "leader /"],
        "search all messages; in text one to the right",
    ),
    spec(KeyAction::Agent(0), "agent_0", AGENTS, &["alt+0", "leader 0"], "go to agent 0"),
    spec(KeyAction::Agent(1), "agent_1", AGENTS, &["alt+1", "leader 1"], "go to agent 1"),
    spec(KeyAction::Agent(2), "agent_2", AGENTS, &["alt+2", "leader 2"], "go to agent 2"),
    spec(KeyAction::Agent(3), "agent_3", AGENTS, &["alt+3", "leader 3"], "go to agent 3"),
    spec(KeyAction::Agent(4), "agent_4", AGENTS, &["alt+4", "leader 4"], "go to agent 4"),
    spec(KeyAction::Agent(5), "agent_5", AGENTS, &["alt+5", "leader 5"], "go to agent 5"),
    spec(KeyAction::Agent(6), "agent_6", AGENTS, &["alt+6", "leader 6"], "go to agent 6"),
    spec(KeyAction::Agent(7), "agent_7", AGENTS, &["alt+7", "leader 7"], "go to agent 7"),
    spec(KeyAction::Agent(8), "agent_8", AGENTS, &["alt+8", "leader 8"], "go to agent 8"),
    spec(KeyAction::Agent(9), "agent_9", AGENTS, &["alt+9", "leader 9"], "go to agent 9"),
];

/// The key that `leader` means in a binding.
const LEADER: &str = "leader";
/// The leader unless another one is chosen.
pub const DEFAULT_LEADER: &str = "ctrl+x";

/// A key, or a prefix and a key.
type Binding = (Option<Chord>, Chord);

/// The keys of all actions.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyMap {
    bindings: HashMap<Binding, KeyAction>,
}

/// What a key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Action(KeyAction),
    /// The next key decides.
    Prefix(Chord),
    Nothing,
}

impl Default for KeyMap {
    fn default() -> Self {
        // Made several times at each start.
        static DEFAULTS: LazyLock<KeyMap> =
            LazyLock::new(|| KeyMap::with(DEFAULT_LEADER, &[]).expect("the default keys are valid"));
        DEFAULTS.clone()
    }
}

impl KeyMap {
    /// The default keys, except for actions for which others are given by name.
    pub fn with(leader: &str, chosen: &[(String, Vec<String>)]) -> Result<Self, String> {
        let leader: Chord = leader.parse()?;
        let mut bindings = HashMap::new();
        let mut chosen_by = HashMap::new();
        for (name, keys) in chosen {
            let spec = find(name)?;
            for key in keys {
                let binding = binding(key, leader)?;
                if let Some(other) = chosen_by.insert(binding, spec.name).filter(|other| *other != spec.name) {
                    return Err(format!("{key} is bound to both {other} and {name}"));
                }
                bindings.insert(binding, spec.action);
            }
        }
        let is_chosen = |spec: &&KeyActionSpec| chosen.iter().any(|(name, _)| name == spec.name);
        for spec in KEY_ACTIONS.iter().filter(|spec| !is_chosen(spec)) {
            for key in spec.keys {
                // A chosen key is taken away from its default action.
                bindings.entry(binding(key, leader)?).or_insert(spec.action);
            }
        }
        let prefixes: Vec<Chord> = bindings.keys().filter_map(|(prefix, _)| *prefix).collect();
        for prefix in prefixes {
            if chosen_by.contains_key(&(None, prefix)) {
                return Err(format!("{prefix} begins other bindings: choose another key or another leader"));
            }
            bindings.remove(&(None, prefix));
        }
        Ok(Self { bindings })
    }

    /// What a key means after this prefix.
    pub fn meaning(&self, prefix: Option<Chord>, key: &Key) -> Bound {
        let Key::Press(code, modifiers) = key else { return Bound::Nothing };
        let chord = Chord::new(*code, *modifiers);
        if let Some(action) = self.bindings.get(&(prefix, chord)) {
            return Bound::Action(*action);
        }
        let is_prefix = prefix.is_none() && self.bindings.keys().any(|(prefix, _)| *prefix == Some(chord));
        if is_prefix { Bound::Prefix(chord) } else { Bound::Nothing }
    }

    /// The keys of an action as help shows them, the shortest first.
    pub fn keys_of(&self, action: KeyAction) -> Vec<String> {
        let bound = self.bindings.iter().filter(|(_, bound)| **bound == action);
        let mut keys: Vec<String> = bound
            .map(|((prefix, key), _)| match prefix {
                Some(prefix) => format!("{prefix} {key}"),
                None => key.to_string(),
            })
            .collect();
        let order = |shown: &String| {
            let defaults = KEY_ACTIONS.iter().find(|spec| spec.action == action).map_or(&[][..], |spec| spec.keys);
            let place = defaults.iter().position(|key| Chord::display_key(key) == *shown);
            (place.unwrap_or(usize::MAX), shown.clone())
        };
        keys.sort_by_key(order);
        keys
    }
}

fn binding(text: &str, leader: Chord) -> Result<Binding, String> {
    let chord = |word: &str| if word == LEADER { Ok(leader) } else { word.parse() };
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        [key] => Ok((None, chord(key)?)),
        [prefix, key] => Ok((Some(chord(prefix)?), chord(key)?)),
        _ => Err(format!("{text:?} is not a key: write one key, or a prefix and a key, as in \"leader e\"")),
    }
}

fn find(name: &str) -> Result<&'static KeyActionSpec, String> {
    KEY_ACTIONS.iter().find(|spec| spec.name == name).ok_or_else(|| {
        let nearest = text::nearest(name, KEY_ACTIONS.iter().map(|spec| spec.name));
        let hint = nearest
            .map_or_else(|| "polylogue help keys lists them".to_owned(), |nearest| format!("did you mean {nearest}?"));
        format!("unknown action {name:?}: {hint}")
    })
}

/// Whether the key types a character.
pub fn is_typed(key: &Key) -> bool {
    matches!(key, Key::Press(KeyCode::Char(_), modifiers) if !modifiers.ctrl && !modifiers.alt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::key::Modifiers;

    fn press(text: &str) -> Key {
        let chord: Chord = text.parse().unwrap();
        Key::Press(chord.code, chord.modifiers)
    }

    fn chosen(pairs: &[(&str, &[&str])]) -> Result<KeyMap, String> {
        let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let chosen: Vec<_> = pairs.iter().map(|(name, keys)| ((*name).to_owned(), owned(keys))).collect();
        KeyMap::with("ctrl+t", &chosen)
    }

    #[test]
    fn every_default_key_is_known_and_bound_once() {
        let all: usize = KEY_ACTIONS.iter().map(|spec| spec.keys.len()).sum();
        assert_eq!(KeyMap::default().bindings.len(), all);
        for spec in KEY_ACTIONS {
            assert_eq!(KeyMap::default().keys_of(spec.action).len(), spec.keys.len(), "{}", spec.name);
        }
    }

    #[test]
    fn chosen_keys_replace_the_default_ones_and_take_keys_from_other_actions() {
        let map = chosen(&[("send", &["ctrl+s", "leader s"]), ("undo", &[]), ("redo", &["ctrl+y"])]).unwrap();
        assert_eq!(map.keys_of(KeyAction::Send), ["Ctrl+S", "Ctrl+T S"]);
        assert_eq!(map.keys_of(KeyAction::Undo), Vec::<String>::new());
        assert_eq!(map.keys_of(KeyAction::Yank), Vec::<String>::new());
        assert_eq!(map.meaning(None, &press("ctrl+y")), Bound::Action(KeyAction::Redo));
        assert_eq!(map.meaning(None, &press("enter")), Bound::Nothing);
        let leader = "ctrl+t".parse().unwrap();
        assert_eq!(map.meaning(None, &press("ctrl+t")), Bound::Prefix(leader));
        assert_eq!(map.meaning(Some(leader), &press("s")), Bound::Action(KeyAction::Send));
        assert_eq!(map.meaning(Some(leader), &press("q")), Bound::Nothing);
        assert_eq!(map.keys_of(KeyAction::Agent(3)), ["Alt+3", "Ctrl+T 3"]);
    }

    #[test]
    fn errors_name_the_action_or_the_key() {
        for (pairs, expected) in [
            (&[("sned", &["ctrl+s"][..])][..], "did you mean send?"),
            (&[("send", &["strg+s"])], "\"strg+s\""),
            (&[("send", &["a b c"])], "\"a b c\""),
            (&[("send", &["ctrl+s"]), ("undo", &["ctrl+s"])], "bound to both send and undo"),
            (&[("send", &["ctrl+t"])], "begins other bindings"),
        ] {
            let error = chosen(pairs).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_key_with_control_is_not_typed() {
        assert!(is_typed(&press("?")) && !is_typed(&press("ctrl+a")) && !is_typed(&press("f1")));
        assert!(!is_typed(&Key::Press(KeyCode::Char('a'), Modifiers { alt: true, ..Modifiers::default() })));
    }
}
