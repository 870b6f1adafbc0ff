//! Our logger as the benchmarks open it, and its workload through the macros.

use std::path::Path;
use std::time::Duration;

use logtool::{Logger, LoggerBuilder, LoggerStats, info};

use crate::support::messages::Message;

/// How long a flush or a close may take: more than the disk needs for all that memory can hold.
pub(crate) const END_WAIT: Duration = Duration::from_secs(300);

/// A log in `dir` which is synced each second; for the rest the defaults.
pub(crate) fn builder(dir: &Path) -> LoggerBuilder {
    Logger::builder(dir).sync_interval(Duration::from_secs(1))
}

/// Logs a message of the workload.
#[inline(always)]
pub(crate) fn log(log: &Logger, message: Message) {
    let Message { id, user, ip, path, status, latency_ms, msg } = message;
    info!(
        logger: log,
        "req id={id} user={user} ip={ip} path={path} status={status} latency_ms={latency_ms:.3} msg={msg}"
    );
}

/// Calls that were not accepted.
pub(crate) fn drops(stats: &LoggerStats) -> u64 {
    stats.refused
}
