//! The table that says what bytes are which are no entry: one documented verdict for each combination of facts.

use crate::finding::Fault;

/// What is known about one place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A frame header with a right checksum stands there.
    pub header_ok: bool,
    /// The frame that it tells ends within the segment.
    pub fits: bool,
    /// Its payload has the right checksum.
    pub payload_ok: bool,
    /// A valid frame follows somewhere behind it.
    pub later_frame: bool,
    /// A seal stands before it.
    pub behind_seal: bool,
    /// What the next segment's header says of it.
    pub successor: Successor,
    /// A writer holds the log.
    pub alive: bool,
}

/// What the next segment's header says of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// There is no next segment, or it does not know this one.
    None,
    /// The place is before the accepted end: a frame must be there.
    Claims,
    /// The place is at or behind the accepted end: nothing there counts.
    Accounts,
}

/// What a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A valid frame that counts.
    Whole,
    /// Damage in the middle.
    Damage(Fault),
    /// The end is damaged, and the next segment tells that frames stood there.
    LostEnd,
    /// A crash of the writer left it, and nothing accounts for it.
    TornTail,
    /// The next segment accounts for it: nothing of it was accepted there.
    Accounted,
    /// The writer may be writing it just now.
    InFlight,
    /// Bytes where nothing may be.
    Stray,
}

/// One row: the facts it fits (`None`: either), and the verdict.
struct Row {
    header_ok: Option<bool>,
    fits: Option<bool>,
    payload_ok: Option<bool>,
    later_frame: Option<bool>,
    behind_seal: Option<bool>,
    successor: &'static [Successor],
    alive: Option<bool>,
    verdict: Verdict,
}

const NOT_ACCOUNTED: &[Successor] = &[Successor::None, Successor::Claims];

/// Any facts that no row above it is about: the start of each row below.
const ANY: Row = Row {
    header_ok: None,
    fits: None,
    payload_ok: None,
    later_frame: None,
    behind_seal: Some(false),
    successor: NOT_ACCOUNTED,
    alive: None,
    verdict: Verdict::Whole,
};

const ROWS: &[Row] = &[
    // Behind the accepted end, whatever it is.
    Row { successor: &[Successor::Accounts], behind_seal: None, verdict: Verdict::Accounted, ..ANY },
    // Behind a seal, whatever it is.
    Row { behind_seal: Some(true), verdict: Verdict::Stray, ..ANY },
    Row { header_ok: Some(true), fits: Some(true), payload_ok: Some(true), ..ANY },
    // Damage with a valid frame behind it: a crash does not explain that on one boot.
    Row {
        header_ok: Some(true),
        fits: Some(true),
        payload_ok: Some(false),
        later_frame: Some(true),
        verdict: Verdict::Damage(Fault::FramePayload),
        ..ANY
    },
    Row {
        header_ok: Some(true),
        fits: Some(false),
        later_frame: Some(true),
        verdict: Verdict::Damage(Fault::FrameHeader),
        ..ANY
    },
    Row { header_ok: Some(false), later_frame: Some(true), verdict: Verdict::Damage(Fault::FrameHeader), ..ANY },
    // No valid frame behind it, the next segment tells that there were some.
    Row {
        header_ok: Some(true),
        fits: Some(true),
        payload_ok: Some(false),
        later_frame: Some(false),
        successor: &[Successor::Claims],
        verdict: Verdict::LostEnd,
        ..ANY
    },
    Row {
        header_ok: Some(true),
        fits: Some(false),
        later_frame: Some(false),
        successor: &[Successor::Claims],
        verdict: Verdict::LostEnd,
        ..ANY
    },
    Row {
        header_ok: Some(false),
        later_frame: Some(false),
        successor: &[Successor::Claims],
        verdict: Verdict::LostEnd,
        ..ANY
    },
    // No valid frame behind it, no next segment, a writer at work.
    Row {
        header_ok: Some(true),
        fits: Some(true),
        payload_ok: Some(false),
        later_frame: Some(false),
        successor: &[Successor::None],
        alive: Some(true),
        verdict: Verdict::InFlight,
        ..ANY
    },
    Row {
        header_ok: Some(true),
        fits: Some(false),
        later_frame: Some(false),
        successor: &[Successor::None],
        alive: Some(true),
        verdict: Verdict::InFlight,
        ..ANY
    },
    Row {
        header_ok: Some(false),
        later_frame: Some(false),
        successor: &[Successor::None],
        alive: Some(true),
        verdict: Verdict::InFlight,
        ..ANY
    },
    // The same without a writer.
    Row {
        header_ok: Some(true),
        fits: Some(true),
        payload_ok: Some(false),
        later_frame: Some(false),
        successor: &[Successor::None],
        alive: Some(false),
        verdict: Verdict::TornTail,
        ..ANY
    },
    Row {
        header_ok: Some(true),
        fits: Some(false),
        later_frame: Some(false),
        successor: &[Successor::None],
        alive: Some(false),
        verdict: Verdict::TornTail,
        ..ANY
    },
    Row {
        header_ok: Some(false),
        later_frame: Some(false),
        successor: &[Successor::None],
        alive: Some(false),
        verdict: Verdict::TornTail,
        ..ANY
    },
];

impl Row {
    fn fits(&self, facts: &Facts) -> bool {
        let is = |wanted: Option<bool>, fact: bool| wanted.is_none_or(|wanted| wanted == fact);
        is(self.header_ok, facts.header_ok)
            && is(self.fits, facts.fits)
            && is(self.payload_ok, facts.payload_ok)
            && is(self.later_frame, facts.later_frame)
            && is(self.behind_seal, facts.behind_seal)
            && self.successor.contains(&facts.successor)
            && is(self.alive, facts.alive)
    }
}

/// The verdict on a place with these facts.
pub fn verdict(facts: &Facts) -> Verdict {
    ROWS.iter().find(|row| row.fits(facts)).map_or(Verdict::Stray, |row| row.verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_facts() -> impl Iterator<Item = Facts> {
        (0..64u32).flat_map(|bits| {
            let bit = move |at: u32| bits & (1 << at) != 0;
            [Successor::None, Successor::Claims, Successor::Accounts].map(move |successor| Facts {
                header_ok: bit(0),
                fits: bit(1),
                payload_ok: bit(2),
                later_frame: bit(3),
                behind_seal: bit(4),
                successor,
                alive: bit(5),
            })
        })
    }

    #[test]
    fn exactly_one_row_fits_each_combination_of_facts() {
        for facts in all_facts() {
            let rows = ROWS.iter().filter(|row| row.fits(&facts)).count();
            assert_eq!(rows, 1, "{facts:?}");
        }
    }

    #[test]
    fn each_row_is_the_only_one_for_some_facts() {
        for (number, row) in ROWS.iter().enumerate() {
            assert!(all_facts().any(|facts| row.fits(&facts)), "row {number}");
        }
    }

    #[test]
    fn a_live_writer_is_never_accused_of_its_unfinished_end() {
        for facts in all_facts().filter(|facts| facts.alive && !facts.later_frame && facts.successor == Successor::None)
        {
            assert_ne!(verdict(&facts), Verdict::TornTail, "{facts:?}");
        }
    }
}
