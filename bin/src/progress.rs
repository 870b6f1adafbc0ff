//! A progress bar on standard error for work that takes over a second.

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::size::human_bytes;
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
        // indicatif's own rate counts from the first call, so what was done in the quiet time would falsify it.
        let style =
            ProgressStyle::with_template("{prefix} {wide_bar} {binary_bytes}/{binary_total_bytes} {rate} {left}");
        if let Ok(style) = style {
            let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                let rate = bytes_per_second(state.pos(), state.elapsed());
                // Where a bar cannot be drawn the work still goes on.
                let _ = write!(out, "{}/s", human_bytes(rate));
            });
            let style = style.with_key("left", |state: &ProgressState, out: &mut dyn Write| {
                let rate = bytes_per_second(state.pos(), state.elapsed());
                let left_bytes = state.len().unwrap_or(0).saturating_sub(state.pos());
                if let Some(seconds) = left_bytes.checked_div(rate) {
                    let _ = write!(out, "{} left", HumanDuration(Duration::from_secs(seconds)));
                }
            });
            bar.set_style(style);
        }
        bar.set_prefix(self.what.clone());
        let bar = bar.with_elapsed(self.start.elapsed());
        self.ui.set_bar(Some(bar.clone()));
        bar
    }
}

/// The mean rate since the beginning.
fn bytes_per_second(bytes: u64, elapsed: Duration) -> u64 {
    let ms = elapsed.as_millis().max(1);
    u64::try_from(u128::from(bytes) * 1000 / ms).unwrap_or(u64::MAX)
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
            self.ui.set_bar(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ColorWhen;

    #[test]
    fn nothing_shows_within_the_first_second() {
        let ui = Ui::new(ColorWhen::Never);
        let mut progress = ui.progress("verify", 100);
        progress.add(10);
        assert!(progress.bar.get().is_none());
        progress.start -= QUIET_TIME;
        progress.add(10);
        let bar = progress.bar.get().unwrap();
        assert_eq!((bar.position(), bar.length()), (20, Some(100)));
        assert!(bar.elapsed() >= QUIET_TIME);
    }

    #[test]
    fn the_rate_is_the_mean_since_the_beginning() {
        assert_eq!(bytes_per_second(3000, Duration::from_millis(1500)), 2000);
        assert_eq!(bytes_per_second(0, Duration::ZERO), 0);
        assert_eq!(bytes_per_second(u64::MAX, Duration::ZERO), u64::MAX);
    }
}
