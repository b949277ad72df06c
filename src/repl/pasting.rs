//! Ctrl+V: attaches the image in the person's clipboard to the draft. At an attached terminal the client reads it.

use crate::base::error::{Error, Result};
use crate::base::id::TerminalId;
use crate::domain::wire::Response;
use crate::repl::Repl;
use crate::terminal::clipboard_image::ClipboardImage;

/// An image that is being read for a terminal of this process.
pub(super) struct OpenPaste {
    terminal: TerminalId,
    image: ClipboardImage,
}

impl Repl {
    pub(super) fn paste_image(&mut self, id: TerminalId) {
        let notice = match self.start_paste(id) {
            Ok(()) => "reading the clipboard …".to_owned(),
            Err(error) => error.message,
        };
        self.terminals.notify(id, notice);
    }

    fn start_paste(&mut self, id: TerminalId) -> Result<()> {
        if self.terminals.is_read_only(id) {
            return Err(Error::usage("this terminal is read-only: nothing can be attached here"));
        }
        let is_own = self.terminals.get(id).is_some_and(|terminal| terminal.is_local() && !terminal.mode.is_attached);
        if !is_own {
            let client = self.server.client_at(id).filter(|client| client.can_paste());
            let client = client.ok_or_else(|| {
                Error::usage("the client of this terminal cannot read the clipboard: update polylogue there")
            })?;
            client.send(&Response::Paste {});
            return Ok(());
        }
        if self.programs.paste.is_none() {
            let image = ClipboardImage::start(self.core.waker())?;
            self.programs.paste = Some(OpenPaste { terminal: id, image });
        }
        Ok(())
    }

    /// Takes an image that was read.
    pub(super) fn finish_paste(&mut self) {
        let Some(image) = self.programs.paste.as_ref().and_then(|open| open.image.poll()) else { return };
        if let Some(OpenPaste { terminal, .. }) = self.programs.paste.take() {
            self.terminals.on_pasted(&mut self.core, terminal, image);
        }
    }
}
