//! The messages that every benchmark logs (DESIGN section 8): the same ones for the same thread, no two alike.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::fmt::{self, Write};
use std::sync::LazyLock;

/// Ends of the messages: what services say, 70 to 90 bytes each.
const SENTENCES: [&str; 16] = [
    "upstream answered after a retry, the connection was returned to the pool as healthy",
    "cache entry expired while the request was waiting, value was loaded from the store",
    "session token refreshed, previous token stays valid until its grace period has ended",
    "order accepted and queued for fulfilment, the confirmation mail will be sent later",
    "rate limit is close for this client, further requests in this window may be delayed",
    "payload validated against schema version 14, two optional fields were left empty",
    "search index was asked for 50 results and gave 37, the rest was filtered by access",
    "request was routed to the second replica because the first one reported high load",
    "file upload finished, checksum matches what the client sent, the scan is scheduled",
    "background job picked up by worker, it is expected to finish within its time slot",
    "permission check passed by group membership, the decision was taken from the cache",
    "database transaction committed after one conflict, three rows were written in total",
    "feature flag evaluated for this account, the new checkout page has been delivered",
    "connection closed by the peer after the response had been sent, nothing was lost",
    "payment provider confirmed the charge, the receipt is stored and will be mailed",
    "metrics of the last minute were aggregated and handed over to the collector service",
];

const STATUSES: [u16; 8] = [200, 200, 200, 200, 404, 500, 302, 201];

/// Number of different values of the fields that are drawn from a table.
const VALUES: u64 = 64;

/// The values, made once.
static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let table = |make: fn(u64) -> String| (0..VALUES).map(make).collect();
    Tables {
        users: table(|k| format!("user-{k:04}@example.com")),
        ips: table(|k| format!("10.{k}.{}.{}", k * 7 % 256, k * 13 % 256)),
        paths: table(|k| format!("/api/v1/resource/{k:03}/items/{:03}/detail", k * 7919 % 1000)),
    }
});

#[derive(Debug)]
struct Tables {
    users: Vec<String>,
    ips: Vec<String>,
    paths: Vec<String>,
}

/// One message, as the fields that a program would log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Number of the message, from 0 on.
    pub(crate) id: u64,
    /// Mail address.
    pub(crate) user: &'static str,
    /// Address in dotted form.
    pub(crate) ip: &'static str,
    /// Path of a request.
    pub(crate) path: &'static str,
    /// HTTP status.
    pub(crate) status: u16,
    /// Milliseconds.
    pub(crate) latency_ms: f64,
    /// A sentence.
    pub(crate) msg: &'static str,
}

impl fmt::Display for Message {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Message { id, user, ip, path, status, latency_ms, msg } = self;
        write!(out, "req id={id} user={user} ip={ip} path={path} status={status} latency_ms={latency_ms:.3} msg={msg}")
    }
}

/// An endless sequence of messages, made without allocating.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    x: u64,
    id: u64,
    tables: &'static Tables,
}

impl Workload {
    /// The sequence of this thread, from its first message on.
    pub(crate) fn new(thread: usize) -> Workload {
        Workload { x: 42 + thread as u64, id: 0, tables: &TABLES }
    }

    /// The next message.
    pub(crate) fn next_message(&mut self) -> Message {
        self.x = self.x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let r = self.x >> 33;
        let (user, k) = ((r % VALUES) as usize, ((r >> 6) % VALUES) as usize);
        let id = self.id;
        self.id += 1;
        Message {
            id,
            user: &self.tables.users[user],
            ip: &self.tables.ips[k],
            path: &self.tables.paths[k],
            status: STATUSES[(r >> 12) as usize % STATUSES.len()],
            latency_ms: (r % 100_000) as f64 / 1000.0,
            msg: SENTENCES[(r >> 18) as usize % SENTENCES.len()],
        }
    }

    /// Appends the next message as a line of a text log, about 250 bytes with its newline: time (10 us after the line
    /// before), level, message.
    pub(crate) fn push_line(&mut self, out: &mut String) {
        let us = self.id * 10;
        let (hours, minutes, seconds) = (us / 3_600_000_000 % 24, us / 60_000_000 % 60, us / 1_000_000 % 60);
        let message = self.next_message();
        let level = match message.status {
            500.. => "ERROR",
            400.. => "WARN ",
            _ => "INFO ",
        };
        let fraction = us % 1_000_000;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "2026-11-28T{hours:02}:{minutes:02}:{seconds:02}.{fraction:06}Z {level} {message}");
    }
}
