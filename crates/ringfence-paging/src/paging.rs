//! Paged resources of an allocator.
//!
//! ```text
//!   Paging { items: [ Item: host copy, object on the device, uses ], limit, totals }
//!      add_texture, add_buffer ──▶ a handle            commit (commit.rs) ──▶ texture(&handle), buffer(&handle)
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`Paging::add_texture`], [`Paging::add_buffer`] | a buffer in host memory, and a copy of the contents |
//! | [`Paging::texture`], [`Paging::buffer`], [`Paging::generation`] | O(1) |
//! | [`Paging::limit_bytes`] | O(memory types + recycled objects) |

mod commit;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ringfence_core::sync::{SyncPoint, SyncSet};
use ringfence_hal::record::TextureParts;
use ringfence_hal::{BufferDesc, BufferUsage, Device, Kind, Priority, TextureDesc, TextureUsage, Textures};
use ringfence_memory::defrag::{DefragPass, MoveError};
use ringfence_memory::extend::Passed;
use ringfence_memory::residency::{Residency, UseList};
use ringfence_memory::{AllocationDesc, Allocator, Buffer, Error, Frame, Location, Plan, Texture};
use smallvec::SmallVec;

use commit::Missing;

use crate::PagingError;
use crate::desc::{PageDesc, PagingDesc, WhenAway};
use crate::handle::{Alive, Handle, Key, Paged, PagedBuffer, PagedTexture, UseKind};
use crate::host_copy::{HostCopy, HostState, Layout, host_types};
use crate::item::{Body, Item, Shape, has_passed, is_shortage};
use crate::policy::{Candidate, Rhythm, enough};

/// Buffers and textures that can leave the device while they are not used, and come back before their next use. See the
/// [crate](crate) documentation.
pub struct Paging<D: Device> {
    memory: Allocator<D>,
    desc: PagingDesc,
    /// Number of this value, unique in the process.
    id: u64,
    items: Vec<Option<Item<D>>>,
    free: Vec<u32>,
    serials: u64,
    /// Number of handles that were dropped since the last commit.
    dropped: Arc<AtomicUsize>,
    /// Memory types that are not on the device, one bit each.
    host_types: u32,
    /// `Some` if the program controls residency (Direct3D 12). Resources then stay, and their memory is evicted.
    residency: Option<(Residency<D>, UseList<D>)>,
    /// The memory heap of the resources on the device.
    heap: Option<u32>,
    /// Number of commits.
    now: u64,
    /// Bytes of the resources on the device.
    device_bytes: u64,
    /// Number of commits in a row in which the heap was beyond its limit.
    excess_commits: u64,
    /// Bytes by which the limit of paged resources is lowered, because resources that left have not emptied blocks yet.
    squeezed_bytes: u64,
    /// Bytes by which the heap was beyond its limit after the last trim.
    squeezed_at: u64,
    /// Bytes of the largest resource so far.
    largest_bytes: u64,
    /// Objects that left while they were used: bytes, and the points after which they are freed.
    retiring: Vec<(u64, SmallVec<[SyncPoint; 2]>)>,
    /// Resources with copies under way.
    unsettled: Vec<u32>,
    /// Resources that are to keep mip levels on the device and have none there.
    without_kept: Vec<u32>,
    /// The resources that the last commit used.
    used: Vec<u32>,
    /// Resources that got or lost an object since the last call of [`Paging::take_changed`].
    changed: Vec<u32>,
    /// Resources that were written, and have no current copy on the host yet.
    stale: Vec<u32>,
    /// The values that the timelines have reached.
    passed: Passed,
    /// The frame of the last commit, at the end, and earlier committed frames that are still open.
    committed: SmallVec<[Committed; 2]>,
    /// The waits before the first commit.
    no_waits: SyncSet,
    /// `true` if the last commit repeated an earlier one of the same frame.
    is_repeated: bool,
    candidates: Vec<Candidate>,
    missing: Vec<Missing>,
    /// The figures of the heap at the last reading of the limit, and the limit.
    last_limit: Option<([u64; 5], u64)>,
    totals: PagingTotals,
}

/// The result of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PagingStep {
    /// Number of resources that came back or got more mip levels.
    pub brought_count: u32,
    /// Bytes that the frame copies from the host for them.
    pub brought_bytes: u64,
    /// Number of resources that left the device or gave up mip levels.
    pub left_count: u32,
    /// Bytes of device memory that they gave up.
    pub left_bytes: u64,
    /// Bytes that the frame copies to the host, so that written resources can leave later.
    pub written_back_bytes: u64,
    /// Number of used resources that lack some of the used mip levels, or all of them.
    pub away_count: u32,
    /// Number of used resources in host memory.
    pub on_host_count: u32,
    /// Bytes of paged resources on the device.
    pub device_bytes: u64,
    /// Limit of these bytes.
    pub limit_bytes: u64,
}

/// Current sizes, and totals of all commits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PagingTotals {
    /// Number of resources.
    pub resource_count: u64,
    /// Bytes of their contents.
    pub content_bytes: u64,
    /// Bytes of the memory of resources on the device.
    pub device_bytes: u64,
    /// Bytes that were copied from the host.
    pub brought_bytes: u64,
    /// Bytes that were copied to the host.
    pub written_back_bytes: u64,
    /// Bytes of device memory that resources gave up.
    pub left_bytes: u64,
}

/// A committed frame, with the points of other timelines that its submission must wait for.
struct Committed {
    frame: SyncPoint,
    waits: SyncSet,
}

impl<D: Device> Paging<D> {
    /// Creates a paging without resources.
    ///
    /// # Safety
    /// Before each submission that uses paged resources, its frame is committed ([`Paging::commit`]) with these
    /// resources in its uses. On Direct3D 12, all other evictable resources are committed as for
    /// [`Allocator::residency`].
    #[must_use]
    pub unsafe fn new(memory: &Allocator<D>, desc: PagingDesc) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let capabilities = memory.capabilities();
        let residency = capabilities.residency.then(|| {
            // SAFETY: the caller promises that each submission is committed; a commit lists the used resources.
            let residency = unsafe { memory.residency() };
            let list = residency.list();
            (residency, list)
        });
        Self {
            desc,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            items: Vec::new(),
            free: Vec::new(),
            serials: 0,
            dropped: Arc::default(),
            host_types: host_types(capabilities),
            residency,
            heap: device_heap(memory),
            now: 0,
            device_bytes: 0,
            excess_commits: 0,
            squeezed_bytes: 0,
            squeezed_at: u64::MAX,
            largest_bytes: 0,
            retiring: Vec::new(),
            unsettled: Vec::new(),
            without_kept: Vec::new(),
            used: Vec::new(),
            changed: Vec::new(),
            stale: Vec::new(),
            passed: Passed::default(),
            missing: Vec::new(),
            last_limit: None,
            committed: SmallVec::new(),
            no_waits: SyncSet::new(),
            is_repeated: false,
            candidates: Vec::new(),
            totals: PagingTotals::default(),
            memory: memory.clone(),
        }
    }

    /// Adds a texture with these contents: each mip level with all its layers, the finest first, without padding. The
    /// contents are copied to host memory, and the texture is created on the device when a commit uses it. The usages
    /// for copies are added to the description.
    ///
    /// # Errors
    /// - The contents have another size than the texture.
    /// - The texture is multisampled, or its format has several planes or both depth and stencil.
    /// - The description is invalid, or the device does not support it.
    /// - Host memory is short.
    pub fn add_texture(
        &mut self,
        desc: &TextureDesc,
        contents: &[u8],
        page: PageDesc<'_>,
    ) -> Result<PagedTexture, PagingError> {
        self.new_texture(desc, Some(contents), page).map(PagedTexture)
    }

    /// Adds a texture with undefined contents, which the program writes on the device
    /// ([`PageUses::add_written`](crate::PageUses::add_written)).
    ///
    /// # Errors
    /// As [`Paging::add_texture`].
    pub fn add_empty_texture(&mut self, desc: &TextureDesc, page: PageDesc<'_>) -> Result<PagedTexture, PagingError> {
        self.new_texture(desc, None, page).map(PagedTexture)
    }

    /// Adds a buffer with these contents, as [`Paging::add_texture`] does.
    ///
    /// # Errors
    /// The contents have another size, the device does not support the description, or host memory is short.
    pub fn add_buffer(
        &mut self,
        desc: &BufferDesc,
        contents: &[u8],
        page: PageDesc<'_>,
    ) -> Result<PagedBuffer, PagingError> {
        self.new_buffer(desc, Some(contents), page).map(PagedBuffer)
    }

    /// Adds a buffer with undefined contents, which the program writes on the device.
    ///
    /// # Errors
    /// As [`Paging::add_buffer`].
    pub fn add_empty_buffer(&mut self, desc: &BufferDesc, page: PageDesc<'_>) -> Result<PagedBuffer, PagingError> {
        self.new_buffer(desc, None, page).map(PagedBuffer)
    }

    fn new_texture(
        &mut self,
        desc: &TextureDesc,
        contents: Option<&[u8]>,
        page: PageDesc<'_>,
    ) -> Result<Handle, PagingError> {
        let usage = desc.usage | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
        let desc = TextureDesc { usage, ..*desc };
        let parts = checked_parts(&desc)?;
        planned(self.memory.plan().texture(&desc, AllocationDesc::default()))?;
        let layout = Layout::texture(self.memory.capabilities(), &parts);
        self.add(Shape::Texture(desc, parts), layout, contents, page)
    }

    fn new_buffer(
        &mut self,
        desc: &BufferDesc,
        contents: Option<&[u8]>,
        page: PageDesc<'_>,
    ) -> Result<Handle, PagingError> {
        let usage = desc.usage | BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let desc = BufferDesc { usage, ..*desc };
        planned(self.memory.plan().buffer(&desc, AllocationDesc::default()))?;
        self.add(Shape::Buffer(desc), Layout::buffer(desc.size), contents, page)
    }

    fn add(
        &mut self,
        shape: Shape,
        layout: Layout,
        contents: Option<&[u8]>,
        page: PageDesc<'_>,
    ) -> Result<Handle, PagingError> {
        let buffer = contents.map(|contents| self.first_contents(&layout, contents, page.name)).transpose()?;
        let state = if buffer.is_some() { HostState::Current } else { HostState::Stale };
        self.serials += 1;
        let (serial, alive) = (self.serials, Alive::new(&self.dropped));
        self.totals.resource_count += 1;
        self.totals.content_bytes += layout.tight_bytes;
        self.largest_bytes = self.largest_bytes.max(layout.tight_bytes);
        let item = Item {
            serial,
            alive: Arc::clone(&alive),
            shape,
            layout,
            name: page.name.into(),
            priority: page.priority,
            // If memory is evicted instead of copied, a resource keeps its object, so it is never away again.
            when_away: if self.residency.is_some() { WhenAway::BringBack } else { page.when_away },
            user_data: page.user_data,
            is_pinned: false,
            host: HostCopy { buffer, state, is_writable: false },
            present: None,
            rhythm: Rhythm::default(),
            demand: 0,
            used_as: UseKind::Soon,
            uses: SmallVec::new(),
            extra_bytes: 0,
            copied_at: None,
            generation: 0,
            is_changed: false,
            is_listed_stale: false,
            wants_kept: false,
        };
        let index = self.free.pop().unwrap_or(self.items.len() as u32);
        match self.items.get_mut(index as usize) {
            Some(slot) => *slot = Some(item),
            None => self.items.push(Some(item)),
        }
        self.want_kept(index);
        Ok(Handle::new(Key { paging: self.id, index, serial }, alive))
    }

    fn first_contents(&self, layout: &Layout, contents: &[u8], name: &str) -> Result<Buffer<D>, PagingError> {
        let (given, needed) = (contents.len() as u64, layout.tight_bytes);
        if given != needed {
            return Err(PagingError::WrongSize { given, needed });
        }
        let desc = BufferDesc { size: layout.bytes, usage: BufferUsage::COPY_SRC };
        let request = AllocationDesc { name, location: Location::Upload, recycle: false, ..Default::default() };
        let mut buffer = self.memory.create_buffer(&desc, request)?;
        buffer.write(0, &layout.padded(contents))?;
        Ok(buffer)
    }

    /// Returns the texture that has the contents of the paged texture at present, and a mip level: this level of the
    /// description is mip level 0 of the returned texture. Returns `None` while the paged texture is away. Commands may
    /// use the returned texture in the frame of the last commit, if the uses of that commit contain the paged texture.
    ///
    /// # Panics
    /// If the texture belongs to another `Paging`.
    #[must_use]
    pub fn texture(&self, texture: &PagedTexture) -> Option<(&Texture<D>, u32)> {
        let present = self.item(texture.0.key).present.as_ref()?;
        match &present.body {
            Body::Texture(texture) => Some((texture, present.first_mip)),
            Body::Buffer(_) => None,
        }
    }

    /// Returns the buffer that has the contents of the paged buffer at present, or `None` while the paged buffer is
    /// away. Commands may use the returned buffer in the frame of the last commit, if the uses of that commit contain
    /// the paged buffer.
    ///
    /// # Panics
    /// If the buffer belongs to another `Paging`.
    #[must_use]
    pub fn buffer(&self, buffer: &PagedBuffer) -> Option<&Buffer<D>> {
        match &self.item(buffer.0.key).present.as_ref()?.body {
            Body::Buffer(buffer) => Some(buffer),
            Body::Texture(_) => None,
        }
    }

    /// Returns a number that changes when the resource gets, loses or exchanges its object. After a change, views and
    /// descriptors of the resource must be created again.
    ///
    /// # Panics
    /// If the resource belongs to another `Paging`.
    #[must_use]
    pub fn generation(&self, resource: &impl Paged) -> u64 {
        self.item(resource.key()).generation
    }

    /// If `is_pinned` is `true`, keeps a resource on the device once a commit has brought it there. `false` ends this.
    ///
    /// # Panics
    /// If the resource belongs to another `Paging`.
    pub fn set_pinned(&mut self, resource: &impl Paged, is_pinned: bool) {
        self.item_mut(resource.key()).is_pinned = is_pinned;
    }

    /// Sets the priority of a resource.
    ///
    /// # Panics
    /// If the resource belongs to another `Paging`.
    pub fn set_priority(&mut self, resource: &impl Paged, priority: Priority) {
        self.item_mut(resource.key()).priority = priority;
    }

    /// Sets the maximum number of bytes of paged resources on the device. If there are more, resources leave in the
    /// next commits, as soon as the device has completed their uses.
    pub fn set_device_bytes_max(&mut self, bytes: u64) {
        self.desc.device_bytes_max = bytes;
    }

    /// Returns the user data of the resources whose object was created, exchanged or retired since the last call, each
    /// once. Commits that failed and [`Paging::move_resource`] count too.
    #[must_use = "each change is reported once"]
    pub fn take_changed(&mut self) -> Vec<u64> {
        let changed = std::mem::take(&mut self.changed);
        let items = &mut self.items;
        let taken = changed.iter().filter_map(|index| {
            let item = items[*index as usize].as_mut()?;
            item.is_changed = false;
            Some(item.user_data)
        });
        taken.collect()
    }

    fn note_changed(&mut self, index: u32) {
        let Some(item) = &mut self.items[index as usize] else { return };
        if !std::mem::replace(&mut item.is_changed, true) {
            self.changed.push(index);
        }
    }

    /// If a resource lacks the mip levels that stay on the device, adds it to the list of such resources.
    fn want_kept(&mut self, index: u32) {
        let Some(item) = &mut self.items[index as usize] else { return };
        let lacks = item.kept_level().is_some_and(|level| !item.has(level));
        if lacks && !std::mem::replace(&mut item.wants_kept, true) {
            self.without_kept.push(index);
        }
    }

    /// Returns the points that the submission of the last committed frame must wait for: submissions on other timelines
    /// that fill resources of the frame, or use resources that the commit copies.
    #[must_use]
    pub fn waits(&self) -> &SyncSet {
        self.committed.last().map_or(&self.no_waits, |last| &last.waits)
    }

    /// Returns the current sizes, and the totals of all commits.
    #[must_use]
    pub fn totals(&self) -> PagingTotals {
        PagingTotals { device_bytes: self.device_bytes, ..self.totals }
    }

    /// Returns the bytes of paged resources that fit on the device at present, at most
    /// [`PagingDesc::device_bytes_max`]. The value is this sum, less the reserve, the bytes beyond the budget or the
    /// allocator's limit, and the bytes by which earlier commits have lowered the limit because the heap stayed beyond
    /// it:
    ///
    /// - the rest of the heap's budget,
    /// - the free bytes of the allocator's blocks,
    /// - the bytes that paged resources have.
    ///
    /// O(memory types + recycled objects).
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        let Some(heap) = self.heap else { return self.desc.device_bytes_max };
        let types = &self.memory.capabilities().memory_types;
        let statistics = self.memory.statistics();
        let of_heap = statistics.types.iter().zip(types).filter(|(_, held)| held.heap == heap);
        let free: u64 = of_heap.map(|(of, _)| of.block_bytes.saturating_sub(of.range_bytes)).sum();
        let budget = self.memory.budgets().heap(heap);
        let excess = self.excess_bytes().saturating_add(self.squeezed_bytes);
        let held = self.device_bytes + self.retiring_bytes();
        let room = held.saturating_add(budget.headroom_bytes()).saturating_add(free);
        let limit = room.saturating_sub(excess).saturating_sub(self.desc.reserve_bytes);
        limit.min(self.desc.device_bytes_max)
    }

    /// Returns the limit. Computes it again only if resources are away or the figures of the heap have changed.
    fn limit_now(&mut self, is_missing: bool) -> u64 {
        let budget = self.heap.map(|heap| self.memory.budgets().heap(heap)).unwrap_or_default();
        let ringfence_memory::Budget { usage_bytes, budget_bytes, limit_bytes, .. } = budget;
        let figures = [usage_bytes, budget_bytes, limit_bytes, self.desc.device_bytes_max, self.squeezed_bytes];
        match self.last_limit {
            Some((then, limit)) if then == figures && !is_missing => limit,
            _ => {
                let limit = self.limit_bytes();
                self.last_limit = Some((figures, limit));
                limit
            }
        }
    }

    /// Returns the bytes by which the heap is beyond its budget or the allocator's limit.
    fn excess_bytes(&self) -> u64 {
        let Some(heap) = self.heap else { return 0 };
        let budget = self.memory.budgets().heap(heap);
        let beyond_budget = budget.usage_bytes.saturating_sub(budget.budget_bytes);
        beyond_budget.max(budget.reserved_bytes.saturating_sub(budget.limit_bytes))
    }

    /// Returns the user data of the resources that leave the device in the next commit, in order, because paged
    /// resources have more bytes than [`Paging::limit_bytes`]. Resources that the next commit uses do not leave.
    /// O(resources log resources).
    #[must_use]
    pub fn to_leave(&mut self) -> Vec<u64> {
        self.read_timelines();
        let excess = self.device_bytes.saturating_sub(self.limit_bytes());
        self.gather(self.now + 1);
        let (count, _) = enough(&self.candidates, excess);
        let items = self.candidates[..count].iter().filter_map(|leaving| self.items[leaving.item as usize].as_ref());
        items.map(|item| item.user_data).collect()
    }

    /// Makes a move of a defragmentation if the moved resource is a paged one. With [`PagingDesc::movable`], call it
    /// from the function of a `Compactor` before all other owners. `frame` is the frame of the pass.
    /// Returns `false` if the resource is not a paged one, or must stay: its copy on the host is stale, or the frame
    /// uses it already.
    ///
    /// # Errors
    /// As [`DefragPass::copy_texture`].
    ///
    /// # Panics
    /// If `index` is not the index of a move.
    pub fn move_resource(
        &mut self,
        pass: &mut DefragPass<'_, D>,
        index: usize,
        frame: &Frame,
    ) -> Result<bool, MoveError> {
        let at = pass.moves()[index].user_data ^ self.mark();
        let item = u32::try_from(at).ok().and_then(|at| self.items.get_mut(at as usize)?.as_mut());
        let Some(item) = item else { return Ok(false) };
        let (shared, here) = (self.memory.shared(), frame.point());
        // The move does not wait for other queues, and an open frame may not fill the object.
        let is_pending = |point: &SyncPoint| point.timeline != here.timeline && !has_passed(&self.passed, *point);
        let is_open = |point: SyncPoint| point != here && shared.open_frame(point).is_some();
        if item.uses.iter().any(is_pending) || item.copied_at.is_some_and(is_open) {
            return Ok(false);
        }
        let is_moved = item.move_in(pass, frame)?;
        if is_moved {
            self.note_changed(at as u32);
            self.unsettled.push(at as u32);
        }
        Ok(is_moved)
    }

    /// Returns the bits that mark the user data of movable objects of this paging. The lower 32 bits are the index.
    const fn mark(&self) -> u64 {
        (self.id << 32) ^ 0xa5a5_0000_0000_0000
    }

    fn retiring_bytes(&self) -> u64 {
        self.retiring.iter().map(|(bytes, _)| bytes).sum()
    }

    fn item(&self, key: Key) -> &Item<D> {
        assert_eq!(key.paging, self.id, "the resource belongs to another Paging");
        self.items[key.index as usize].as_ref().expect("a resource lives as long as its handle")
    }

    fn item_mut(&mut self, key: Key) -> &mut Item<D> {
        assert_eq!(key.paging, self.id, "the resource belongs to another Paging");
        self.items[key.index as usize].as_mut().expect("a resource lives as long as its handle")
    }
}

/// Returns the memory heap of the best memory type of the device.
fn device_heap<D: Device>(memory: &Allocator<D>) -> Option<u32> {
    let capabilities = memory.capabilities();
    let memory_type = memory.plan().memory_type(!host_types(capabilities), AllocationDesc::default())?;
    Some(capabilities.memory_types[memory_type as usize].heap)
}

/// Returns the error of a plan, unless memory is only short at present.
fn planned(plan: Result<Plan, Error>) -> Result<(), Error> {
    match plan {
        Err(error) if is_shortage(&error) => Ok(()),
        other => other.map(drop),
    }
}

/// Returns the subresources of a texture, or an error if it cannot be paged.
fn checked_parts(desc: &TextureDesc) -> Result<TextureParts, PagingError> {
    let refused = |reason| PagingError::Unsupported { format: desc.format, samples: desc.samples, reason };
    let parts = Textures::parts(desc).ok_or_else(|| refused("its subresources are unknown"))?;
    match parts.format.each_aspect().count() {
        _ if desc.samples > 1 => Err(refused("multisampled textures cannot be copied to buffers")),
        1 => Ok(parts),
        _ => Err(refused("its depth and stencil are copied one by one")),
    }
}

impl<D: Device> fmt::Debug for Paging<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { desc, now, .. } = self;
        f.debug_struct("Paging").field("desc", desc).field("commits", now).field("totals", &self.totals()).finish()
    }
}
