//! Types that the modules of both backends define: aliases for their device's types, and an allocator type with its own
//! constructor.

/// Defines the types of one backend. `$api` is the name of its API in the documentation.
macro_rules! native_types {
    ($api:literal) => {
        #[doc = concat!("A buffer of a ", $api, " device.")]
        pub type Buffer = ringfence_memory::Buffer<Device>;
        #[doc = concat!("A texture of a ", $api, " device.")]
        pub type Texture = ringfence_memory::Texture<Device>;
        #[doc = concat!("The progress of a queue on a ", $api, " device.")]
        pub type Timeline = ringfence_memory::lifetime::Timeline<Device>;
        #[doc = concat!("An upload ring of a ", $api, " device.")]
        pub type UploadRing = ringfence_upload::UploadRing<Device>;

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
