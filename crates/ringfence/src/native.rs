//! Types that the modules of the devices define: an alias of each generic type of the front page, and for both backends
//! an allocator type with its own constructor.

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
        /// It dereferences to [`ringfence_memory::Allocator`] and can be used wherever a reference to one is expected.
        #[derive(Clone, Debug)]
        pub struct Allocator(ringfence_memory::Allocator<Device>);

        impl std::ops::Deref for Allocator {
            type Target = ringfence_memory::Allocator<Device>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl From<Allocator> for ringfence_memory::Allocator<Device> {
            fn from(allocator: Allocator) -> Self {
                allocator.0
            }
        }
    };
}
