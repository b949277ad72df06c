//! Themes: how the meanings of colours look.

use std::str::FromStr;

use crate::domain::frame::Color;

/// How a colour looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// The terminal's own colour for text.
    Default,
    /// One of the 16 colours that the terminal's settings define.
    Basic(u8),
    /// One of the 256 colours of xterm; those from 16 on look the same everywhere.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// How many colours a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    #[default]
    Basic,
    Indexed,
    Rgb,
}

/// The theme that a person chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThemeSettings {
    /// One of [`ThemeSettings::NAMES`].
    pub name: &'static str,
    /// Colours that replace those of the theme.
    pub colors: Vec<(Color, Paint)>,
}

impl ThemeSettings {
    pub const NAMES: [&str; 6] = ["auto", "dark", "light", "16", "colorblind_dark", "colorblind_light"];

    pub fn set(&mut self, color: Color, paint: Paint) {
        self.colors.retain(|(other, _)| *other != color);
        self.colors.push((color, paint));
    }

    pub fn get(&self, color: Color) -> Option<Paint> {
        self.colors.iter().find(|(other, _)| *other == color).map(|(_, paint)| *paint)
    }

    /// Whether the theme depends on the background.
    pub fn follows_background(&self) -> bool {
        self.name == "auto"
    }

    /// The theme for a terminal of this background: dark if it is not known.
    pub fn theme(&self, is_light: bool, depth: Depth) -> Theme {
        let paint = |color| match self.get(color) {
            Some(paint) => paint.within(depth),
            None => built_in(self.name, is_light, depth, color),
        };
        let faint =
            (is_on_light(self.name, is_light) && depth != Depth::Basic).then_some(Paint::Indexed(FAINT_ON_LIGHT));
        Theme { paints: Color::ALL.map(|(color, ..)| paint(color)), faint }
    }
}

impl Default for ThemeSettings {
    fn default() -> Self {
        Self { name: "auto", colors: Vec::new() }
    }
}

/// How each colour looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    paints: [Paint; Color::ALL.len()],
    /// Of faint text, where a terminal would make it too faint to read.
    faint: Option<Paint>,
}

/// Terminals mix faint text with the background: on a light one too little contrast is left.
const FAINT_ON_LIGHT: u8 = 241;

impl Theme {
    pub fn paint(&self, color: Color) -> Paint {
        // `Color::ALL` is in the order of the type.
        self.paints[color as usize]
    }

    /// The colour of faint text; without one it has the attribute for that.
    pub fn faint(&self) -> Option<Paint> {
        self.faint
    }
}

impl Default for Theme {
    fn default() -> Self {
        ThemeSettings::default().theme(false, Depth::Basic)
    }
}

/// A colour of a theme on dark and light backgrounds, of the 256, and of the terminal's own 16.
fn built_in(name: &str, is_light: bool, depth: Depth, color: Color) -> Paint {
    if color.is_background() {
        return background(name, is_light, depth, color);
    }
    let (dark, light, basic) = default_colors(color);
    let safe = safe(color);
    match (name, depth) {
        _ if basic == 0 => Paint::Default,
        ("16", _) => Paint::Basic(basic),
        (name, Depth::Basic) if name.starts_with("colorblind") => Paint::Basic(safe.2),
        (_, Depth::Basic) => Paint::Basic(basic),
        ("colorblind_dark", _) => Paint::Indexed(safe.0),
        ("colorblind_light", _) => Paint::Indexed(safe.1),
        ("light", _) => Paint::Indexed(light),
        ("auto", _) if is_light => Paint::Indexed(light),
        _ => Paint::Indexed(dark),
    }
}

/// Whether a theme is for a light background. `is_light`: that of the terminal is.
fn is_on_light(name: &str, is_light: bool) -> bool {
    name.ends_with("light") || name == "auto" && is_light
}

/// A background, on which text of any colour can be read. The 16 colours of a terminal have none.
fn background(name: &str, is_light: bool, depth: Depth, color: Color) -> Paint {
    let is_light = is_on_light(name, is_light);
    let is_safe = name.starts_with("colorblind");
    let rgb = |hex: u32| Paint::Rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8);
    // Added and removed lines, then words.
    let (indexed, exact) = match (is_light, is_safe) {
        (false, false) => ([22, 52, 28, 88], [0x14_32_1e, 0x3c_1a_1e, 0x1f_5c_35, 0x7a_2b_33]),
        (false, true) => ([17, 58, 18, 94], [0x10_26_3f, 0x3a_2a_10, 0x1d_4a_7a, 0x70_4c_1a]),
        (true, false) => ([194, 224, 157, 217], [0xda_fb_e1, 0xff_eb_e9, 0xac_ee_bb, 0xff_ce_cb]),
        (true, true) => ([189, 223, 153, 216], [0xd8_e8_ff, 0xff_e6_c7, 0xa9_cb_ff, 0xff_c8_87]),
    };
    let at = color as usize - Color::AddedLine as usize;
    match depth {
        _ if name == "16" => Paint::Default,
        Depth::Basic => Paint::Default,
        Depth::Indexed => Paint::Indexed(indexed[at]),
        Depth::Rgb => rgb(exact[at]),
    }
}

/// The colours of the themes dark, light and 16; 0 is the default colour.
const fn default_colors(color: Color) -> (u8, u8, u8) {
    match color {
        Color::AddedLine | Color::RemovedLine | Color::AddedWord | Color::RemovedWord => (0, 0, 0),
        Color::Default | Color::Note => (0, 0, 0),
        Color::Error | Color::Removed => (203, 160, 1),
        Color::User | Color::Added => (114, 22, 2),
        Color::String => (150, 22, 2),
        Color::Attention => (221, 94, 3),
        Color::Number | Color::Constant => (215, 94, 3),
        Color::Link | Color::Function | Color::Heading => (75, 25, 4),
        Color::Keyword | Color::Tag => (176, 90, 5),
        Color::Activity | Color::Tool | Color::Code | Color::Type => (80, 24, 6),
        Color::Comment => (247, 241, 8),
    }
}

/// Colours that people with any colour blindness tell apart: blue against orange and yellow, never red against green
/// (after Okabe and Ito, "Color Universal Design", 2008).
const fn safe(color: Color) -> (u8, u8, u8) {
    match color {
        Color::Error | Color::Removed => (208, 124, 3),
        Color::User | Color::Added | Color::Heading | Color::Function | Color::Link => (75, 25, 4),
        Color::Attention | Color::Number | Color::Constant => (227, 94, 11),
        Color::Keyword | Color::Tag => (175, 90, 5),
        Color::Comment => (247, 241, 8),
        _ => (117, 24, 6),
    }
}

const NAMES: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/// A name, `bright-` and a name, a number up to 255, or `#rrggbb`.
impl FromStr for Paint {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let named = |text: &str| NAMES.iter().position(|name| *name == text).and_then(|at| u8::try_from(at).ok());
        if text == "default" {
            return Ok(Self::Default);
        }
        if let Some(hex) = text.strip_prefix('#') {
            let is_hex = hex.len() == 6 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).map_err(drop);
            return if is_hex { Ok(Self::Rgb(part(0)?, part(2)?, part(4)?)) } else { Err(()) };
        }
        let bright = text.strip_prefix("bright-").and_then(named).map(|number| number + 8);
        match named(text).or(bright) {
            Some(number) => Ok(Self::Basic(number)),
            None => text.parse().map(Self::Indexed).map_err(drop),
        }
    }
}

impl std::fmt::Display for Paint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Default => f.write_str("default"),
            Self::Basic(number @ 0..8) => f.write_str(NAMES[usize::from(number)]),
            Self::Basic(number) => write!(f, "bright-{}", NAMES[usize::from(number) % NAMES.len()]),
            Self::Indexed(number) => write!(f, "{number}"),
            Self::Rgb(red, green, blue) => write!(f, "#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

impl Paint {
    /// The nearest colour that a terminal of this depth shows.
    pub fn within(self, depth: Depth) -> Self {
        match (self, depth) {
            (Self::Rgb(..), Depth::Indexed) => Self::Indexed(self.nearest_number(16..=255)),
            (Self::Indexed(number @ 0..16), Depth::Basic) => Self::Basic(number),
            (Self::Rgb(..) | Self::Indexed(_), Depth::Basic) => Self::Basic(self.nearest_number(0..=15)),
            _ => self,
        }
    }

    fn nearest_number(self, numbers: std::ops::RangeInclusive<u8>) -> u8 {
        let rgb = self.rgb();
        let distance = |number: &u8| {
            let other = Self::Indexed(*number).rgb();
            (0..3).map(|at| (i32::from(rgb[at]) - i32::from(other[at])).pow(2)).sum::<i32>()
        };
        numbers.min_by_key(distance).unwrap_or(7)
    }

    /// Red, green and blue; the first 16 colours as xterm has them.
    fn rgb(self) -> [u8; 3] {
        const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        match self {
            Self::Rgb(red, green, blue) => [red, green, blue],
            Self::Default => [229; 3],
            Self::Basic(7) | Self::Indexed(7) => [229; 3],
            Self::Basic(8) | Self::Indexed(8) => [127; 3],
            Self::Basic(n) | Self::Indexed(n @ 0..16) => {
                let level = if n < 8 { 205 } else { 255 };
                [1, 2, 4].map(|bit| if n & bit > 0 { level } else { 0 })
            }
            Self::Indexed(n @ 16..232) => [36, 6, 1].map(|step| LEVELS[usize::from((n - 16) / step % 6)]),
            Self::Indexed(n) => [8 + 10 * (n - 232); 3],
        }
    }
}

/// Whether a background is light (relative luminance of ITU-R BT.709 above the middle).
pub fn is_light([red, green, blue]: [u8; 3]) -> bool {
    0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue) > 127.5
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast of WCAG 2.1, 1.4.3: 4.5 is readable for everybody.
    fn contrast(paint: Paint, background: [u8; 3]) -> f64 {
        let linear = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.03928 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        let luminance = |[r, g, b]: [u8; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        let (a, b) = (luminance(paint.rgb()), luminance(background));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_colour_is_readable_on_its_background() {
        let themes =
            [("dark", [30; 3]), ("light", [245; 3]), ("colorblind_dark", [30; 3]), ("colorblind_light", [245; 3])];
        for (name, background) in themes {
            let theme = ThemeSettings { name, ..ThemeSettings::default() }.theme(false, Depth::Indexed);
            for (color, ..) in Color::ALL.into_iter().filter(|(color, ..)| !color.is_background()) {
                let paint = theme.paint(color);
                let contrast = contrast(paint, background);
                assert!(paint == Paint::Default || contrast >= 4.5, "{name} {color:?} {paint}: {contrast:.1}");
            }
            assert_eq!(theme.faint().is_some(), name.ends_with("light"));
            assert!(theme.faint().is_none_or(|paint| contrast(paint, background) >= 4.5), "{name}");
        }
    }

    /// Text in the terminal's own colour; changed words are bold, for which WCAG asks for 3.
    #[test]
    fn text_is_readable_on_the_backgrounds_of_changes() {
        for (name, text) in [("dark", 229), ("colorblind_dark", 229), ("light", 30), ("colorblind_light", 30)] {
            for depth in [Depth::Indexed, Depth::Rgb] {
                let theme = ThemeSettings { name, ..ThemeSettings::default() }.theme(false, depth);
                let all = [
                    (Color::AddedLine, 4.5),
                    (Color::RemovedLine, 4.5),
                    (Color::AddedWord, 3.0),
                    (Color::RemovedWord, 3.0),
                ];
                for (color, least) in all {
                    let paint = theme.paint(color);
                    let contrast = contrast(paint, [text; 3]);
                    assert!(contrast >= least, "{name} {color:?} {paint}: {contrast:.1}");
                }
            }
        }
    }

    #[test]
    fn the_list_of_colours_is_in_the_order_of_the_type() {
        for (at, (color, ..)) in Color::ALL.iter().enumerate() {
            assert_eq!(*color as usize, at, "{color:?}");
        }
    }

    #[test]
    fn what_a_person_sets_replaces_the_theme_as_near_as_the_terminal_can() {
        let mut settings = ThemeSettings::default();
        assert_eq!(settings.theme(false, Depth::Basic).paint(Color::Error), Paint::Basic(1));
        assert_ne!(settings.theme(true, Depth::Indexed), settings.theme(false, Depth::Indexed));
        for (text, expected) in [
            ("#ff0000", [Paint::Basic(9), Paint::Indexed(196), Paint::Rgb(255, 0, 0)]),
            ("196", [Paint::Basic(9), Paint::Indexed(196), Paint::Indexed(196)]),
            ("bright-blue", [Paint::Basic(12); 3]),
            ("default", [Paint::Default; 3]),
        ] {
            let paint: Paint = text.parse().unwrap();
            assert_eq!(paint.to_string(), text);
            settings.set(Color::Error, paint);
            let depths = [Depth::Basic, Depth::Indexed, Depth::Rgb];
            assert_eq!(depths.map(|depth| settings.theme(false, depth).paint(Color::Error)), expected, "{text}");
        }
        for wrong in ["", "256", "redd", "#12", "#gggggg", "#ä1234", "bright-", "-1"] {
            assert!(wrong.parse::<Paint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_colour_blind_themes_do_not_set_red_against_green() {
        for name in ["colorblind_dark", "colorblind_light"] {
            let theme = ThemeSettings { name, ..ThemeSettings::default() }.theme(false, Depth::Indexed);
            let [added, removed] = [Color::Added, Color::Removed].map(|color| theme.paint(color).rgb());
            assert!(added[2] > removed[2] && added[0] < removed[0], "blue against orange: {added:?} {removed:?}");
        }
    }
}
