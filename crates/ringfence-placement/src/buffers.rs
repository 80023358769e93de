//! Buffers of the policy: uploads and default buffers.

use std::panic;
use std::sync::Arc;

use super::default_pool::{DefaultPool, DefaultRanges, tlsf_pool};
use super::desc::{BufferRequest, Dynamism, PlacementDesc, Route, Strategy};
use super::heap_pools::HeapPools;
use super::inner::Inner;
use super::location::BufferLocation;
use super::range_pool::Block;
use crate::device::{BufferUsage, Buffers, Create, Device, DeviceError, Numbers, Requirements};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::Location;
use ringfence_memory::resource::{BufferCopy, ReplaceError};
use ringfence_memory::{AllocationDesc, Dedicated, Error, Resource};

/// Usages of the shared upload buffers.
pub(super) const UPLOAD_USAGE: BufferUsage = BufferUsage::COPY_SRC
    .union(BufferUsage::VERTEX)
    .union(BufferUsage::INDEX)
    .union(BufferUsage::CONSTANT)
    .union(BufferUsage::INDIRECT);

impl<D: Device> Inner<D> {
    /// See [`Placement::create_buffer`](super::Placement::create_buffer).
    #[track_caller]
    pub(super) fn create_buffer(&self, request: &BufferRequest<'_>) -> Result<BufferLocation<D>, Error> {
        self.shared().check_lost()?;
        DeviceError::invalid("a buffer has too few bytes").at_least(request.size, 1)?;
        if request.alignment != 0 && !request.alignment.is_power_of_two() {
            let given = Numbers::Given(request.alignment);
            return Err(DeviceError::invalid("an alignment is not a power of two").with(given).into());
        }
        match request.dynamism {
            Dynamism::Dynamic => self.create_upload(request),
            Dynamism::Static => self.create_default(request),
        }
    }

    /// See [`Placement::resize_buffer`](super::Placement::resize_buffer).
    #[track_caller]
    pub(super) fn resize_buffer(
        &self,
        held: &mut BufferLocation<D>,
        frame: &Frame,
        request: &BufferRequest<'_>,
        keep_bytes: u64,
    ) -> Result<Option<BufferCopy<D>>, ReplaceError> {
        if !self.shared().owns(frame) || !held.is_of(self.shared()) {
            return Err(ReplaceError::ForeignFrame);
        }
        if keep_bytes > held.size().min(request.size) {
            let (old_bytes, new_bytes) = (held.size(), request.size);
            return Err(ReplaceError::TooMuchToKeep { keep_bytes, old_bytes, new_bytes });
        }
        let new = self.create_buffer(request)?;
        let copy = BufferCopy {
            src: held.object().clone(),
            src_offset: held.offset(),
            dst: new.object().clone(),
            dst_offset: new.offset(),
            size: keep_bytes,
        };
        // The assignment drops the old buffer, which retires it.
        *held = new;
        Ok((keep_bytes > 0).then_some(copy))
    }

    /// Creates an upload buffer: a range of a buddy or of the pool, by [`PlacementDesc::upload_route`]. If the request
    /// is larger than `big_upload_bytes_max`, has a usage that shared buffers lack, or finds no room there, it gets a
    /// stand-alone buffer.
    #[track_caller]
    fn create_upload(&self, request: &BufferRequest<'_>) -> Result<BufferLocation<D>, Error> {
        let alignment = self.alignment(request);
        let route = self.desc.upload_route(request.size, alignment);
        // If the shared buffers do not have the requested usage, the request gets a stand-alone buffer.
        let route = if UPLOAD_USAGE.contains(request.usage) { route } else { Route::StandAlone };
        let make = |bytes| Block::buffer(self.shared(), bytes, UPLOAD_USAGE, Location::Upload, ("uploads", self.at));
        let found = match route {
            Route::UploadSmall => self.upload_small.allocate(self.padded(request.size), alignment, make),
            Route::UploadBig => self.upload_big.allocate(self.padded(request.size), alignment, make),
            _ => return self.create_stand_alone(request, Location::Upload),
        };
        match found {
            Ok(found) => Ok(BufferLocation::in_pool(self.shared(), found, request.size, Location::Upload, route)),
            Err(error) if error.may_fit_elsewhere() => self.create_stand_alone(request, Location::Upload),
            Err(error) => Err(error),
        }
    }

    /// Creates a default buffer in the first pool that supports its usage and strategy, or in a new pool. If the
    /// request is larger than `default_buffer_bytes_max`, or the pool cannot grow, it gets a stand-alone buffer.
    #[track_caller]
    fn create_default(&self, request: &BufferRequest<'_>) -> Result<BufferLocation<D>, Error> {
        if request.size > self.desc.default_buffer_bytes_max {
            return self.create_stand_alone(request, Location::Device);
        }
        let strategy = request.strategy.unwrap_or_else(|| self.desc.strategy_for(request.usage));
        let (index, pool) = self.default_pool(request.usage, strategy);
        let route = Route::DefaultBuffers { strategy, pool: index };
        let made = match &pool.ranges {
            DefaultRanges::Placed(heaps) => self.create_placed_buffer(heaps, request, route),
            DefaultRanges::Suballocated(ranges) => {
                let make = |bytes| {
                    Block::buffer(self.shared(), bytes, pool.usage, Location::Device, ("default buffers", self.at))
                };
                let found = ranges.allocate(self.padded(request.size), self.alignment(request), make);
                found.map(|found| BufferLocation::in_pool(self.shared(), found, request.size, Location::Device, route))
            }
        };
        match made {
            Err(error) if error.may_fit_elsewhere() => self.create_stand_alone(request, Location::Device),
            made => made,
        }
    }

    fn default_pool(&self, usage: BufferUsage, strategy: Strategy) -> (usize, Arc<DefaultPool<D>>) {
        let find = |pools: &[Arc<DefaultPool<D>>]| {
            let supports = |pool: &Arc<DefaultPool<D>>| pool.strategy == strategy && pool.usage.contains(usage);
            pools.iter().position(supports).map(|index| (index, Arc::clone(&pools[index])))
        };
        if let Some(found) = find(&self.default_buffers.read()) {
            return found;
        }
        let mut pools = self.default_buffers.write();
        find(&pools).unwrap_or_else(|| {
            pools.push(Arc::new(self.new_default_pool(usage, strategy)));
            (pools.len() - 1, Arc::clone(&pools[pools.len() - 1]))
        })
    }

    fn new_default_pool(&self, usage: BufferUsage, strategy: Strategy) -> DefaultPool<D> {
        let PlacementDesc { default_block_bytes, idle_frames, .. } = self.desc;
        // A later request with fewer usages also uses this pool. Every pool supports copies from and to its buffers.
        let usage = usage | BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let ranges = match strategy {
            Strategy::Placed => DefaultRanges::Placed(HeapPools::new(
                self.shared(),
                "default buffers",
                default_block_bytes,
                idle_frames,
                self.at,
            )),
            Strategy::Suballocated => {
                DefaultRanges::Suballocated(tlsf_pool(self.shared(), default_block_bytes, idle_frames))
            }
        };
        DefaultPool { usage, strategy, ranges }
    }

    #[track_caller]
    fn create_placed_buffer(
        &self,
        heaps: &HeapPools<D>,
        request: &BufferRequest<'_>,
        route: Route,
    ) -> Result<BufferLocation<D>, Error> {
        let (shared, mut route) = (self.shared(), route);
        let info = Create::<Buffers>::describe(&shared.device, &request.desc())?;
        let BufferRequest { name, alignment, .. } = *request;
        let desc = AllocationDesc { name, alignment, location: Location::Device, ..Default::default() };
        let place = |unplaced: &_, needs: Requirements| {
            if needs.requires_dedicated {
                route = Route::StandAlone;
                let alone = AllocationDesc { dedicated: Dedicated::Always, ..desc };
                // SAFETY: `create_with` has measured the object, and it was not placed.
                return unsafe { shared.place::<Buffers>(unplaced, needs, alone) };
            }
            heaps.place::<Buffers>(shared, unplaced, needs, Location::Device)
        };
        // SAFETY: `place` returns the object that it was passed, placed.
        let ((placed, place), needs) = unsafe { shared.create_with::<Buffers>(&info, desc, place) }?;
        // SAFETY: this allocator has just created the suballocation.
        unsafe { shared.note_line(&place, panic::Location::caller()) };
        // SAFETY: the object was just created from `info`, which describes the request, and bound to the suballocation.
        let buffer = unsafe {
            Resource::new(Arc::clone(shared), placed, place, needs.size, Location::Device)
                .made_as(&info)
                .described(request.desc())
        };
        Ok(BufferLocation::own(buffer, request.size, route))
    }

    #[track_caller]
    pub(super) fn create_stand_alone(
        &self,
        request: &BufferRequest<'_>,
        location: Location,
    ) -> Result<BufferLocation<D>, Error> {
        let BufferRequest { name, alignment, .. } = *request;
        let desc = AllocationDesc { name, location, alignment, dedicated: Dedicated::Always, ..Default::default() };
        let buffer = self.memory.create_buffer(&request.desc(), desc)?;
        Ok(BufferLocation::own(buffer, request.size, Route::StandAlone))
    }

    /// Returns the largest alignment that a usage or the request needs.
    fn alignment(&self, request: &BufferRequest<'_>) -> u64 {
        let capabilities = self.memory.device().capabilities();
        let by_usage = [
            (BufferUsage::CONSTANT, capabilities.constant_alignment),
            (BufferUsage::STORAGE, 256),
            (BufferUsage::STORAGE_READ, 256),
            (BufferUsage::TEXELS, capabilities.texel_alignment),
            (BufferUsage::DEVICE_ADDRESS, 256),
            (BufferUsage::COPY_SRC, 16),
            (BufferUsage::COPY_DST, 16),
            (BufferUsage::empty(), 16),
        ];
        let needed = by_usage.into_iter().filter(|(usage, _)| request.usage.contains(*usage));
        needed
            .map(|(_, alignment)| alignment)
            .fold(request.alignment.max(capabilities.non_coherent_atom_bytes), u64::max)
    }

    /// Rounds a size up to a multiple of the `nonCoherentAtomSize`, so that no two ranges share an atom.
    fn padded(&self, size: u64) -> u64 {
        let atom = self.memory.device().capabilities().non_coherent_atom_bytes.max(1);
        size.checked_next_multiple_of(atom).unwrap_or(size)
    }
}
