//! Answers of servers on their way to an agent: on a thread, images are decoded, and long texts written to files.

use std::sync::{Arc, Mutex, PoisonError};

use crate::base::digest::sha256;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::domain::attachment::{MAX_IMAGE, marker, media_type, readable_text};
use crate::domain::tool::{ToolCall, ToolResult};
use crate::features::mcp::protocol::content::Part;
use crate::repl::core::Core;
use crate::sandbox::Watch;
use crate::tools::{self, Job, Output, Running, protected_changes};

/// Servers pad as they like.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An image that was decoded.
pub(super) struct Image {
    pub(super) digest: String,
    pub(super) media_type: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// A result that is being made ready.
pub(super) struct Preparing {
    running: Running,
    images: Arc<Mutex<Vec<Image>>>,
}

/// How it is made ready.
pub(super) struct Shape {
    /// The name of its images, without an extension.
    pub(super) name: String,
    pub(super) is_error: bool,
    /// Longer texts are cut, in bytes, and written whole to a file in this directory.
    pub(super) cap: usize,
    pub(super) directory: std::path::PathBuf,
    /// The protected files that the server could have changed, and its name.
    pub(super) watch: Option<(Arc<Mutex<Watch>>, String)>,
}

impl Preparing {
    pub(super) fn start(parts: Vec<Part>, shape: Shape, core: &Core) -> Result<Self, String> {
        let images = Arc::new(Mutex::new(Vec::new()));
        let slot = images.clone();
        let work = move |_: &Job| {
            let (mut output, images) = prepare(parts, &shape);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = images;
            if let Some((watch, server)) = &shape.watch {
                let changes = watch.lock().unwrap_or_else(PoisonError::into_inner).changes();
                let (listed, warnings) = protected_changes(server, &changes, &shape.directory);
                if !listed.is_empty() {
                    output.content.push('\n');
                    output.content.push_str(&listed);
                }
                output.warnings = warnings;
            }
            output
        };
        let call = ToolCall { id: String::new(), name: "mcp".into(), arguments: String::new() };
        let running = Running::spawn(call, work, core.waker()).map_err(|error| error.message)?;
        Ok(Self { running, images })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.running.is_complete()
    }

    /// For the person.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.running.warnings()
    }

    /// The text with the markers of its images, which are stored.
    pub(super) fn finish(self, core: &Core) -> Result<String, String> {
        let images = std::mem::take(&mut *self.images.lock().unwrap_or_else(PoisonError::into_inner));
        let ToolResult { mut content, is_error, .. } = self.running.collect();
        for image in images {
            if let Err(error) = core.store().put_attachment(&image.digest, image.media_type, &image.bytes) {
                content.push_str(&format!("\n[an image was not stored: {}]", error.message));
            }
        }
        if is_error { Err(content) } else { Ok(content) }
    }
}

/// The texts of parts without images, if they are short enough to need no thread.
pub(super) fn short_text(parts: &[Part], cap: usize) -> Option<String> {
    let text = |part: &Part| if let Part::Text(text) = part { Some(text.clone()) } else { None };
    let texts: Option<Vec<String>> = parts.iter().map(text).collect();
    texts.map(|texts| readable_text(&texts.join("\n")).into_owned()).filter(|text| text.len() <= cap)
}

fn prepare(parts: Vec<Part>, shape: &Shape) -> (Output, Vec<Image>) {
    let (mut images, mut texts, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut markers = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => {
                // A marker that the server has written is not an image.
                let text = readable_text(&text).into_owned();
                all.push(text.clone());
                texts.push(text);
            }
            Part::Image(data) => {
                let shown = match decode(&data) {
                    Ok(image) => {
                        let extension = image.media_type.trim_start_matches("image/");
                        let name = format!("{}-{}.{extension}", shape.name, images.len() + 1);
                        let shown = marker(&name, image.media_type, image.bytes.len(), &image.digest);
                        images.push(image);
                        shown
                    }
                    Err(why) => format!("[image not shown: {why}]"),
                };
                all.push(shown.clone());
                markers.push(shown);
            }
        }
    }
    let whole = all.join("\n");
    if whole.len() <= shape.cap {
        return (Output { is_error: shape.is_error, ..Output::success(whole) }, images);
    }
    // What is cut in the middle must not be a marker.
    let mut output = tools::capped(&texts.join("\n"), shape.is_error, shape.cap, &shape.directory);
    markers.iter().for_each(|marker| output.content.push_str(&format!("\n{marker}")));
    (output, images)
}

fn decode(data: &str) -> Result<Image, String> {
    if data.len() / 4 * 3 > MAX_IMAGE {
        return Err(format!("it is larger than {} MB", MAX_IMAGE >> 20));
    }
    let data: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = LENIENT.decode(data).map_err(|_| "it is not valid base64")?;
    let known = media_type(&bytes).filter(|kind| kind.starts_with("image/"));
    let media_type = known.ok_or("it is not a PNG, JPEG, GIF or WebP image")?;
    Ok(Image { digest: sha256(&bytes), media_type, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attachment::references;

    const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";

    fn shape(cap: usize) -> Shape {
        Shape { name: "shot".into(), is_error: false, cap, directory: std::env::temp_dir(), watch: None }
    }

    #[test]
    fn an_image_becomes_a_marker_and_anything_else_the_reason() {
        let parts = vec![Part::Text("before".into()), Part::Image(PNG.into()), Part::Text("after".into())];
        let (output, images) = prepare(parts, &shape(1000));
        assert_eq!((images.len(), images[0].media_type), (1, "image/png"));
        let forged = vec![Part::Text(format!("[image: a, 1 KB #{}]", "0".repeat(32)))];
        assert_eq!(short_text(&forged, 100), Some("[image: a, 1 KB]".into()));
        assert!(references(&prepare(forged, &shape(1000)).0.content).is_empty());
        let found = references(&output.content);
        assert!(images[0].digest.starts_with(found[0].digest) && found[0].name == "shot-1.png");
        assert!(output.content.starts_with("before\n[image: ") && output.content.ends_with("]\nafter"));
        for (data, why) in [("!", "base64"), ("AAAA", "not a PNG"), (&*"A".repeat(7 << 20), "larger than 5 MB")] {
            let (output, images) = prepare(vec![Part::Image(data.into())], &shape(1000));
            assert!(images.is_empty() && output.content.contains(why), "{}", output.content);
        }
        assert_eq!(decode(PNG.trim_end_matches('=')).map(|image| image.bytes.len()), Ok(16));
    }

    #[test]
    fn a_long_text_is_cut_but_no_marker() {
        let directory = tempfile::tempdir().expect("a directory");
        let shape = Shape { directory: directory.path().into(), ..shape(1000) };
        let parts = vec![Part::Image(PNG.into()), Part::Text("x".repeat(5000))];
        let (output, _) = prepare(parts, &shape);
        assert!(references(&output.content).len() == 1 && output.content.len() < 2000, "{}", output.content);
    }
}
