//! A screen as an SVG picture: every run of cells that look alike is one text element.

use std::fmt::Write;

const CELL: (f32, f32) = (8.4, 18.0);
const MARGIN: f32 = 12.0;
const PAPER: &str = "#16181d";
const INK: &str = "#d7dae0";
/// The eight colours of a terminal, dark ones first, in the order of their numbers.
const COLOURS: [&str; 8] = ["#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf"];

#[derive(PartialEq, Clone)]
struct Look {
    ink: String,
    /// The colour behind the text, if it is not the paper's.
    paper: Option<String>,
    bold: bool,
    italic: bool,
    dim: bool,
}

/// The whole picture.
pub fn draw(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let width = f32::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = f32::from(rows) * CELL.1 + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for row in 0..rows {
        for (column, text, look) in runs(screen, row, columns) {
            let x = f32::from(column) * CELL.0 + MARGIN;
            let y = (f32::from(row) + 0.75) * CELL.1 + MARGIN;
            let length = text.chars().count() as f32 * CELL.0;
            if let Some(paper) = &look.paper {
                let (top, height) = (f32::from(row) * CELL.1 + MARGIN, CELL.1);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{height:.1}\" fill=\"{paper}\"/>"
                );
            }
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" fill=\"{}\"{}>{}</text>",
                look.ink,
                attributes(&look),
                escape(&text)
            );
        }
    }
    if !screen.hide_cursor() {
        let (row, column) = screen.cursor_position();
        let (x, y) = (f32::from(column) * CELL.0 + MARGIN, f32::from(row) * CELL.1 + MARGIN);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{}\" height=\"{}\" fill=\"{INK}\"/>",
            CELL.0, CELL.1
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The runs of cells that look alike in a row. Blanks at its end are left out, but where their background is seen.
fn runs(screen: &vt100::Screen, row: u16, columns: u16) -> Vec<(u16, String, Look)> {
    let mut runs: Vec<(u16, String, Look)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else { continue };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let look = look_of(cell);
        match runs.last_mut() {
            Some((_, run, last)) if *last == look => run.push_str(text),
            _ => runs.push((column, text.to_owned(), look)),
        }
    }
    if let Some((_, run, look)) = runs.last_mut()
        && look.paper.is_none()
    {
        run.truncate(run.trim_end().len());
    }
    runs.retain(|(_, run, look)| look.paper.is_some() || !run.trim().is_empty());
    runs
}

fn look_of(cell: &vt100::Cell) -> Look {
    let shown = |color: vt100::Color| match color {
        vt100::Color::Idx(number) => Some(colour(number)),
        vt100::Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        vt100::Color::Default => None,
    };
    let (mut ink, mut paper) = (shown(cell.fgcolor()), shown(cell.bgcolor()));
    if cell.inverse() {
        (ink, paper) = (paper.or(Some(PAPER.into())), ink.or(Some(INK.into())));
    }
    Look { ink: ink.unwrap_or(INK.into()), paper, bold: cell.bold(), italic: cell.italic(), dim: cell.dim() }
}

/// A colour of xterm's palette of 256: the eight twice, a cube of six steps, and greys.
fn colour(number: u8) -> String {
    let step = |level: u8| if level == 0 { 0 } else { 55 + 40 * level };
    let (red, green, blue) = match number {
        0..16 => return COLOURS[usize::from(number % 8)].to_owned(),
        16..232 => (step((number - 16) / 36), step((number - 16) / 6 % 6), step((number - 16) % 6)),
        232.. => (8 + 10 * (number - 232), 8 + 10 * (number - 232), 8 + 10 * (number - 232)),
    };
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn attributes(look: &Look) -> String {
    let mut text = String::new();
    if look.bold {
        text.push_str(" font-weight=\"bold\"");
    }
    if look.italic {
        text.push_str(" font-style=\"italic\"");
    }
    if look.dim {
        text.push_str(" opacity=\"0.6\"");
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
