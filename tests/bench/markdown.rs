//! A reply of 1 MB in pieces of 16 bytes, drawn on a screen of 80 columns and 50 rows after each piece.

use std::time::Duration;

use crate::process::own_cpu;
use crate::support::internals::{LineKind, Reader, Scrollback};
use crate::table::Table;

const REPLY_BYTES: usize = 1_000_000;
const PIECE: usize = 16;
/// The reply is measured in so many equal parts.
const PARTS: usize = 8;
const RUNS: usize = 5;

/// What models write: paragraphs with styles, lists, code, tables and quotes.
const SAMPLE: &str = "## The cart\n\nThe `total()` sums **prices**, not lines: each line has a *count* of its own, and the\n\
    sum ignores it. See [the handler](https://example.com/cart) for where it is called.\n\n\
    1. `total` walks the lines\n2. it adds the price of each\n   - once per line\n   - whatever the count is\n3. and \
    returns\n\n```rust\nfn total(&self) -> Money {\n    self.lines.iter().map(|line| line.price * line.count).sum()\n}\n\
    ```\n\n| case | before | after |\n|---|--:|--:|\n| empty | 0 | 0 |\n| one line of three | 5 | 15 |\n\n\
    > The count is used now; one test still expects the old sum.\n\n";

/// Time per part of the reply, least of several runs.
fn parts(source: &str, kind: LineKind) -> [Duration; PARTS] {
    let mut least = [Duration::MAX; PARTS];
    for _ in 0..RUNS {
        let mut scrollback = Scrollback::default();
        for (part, time) in least.iter_mut().enumerate() {
            let part = &source.as_bytes()[part * source.len() / PARTS..(part + 1) * source.len() / PARTS];
            let before = own_cpu();
            for piece in part.chunks(PIECE) {
                scrollback.extend(kind, std::str::from_utf8(piece).expect("the sample is ASCII"));
                scrollback.update();
                std::hint::black_box(scrollback.visible(Reader::Shared, 80, 50));
            }
            *time = (*time).min(own_cpu() - before);
        }
    }
    least
}

pub fn figures(table: &mut Table) {
    Table::heading("Markdown: 1 MB in pieces of 16 bytes, a frame for each");
    let source = SAMPLE.repeat(REPLY_BYTES / SAMPLE.len() + 1);
    let (drawn, plain) = (parts(&source, LineKind::Assistant), parts(&source, LineKind::Person));
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    let sum = |parts: &[Duration]| parts.iter().sum::<Duration>();
    let pieces = (source.len() / PIECE / PARTS) as f64;
    table.tell("a piece at the end", drawn[PARTS - 1].as_secs_f64() * 1e6 / pieces, "us");
    table.at_most("the last eighth beside the first", ratio(drawn[PARTS - 1], drawn[0]), 1.5, "");
    table.at_most("the whole beside plain text", ratio(sum(&drawn), sum(&plain)), 3.0, "");
}
