//! The table of a benchmark: what was measured, against what, and whether it reaches its bar.

/// What a ratio should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// At least this much.
    AtLeast(f64),
    /// It is only shown.
    None,
}

/// How fast something was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Bytes per second.
    pub(crate) rate: f64,
    /// Bytes per second of processor time: what a busy machine changes less.
    pub(crate) cpu_rate: f64,
}

/// Prints rows as they are measured, and remembers whether all reached their bars.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: usize,
    missed: usize,
}

impl Table {
    /// A line above the rows.
    pub(crate) fn head(&self, text: &str) {
        println!("{text}");
    }

    /// Speed against a peer's; no row if either is missing.
    pub(crate) fn rate(&mut self, what: &str, ours: Option<Speed>, peer_name: &str, peer: Option<Speed>, bar: Bar) {
        let (Some(ours), Some(peer)) = (ours, peer) else { return };
        let (ratio, cpu) = (ours.rate / peer.rate, ours.cpu_rate / peer.cpu_rate);
        let (ours, peer) = (ours.rate, peer.rate);
        let (bar, is_ok) = match bar {
            Bar::AtLeast(least) => (format!(">= {least}"), Some(ratio >= least)),
            Bar::None => (String::new(), None),
        };
        let mega = |rate: f64| format!("{:.0} MB/s", rate / 1e6);
        self.row(what, &mega(ours), &format!("{peer_name} {}", mega(peer)), &[ratio, cpu], &bar, is_ok);
    }

    /// Resident memory against a limit, in bytes.
    pub(crate) fn memory(&mut self, what: &str, bytes: f64, most: f64) {
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let bar = format!("< {:.0} MiB", mib(most));
        self.row(what, &format!("{:.1} MiB", mib(bytes)), "resident", &[], &bar, Some(bytes > 0.0 && bytes < most));
    }

    /// Time against a limit, in seconds.
    pub(crate) fn time(&mut self, what: &str, seconds: f64, most: f64) {
        let bar = format!("< {:.0} ms", most * 1e3);
        self.row(what, &format!("{:.1} ms", seconds * 1e3), "", &[], &bar, Some(seconds < most));
    }

    /// A latency in seconds, which may be `most` times the peer's.
    pub(crate) fn latency(&mut self, what: &str, ours: f64, peer_name: &str, peer: Option<f64>, most: f64) {
        let us = |seconds: f64| format!("{:.0} us", seconds * 1e6);
        let Some(peer) = peer else { return };
        let ratio = ours / peer;
        let peer = format!("{peer_name} {}", us(peer));
        self.row(what, &us(ours), &peer, &[ratio], &format!("<= {most}"), Some(ratio <= most));
    }

    /// Whether every row reached its bar.
    pub(crate) fn is_good(&self) -> bool {
        self.missed == 0
    }

    fn row(&mut self, what: &str, ours: &str, peer: &str, ratios: &[f64], bar: &str, is_ok: Option<bool>) {
        if self.rows == 0 {
            println!("\n{:<40} {:>10}  {:<24} {:>5} {:>5}  bar", "", "ours", "peer", "ratio", "cpu");
        }
        self.rows += 1;
        self.missed += usize::from(is_ok == Some(false));
        let verdict = is_ok.map_or("", |is_ok| if is_ok { "ok" } else { "MISSED" });
        let ratio = |at: usize| ratios.get(at).map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let (ratio, cpu) = (ratio(0), ratio(1));
        println!("{}", format!("{what:<40} {ours:>10}  {peer:<24} {ratio:>5} {cpu:>5}  {bar:<8} {verdict}").trim_end());
    }
}
