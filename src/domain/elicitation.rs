//! What an MCP server asks the person: a form with typed fields, or a URL to open. Only a person answers it.
//!
//! ```text
//!   name = Ada            the form as a person edits it, one line for each field
//!   age = 36
//! ```

use serde_json::{Map, Value, json};

use crate::base::text::shortened;

/// A server that asks for more is refused.
const MAX_FIELDS: usize = 50;
/// Of one choice.
const MAX_OPTIONS: usize = 100;
/// In columns; a longer one is cut off.
const MAX_MESSAGE: usize = 4_000;
const MAX_ABOUT: usize = 500;
/// A longer URL is refused, in bytes: it is shown whole.
const MAX_URL: usize = 2_000;

/// What a server asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// The name of the server.
    pub server: String,
    /// Why it asks, in its own words.
    pub message: String,
    pub wanted: Wanted,
}

/// What a server wants from the person.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// Values for these fields.
    Form(Vec<Field>),
    /// To open this URL. Nothing opens it automatically.
    Url(String),
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    name: String,
    about: String,
    kind: Kind,
    is_required: bool,
    value: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text {
        least: usize,
        most: usize,
        format: String,
    },
    Number {
        is_whole: bool,
        least: f64,
        most: f64,
    },
    Boolean,
    /// One of these values.
    Choice(Vec<String>),
    /// Several of them.
    Choices(Vec<String>),
}

impl Elicitation {
    /// Reads the parameters of `elicitation/create`.
    pub fn read(server: &str, params: &Value) -> Result<Self, String> {
        let message = params["message"].as_str().unwrap_or_default();
        let wanted = match params["mode"].as_str() {
            Some("url") => Wanted::Url(url(params["url"].as_str().unwrap_or_default())?),
            None | Some("form") => Wanted::Form(fields(&params["requestedSchema"])?),
            Some(_) => return Err("it asks in an unknown way".into()),
        };
        let message = shortened(message.trim(), MAX_MESSAGE).into_owned();
        Ok(Self { server: server.to_owned(), message, wanted })
    }

    /// The question in one line.
    pub fn title(&self) -> String {
        match self.wanted {
            Wanted::Form(_) => format!("the MCP server {} asks you", self.server),
            Wanted::Url(_) => format!("the MCP server {} asks you to open a URL", self.server),
        }
    }

    /// The whole question.
    pub fn detail(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.message.lines().map(str::to_owned).collect();
        match &self.wanted {
            Wanted::Url(url) => {
                lines.push(url.clone());
                lines.push("polylogue does not open it; yes tells the server that you do".into());
            }
            Wanted::Form(fields) => {
                fields.iter().for_each(|field| lines.push(field.describe()));
                lines.push(format!("y: send these values to {}; n: decline", self.server));
            }
        }
        lines
    }

    /// The form as a person edits it; `None` if there is nothing to edit.
    pub fn text(&self) -> Option<String> {
        let Wanted::Form(fields) = &self.wanted else { return None };
        let line = |field: &Field| format!("{} = {}", field.name, field.value_text());
        (!fields.is_empty()).then(|| fields.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    /// The same question with the values of an edited form.
    pub fn with_edits(&self, text: &str) -> Result<Self, String> {
        let mut edited = self.clone();
        let Wanted::Form(fields) = &mut edited.wanted else { return Ok(edited) };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line.split_once('=').ok_or_else(|| format!("expected NAME = VALUE (got {line:?})"))?;
            let field = fields.iter_mut().find(|field| field.name == name.trim());
            let field = field.ok_or_else(|| format!("there is no field {:?}", name.trim()))?;
            field.value = field.parse(value.trim()).map_err(|why| format!("{}: {why}", field.name))?;
        }
        Ok(edited)
    }

    /// The values, if the person accepts.
    pub fn accepted(&self) -> Result<Value, String> {
        let Wanted::Form(fields) = &self.wanted else { return Ok(json!({"action": "accept"})) };
        if let Some(field) = fields.iter().find(|field| field.is_required && field.value.is_none()) {
            return Err(format!("{} is required: e edits the values", field.name));
        }
        let values = fields.iter().filter_map(|field| Some((field.name.clone(), field.value.clone()?)));
        Ok(json!({"action": "accept", "content": values.collect::<Map<_, _>>()}))
    }

    /// The answer of a person who does not want to give it, or who cannot be asked.
    pub fn decline_answer() -> Value {
        json!({"action": "decline"})
    }
}

fn url(text: &str) -> Result<String, String> {
    let is_fine = text.len() <= MAX_URL && text.bytes().all(|byte| byte.is_ascii_graphic());
    let has_scheme = text.starts_with("https://") || text.starts_with("http://");
    if is_fine && has_scheme { Ok(text.to_owned()) } else { Err("its URL is not valid".into()) }
}

fn fields(schema: &Value) -> Result<Vec<Field>, String> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object();
    let mut fields = Vec::new();
    for (name, part) in properties.into_iter().flatten() {
        let is_name = !name.trim().is_empty() && !name.contains(['=', '\n']) && !name.contains(char::is_control);
        if !is_name || fields.len() == MAX_FIELDS {
            return Err("its form cannot be shown".into());
        }
        let words = ["title", "description"].iter().filter_map(|key| part[key].as_str());
        let about = words.collect::<Vec<_>>().join(": ").replace('\n', " ");
        let about = shortened(&about, MAX_ABOUT).into_owned();
        let (name, is_required) = (name.clone(), required.contains(&name.as_str()));
        let mut field = Field { name, about, kind: kind(part)?, is_required, value: None };
        let default = &part["default"];
        let fits = field.parse(&plain(default)).ok().flatten().is_some_and(|value| value == *default);
        field.value = fits.then(|| default.clone());
        fields.push(field);
    }
    Ok(fields)
}

fn kind(part: &Value) -> Result<Kind, String> {
    let number = |name: &str| part[name].as_f64();
    Ok(match part["type"].as_str() {
        _ if !options(part).is_empty() => Kind::Choice(check_options(options(part))?),
        Some("array") => Kind::Choices(check_options(options(&part["items"]))?),
        Some("string") => Kind::Text {
            least: part["minLength"].as_u64().map_or(0, |least| least as usize),
            most: part["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize),
            format: part["format"]
                .as_str()
                .unwrap_or("text")
                .chars()
                .filter(|c| c.is_ascii_graphic())
                .take(20)
                .collect(),
        },
        Some(kind @ ("number" | "integer")) => Kind::Number {
            is_whole: kind == "integer",
            least: number("minimum").unwrap_or(f64::NEG_INFINITY),
            most: number("maximum").unwrap_or(f64::INFINITY),
        },
        Some("boolean") => Kind::Boolean,
        _ => return Err("a field of its form has an unknown type".into()),
    })
}

/// The values of a choice, as any revision writes them.
fn options(part: &Value) -> Vec<String> {
    let lists = ["enum", "oneOf", "anyOf"].iter().find_map(|key| part[key].as_array());
    let value = |option: &Value| option.as_str().or_else(|| option["const"].as_str()).map(str::to_owned);
    lists.into_iter().flatten().filter_map(value).collect()
}

fn check_options(options: Vec<String>) -> Result<Vec<String>, String> {
    let is_fine = |option: &String| !option.contains([',', '\n']) && !option.contains(char::is_control);
    match (1..=MAX_OPTIONS).contains(&options.len()) && options.iter().all(is_fine) {
        true => Ok(options),
        false => Err("a choice of its form cannot be shown".into()),
    }
}

impl Field {
    fn describe(&self) -> String {
        let required = if self.is_required { ", required" } else { "" };
        let about = if self.about.is_empty() { String::new() } else { format!("  {}", self.about) };
        format!("{} = {}  ({}{required}){about}", self.name, self.value_text(), self.kind.describe())
    }

    fn value_text(&self) -> String {
        self.value.as_ref().map(plain).unwrap_or_default()
    }

    /// The value that was typed; `None` if nothing was.
    fn parse(&self, typed: &str) -> Result<Option<Value>, String> {
        if typed.is_empty() {
            return Ok(None);
        }
        let expected = || format!("expected {} (got {typed:?})", self.kind.describe());
        let value = match &self.kind {
            Kind::Text { least, most, .. } => {
                (*least..=*most).contains(&typed.chars().count()).then(|| Value::from(typed))
            }
            Kind::Boolean => match typed.to_ascii_lowercase().as_str() {
                "true" | "yes" | "y" => Some(true.into()),
                "false" | "no" | "n" => Some(false.into()),
                _ => None,
            },
            Kind::Number { is_whole: true, least, most } => {
                typed.parse::<i64>().ok().filter(|number| (*least..=*most).contains(&(*number as f64))).map(Value::from)
            }
            Kind::Number { least, most, .. } => {
                typed.parse::<f64>().ok().filter(|number| (*least..=*most).contains(number)).map(Value::from)
            }
            Kind::Choice(options) => {
                options.iter().find(|option| *option == typed).map(|option| option.as_str().into())
            }
            Kind::Choices(options) => {
                let chosen: Vec<&str> = typed.split(',').map(str::trim).collect();
                let is_known = |word: &&str| options.iter().any(|option| option == word);
                chosen.iter().all(is_known).then(|| chosen.into())
            }
        };
        value.map(Some).ok_or_else(expected)
    }
}

impl Kind {
    fn describe(&self) -> String {
        let bounds = |least: String, most: String| match (least.is_empty(), most.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!(", at least {least}"),
            (true, false) => format!(", at most {most}"),
            (false, false) => format!(", {least} to {most}"),
        };
        match self {
            Self::Text { least, most, format } => {
                let least = if *least == 0 { String::new() } else { format!("{least} characters") };
                let most = if *most == usize::MAX { String::new() } else { format!("{most} characters") };
                format!("{format}{}", bounds(least, most))
            }
            Self::Number { is_whole, least, most } => {
                let bound = |bound: f64| if bound.is_finite() { bound.to_string() } else { String::new() };
                let kind = if *is_whole { "a whole number" } else { "a number" };
                format!("{kind}{}", bounds(bound(*least), bound(*most)))
            }
            Self::Boolean => "true or false".into(),
            Self::Choice(options) => format!("one of {}", options.join(", ")),
            Self::Choices(options) => format!("any of {}, with commas between them", options.join(", ")),
        }
    }
}

/// A value as it is typed.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value, required: Value) -> Result<Elicitation, String> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Elicitation::read("s", &json!({"message": "Who are you?", "requestedSchema": schema}))
    }

    #[test]
    fn values_are_typed_and_checked() {
        let asked = form(
            json!({
                "name": {"type": "string", "title": "Name", "minLength": 2},
                "age": {"type": "integer", "default": 30, "minimum": 1, "maximum": 150},
                "rate": {"type": "number"},
                "sure": {"type": "boolean"},
                "friend": {"type": "string", "enum": ["Ross", "Joey"], "default": "Chandler"},
                "colours": {"type": "array", "items": {"anyOf": [{"const": "red", "title": "Red"}, {"const": "blue"}]}},
            }),
            json!(["name"]),
        )
        .unwrap();
        assert!(asked.accepted().unwrap_err().contains("name is required"));
        let text = asked.text().unwrap();
        assert!(text.contains("age = 30") && text.contains("friend = \n"), "{text}");
        let edited =
            asked.with_edits("name = Ada\nage = 36\nrate = 0.5\nsure = yes\nfriend = Joey\ncolours = red, blue");
        let content =
            json!({"name": "Ada", "age": 36, "rate": 0.5, "sure": true, "friend": "Joey", "colours": ["red", "blue"]});
        assert_eq!(edited.unwrap().accepted().unwrap(), json!({"action": "accept", "content": content}));
        for (line, why) in [
            ("name = A", "name: expected text, at least 2 characters (got \"A\")"),
            ("age = x", "age: expected a whole number, 1 to 150 (got \"x\")"),
            ("age = 200", "age: expected a whole number, 1 to 150"),
            ("sure = perhaps", "sure: expected true or false"),
            ("friend = Phoebe", "friend: expected one of Ross, Joey"),
            ("colours = green", "colours: expected any of red, blue"),
            ("other = 1", "there is no field \"other\""),
            ("name", "expected NAME = VALUE"),
        ] {
            let found = asked.with_edits(line).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
        let shown = asked.detail();
        assert!(shown.contains(&"name =   (text, at least 2 characters, required)  Name".to_owned()), "{shown:?}");
    }

    #[test]
    fn a_url_is_shown_whole_or_refused() {
        let read = |url: &str| Elicitation::read("s", &json!({"message": "m", "mode": "url", "url": url}));
        let asked = read("https://example.org/a?b=c").unwrap();
        assert!(asked.detail().contains(&"https://example.org/a?b=c".to_owned()) && asked.text().is_none());
        assert_eq!(asked.accepted(), Ok(json!({"action": "accept"})));
        for bad in ["", "javascript:x", "https://a b", "file:///etc", &format!("https://{}", "a".repeat(3000))] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_shown_is_refused() {
        assert!(form(json!({"a": {"type": "object"}}), json!([])).is_err());
        assert!(form(json!({"a\nb": {"type": "string"}}), json!([])).is_err());
        let many: Map<String, Value> = (0..60).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
        assert!(form(many.into(), json!([])).is_err());
        assert!(Elicitation::read("s", &json!({"mode": "voice"})).is_err());
    }
}
