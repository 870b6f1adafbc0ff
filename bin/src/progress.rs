//! A progress bar on standard error for work that takes over a second.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::Ui;

/// Shorter work shows nothing: a bar that flashes by only unsettles.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// Bytes done, rate and time left of one piece of work. Shared by the threads that do it. Gone from the screen on drop.
#[derive(Debug)]
pub(crate) struct Progress<'ui> {
    ui: &'ui Ui,
    what: String,
    total_bytes: u64,
    done_bytes: AtomicU64,
    start: Instant,
    bar: OnceLock<ProgressBar>,
}

impl<'ui> Progress<'ui> {
    pub(crate) fn new(ui: &'ui Ui, what: &str, total_bytes: u64) -> Self {
        Self {
            ui,
            what: crate::escape::escape(what.as_bytes()).into_owned(),
            total_bytes,
            done_bytes: AtomicU64::new(0),
            start: Instant::now(),
            bar: OnceLock::new(),
        }
    }

    /// Counts more bytes as done. Costs a clock reading: call it per chunk, not per entry.
    pub(crate) fn add(&self, bytes: u64) {
        // ORDERING: Relaxed; a count that is only shown.
        let done = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.start.elapsed() >= QUIET_TIME {
            self.bar.get_or_init(|| self.show()).set_position(done);
        }
    }

    fn show(&self) -> ProgressBar {
        // Draws nothing by itself where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(self.total_bytes), ProgressDrawTarget::stderr());
        let template = "{prefix} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(self.what.clone());
        let bar = bar.with_elapsed(self.start.elapsed());
        self.ui.set_bar(Some(bar.clone()));
        bar
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
            self.ui.set_bar(None);
        }
    }
}
