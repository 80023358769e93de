//! The modules by topic: the public items of the crates below that are not on the front page. Each item has one path.

pub mod memory {
    //! Memory: statistics, snapshots, budgets, plans of requests, errors.
    //!
    //! The [`Allocator`](crate::Allocator) and the descriptions of its requests are on the front page. The crate
    //! [`ringfence_memory`] documents the fallback order and the sizes of blocks.

    #[doc(inline)]
    pub use ringfence_memory::Error;
    #[doc(inline)]
    pub use ringfence_memory::memory::{
        BlockSnapshot, Budget, Debug, DescriptorSnapshot, DriverCalls, Evict, HeapSnapshot, Maintenance, MemoryBudgets,
        OnExcess, Plan, PlannedWay, Planner, Pressure, RangeSnapshot, RawObject, Reclaimed, Recording, Retirement,
        RingSnapshot, ShutdownError, Snapshot, Statistics, Tried, TypeSnapshot, TypeStatistics, region,
    };
    #[doc(inline)]
    pub use ringfence_memory::resource::{
        AccessError, Allocation, AsBufferSlice, BufferSlice, PoolDesc, Resource, ResourceKind,
    };
}

pub mod lifetime {
    //! Lifetimes on the GPU: sync points, deferred release, and the replacement of a resource that may be in use.
    //!
    //! ```text
    //!   begin() ──▶ Frame 7 ──record──▶ submit, signalling 7 ──▶ submitted(frame)
    //!                 │                                                │
    //!                 └── drop(buffer): retired, tagged {timeline: 7}  │
    //!                                                                  ▼
    //!   reclaim(): reads each timeline once ─── 7 reached? ──▶ object destroyed, range free again
    //! ```
    //!
    //! [`Timeline`](crate::Timeline), [`Frame`](crate::Frame) and [`SyncPoint`](crate::SyncPoint) are on the front page.

    #[doc(inline)]
    pub use ringfence_core::sync::{SyncSet, TimelineId};
    #[doc(inline)]
    pub use ringfence_memory::lifetime::{BufferCopy, FrameError, MipCopy, MipSwap, ReplaceError, RetireBin};
}

pub mod upload {
    //! Uploads, readback and constants: descriptions, parts and errors of the types on the front page.
    //!
    //! | type | purpose |
    //! |---|---|
    //! | [`UploadRing`](crate::UploadRing), [`UploadWriter`] | bytes that the GPU reads once |
    //! | [`UploadBatch`](crate::UploadBatch), [`TransferQueue`] | copies to buffers and textures of the device |
    //! | [`ReadbackRing`](crate::ReadbackRing) | bytes that the host reads |
    //! | [`ConstantBuffers`](crate::ConstantBuffers) | constants that change in each frame or rarely |
    //!
    //! The crate [`ringfence_upload`] shows how a ring reuses its bytes, and the cost of each operation.

    #[doc(inline)]
    pub use ringfence_upload::{
        BatchError, BatchFigures, BoundConstants, ChainOrder, ConstantFigures, ConstantViews, ConstantWriter,
        ConstantsDesc, CopyTarget, DynamicConstants, Readback, ReadbackDesc, ReadbackError, Staged, StagedRange,
        StaticConstants, SubmitError, TexelTarget, Texels, TransferError, TransferQueue, UploadDesc, UploadError,
        UploadWriter, WhenFull,
    };
}

pub mod descriptor {
    //! Descriptors: views, CPU-only heaps, tables of a frame, samplers.
    //!
    //! | type | purpose |
    //! |---|---|
    //! | [`ShaderVisibleHeap`](crate::ShaderVisibleHeap) | descriptors that shaders read |
    //! | [`FrameDescriptors`], [`Table`] | tables of one frame |
    //! | [`Persistent`] | runs of slots that live until they are dropped |
    //! | [`BindlessTable`](crate::BindlessTable) | one slot for each resource, which shaders access by index |
    //! | [`SamplerTable`] | samplers without duplicates |
    //! | [`CpuDescriptorHeap`] | descriptors that are copied to shader-visible heaps, and descriptors of render targets |
    //!
    //! The crate [`ringfence_descriptor`] documents the rules for the reuse of slots, and the four models of
    //! descriptors.

    #[doc(inline)]
    pub use ringfence_descriptor::{
        Binding, BindlessDesc, BindlessEntry, BindlessIndex, ConstantView, CpuDescriptorHeap, CpuDescriptors,
        CpuHeapDesc, DescriptorError, FrameDescriptors, Heap, Persistent, Region, Sampler, SamplerTable,
        ShaderVisibleDesc, SlotAlgorithm, Table, TableSource, View, VisibleStatistics,
    };
}

#[cfg(feature = "transient")]
pub mod transient {
    //! Resources of a frame that share memory, created by the [`TransientAllocator`](crate::TransientAllocator).
    //!
    //! An [`Execution`] acquires and discards resources pass by pass. A planned frame declares all resources first. The
    //! crate [`ringfence_transient`] documents when two resources may share bytes.

    #[cfg(feature = "vulkan")]
    #[doc(inline)]
    pub use ringfence_transient::VulkanFirstUse;
    #[doc(inline)]
    pub use ringfence_transient::{
        Barrier, Described, Direct3d12Barrier, Execution, FramePass, FrameResource, Pass, QUEUES_MAX, Suspended,
        Transient, TransientBuffer, TransientDesc, TransientError, TransientFigures, TransientId, TransientKind,
        TransientTexture,
    };
}

#[cfg(feature = "placement")]
pub mod placement {
    //! An engine's placement policy: [`Placement`] assigns each request to a pool by its use, as Unreal Engine does.
    //!
    //! [`FastConstants`](crate::FastConstants) is on the front page. The crate [`ringfence_placement`] documents the
    //! choice of the pool.

    #[doc(inline)]
    pub use ringfence_placement::{
        AliasedHeap, BufferLocation, BufferRequest, Compactor, CompactorDesc, CompactorStep, ConstantsLifetime,
        ConstantsLocation, Dynamism, FastConstantsDesc, FastWriter, LocationKind, Placement, PlacementDesc,
        PlacementFigures, PoolFigures, Provided, ProvidedBuffer, ProvidedTexture, Route, Strategy, TextureKind,
        TextureLocation,
    };
}

pub mod algorithms {
    //! Range allocators and rings over plain numbers, without a device.
    //!
    //! A [`Pool`](crate::Pool) divides its blocks with an [`Algorithm`](algorithm::Algorithm) of this module. A virtual
    //! allocator ([`algorithm::virtual_allocator`]) divides anything that has offsets. The crates [`ringfence_core`] and
    //! `ringfence-lockfree` have further parts.

    #[doc(inline)]
    pub use ringfence_core::{algorithm, blocks, buddy, free_list, range, ring, tlsf};
}
