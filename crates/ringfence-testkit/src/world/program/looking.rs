//! Debugging in a world. The guards between ranges stay intact, and a damaged guard is reported.

use ringfence::debugging::{Finding, OperationKind};
use ringfence::device::{DeviceError, Driver};
use ringfence::{AllocationDesc, Dedicated, Location};

use super::super::outcome::{Step, Stop, granted};
use super::super::thing::needs;
use super::Program;
use crate::Gpu;

impl Program {
    /// Checks that no guard is damaged and that debugging has no finding.
    pub fn look_at_guards(&self) -> Step {
        let overrun = self.memory.debug().check_guards().overruns.into_iter().next();
        match overrun.map(Finding::Overrun).or_else(|| self.memory.debug().take_findings().into_iter().next()) {
            Some(found) => Err(Stop::Wrong(format!("a guard was written: {found}"))),
            None => Ok(()),
        }
    }

    /// If debugging is on, writes a byte past the end of a range on purpose. The overrun must be reported once, with
    /// the name of the range, and must be repaired.
    pub fn overrun(&mut self) -> Step {
        if self.desc.debug.is_off() {
            return Ok(());
        }
        self.look_at_guards()?;
        // The size is a multiple of an atom, so the guard starts directly after the range.
        let size = 256 * (1 + self.dice.below(16));
        let needs = needs(size, 256, u32::MAX);
        let (dedicated, location) = (Dedicated::Never, Location::Upload);
        let desc = AllocationDesc { dedicated, location, name: "planted", ..Default::default() };
        let Some(allocation) = granted(self.memory.allocate(needs, desc))? else { return Ok(()) };
        let Some(mapped) = allocation.mapped() else { return Ok(()) };
        let past = self.dice.below(16);
        // SAFETY: the byte is inside the memory object, in the guard of the range, which no other code uses.
        unsafe { mapped.as_ptr().add((size + past) as usize).write(0x41) };
        let found = self.memory.debug().check_guards().overruns;
        let reported = self.memory.debug().take_findings();
        if found.is_empty() && reported.is_empty() && self.is_lost() {
            // The device was lost before the guard was flushed, so the range has no guard.
            return Err(Stop::Lost);
        }
        let is_it = |name: &str, distance: u64| name == "planted" && distance == past;
        let (true, [one], 1) = (self.memory.debug().check_guards().overruns.is_empty(), &found[..], reported.len())
        else {
            let location = allocation.memory_address();
            return Err(Stop::Wrong(format!(
                "expected one overrun, planted at {location:?}; found {found:?}, reported {reported:?}"
            )));
        };
        if !is_it(&one.owner.name, one.distance_bytes) {
            return Err(Stop::Wrong(format!("the planted overrun is reported wrongly: {one:?}")));
        }
        let history = self.memory.debug().history_of(allocation.memory_address());
        let is_made = history.last().is_some_and(|last| last.kind == OperationKind::Made);
        if is_made {
            Ok(())
        } else {
            Err(Stop::Wrong(format!("the history belongs to another allocation: {history:?}")))
        }
    }

    /// Returns `true` if the device reports that it is lost.
    fn is_lost(&self) -> bool {
        let fence = self.gpu.fence(0);
        // SAFETY: the fence belongs to this device.
        let progress = unsafe { self.gpu.sim().completed(&fence) };
        progress == Err(DeviceError::Lost)
    }
}
