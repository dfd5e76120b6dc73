//! Change of the number of shards of a spool that several spoolers share by them, asked for by a program.

use crate::{error::Result, tier::open_spool, time::Clock};
use parking_lot::Mutex;
use std::path::Path;
use zwire_engine::clock;
use zwire_spool::{Error, Rule};
use zwire_tier::TierWriter;

/// A change that is asked for. The spoolers make it; without any, the program does.
pub struct Resharding {
    shards: u32,
    tier: Mutex<(TierWriter, Option<u32>)>,
}

impl Resharding {
    /// Opens the store with an address, or of the spool in a folder.
    pub fn open(place: &Path, shards: u32) -> Result<Self> {
        let spool = open_spool(place)?;
        let usage = |problem: &str| Error::Usage(format!("{}: {problem}", place.display()));
        if spool.meta().rule != Rule::Hash {
            return Err(usage(
                "key expressions choose the shards of this spool: their number does not change",
            )
            .into());
        }
        let tier = spool.tier().ok_or_else(|| usage("this spool has no tier, and one spooler"))?;
        let mut tier = TierWriter::new(tier.place(), spool.meta(), clock::mono)?;
        tier.enter(spool.meta(), Clock::default().micros())?;
        Ok(Self { shards, tier: Mutex::new((tier, None)) })
    }

    /// Whether the change was asked for; before, a shard is on its way from one spooler to another.
    pub fn is_asked(&self) -> bool {
        self.tier.lock().1.is_some()
    }

    /// Does what can be done now. Returns whether keys are spread over the wanted number of shards. Fails with
    /// [`Error::Usage`] if another program has asked for another number before the change was made.
    pub fn step(&self) -> Result<bool> {
        let (tier, goal) = &mut *self.tier.lock();
        let now = Clock::default().micros();
        tier.look()?;
        if goal.is_none() {
            *goal = tier.ask_shards(self.shards, now)?;
        }
        let Some(goal) = *goal else { return Ok(false) };
        if tier.generation() < goal {
            tier.close_shards(now)?;
        }
        if tier.generation() < goal {
            return Ok(false);
        }
        let made = tier.manifest().mapping.as_ref().map_or(tier.described(), |made| made.shards_after(goal));
        if made == self.shards {
            return Ok(true);
        }
        let problem =
            format!("another program has asked for {made} shards before the change to {}", self.shards);
        Err(Error::Usage(problem).into())
    }
}
