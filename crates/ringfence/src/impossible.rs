//! Mistakes that do not compile. Compiled as tests only: each of these has to be refused.
//!
//! All begin alike; this is what the beginning does when nothing is wrong:
//!
//! ```
//! use ringfence::device::{BufferDesc, BufferUsage};
//! use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, sim};
//! let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! // SAFETY: nothing is submitted.
//! let timeline = unsafe { memory.timeline(device.create_fence(0)) }.unwrap();
//! let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let mut buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! let frame = timeline.begin();
//! timeline.submitted(frame).unwrap();
//! drop(buffer);
//! ```
//!
//! Use after it was released:
//!
//! ```compile_fail,E0382
//! # use ringfence::device::{BufferDesc, BufferUsage};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! drop(buffer);
//! let _ = buffer.object();
//! ```
//!
//! The bytes of a resource freed by hand, which is what libraries do that build on the allocator:
//!
//! ```compile_fail,E0133
//! # use ringfence::device::{BufferDesc, BufferUsage};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! let (shared, _object, place) = buffer.into_parts();
//! shared.destroy_place(place); // The device may still use them.
//! ```
//!
//! A resource made of parts that are not its own:
//!
//! ```compile_fail,E0133
//! # use ringfence::device::{BufferDesc, BufferUsage, Placed};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, RawObject, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! let (shared, RawObject::Buffer(object), place) = buffer.into_parts() else { unreachable!() };
//! let larger = Buffer::new(shared, Placed { object, mapped: None }, place, 1 << 40, Location::Upload);
//! ```
//!
//! Freed twice:
//!
//! ```compile_fail,E0382
//! # use ringfence::device::{BufferDesc, BufferUsage};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! unsafe { buffer.destroy_now() };
//! unsafe { buffer.destroy_now() };
//! ```
//!
//! Two owners:
//!
//! ```compile_fail,E0599
//! # use ringfence::device::{BufferDesc, BufferUsage};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! let other = buffer.clone();
//! # drop(other);
//! ```
//!
//! Freed at once, during use maybe, without a word of the caller's own that it is not in use:
//!
//! ```compile_fail,E0133
//! # use ringfence::device::{BufferDesc, BufferUsage};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! buffer.destroy_now();
//! ```
//!
//! A fence without the promise that submissions signal it:
//!
//! ```compile_fail,E0133
//! # use ringfence::{Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! let timeline = memory.timeline(device.create_fence(0)).unwrap();
//! ```
//!
//! A frame that is submitted twice:
//!
//! ```compile_fail,E0382
//! # use ringfence::{Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let timeline = unsafe { memory.timeline(device.create_fence(0)) }.unwrap();
//! let frame = timeline.begin();
//! timeline.submitted(frame).unwrap();
//! timeline.submitted(frame).unwrap();
//! ```
//!
//! Two writers of one buffer at once:
//!
//! ```compile_fail,E0499
//! # use ringfence::device::{BufferDesc, BufferUsage};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
//! let desc = AllocationDesc { location: Location::Upload, ..Default::default() };
//! let mut buffer = memory.create_buffer(&info, desc).unwrap();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| buffer.write(0, &[1]));
//!     scope.spawn(|| buffer.write(0, &[2]));
//! });
//! ```
//!
//! Descriptor tables of a frame that is over:
//!
//! ```compile_fail,E0505
//! # use ringfence::descriptor::{ShaderVisibleDesc, ShaderVisibleHeap};
//! # use ringfence::{Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let timeline = unsafe { memory.timeline(device.create_fence(0)) }.unwrap();
//! let heap = ShaderVisibleHeap::new(&memory, ShaderVisibleDesc::default()).unwrap();
//! let frame = timeline.begin();
//! let mut frame_tables = heap.frame_descriptors(&frame).unwrap();
//! timeline.submitted(frame).unwrap();
//! let _ = frame_tables.table(&[]);
//! ```
//!
//! A view of what is gone:
//!
//! ```compile_fail,E0505
//! # use ringfence::descriptor::View;
//! # use ringfence::device::descriptors::{BufferView, BufferViewKind};
//! # use ringfence::device::{BufferDesc, BufferUsage};
//! # use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};
//! # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! # let info = BufferDesc { size: 256, usage: BufferUsage::STORAGE };
//! let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
//! let kind = BufferViewKind::Storage { stride: 0, writes: false };
//! let view = View::buffer(&buffer, BufferView { kind, offset: 0, size: 256 }).unwrap();
//! drop(buffer);
//! drop(view);
//! ```
//!
//! A block of a pool that is freed twice:
//!
//! ```compile_fail,E0382
//! let chain = ringfence::core::pool_chain::PoolChain::<u32>::new(16, 1);
//! let block = chain.reserve(4).unwrap().open(0);
//! chain.free(block).unwrap();
//! chain.free(block).unwrap();
//! ```
