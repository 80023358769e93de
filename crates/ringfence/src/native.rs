//! Types that the modules of the devices define: an alias of each generic type that programs store, and for each of the
//! two backends an allocator type with its own constructor.

/// Defines the aliases of one device. `$api` is the name of its API in the documentation.
macro_rules! aliases {
    ($api:literal) => {
        #[doc = concat!("A buffer of a ", $api, " device.")]
        pub type Buffer = ringfence_memory::Buffer<Device>;
        #[doc = concat!("A texture of a ", $api, " device.")]
        pub type Texture = ringfence_memory::Texture<Device>;
        #[doc = concat!("A range of a shared driver buffer of a ", $api, " device.")]
        pub type SmallBuffer = ringfence_memory::SmallBuffer<Device>;
        #[doc = concat!("A pool of memory of a ", $api, " device.")]
        pub type Pool = ringfence_memory::Pool<Device>;
        #[doc = concat!("The progress of a queue on a ", $api, " device.")]
        pub type Timeline = ringfence_memory::lifetime::Timeline<Device>;
        #[doc = concat!("An upload ring of a ", $api, " device.")]
        pub type UploadRing = ringfence_upload::UploadRing<Device>;
        #[doc = concat!("A batch of copies of a ", $api, " device.")]
        pub type UploadBatch = ringfence_upload::UploadBatch<Device>;
        #[doc = concat!("A readback ring of a ", $api, " device.")]
        pub type ReadbackRing = ringfence_upload::ReadbackRing<Device>;
        #[doc = concat!("Constant buffers of a ", $api, " device. `V` creates their views, if the program wants any.")]
        pub type ConstantBuffers<V = ()> = ringfence_upload::ConstantBuffers<Device, V>;
        #[doc = concat!("Constants of draws on a ", $api, " device.")]
        #[cfg(feature = "placement")]
        pub type FastConstants = ringfence_placement::FastConstants<Device>;
        #[doc = concat!("A shader-visible heap of a ", $api, " device.")]
        pub type ShaderVisibleHeap = ringfence_descriptor::ShaderVisibleHeap<Device>;
        #[doc = concat!("A bindless table of a ", $api, " device.")]
        pub type BindlessTable = ringfence_descriptor::BindlessTable<Device>;
        #[doc = concat!("A copy queue of a ", $api, " device.")]
        pub type TransferQueue = ringfence_upload::TransferQueue<Device>;
        #[doc = concat!("A readback of a ", $api, " device.")]
        pub type Readback = ringfence_upload::Readback<Device>;
        #[doc = concat!("An entry of a bindless table of a ", $api, " device.")]
        pub type BindlessEntry = ringfence_descriptor::BindlessEntry<Device>;
        #[doc = concat!("A table of samplers of a ", $api, " device.")]
        pub type SamplerTable = ringfence_descriptor::SamplerTable<Device>;
        #[doc = concat!("A sampler of a ", $api, " device.")]
        pub type Sampler = ringfence_descriptor::Sampler<Device>;
        #[doc = concat!("CPU-only descriptors of a ", $api, " device: their heap.")]
        pub type CpuDescriptorHeap = ringfence_descriptor::CpuDescriptorHeap<Device>;
        #[doc = concat!("A run of CPU-only descriptors of a ", $api, " device.")]
        pub type CpuDescriptors = ringfence_descriptor::CpuDescriptors<Device>;
        #[doc = concat!("A run of persistent slots of a ", $api, " device.")]
        pub type Persistent = ringfence_descriptor::Persistent<Device>;
        #[doc = concat!("The heaps that a command list of a ", $api, " device has bound.")]
        pub type Binding = ringfence_descriptor::Binding<Device>;
        #[doc = concat!("A vector of plain values on a ", $api, " device.")]
        #[cfg(feature = "contents")]
        pub type GpuVec<T> = ringfence_contents::GpuVec<Device, T>;
        #[doc = concat!("Meshes in few buffers of a ", $api, " device.")]
        #[cfg(feature = "contents")]
        pub type MeshArena<V, I = u32> = ringfence_contents::MeshArena<Device, V, I>;
        #[doc = concat!("A mesh of an arena of a ", $api, " device.")]
        #[cfg(feature = "contents")]
        pub type Mesh = ringfence_contents::Mesh<Device>;
        #[doc = concat!("Resources of a ", $api, " device that leave it while they are not used.")]
        #[cfg(feature = "paging")]
        pub type Paging = ringfence_paging::Paging<Device>;
        #[doc = concat!("An allocator of transient resources of a ", $api, " device.")]
        #[cfg(feature = "transient")]
        pub type TransientAllocator = ringfence_transient::TransientAllocator<Device>;
    };
}

/// Defines the types of one backend: the aliases, and an allocator.
#[cfg(any(feature = "vulkan", all(windows, feature = "d3d12")))]
macro_rules! native_types {
    ($api:literal) => {
        aliases!($api);

        #[doc = concat!("An allocator over a ", $api, " device, created from the API's own objects.")]
        ///
        /// It dereferences to [`ringfence_memory::Allocator`], so a reference to it can be passed wherever a reference
        /// to that type is expected.
        #[derive(Clone, Debug)]
        pub struct Allocator(ringfence_memory::Allocator<Device>);

        impl std::ops::Deref for Allocator {
            type Target = ringfence_memory::Allocator<Device>;

            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl From<Allocator> for ringfence_memory::Allocator<Device> {
            #[inline]
            fn from(allocator: Allocator) -> Self {
                allocator.0
            }
        }
    };
}
