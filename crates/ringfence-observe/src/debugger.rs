//! The live ranges, the history of operations, and the findings.
//!
//! ```text
//!   find_place ──made──▶ live[block, offset] ──retired──▶ (is_retired) ──released──▶ guards compared, bytes filled
//!                             │   │ moved: another entry at the new place, with new guards; the old one is retired
//!                             │   └────▶ live[block, offset] …                           │
//!                             │ every step                                               │
//!                             ▼                                                          ▼
//!                          history: the last N                                        findings: the last 1024
//! ```
//!
//! One lock protects all of this, and is held while guards are compared. `released` waits for the lock before the bytes
//! are free again, so a range cannot be reused while its guards are compared. The debugger exists only if a check is
//! on.

use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Weak};

use crate::debugging::{DebugDesc, Finding, GuardCheck, Leak, MemoryAddress, Operation, OperationKind, Overrun};
use crate::device::Mapped;
use crate::device::lock::Lock;
use crate::event::{Event, Key, NewPlace, NewRange};
use crate::guard::{Damage, Guards, Margins, fill};
use crate::slow_paths::{self, Warning};
use crate::watched::Watched;

const FINDINGS_MAX: usize = 1024;

struct Entry<M: Watched> {
    name: Arc<str>,
    user_data: u64,
    size: u64,
    memory_type: u32,
    memory: Weak<M>,
    /// Size of the guards. The range has room for them even if they could not be written.
    margins: Margins,
    /// The guards to compare. `None` if there are none, or if they could not be written or restored.
    guards: Option<Guards>,
    host: Option<Mapped>,
    device_address: Option<u64>,
    made_at: Option<&'static Location<'static>>,
    is_retired: bool,
    /// `true` if the range was reported as a leak.
    is_reported: bool,
}

impl<M: Watched> Entry<M> {
    fn describe(&self, key: Key) -> Leak {
        Leak {
            name: Arc::clone(&self.name),
            user_data: self.user_data,
            size: self.size,
            memory_type: self.memory_type,
            address: MemoryAddress::Block { block: key.block, offset: key.offset },
            made_at: self.made_at,
            is_retired: self.is_retired,
        }
    }

    /// Compares the guards. Returns `None` if the range has none, or if the host cannot access them. If guards cannot
    /// be restored, they are removed, so that each damage is reported once.
    fn check(&mut self, context: &M::Context, key: Key, at_release: bool) -> Option<Vec<Overrun>> {
        let (guards, memory) = (self.guards.as_ref()?, self.memory.upgrade()?);
        let base = memory.guards()?;
        // SAFETY: the range is live, so its memory is alive, and no resource owns the bytes of its guards.
        let (damages, is_mended) = unsafe { guards.check(context, &*memory, base) };
        if !is_mended {
            self.guards = None;
        }
        let owner = self.describe(key);
        let overrun = |damage: Damage| Overrun {
            owner: owner.clone(),
            side: damage.side,
            distance_bytes: damage.distance_bytes,
            damaged_bytes: damage.damaged_bytes,
            found: damage.found,
            at_release,
        };
        Some(damages.into_iter().map(overrun).collect())
    }

    /// Fills the owner's bytes, if they are mapped.
    fn fill(&self, context: &M::Context, key: Key, value: u8) {
        let (Some(host), Some(memory)) = (self.host, self.memory.upgrade()) else { return };
        match memory.mapped() {
            // SAFETY: the range is live and its owner cannot access it: it does not have the range yet, or has released
            // it. If a flush fails, the bytes are not the pattern, but their contents are undefined anyway.
            Some(base) => _ = unsafe { fill(context, &*memory, base, key.offset..key.offset + self.size, value) },
            // SAFETY: as above; the API maps resources, and maps this one as a whole.
            None => unsafe { host.as_ptr().write_bytes(value, self.size as usize) },
        }
    }
}

struct State<M: Watched> {
    live: BTreeMap<Key, Entry<M>>,
    history: VecDeque<Operation>,
    findings: VecDeque<Finding>,
    operations: u64,
}

/// The debugging state of an allocator. It exists only if a debugging check is on.
pub struct Debugger<M: Watched> {
    desc: DebugDesc,
    state: Lock<State<M>>,
}

impl<M: Watched> Debugger<M> {
    pub(crate) fn new(desc: DebugDesc) -> Option<Box<Self>> {
        let state = State {
            live: BTreeMap::new(),
            history: VecDeque::new(), // without capacity, because the program's limit may be any number
            findings: VecDeque::new(),
            operations: 0,
        };
        (!desc.is_off()).then(|| Box::new(Self { desc, state: Lock::new(state) }))
    }

    pub(crate) fn margin_bytes(&self) -> u32 {
        self.desc.margin_bytes
    }

    /// Handles an event of a range.
    ///
    /// # Safety
    /// As [`Observers::notify`](crate::Observers::notify).
    #[cold]
    pub(crate) unsafe fn on(&self, context: &M::Context, event: Event<'_, M>) {
        match event {
            Event::Made(new) => self.made(context, new),
            Event::HandedOut { key, at, device_address } => self.handed_out(key, at, device_address),
            Event::Named { range, name } => self.named(range.key, name),
            Event::Moved { from, to, place } => self.moved(context, from.key, to.key, place),
            Event::Retired(range) => self.retired(range.key),
            Event::Released(range) | Event::Freed(range) => self.released(context, range.key),
            Event::Ended { is_over } => self.report_leaks(is_over),
            Event::Called(_) | Event::Staged { .. } | Event::Recorded(_) | Event::Warned(_) => {}
        }
    }

    /// Adds a new range, writes its guards and fills it.
    fn made(&self, context: &M::Context, new: NewRange<'_, M>) {
        let NewRange { key, memory, size, name, user_data, margins, host } = new;
        // A small buffer is in a buffer that has guards as a whole, so it has none of its own.
        let margins = if key.is_small { Margins::default() } else { margins };
        let guards = Guards::around(margins, key.offset, size);
        let mut entry = Entry {
            name: name.into(),
            user_data,
            size,
            memory_type: memory.memory_type(),
            memory: Arc::downgrade(memory),
            margins,
            guards,
            host,
            device_address: None,
            made_at: None,
            is_retired: false,
            is_reported: false,
        };
        self.dress(context, key, &mut entry, memory);
        let mut state = self.state.lock();
        state.live.insert(key, entry);
        self.note(&mut state, key, OperationKind::Made);
    }

    /// Writes the guards of a range that was just allocated, and fills it.
    fn dress(&self, context: &M::Context, key: Key, entry: &mut Entry<M>, memory: &M) {
        if let (Some(guards), Some(base)) = (&entry.guards, memory.guards()) {
            // SAFETY: the range was just allocated with room for its guards, which no resource owns.
            let written = unsafe { guards.write(context, memory, base) };
            // On failure the guards are removed, because they would look damaged: a driver's failure is not an overrun.
            entry.guards = entry.guards.take().filter(|_| written.is_ok());
        }
        if let Some(value) = self.desc.fill_new {
            entry.fill(context, key, value);
        }
    }

    /// Returns the sizes of the guards of a live range, or 0 if the range is not live.
    pub fn margins_of(&self, key: Key) -> Margins {
        self.state.lock().live.get(&key).map_or_else(Margins::default, |entry| entry.margins)
    }

    /// Adds the entry of a moved resource: its bytes are now in another range of the same size, under the same name.
    /// The old range keeps its entry until the device is done with it.
    fn moved(&self, context: &M::Context, from: Key, to: Key, place: NewPlace<'_, M>) {
        let NewPlace { memory, host, device_address } = place;
        let entry = self.state.lock().live.get(&from).map(|old| Entry {
            name: Arc::clone(&old.name),
            user_data: old.user_data,
            size: old.size,
            memory_type: memory.memory_type(),
            memory: Arc::downgrade(memory),
            margins: old.margins,
            guards: Guards::around(old.margins, to.offset, old.size),
            host,
            device_address,
            made_at: old.made_at,
            is_retired: false,
            is_reported: false,
        });
        let Some(mut entry) = entry else { return };
        self.dress(context, to, &mut entry, memory);
        let mut state = self.state.lock();
        state.live.insert(to, entry);
        let from = MemoryAddress::Block { block: from.block, offset: from.offset };
        self.note(&mut state, to, OperationKind::Moved { from });
    }

    /// Records the line that created the range, and its address in shaders.
    fn handed_out(&self, key: Key, at: &'static Location<'static>, device_address: Option<u64>) {
        let mut state = self.state.lock();
        if let Some(entry) = state.live.get_mut(&key) {
            (entry.made_at, entry.device_address) = (Some(at), device_address);
        }
        let address = MemoryAddress::Block { block: key.block, offset: key.offset };
        let is_its_making = |held: &&mut Operation| held.kind == OperationKind::Made && held.subject.address == address;
        if let Some(operation) = state.history.iter_mut().rev().find(is_its_making) {
            (operation.subject.made_at, operation.device_address) = (Some(at), device_address);
        }
    }

    fn named(&self, key: Key, name: &str) {
        let mut state = self.state.lock();
        if let Some(entry) = state.live.get_mut(&key) {
            entry.name = name.into();
        }
        self.note(&mut state, key, OperationKind::Named);
    }

    fn retired(&self, key: Key) {
        let mut state = self.state.lock();
        if let Some(entry) = state.live.get_mut(&key) {
            entry.is_retired = true;
        }
        self.note(&mut state, key, OperationKind::Retired);
    }

    /// Compares the guards of a range that the device is done with, fills it and removes its entry. The object in the
    /// range may still be alive, but the bytes must still belong to the range.
    fn released(&self, context: &M::Context, key: Key) {
        let mut state = self.state.lock();
        self.note(&mut state, key, OperationKind::Released);
        let Some(mut entry) = state.live.remove(&key) else { return };
        for overrun in entry.check(context, key, true).unwrap_or_default() {
            state.found(Finding::Overrun(overrun));
        }
        // Shared memory is not filled, because it also belongs to other processes.
        let is_shared = || entry.memory.upgrade().is_some_and(|memory| memory.is_shared());
        if let Some(value) = self.desc.fill_released.filter(|_| !is_shared()) {
            entry.fill(context, key, value);
        }
    }

    /// Compares the guards of every live range, and restores damaged ones. O(live ranges), under the lock.
    ///
    /// # Safety
    /// Every memory object that [`Observers::notify`](crate::Observers::notify) was called with belongs to `context`.
    pub unsafe fn check_guards(&self, context: &M::Context) -> GuardCheck {
        let mut state = self.state.lock();
        let mut seen = GuardCheck::default();
        for (key, entry) in &mut state.live {
            match entry.check(context, *key, false) {
                Some(overruns) => {
                    seen.checked_count += 1;
                    seen.overruns.extend(overruns);
                }
                None => seen.unchecked_count += 1,
            }
        }
        seen.overruns.iter().cloned().for_each(|overrun| state.found(Finding::Overrun(overrun)));
        seen
    }

    /// Returns the live ranges, retired ones included. O(live ranges).
    pub fn live(&self) -> Vec<Leak> {
        self.state.lock().live.iter().map(|(key, entry)| entry.describe(*key)).collect()
    }

    /// Reports live ranges at shutdown, each once. Unless `is_over`, retired ranges are left out: they wait for the
    /// device.
    fn report_leaks(&self, is_over: bool) {
        if !self.desc.leaks {
            return;
        }
        let mut state = self.state.lock();
        let (mut leaks, mut small) = (Vec::new(), None);
        for (key, entry) in state.live.iter_mut().rev() {
            // If a small buffer is live, the shared buffer that contains it is not reported. The shared buffer comes
            // before its small buffers in the map, so it is visited after them.
            let end = key.offset + entry.size;
            let is_shared = small.is_some_and(|small: Key| small.block == key.block && small.offset < end);
            small = key.is_small.then_some(*key).or(small);
            let is_leak = is_over || !entry.is_retired;
            if is_leak && (key.is_small || !is_shared) && !std::mem::replace(&mut entry.is_reported, true) {
                leaks.push(entry.describe(*key));
            }
        }
        leaks.into_iter().rev().for_each(|leak| state.found(Finding::Leak(leak)));
    }

    /// Returns the description of a live range.
    pub fn described(&self, key: Key) -> Option<Leak> {
        self.state.lock().live.get(&key).map(|entry| entry.describe(key))
    }

    /// Records that copies to a resource were lost.
    pub fn lost(&self, content: Leak) {
        self.state.lock().found(Finding::LostContent(content));
    }

    /// Returns the findings since the last call, at most the last 1024.
    pub fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut self.state.lock().findings).into()
    }

    /// Returns the last operations, oldest first. If `address` is given, returns only operations on ranges that contain
    /// this byte. O(history).
    pub fn history(&self, address: Option<MemoryAddress>) -> Vec<Operation> {
        let state = self.state.lock();
        let wanted = |operation: &&Operation| address.is_none_or(|address| operation.concerns(address));
        state.history.iter().filter(wanted).cloned().collect()
    }

    fn note(&self, state: &mut State<M>, key: Key, kind: OperationKind) {
        let (number, limit) = (state.operations, self.desc.history_count as usize);
        state.operations += 1;
        let Some(entry) = state.live.get(&key).filter(|_| limit != 0) else { return };
        let operation = Operation {
            number,
            kind,
            subject: entry.describe(key),
            device_address: entry.device_address,
            host_address: entry.host.map(|host| host.as_ptr() as usize),
            thread: std::thread::current().id(),
        };
        if state.history.len() == limit {
            state.history.pop_front();
        }
        state.history.push_back(operation);
    }
}

impl<M: Watched> State<M> {
    fn found(&mut self, finding: Finding) {
        slow_paths::warn(&Warning::Found(&finding));
        if self.findings.len() == FINDINGS_MAX {
            self.findings.pop_front();
        }
        self.findings.push_back(finding);
    }
}
