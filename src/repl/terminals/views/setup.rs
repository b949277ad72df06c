//! The panel that sets up a model: a list to choose from or a text to type for each step. In line mode the steps are
//! questions, and the choices have numbers.

use std::hash::{DefaultHasher, Hash};

use crate::base::fuzzy::Fuzzy;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode};
use crate::repl::core::Core;
use crate::repl::terminals::setup::{self, Choice, Setup, Step};
use crate::repl::terminals::views::{
    List, Painter, Pane, QueryLine, ViewAct, ViewContent, ViewContext, ViewName, choice_row,
};

/// Columns of a choice beside its description.
const CHOICE: usize = 28;

pub(super) struct SetupView {
    setup: Setup,
    typed: QueryLine,
    /// The choices that match what was typed.
    choices: List<Choice>,
    /// The conversation for which a model is chosen.
    focus: AgentId,
    is_left: bool,
    /// The built-in model answers if the panel is left.
    leaves_echo: bool,
    /// Enter was pressed while something is waited for.
    is_early: bool,
    /// The lines that were printed last in line mode.
    printed: String,
}

impl SetupView {
    pub fn new(core: &Core, focus: AgentId) -> Self {
        let mut view = Self {
            setup: Setup::new(core),
            typed: QueryLine::default(),
            choices: List::default(),
            focus,
            is_left: false,
            leaves_echo: core.config().endpoint.is_none(),
            is_early: false,
            printed: String::new(),
        };
        view.filter(core);
        view
    }

    fn begin_step(&mut self, core: &Core) {
        self.typed = QueryLine::default();
        self.typed.is_secret = matches!(self.setup.step, Step::Secret { .. });
        self.is_early = false;
        self.choices.mark(0);
        self.filter(core);
    }

    fn filter(&mut self, core: &Core) {
        let mut choices = self.setup.choices(core);
        let query = self.typed.text().trim();
        if !query.is_empty() && !is_number(query) {
            let mut words = Fuzzy::words(query);
            choices.retain(|choice| words.score(&format!("{} {}", choice.text, choice.about)).is_some());
        }
        self.choices.offer(choices, |one, other| one.text == other.text);
    }

    fn choose(&mut self, core: &Core) {
        let typed = self.typed.text().trim().to_owned();
        let number = typed.parse::<usize>().ok().filter(|number| (1..=self.choices.len()).contains(number));
        let at = number.map_or(self.choices.at(), |number| number - 1);
        let is_word = is_number(&typed) && number.is_none();
        let choice = self.choices.all().get(at).filter(|_| !is_word).cloned();
        let step = self.setup.step;
        self.setup.choose(core, self.focus, choice, &typed);
        if self.setup.step != step || self.setup.is_waiting() {
            self.begin_step(core);
        }
    }

    fn title(&self) -> String {
        let provider = self.setup.provider();
        match self.setup.step {
            Step::Provider => "set up a model ─ 1 of 3 ─ which provider?".to_owned(),
            Step::Url => "set up a model ─ 1 of 3 ─ the URL of the server".to_owned(),
            Step::Key => format!("set up a model ─ 2 of 3 ─ where is the key of {provider}?"),
            Step::Secret { .. } | Step::Command | Step::File | Step::Variable => {
                format!("set up a model ─ 2 of 3 ─ the key of {provider}")
            }
            Step::Model => format!("set up a model ─ 3 of 3 ─ which model of {provider}?"),
            Step::Trying => format!("set up a model ─ 3 of 3 ─ {provider}/{}", self.setup.model()),
        }
    }

    fn prompt(&self) -> &'static str {
        match self.setup.step {
            Step::Url => "URL: ",
            Step::Secret { .. } => "key: ",
            Step::Command => "command: ",
            Step::File => "file: ",
            Step::Variable => "variable: ",
            _ => "/ ",
        }
    }

    fn waiting(&self) -> Option<String> {
        let (provider, model) = (self.setup.provider(), self.setup.model());
        let what = match self.setup.step {
            _ if !self.setup.is_waiting() => return None,
            Step::Trying => format!("sending one request to {model} …"),
            Step::Model => format!("loading the models of {provider} …"),
            _ => "running the command …".to_owned(),
        };
        Some(if self.is_early {
            format!("{what} press Enter again when that is done, or Esc to go back")
        } else {
            what
        })
    }

    fn hints(&self) -> &'static str {
        match self.setup.step {
            Step::Provider if self.leaves_echo => {
                "Up Down mark  type to filter  Enter chooses  Esc goes on with the built-in echo"
            }
            Step::Provider => "Up Down mark  type to filter  Enter chooses  Esc goes back to the chat",
            Step::Key => "Up Down mark  Enter chooses  Esc goes back",
            Step::Model => "Up Down mark  type to filter, or the name of another model  Enter tries it  Esc goes back",
            _ => "Enter goes on  Esc goes back",
        }
    }
}

impl ViewContent for SetupView {
    fn name(&self) -> ViewName {
        ViewName::Setup
    }

    fn is_typing(&self) -> bool {
        true
    }

    fn update(&mut self, core: &mut Core, _: &ViewContext<'_>) -> bool {
        let (step, was_waiting) = (self.setup.step, self.setup.is_waiting());
        self.setup.poll(core);
        if self.is_left {
            setup::leave(core, self.focus);
        }
        if self.is_left || self.setup.finish(core, self.focus) {
            return false;
        }
        if step != self.setup.step {
            self.begin_step(core);
        } else {
            // What was typed meanwhile filters what has come.
            self.is_early &= was_waiting == self.setup.is_waiting();
            self.filter(core);
        }
        true
    }

    fn leave(&mut self) -> bool {
        self.is_left = true;
        true
    }

    fn hash_shown(&self, _: &Core, hash: &mut DefaultHasher) {
        (self.title(), self.setup.is_waiting(), &self.setup.error).hash(hash);
        self.choices.iter().for_each(|choice| (&choice.text, &choice.about).hash(hash));
    }

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        match (self.typed.on_key(key), key) {
            (Some(true), _) => self.filter(core),
            (None, Key::Press(KeyCode::Escape, _)) if !self.setup.go_back() => self.is_left = true,
            (None, Key::Press(KeyCode::Escape, _)) => self.begin_step(core),
            (None, Key::Press(KeyCode::Enter, _)) if self.setup.is_waiting() => self.is_early = true,
            (None, Key::Press(KeyCode::Enter, _)) => self.choose(core),
            (None, Key::Press(code, _)) => self.choices.on_key(*code),
            _ => {}
        }
        ViewAct::Done
    }

    fn pane(&self, _: &Core, _: &Painter, size: (u16, usize)) -> Pane {
        let mut pane = Pane::new(&self.title(), self.hints(), size);
        pane.query(&self.typed, self.prompt(), Color::User);
        let error = self.setup.error.iter().flat_map(|error| text::wrap(error, size.0.max(1).into()));
        pane.rows.extend(error.map(|(_, line)| Row::of(line, Style::color(Color::Error))));
        pane.rows.extend(self.waiting().map(|text| Row::of(text, Style::color(Color::Attention))));
        let row = |choice: &Choice, is_marked| choice_row((&choice.text, &choice.about), is_marked, CHOICE);
        pane.rows.extend(self.choices.rows(pane.room().max(1), |_| Row::default(), row));
        pane
    }

    fn take_lines(&mut self) -> Option<String> {
        let mut lines = vec![self.title()];
        lines.extend(self.setup.error.clone());
        lines.extend(self.waiting());
        let numbered = self.choices.iter().enumerate();
        lines.extend(numbered.map(|(at, choice)| format!("{:>3}  {}  {}", at + 1, choice.text, choice.about)));
        if !self.setup.is_waiting() {
            let ask = if self.choices.is_empty() { "type it, then Enter" } else { "type a number, then Enter" };
            lines.push(format!("{}{ask}", self.prompt().trim_start_matches("/ ")));
        }
        let lines = lines.join("\n");
        (lines != self.printed && self.typed.text().is_empty()).then(|| {
            self.printed.clone_from(&lines);
            lines
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
