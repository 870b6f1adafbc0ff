//! Levels that somebody asks for from outside, through the ring file, and what those in force are.

use crate::error::{Error, ErrorKind};
use crate::levels::Levels;
use crate::ring::level_area::LevelRecord;
use crate::ring::lock;

use super::Shared;

/// Requests may give so many categories settings of their own, and no more: each call site that is new looks through them.
const SETTINGS_MAX: usize = 1024;

/// What the backend knows of requests.
#[derive(Debug, Default)]
pub(super) struct LevelRequests {
    /// The request that was answered last; 0 for none.
    answered: u64,
    /// Whether the writer could not take it.
    is_refused: bool,
    /// The key of the levels that the ring file tells of; 0 for none.
    told_key: u64,
}

impl LevelRequests {
    /// Sets the levels that are asked for, and tells which are in force where that is news.
    pub(super) fn look(&mut self, shared: &Shared) {
        // In a statement of its own: to change levels takes the lock of the call sites, and no other must be held.
        let [asked, in_force] = lock(&shared.claims).level_records();
        if let Some(asked) = asked.filter(|asked| asked.id != self.answered) {
            let set = |levels: Levels| {
                shared.levels.change(|now| {
                    let mut then = now.clone();
                    then.overlay(&levels);
                    if then.settings() > SETTINGS_MAX {
                        return Err(Error::new(ErrorKind::Invalid, "too many settings of categories"));
                    }
                    *now = then;
                    Ok(())
                })
            };
            self.is_refused = asked.text.parse().and_then(set).is_err();
            self.answered = asked.id;
        }
        let key = shared.levels.key();
        // Whoever writes into the file may have written there, too.
        let stands = in_force.is_some_and(|in_force| in_force.id == self.answered);
        if !stands || self.told_key != key {
            let text = shared.levels.levels().in_full().to_string();
            let record = LevelRecord::in_force(self.answered, text, self.is_refused);
            let told = lock(&shared.claims).tell_levels(&record);
            // What could not be written is tried again.
            self.told_key = if told.is_ok() { key } else { 0 };
        }
    }
}
