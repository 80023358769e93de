//! Placement: the route of each request, and its release.

use std::any::Any;

use ringfence::device::record::TexelRegion;
use ringfence::device::{
    BufferUsage, ClearValue, Create, Device, DeviceError, Driver, Format, MemoryProperties, RawTexture, TextureDesc,
    TextureUsage, Textures,
};
use ringfence::lifetime::{BufferCopy, ReplaceError, SyncSet};
use ringfence::memory::Error;
use ringfence::placement::{
    BufferLocation, BufferRequest, ConstantsLifetime, Dynamism, LocationKind, Placement, PlacementDesc, PoolFigures,
    Route, Strategy, TextureKind, TextureLocation,
};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
use ringfence::{Location, TransientAllocator, sim};
use ringfence_testkit::{Command, Gpu, Options, TextureRegion};

use crate::device_suite::rig::{PATIENCE, Rig, pattern, run_on};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

fn policy<G: Gpu>(rig: &Rig<G>, desc: PlacementDesc) -> Placement<G::Device> {
    Placement::new(&rig.memory, desc).expect("a sound description")
}

fn dynamic(size: u64) -> BufferRequest<'static> {
    BufferRequest { size, usage: BufferUsage::COPY_SRC, dynamism: Dynamism::Dynamic, ..Default::default() }
}

fn of_usage(size: u64, usage: BufferUsage) -> BufferRequest<'static> {
    BufferRequest { size, usage, ..Default::default() }
}

fn make<D: Device>(placement: &Placement<D>, request: BufferRequest<'_>) -> BufferLocation<D> {
    placement.create_buffer(&request).expect("there is room")
}

fn texture_of(usage: TextureUsage, side: u32) -> TextureDesc {
    TextureDesc { width: side, height: side, usage: usage | TextureUsage::COPY_SRC, ..Default::default() }
}

fn copy<D: Device>(from: &BufferLocation<D>, to: &BufferLocation<D>, size: u64) -> Command<D> {
    let (src, dst) = (from.object().clone(), to.object().clone());
    Command::CopyBuffer { src, src_offset: from.offset(), dst, dst_offset: to.offset(), size }
}

/// Dynamic buffers are placed in upload memory, all other buffers in default memory, for small, big and large sizes.
/// The memory type is checked, and the bytes are read back.
pub fn seed_004_01_dynamic_buffers_are_uploads_and_others_default_on_one_path<G: Gpu>(rig: &mut Rig<G>) {
    let bounds = PlacementDesc { big_upload_bytes_max: MIB, default_buffer_bytes_max: MIB, ..Default::default() };
    let placement = policy(rig, bounds);
    let [uploads, default] =
        [Location::Upload, Location::Device].map(|location| rig.buffer(64 * KIB, location, "like").memory_type());
    let types = rig.memory.device().capabilities().memory_types.clone();
    assert!(types[uploads as usize].properties.contains(MemoryProperties::HOST_VISIBLE));
    assert!(types[default as usize].properties.contains(MemoryProperties::DEVICE_LOCAL));
    let (texels, _) = placement
        .create_readback_texture(&TextureDesc { width: 250, ..Default::default() }, "back")
        .expect("there is room");
    for (number, size) in [1000, 100 * KIB, MIB + 1].into_iter().enumerate() {
        for strategy in [None, Some(Strategy::Placed), Some(Strategy::Suballocated)] {
            let bytes = pattern(number as u64, 1000);
            let mut from = make(&placement, dynamic(size));
            let to = make(&placement, BufferRequest { strategy, ..of_usage(size, COPIED) });
            assert_eq!((from.memory_type(), to.memory_type()), (uploads, default), "{size} bytes, {strategy:?}");
            let alone = size > MIB;
            assert_eq!((from.route() == Route::StandAlone, to.route() == Route::StandAlone), (alone, alone));
            from.write(0, &bytes).expect("an upload is mapped");
            rig.run(&[copy(&from, &to, 1000), copy(&to, &texels, 1000)]);
            let mut read = vec![0; 1000];
            texels.read(0, &mut read).expect("readback memory is mapped");
            assert_eq!(read, bytes);
        }
    }
}

/// Checks that each request of a table takes its route.
fn table<G: Gpu>(rig: &mut Rig<G>, desc: PlacementDesc, table: &[(u64, Route)]) {
    let placement = policy(rig, desc);
    for &(size, route) in table {
        let before = rig.memory.statistics().total().dedicated_count;
        let buffer = make(&placement, dynamic(size));
        assert_eq!(buffer.route(), route, "{size} bytes");
        let figures = placement.figures();
        let dedicated = rig.memory.statistics().total().dedicated_count - before;
        let held = [figures.upload_small, figures.upload_big].map(|pool| pool.range_count);
        let wanted = [Route::UploadSmall, Route::UploadBig].map(|way| usize::from(way == route));
        assert_eq!(held, wanted, "{size} bytes: the allocator that contains them");
        // A block of a pool may also be dedicated memory.
        assert!(route != Route::StandAlone || dedicated >= 1, "{size} bytes");
        assert_eq!(desc.upload_route(size, 256), route);
        let alone = if route == Route::StandAlone { LocationKind::StandAlone } else { LocationKind::Suballocated };
        assert_eq!((buffer.kind(), buffer.size()), (alone, size));
        drop(buffer);
        rig.memory.reclaim();
    }
}

pub fn seed_004_09_small_uploads_end_at_65_536_bytes_or_where_it_is_set<G: Gpu>(rig: &mut Rig<G>) {
    use Route::{UploadBig, UploadSmall};
    let defaults = PlacementDesc::default();
    assert_eq!(defaults.small_upload_bytes_max, 65_536);
    let sides = [(1, UploadSmall), (65_535, UploadSmall), (65_536, UploadSmall), (65_537, UploadBig)];
    table(rig, defaults, &sides);
    let set = PlacementDesc { small_upload_bytes_max: 1000, ..defaults };
    table(rig, set, &[(999, UploadSmall), (1000, UploadSmall), (1001, UploadBig)]);
}

pub fn seed_004_10_big_uploads_end_at_64_mib_or_where_it_is_set<G: Gpu>(rig: &mut Rig<G>) {
    use Route::{StandAlone, UploadBig};
    let defaults = PlacementDesc::default();
    assert_eq!(defaults.big_upload_bytes_max, 64 * MIB);
    table(rig, defaults, &[(64 * MIB - 1, UploadBig), (64 * MIB, UploadBig), (64 * MIB + 1, StandAlone)]);
    let set = PlacementDesc { small_upload_bytes_max: 1000, big_upload_bytes_max: 5000, ..defaults };
    table(rig, set, &[(1001, UploadBig), (4999, UploadBig), (5000, UploadBig), (5001, StandAlone)]);
    // If a pool is full, it gets another block.
    let placement = policy(rig, PlacementDesc { big_block_bytes: MIB, ..defaults });
    let held = [600 * KIB; 3].map(|size| make(&placement, dynamic(size)));
    assert!(held.iter().all(|held| held.route() == UploadBig && held.kind() == LocationKind::Suballocated));
    let figures = placement.figures().upload_big;
    assert_eq!((figures.range_count, figures.block_count), (3, 3));
    assert!(held[0].object() != held[1].object() && held[1].object() != held[2].object());
    drop(held);
    placement.end_frame();
    assert_eq!(placement.figures().upload_big.range_count, 0);
    // The shared upload buffers lack some usages. A buffer with another usage does not fit into them (or, on some
    // devices, into any upload heap).
    let unfit = BufferRequest { usage: BufferUsage::STORAGE, ..dynamic(100) };
    let routed = policy(rig, defaults).create_buffer(&unfit).map(|buffer| buffer.route());
    assert!(matches!(routed, Ok(StandAlone) | Err(Error::Device(_) | Error::NoMemoryType { .. })), "{routed:?}");
}

pub fn default_buffers_end_where_it_is_set_whatever_their_strategy<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { default_buffer_bytes_max: MIB, ..Default::default() });
    for (usage, strategy) in [(BufferUsage::VERTEX, Strategy::Suballocated), (BufferUsage::STORAGE, Strategy::Placed)] {
        let route = make(&placement, of_usage(MIB, usage)).route();
        assert!(matches!(route, Route::DefaultBuffers { strategy: held, .. } if held == strategy), "{route:?}");
        assert_eq!(make(&placement, of_usage(MIB + 1, usage)).route(), Route::StandAlone);
    }
}

/// Thresholds that seeds 4-9 and 4-10 do not cover: the measured size of textures, alignments, and pages.
pub fn what_goes_where_on_both_sides_of_the_other_thresholds<G: Gpu>(rig: &mut Rig<G>) {
    use Route::{StandAlone, Textures, UploadBig, UploadSmall};
    use TextureKind::{RenderTarget, Sampled, SmallSampled, Storage};
    let usages = [TextureUsage::SAMPLED, TextureUsage::RENDER_TARGET, TextureUsage::STORAGE];
    for (usage, kinds) in usages.into_iter().zip([[SmallSampled, Sampled], [RenderTarget; 2], [Storage; 2]]) {
        let desc = texture_of(usage, 96);
        let open = PlacementDesc { texture_bytes_max: u64::MAX, ..Default::default() };
        let measured = policy(rig, open).plan_texture(&desc).expect("a plain texture");
        let (_, route, needs) = measured;
        let (bytes, own) = (needs.size, route == StandAlone);
        // Maximum size of a small texture, maximum size of a texture in a pool, and route.
        let table = [
            (bytes, bytes, Textures(kinds[0])),
            (bytes - 1, bytes, Textures(kinds[1])),
            (bytes, bytes - 1, StandAlone),
            (bytes - 1, bytes - 1, StandAlone),
        ];
        for (small_texture_bytes_max, texture_bytes_max, route) in table {
            let placement = policy(rig, PlacementDesc { small_texture_bytes_max, texture_bytes_max, ..open });
            let route = if own { StandAlone } else { route };
            assert_eq!(placement.plan_texture(&desc).expect("a plain texture").1, route, "{usage:?}");
            assert_eq!(placement.create_texture(&desc, "").expect("there is room").route(), route, "{usage:?}");
        }
    }
    // A range with an alignment above the size of a buddy does not fit into it.
    let desc = PlacementDesc { small_block_bytes: 64 * KIB, small_upload_bytes_max: 64 * KIB, ..Default::default() };
    let aligned = |alignment| BufferRequest { alignment, ..dynamic(100) };
    for (alignment, route) in [(32 * KIB, UploadSmall), (64 * KIB, UploadSmall), (128 * KIB, UploadBig)] {
        assert_eq!(desc.upload_route(100, alignment), route);
        let buffer = make(&policy(rig, desc), aligned(alignment));
        assert_eq!((buffer.route(), buffer.offset() % alignment), (route, 0));
    }
    let placement = policy(rig, PlacementDesc { fast_page_bytes: 4 * KIB, ..Default::default() });
    let frame = rig.timeline().begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    let pages = || placement.figures().fast_pages.range_count;
    for (bytes, held) in [(4 * KIB - 256, 1), (256, 1), (1, 2), (4 * KIB, 3)] {
        writer.write(&vec![1; bytes as usize]).expect("a page holds it");
        assert_eq!(pages(), held, "{bytes} bytes");
    }
    let refused = writer.write(&vec![1; 4 * KIB as usize + 1]).err();
    assert!(matches!(refused, Some(ringfence::upload::UploadError::TooLarge { capacity: 4096, .. })), "{refused:?}");
    assert_eq!(pages(), 3);
    frame.discard();
}

pub fn seed_004_03_default_buffers_go_to_the_first_pool_that_supports_them<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let counts = || placement.figures().default_buffers.iter().map(|pool| pool.range_count).collect::<Vec<_>>();
    let pool = |usage, strategy| {
        let request = BufferRequest { strategy: Some(strategy), ..of_usage(256, usage) };
        let mut before = counts();
        let made = make(&placement, request);
        let Route::DefaultBuffers { pool, strategy: held } = made.route() else { panic!("{made:?}") };
        assert_eq!(held, strategy);
        let after = counts();
        before.resize(after.len(), 0);
        before[pool] += 1;
        assert_eq!(after, before, "the range is in the named pool");
        drop(made);
        rig.memory.reclaim();
        pool
    };
    use Strategy::{Placed, Suballocated};
    let mesh = BufferUsage::VERTEX | BufferUsage::INDEX;
    assert_eq!(pool(mesh, Suballocated), 0, "no pool supports it: a new one");
    assert_eq!(pool(BufferUsage::VERTEX, Suballocated), 0, "supported");
    assert_eq!(pool(BufferUsage::INDEX | COPIED, Suballocated), 0, "copies always are");
    assert_eq!(pool(BufferUsage::INDIRECT, Suballocated), 1, "another new one");
    assert_eq!(pool(BufferUsage::VERTEX, Placed), 2, "the strategy counts");
    assert_eq!(pool(BufferUsage::INDIRECT, Suballocated), 1);
    assert_eq!(placement.figures().default_buffers.len(), 3);
    // A pool must support all usages. If several do, the first one is used.
    let drawn = BufferUsage::VERTEX | BufferUsage::INDIRECT;
    assert_eq!(pool(drawn, Suballocated), 3, "one pool has the one usage, another the other");
    assert_eq!(pool(mesh, Placed), 4, "the placed pool has one of the two");
    for _ in 0..2 {
        assert_eq!(pool(BufferUsage::VERTEX, Suballocated), 0, "two pools support it");
        assert_eq!(pool(BufferUsage::INDIRECT, Suballocated), 1, "two others do");
        assert_eq!(pool(BufferUsage::VERTEX, Placed), 2, "two placed ones do");
        assert_eq!(pool(BufferUsage::INDEX, Placed), 4);
        assert_eq!(pool(drawn | COPIED, Suballocated), 3);
    }
    assert_eq!(placement.figures().default_buffers.len(), 5);
}

pub fn seed_004_04_a_texture_is_planned_without_memory_and_a_clear_value_only_for_targets<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let before = rig.memory.snapshot();
    for (usage, wants) in
        [(TextureUsage::SAMPLED, false), (TextureUsage::STORAGE, false), (TextureUsage::RENDER_TARGET, true)]
    {
        let (kind, _, needs) = placement.plan_texture(&texture_of(usage, 256)).expect("a plain texture");
        assert_eq!(kind.wants_clear_value(), wants, "{usage:?}");
        assert!(needs.size >= 256 * 256 * 4 && needs.alignment.is_power_of_two());
    }
    let after = rig.memory.snapshot();
    assert_eq!((before.blocks, before.calls.allocate_memory), (after.blocks, after.calls.allocate_memory));
    assert_eq!(placement.figures(), Default::default());
    let desc = texture_of(TextureUsage::SAMPLED, 256);
    let (plan, made) =
        (placement.plan_texture(&desc), placement.create_texture(&desc, "planned").expect("there is room"));
    assert_eq!(plan.map(|(_, route, _)| route), Ok(made.route()), "the route is the planned one");
}

/// A clear value reaches the driver through a pool, through dedicated memory and through a graph. The simulated device
/// records it, so the test can check it there.
pub fn seed_004_04_a_clear_value_reaches_the_driver_of_targets_alone<G: Gpu>(rig: &mut Rig<G>) {
    let color = ClearValue::color([0.25, 0.5, 0.75, 1.0]);
    let depth = ClearValue::depth(1.0);
    let of_depth = TextureDesc { format: Format::D32Float, ..texture_of(TextureUsage::DEPTH_STENCIL, 256) };
    let of_color = texture_of(TextureUsage::RENDER_TARGET, 256);
    let (with_color, with_depth) =
        (TextureDesc { clear_value: Some(color), ..of_color }, TextureDesc { clear_value: Some(depth), ..of_depth });
    for (texture_bytes_max, alone) in [(64 * MIB, false), (1, true)] {
        let placement = policy(rig, PlacementDesc { texture_bytes_max, ..Default::default() });
        for desc in [of_color, with_color, of_depth, with_depth] {
            let made = placement.create_texture(&desc, "target").expect("there is room");
            assert!(!alone || made.route() == Route::StandAlone);
            if let Some(seen) = recorded_desc(rig, made.texture().object()) {
                assert_eq!(seen.clear_value, desc.clear_value);
            }
            assert!(placement.plan_texture(&desc).expect("a plain texture").0.wants_clear_value());
        }
        // If the texture cannot be cleared, or not with such a value, the clear value is refused by name.
        let wrong = [
            TextureDesc { clear_value: Some(color), ..texture_of(TextureUsage::SAMPLED, 256) },
            TextureDesc { clear_value: Some(color), ..texture_of(TextureUsage::STORAGE, 256) },
            TextureDesc { clear_value: Some(depth), ..of_color },
            TextureDesc { clear_value: Some(color), ..of_depth },
        ];
        let before = rig.memory.statistics().calls;
        for desc in wrong {
            let refused = placement.create_texture(&desc, "").map(drop);
            assert!(matches!(refused, Err(Error::Device(DeviceError::InvalidInfo(_)))), "{desc:?}: {refused:?}");
        }
        assert_eq!(rig.memory.statistics().calls, before, "no object was created");
    }
    // Textures of a graph have clear values too, with online placement over shared bytes and in planned frames.
    let placement = policy(rig, PlacementDesc::default());
    let mut transient = TransientAllocator::new(&rig.memory, TransientDesc::default());
    let other = TextureDesc { clear_value: Some(ClearValue::color([0.0; 4])), ..of_color };
    let descs = [with_color, of_color, other, with_depth, of_depth];
    let queue = rig.timeline().id();
    for _ in 0..2 {
        let mut execution = transient.begin();
        for desc in descs {
            let pass = execution.pass(queue, &[]).expect("a queue");
            let given = placement.provide_texture(&desc, "", Some((&mut execution, pass))).expect("there is room");
            let handle = given.transient().expect("a pass was given");
            if let Some(seen) = recorded_desc(rig, execution.texture(handle).expect("it is in use")) {
                assert_eq!(seen.clear_value, desc.clear_value);
            }
            execution.discard(handle, &[]).expect("it is in use");
        }
        execution.finish(&[]);
    }
    let infos = descs.map(|desc| Create::<Textures>::describe(rig.memory.device(), &desc).expect("a plain texture"));
    let infos = infos.each_ref().map(Described::Texture);
    let resources = [0, 1, 2, 3, 4].map(|at| FrameResource { info: infos[at], first: at, last: &[], name: "" });
    let planned = transient.plan(&[FramePass::on(queue); 5], &resources, |_| true).expect("there is room");
    for (at, desc) in descs.iter().enumerate() {
        let handle = planned.planned::<Textures>(at).expect("it was planned");
        if let Some(seen) = recorded_desc(rig, planned.texture(handle).expect("it is in use")) {
            assert_eq!(seen.clear_value, desc.clear_value);
        }
    }
    planned.finish(&[]);
    // Textures with different clear values have different keys, so one is not recycled as the other.
    let key = |desc: &TextureDesc| {
        let device = rig.memory.device();
        let info = Create::<Textures>::describe(device, desc).expect("a plain texture");
        Create::<Textures>::key(device, &info)
    };
    if G::NAME != "vulkan" {
        assert_ne!(key(&with_color), key(&of_color));
        assert_ne!(key(&with_color), key(&TextureDesc { clear_value: Some(ClearValue::color([0.0; 4])), ..of_color }));
        assert_ne!(key(&with_depth), key(&of_depth));
    }
}

/// Returns the description with which the simulated device created a texture; `None` on other devices.
fn recorded_desc<G: Gpu>(rig: &Rig<G>, texture: &RawTexture<G::Device>) -> Option<TextureDesc> {
    let device: &dyn Any = rig.memory.device();
    let object: &dyn Any = texture;
    device.downcast_ref::<sim::Device>()?.texture_desc(object.downcast_ref()?)
}

pub fn seed_004_05_readback_buffers_lie_where_the_host_reads<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let before = rig.memory.statistics();
    let (back, _) =
        placement.create_readback_texture(&texture_of(TextureUsage::COPY_DST, 64), "back").expect("there is room");
    let after = rig.memory.statistics();
    assert_eq!(after.total().dedicated_count, before.total().dedicated_count + 1, "its own memory");
    assert_eq!(after.calls.create_object, before.calls.create_object + 1, "one buffer, and no texture");
    let wanted = rig.buffer(64 * KIB, Location::Readback, "like").memory_type();
    assert_eq!(back.memory_type(), wanted, "the memory that the host reads fastest");
    let properties = rig.memory.device().capabilities().properties(wanted);
    let cached = rig.memory.device().capabilities().memory_types.iter();
    let cached = cached.filter(|held| held.properties.contains(MemoryProperties::HOST_CACHED)).count();
    assert!(properties.contains(MemoryProperties::HOST_VISIBLE));
    assert!(
        cached == 0 || properties.contains(MemoryProperties::HOST_CACHED),
        "it is cached if the device has cached memory"
    );
    assert_eq!(placement.figures(), Default::default(), "it is in no pool");
    // Without readback, a texture with the same description is in a texture pool.
    let texture = placement.create_texture(&texture_of(TextureUsage::COPY_DST, 64), "t").expect("there is room");
    assert!(matches!(texture.route(), Route::Textures(_)), "{:?}", texture.route());
}

pub fn seed_004_05_readback_textures_are_stand_alone_buffers<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let texture = placement.create_texture(&texture_of(TextureUsage::COPY_DST, 64), "t").expect("there is room");
    assert!(matches!(texture.route(), Route::Textures(_)));
    let desc = TextureDesc { mips: 3, layers: 2, ..texture_of(TextureUsage::COPY_DST, 64) };
    let (back, footprints) = placement.create_readback_texture(&desc, "back").expect("there is room");
    assert_eq!((back.route(), back.kind()), (Route::StandAlone, LocationKind::StandAlone));
    assert_eq!(footprints.len(), 6);
    let capabilities = rig.memory.device().capabilities();
    for (is, next) in footprints.iter().zip(&footprints[1..]) {
        assert!(is.buffer_offset + is.row_bytes * u64::from(is.height) <= next.buffer_offset, "no overlap");
        assert_eq!(next.buffer_offset % capabilities.texture_copy_offset_alignment, 0);
        assert_eq!(next.row_bytes % capabilities.texture_copy_row_alignment, 0);
    }
    let seen: Vec<_> = footprints.iter().map(|held| (held.layer, held.mip, held.width, held.height)).collect();
    let sides = |layer| [(layer, 0, 64, 64), (layer, 1, 32, 32), (layer, 2, 16, 16)];
    assert_eq!(seen, [sides(0), sides(1)].concat());
    // The texels of each mip level of each layer are read back at the offsets of the footprints.
    let texture = placement.create_texture(&desc, "of several").expect("there is room");
    let image = texture.texture().object().clone();
    let last = footprints.last().expect("there are six");
    let texels = pattern(4, (last.buffer_offset + last.row_bytes * u64::from(last.height)) as usize);
    let mut upload = make(&placement, BufferRequest { alignment: 512, ..dynamic(texels.len() as u64) });
    upload.write(0, &texels).expect("an upload is mapped");
    let region = |held: &TexelRegion, base| TextureRegion {
        buffer_offset: base + held.buffer_offset,
        row_bytes: held.row_bytes,
        mip: held.mip,
        layer: held.layer,
        width: held.width,
        height: held.height,
        texel_bytes: 4,
    };
    let to = footprints.iter().map(|held| {
        let (src, dst) = (upload.object().clone(), image.clone());
        Command::CopyBufferToTexture { src, dst, region: region(held, upload.offset()), discard: true }
    });
    let from = footprints.iter().map(|held| {
        let (src, dst) = (image.clone(), back.object().clone());
        Command::CopyTextureToBuffer { src, dst, region: region(held, 0) }
    });
    let commands: Vec<_> = to.chain(from).collect();
    rig.run(&commands);
    let mut read = vec![0; texels.len()];
    back.read(0, &mut read).expect("readback memory is mapped");
    for held in &footprints {
        for row in 0..u64::from(held.height) {
            let at = (held.buffer_offset + row * held.row_bytes) as usize;
            let bytes = held.width as usize * 4;
            assert_eq!(read[at..][..bytes], texels[at..][..bytes], "{held:?}, row {row}");
        }
    }
    for bad in [TextureDesc { width: 0, ..desc }, TextureDesc { mips: 9, ..desc }, TextureDesc { samples: 4, ..desc }] {
        let refused = placement.create_readback_texture(&bad, "");
        assert!(matches!(refused, Err(Error::Device(DeviceError::InvalidInfo(_)))), "{refused:?}");
    }
    let absurd = TextureDesc { width: u32::MAX, height: u32::MAX, layers: 1, mips: 1, ..desc };
    assert!(matches!(placement.create_readback_texture(&absurd, ""), Err(Error::TooLarge { .. })));
}

pub fn seed_004_06_textures_have_four_pools_by_kind<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { texture_bytes_max: 4 * MIB, ..Default::default() });
    assert_eq!(placement.figures().textures.len(), 4, "made up front");
    let depth = TextureDesc { format: Format::D32Float, ..texture_of(TextureUsage::DEPTH_STENCIL, 256) };
    let table = [
        (texture_of(TextureUsage::SAMPLED, 16), TextureKind::SmallSampled),
        (texture_of(TextureUsage::SAMPLED, 256), TextureKind::Sampled),
        (texture_of(TextureUsage::RENDER_TARGET, 256), TextureKind::RenderTarget),
        (texture_of(TextureUsage::RENDER_TARGET | TextureUsage::STORAGE, 256), TextureKind::RenderTarget),
        (depth, TextureKind::RenderTarget),
        (texture_of(TextureUsage::STORAGE | TextureUsage::SAMPLED, 256), TextureKind::Storage),
    ];
    let made = table.map(|(desc, kind)| {
        let texture = placement.create_texture(&desc, "one of its kind").expect("there is room");
        assert_eq!(texture.texture_kind(), kind);
        let (planned, route, _) = placement.plan_texture(&desc).expect("a plain texture");
        assert!([Route::Textures(kind), Route::StandAlone].contains(&texture.route()), "{texture:?}");
        assert_eq!((planned, route), (texture.texture_kind(), texture.route()));
        texture
    });
    // Each pool contains only textures of its kind, in its own memory.
    let mut made: Vec<_> = made.into_iter().collect();
    let is_pooled = |texture: &&TextureLocation<G::Device>| texture.kind() == LocationKind::Suballocated;
    let counted = || placement.figures().textures.map(|pool| pool.range_count);
    let memory = |texture: &TextureLocation<G::Device>| std::ptr::from_ref(texture.texture().memory());
    for a in made.iter().filter(is_pooled) {
        let others = made.iter().filter(is_pooled).filter(|b| b.texture_kind() != a.texture_kind());
        others.for_each(|b| assert_ne!(memory(a), memory(b), "{a:?} beside {b:?}"));
    }
    let count = |made: &[_], kind| made.iter().filter(is_pooled).filter(|held| held.texture_kind() == kind).count();
    assert!(made.iter().filter(is_pooled).count() >= 3 && count(&made, TextureKind::SmallSampled) == 1);
    while !made.is_empty() {
        assert_eq!(counted(), TextureKind::ALL.map(|kind| count(&made, kind)));
        made.pop();
        rig.memory.reclaim();
    }
    assert_eq!(counted(), [0; 4]);
    // Two textures, one above and one below the maximum size of a pool's textures.
    let large = placement.create_texture(&texture_of(TextureUsage::SAMPLED, 1100), "large").expect("there is room");
    assert_eq!((large.route(), large.kind()), (Route::StandAlone, LocationKind::StandAlone));
    let fits = placement.create_texture(&texture_of(TextureUsage::SAMPLED, 900), "fits").expect("there is room");
    assert_eq!(fits.route(), Route::Textures(TextureKind::Sampled));
}

pub fn seed_004_07_constants_of_several_frames_are_uploads_and_others_fast<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let several = BufferRequest { usage: BufferUsage::CONSTANT, ..dynamic(200) };
    let several = make(&placement, several);
    assert_eq!(several.route(), Route::UploadSmall);
    assert_eq!(several.offset() % rig.memory.device().capabilities().constant_alignment, 0);
    let frame = rig.timeline().begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    let fast = writer.write(&[1; 200]).expect("there is a page");
    assert_ne!(&fast.buffer, several.object(), "pages have their own buddies");
    assert_eq!(Route::FastPage.kind(), LocationKind::Fast);
    frame.discard();
}

/// The content and the call are the same; only the lifetime selects the route.
pub fn seed_004_07_constants_go_where_their_lifetime_says<G: Gpu>(rig: &mut Rig<G>) {
    use ConstantsLifetime::{MultiFrame, SingleDraw, SingleFrame};
    let placement = policy(rig, PlacementDesc::default());
    let target = make(&placement, of_usage(4 * KIB, COPIED));
    let counts = || {
        let figures = placement.figures();
        [figures.upload_small, figures.upload_big, figures.fast_pages].map(|pool| pool.range_count)
    };
    let frame = rig.timeline().begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    let (mut made, mut commands) = (Vec::new(), Vec::new());
    for (number, (lifetime, route, held)) in [
        (SingleDraw, Route::FastPage, [0, 0, 1]),
        (SingleFrame, Route::FastPage, [0, 0, 1]),
        (MultiFrame, Route::UploadSmall, [1, 0, 1]),
        (SingleDraw, Route::FastPage, [1, 0, 1]),
        (MultiFrame, Route::UploadSmall, [2, 0, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        let content = pattern(number as u64, 200);
        let constants = placement.create_constants(&content, lifetime, &mut writer, "c").expect("there is room");
        assert_eq!((constants.route(), constants.kind(), counts()), (route, route.kind(), held), "{lifetime:?}");
        let alignment = rig.memory.device().capabilities().constant_alignment;
        assert_eq!((constants.size(), constants.offset() % alignment), (200, 0));
        let (src, src_offset, dst) = (constants.object().clone(), constants.offset(), target.object().clone());
        let dst_offset = target.offset() + number as u64 * 200;
        commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset, size: 200 });
        made.push(constants);
    }
    let large = placement.create_constants(&vec![1; 66_000], MultiFrame, &mut writer, "large").expect("there is room");
    assert_eq!(large.route(), Route::UploadBig, "like every upload of that size");
    let refused = placement.create_constants(&[], MultiFrame, &mut writer, "").err();
    assert_eq!(refused, Some(ringfence::upload::UploadError::ZeroSize));
    let other = policy(rig, PlacementDesc::default());
    let mut foreign = other.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    for lifetime in [SingleDraw, SingleFrame, MultiFrame] {
        let refused = placement.create_constants(&[1; 4], lifetime, &mut foreign, "").err();
        assert_eq!(refused, Some(ringfence::upload::UploadError::ForeignConstants));
    }
    let value = rig.submit(frame, &commands);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let back = placement.create_readback_texture(&TextureDesc { width: 250, ..Default::default() }, "back");
    let back = back.expect("there is room").0;
    rig.run(&[copy(&target, &back, 1000)]);
    let mut read = vec![0; 1000];
    back.read(0, &mut read).expect("mapped");
    assert_eq!(read, (0..5).flat_map(|number| pattern(number, 200)).collect::<Vec<_>>());
    // After the frame, its pages are released, and the constants for several frames remain.
    drop((writer, foreign));
    placement.end_frame();
    assert_eq!(counts(), [2, 1, 0]);
    drop((made, large));
    placement.end_frame();
    assert_eq!(counts(), [0, 0, 0]);
}

pub fn seed_004_08_uploads_have_three_allocators<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let counts = || {
        let figures = placement.figures();
        [figures.upload_small, figures.upload_big, figures.fast_pages].map(|figures| figures.range_count)
    };
    let small = make(&placement, dynamic(100));
    assert_eq!(counts(), [1, 0, 0]);
    let big = make(&placement, dynamic(MIB));
    assert_eq!(counts(), [1, 1, 0]);
    let frame = rig.timeline().begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    let fast = writer.write(&[1; 64]).expect("there is a page");
    assert_eq!(counts(), [1, 1, 1]);
    assert_eq!(placement.fast_constants().snapshot().used_bytes, 64 * KIB);
    let objects = [small.object(), big.object(), &fast.buffer];
    assert!(objects[0] != objects[1] && objects[1] != objects[2] && objects[0] != objects[2], "separate buffers");
    frame.discard();
}

pub fn seed_004_11_a_multi_buddy_tries_each_buddy_and_else_adds_one<G: Gpu>(rig: &mut Rig<G>) {
    let desc = PlacementDesc { small_block_bytes: 256 * KIB, ..Default::default() };
    let placement = policy(rig, desc);
    let mut held: Vec<_> = (0..4).map(|_| make(&placement, dynamic(64 * KIB))).collect();
    assert_eq!(placement.figures().upload_small.block_count, 1, "four fill a buddy");
    held.extend((0..4).map(|_| make(&placement, dynamic(64 * KIB))));
    assert_eq!(placement.figures().upload_small.block_count, 2);
    let first = format!("{:?}", held[0].object());
    held.remove(1);
    rig.memory.reclaim();
    let again = make(&placement, dynamic(64 * KIB));
    assert_eq!(format!("{:?}", again.object()), first, "there is room in the first");
    assert_eq!(placement.figures().upload_small.block_count, 2);
    held.push(make(&placement, dynamic(1)));
    assert_eq!(placement.figures().upload_small.block_count, 3);
    // If one of several buffers has room, it is used, whichever it is.
    held.push(again);
    held.extend((0..3).map(|_| make(&placement, dynamic(64 * KIB))));
    for at in (0..held.len()).filter(|at| held[*at].size() > 1).collect::<Vec<_>>() {
        let gone = held.remove(at);
        let (object, offset) = (gone.object().clone(), gone.offset());
        drop(gone);
        rig.memory.reclaim();
        held.insert(at, make(&placement, dynamic(64 * KIB)));
        assert!(*held[at].object() == object && held[at].offset() == offset, "the range that was freed");
    }
    assert_eq!(placement.figures().upload_small.block_count, 3);
}

pub fn seed_004_12_placed_and_suballocated<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let pair = |strategy| {
        let request = BufferRequest { strategy: Some(strategy), ..of_usage(4 * KIB, COPIED) };
        [make(&placement, request), make(&placement, request)]
    };
    let name = |buffer: &BufferLocation<G::Device>| format!("{:?}", buffer.object());
    let shared = pair(Strategy::Suballocated);
    assert_eq!(name(&shared[0]), name(&shared[1]), "ranges of one buffer");
    assert_ne!(shared[0].offset(), shared[1].offset());
    let created = rig.memory.statistics().calls.create_object;
    let placed = pair(Strategy::Placed);
    assert_ne!(name(&placed[0]), name(&placed[1]), "a resource each");
    assert_eq!((placed[0].offset(), placed[1].offset()), (0, 0));
    assert_eq!(rig.memory.statistics().calls.create_object, created + 2);
    // Two ranges of one buffer have separate bytes.
    let [mut one, mut two] = [1_u8, 2].map(|_| make(&placement, dynamic(4 * KIB)));
    one.write(0, &pattern(1, 4096)).expect("mapped");
    two.write(0, &pattern(2, 4096)).expect("mapped");
    let commands = [
        copy(&one, &shared[0], 4096),
        copy(&two, &shared[1], 4096),
        copy(&shared[0], &placed[1], 4096),
        copy(&shared[1], &placed[0], 4096),
    ];
    let backs = [0; 2].map(|_| {
        let desc = TextureDesc { width: 1024, ..Default::default() };
        placement.create_readback_texture(&desc, "back").expect("there is room").0
    });
    let reads = [copy(&placed[0], &backs[0], 4096), copy(&placed[1], &backs[1], 4096)];
    rig.run(&commands);
    rig.run(&reads);
    for (back, seed) in backs.iter().zip([2, 1]) {
        let mut bytes = vec![0; 4096];
        back.read(0, &mut bytes).expect("mapped");
        assert_eq!(bytes, pattern(seed, 4096));
    }
    let end = one.size();
    assert!(one.write(end - 1, &[0; 2]).is_err(), "accesses are bounded by the range, not by its buffer");
}

pub fn seed_004_13_a_location_remembers_its_allocator<G: Gpu>(rig: &mut Rig<G>) {
    let desc = PlacementDesc {
        small_block_bytes: 256 * KIB,
        big_block_bytes: MIB,
        default_block_bytes: MIB,
        ..Default::default()
    };
    let (placement, other) = (policy(rig, desc), policy(rig, desc));
    let (sub, placed) = (of_usage(300 * KIB, BufferUsage::VERTEX), of_usage(300 * KIB, BufferUsage::STORAGE));
    let pools = |placement: &Placement<G::Device>| {
        let figures = placement.figures();
        let default: [PoolFigures; 2] = figures.default_buffers.try_into().expect("two pools");
        [figures.upload_small, figures.upload_big, default[0], default[1]]
    };
    let counts = |placement: &Placement<G::Device>| pools(placement).map(|pool| pool.range_count);
    // These requests need more than one block of each allocator.
    let requests = [dynamic(64 * KIB), dynamic(300 * KIB), sub, placed];
    let ask = || (0..20).map(|number| (number % 4, requests[number % 4]));
    let [here, there] = [&placement, &other]
        .map(|placement| ask().map(|(pool, request)| (pool, make(placement, request))).collect::<Vec<_>>());
    for placement in [&placement, &other] {
        assert_eq!(counts(placement), [5; 4]);
        assert!(pools(placement).iter().all(|pool| pool.block_count >= 2), "{:?}", placement.figures());
    }
    for (pool, location) in &here {
        let wanted = match pool {
            0 => Route::UploadSmall,
            1 => Route::UploadBig,
            2 => Route::DefaultBuffers { strategy: Strategy::Suballocated, pool: 0 },
            _ => Route::DefaultBuffers { strategy: Strategy::Placed, pool: 1 },
        };
        assert_eq!((location.route(), location.kind()), (wanted, LocationKind::Suballocated));
    }
    // Each location is returned to its own pool, also the last one of a block.
    let mut left = [5; 4];
    for (pool, location) in here.into_iter().rev() {
        drop(location);
        rig.memory.reclaim();
        left[pool] -= 1;
        assert_eq!((counts(&placement), counts(&other)), (left, [5; 4]));
    }
    let dedicated = rig.memory.statistics().total().dedicated_count;
    let alone = make(&placement, dynamic(64 * MIB + 1));
    assert_eq!(rig.memory.statistics().total().dedicated_count, dedicated + 1, "its own memory");
    drop((there, alone));
}

pub fn seed_004_14_a_full_page_of_fast_constants_is_let_go_of_and_another_comes<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { fast_page_bytes: 4 * KIB, ..Default::default() });
    assert_eq!(PlacementDesc::default().fast_page_bytes, 64 * KIB);
    let target = make(&placement, of_usage(64 * KIB, COPIED));
    let pages = || placement.figures().fast_pages.range_count;
    let frame = rig.timeline().begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    let (mut commands, mut expected) = (vec![], vec![]);
    for number in 0..12 {
        let bytes = pattern(number, 1024);
        let staged = writer.write(&bytes).expect("there is a page");
        let dst_offset = target.offset() + expected.len() as u64;
        let (src, src_offset, dst) = (staged.buffer.clone(), staged.offset, target.object().clone());
        commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset, size: 1024 });
        expected.extend(bytes);
    }
    rig.memory.reclaim();
    assert_eq!(pages(), 3, "four in a page; the full ones wait for the frame");
    assert_eq!(placement.figures().fast_pages.block_count, 1, "all pages are in one buddy");
    // The pages of a pending frame are not written, neither full ones nor the last one.
    let value = rig.submit_behind_gate(1, frame, &commands);
    let next = rig.timeline().begin();
    writer.begin(&next).expect("the frame is the allocator's own");
    for held in [4, 4, 4, 4, 5] {
        rig.memory.reclaim();
        writer.write(&pattern(99, 1024)).expect("there is a page");
        assert_eq!(pages(), held);
    }
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    assert_eq!(pages(), 2, "those of the next frame");
    next.discard();
    drop(writer);
    rig.memory.reclaim();
    assert_eq!(pages(), 0);
    let back = placement.create_readback_texture(&TextureDesc { width: 3072, ..Default::default() }, "back");
    let back = back.expect("there is room").0;
    rig.run(&[copy(&target, &back, 12 * KIB)]);
    let mut read = vec![0; 12 * KIB as usize];
    back.read(0, &mut read).expect("mapped");
    assert_eq!(read, expected);
}

pub fn seed_004_18_letting_go_of_a_fast_location_does_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let frame = rig.timeline().begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    let fast = writer.write(&[1; 100]).expect("there is a page");
    let figures = |rig: &Rig<G>| {
        let pages = placement.fast_constants().snapshot();
        (pages.used_bytes, pages.submission_count, rig.memory.statistics().retired_count)
    };
    let before = figures(rig);
    assert_eq!((before.0, before.1), (64 * KIB, 0));
    drop(fast);
    assert_eq!(figures(rig), before);
    drop(writer);
    assert_eq!(figures(rig), (64 * KIB, 1, before.2), "its page has room");
    rig.memory.reclaim();
    assert_eq!(placement.figures().fast_pages.range_count, 1, "for once the frame is over");
    frame.discard();
    rig.memory.reclaim();
    assert_eq!(placement.figures().fast_pages.range_count, 0);
}

/// Two queues retire one page each, the late queue first. The page of the late queue stays; the other page is released
/// and reused.
pub fn seed_004_18_a_page_of_a_late_queue_stays_and_delays_no_other<G: Gpu>(rig: &mut Rig<G>) {
    let options = Options { queues: 2, shared_queues: true, ..rig.options.clone() };
    run_on::<G>(&options, |rig| {
        let placement = policy(rig, PlacementDesc::default());
        let target = make(&placement, of_usage(KIB, COPIED));
        let pages = || placement.figures().fast_pages.range_count;
        for late in [0, 1] {
            let other = 1 - late;
            let write = |queue: usize, seed| {
                let frame = rig.timelines[queue].begin();
                let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
                let staged = writer.write(&pattern(seed, 1024)).expect("there is a page");
                (frame, staged)
            };
            let ((held_up, staged), (frame, passing)) = (write(late, 7), write(other, 8));
            let value = frame.value();
            rig.gpu.submit(other, &[], &[], value).expect("the device is not lost");
            rig.timelines[other].submitted(frame).expect("in order");
            let (src, src_offset, dst) = (staged.buffer.clone(), staged.offset, target.object().clone());
            let command = Command::CopyBuffer { src, src_offset, dst, dst_offset: target.offset(), size: 1024 };
            let (gate, last) = ((rig.gpu.gate(), late as u64 + 1), held_up.value());
            rig.gpu.submit(late, &[gate], &[command], last).expect("the device is not lost");
            rig.timelines[late].submitted(held_up).expect("in order");
            assert!(rig.timelines[other].wait(value, PATIENCE).expect("the device is not lost"));
            assert_eq!(pages(), 2);
            rig.memory.reclaim();
            assert_eq!(pages(), 1, "the page of queue {late} stays, and no other");
            let (frame, again) = write(other, 9);
            assert_eq!(
                (again.buffer.clone(), again.offset),
                (passing.buffer.clone(), passing.offset),
                "the released page"
            );
            frame.discard();
            rig.gpu.open_gate(gate.1).expect("the device is not lost");
            assert!(rig.timelines[late].wait(last, PATIENCE).expect("the device is not lost"));
            rig.memory.reclaim();
            assert_eq!(pages(), 0);
            let back = placement.create_readback_texture(&TextureDesc { width: 256, ..Default::default() }, "back");
            let back = back.expect("there is room").0;
            rig.run(&[copy(&target, &back, 1024)]);
            let mut read = vec![0; 1024];
            back.read(0, &mut read).expect("mapped");
            assert_eq!(read, pattern(7, 1024), "it was not overwritten");
        }
    });
}

/// Submits an empty frame to each queue. The last frame waits for the gate; the others are waited for. Returns the
/// value of the last frame.
fn all_but_the_last<G: Gpu>(rig: &mut Rig<G>, frames: Vec<ringfence::Frame>) -> u64 {
    let values: Vec<_> = frames.iter().map(ringfence::Frame::value).collect();
    let last = frames.len() - 1;
    for (queue, frame) in frames.into_iter().enumerate() {
        let gate = (rig.gpu.gate(), 1);
        let waits = if queue == last { std::slice::from_ref(&gate) } else { &[] };
        rig.gpu.submit(queue, waits, &[], frame.value()).expect("the device is not lost");
        rig.timelines[queue].submitted(frame).expect("in order");
    }
    for (timeline, value) in rig.timelines.iter().zip(&values).take(last) {
        assert!(timeline.wait(*value, PATIENCE).expect("the device is not lost"));
    }
    values[last]
}

fn open_the_gate<G: Gpu>(rig: &mut Rig<G>, value: u64) {
    rig.gpu.open_gate(1).expect("the device is not lost");
    let last = rig.timelines.last().expect("there is a queue");
    assert!(last.wait(value, PATIENCE).expect("the device is not lost"));
}

pub fn seed_004_15_four_kinds_of_location_each_let_go_of_in_its_way<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let target = texture_of(TextureUsage::COPY_DST | TextureUsage::RENDER_TARGET, 64);
    let heap = placement.aliased_heap(&target, 8 * MIB, "shared in turns").expect("there is room");
    let aliased = heap.create_texture(&target, 0, "first turn").expect("it fits");
    let alone = make(&placement, dynamic(64 * MIB + 1));
    let ranged = make(&placement, dynamic(100));
    let frame = rig.timeline().begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    let fast = writer.write(&[1; 4]).expect("there is a page");
    frame.discard();
    let kinds = [alone.kind(), ranged.kind(), Route::FastPage.kind(), aliased.kind()];
    let all = [LocationKind::StandAlone, LocationKind::Suballocated, LocationKind::Fast, LocationKind::HeapAliased];
    assert_eq!(kinds, all);
    let figures = |rig: &Rig<G>| {
        let statistics = rig.memory.statistics();
        [
            statistics.calls.destroy_object,
            statistics.calls.free_memory,
            placement.figures().upload_small.range_count as u64,
        ]
    };
    let step = |rig: &Rig<G>, [objects, memories, ranges]: [u64; 3], what: &str| {
        let before = figures(rig);
        rig.memory.reclaim();
        let after = figures(rig);
        assert_eq!(
            [after[0] - before[0], after[1] - before[1], before[2] - after[2]],
            [objects, memories, ranges],
            "{what}"
        );
    };
    drop(alone);
    step(rig, [1, 1, 0], "object and memory");
    drop(ranged);
    step(rig, [0, 0, 1], "its range");
    drop(fast);
    step(rig, [0, 0, 0], "nothing");
    drop(aliased);
    step(rig, [1, 0, 0], "the object; the memory stays");
}

pub fn seed_004_16_stand_alone_and_aliased_are_deleted_later_and_aliased_memory_with_its_last_user<G: Gpu>(
    rig: &mut Rig<G>,
) {
    let placement = policy(rig, PlacementDesc::default());
    let target = texture_of(TextureUsage::COPY_DST | TextureUsage::RENDER_TARGET, 64);
    let heap = placement.aliased_heap(&target, 8 * MIB, "shared in turns").expect("there is room");
    let first = heap.create_texture(&target, 0, "first turn").expect("it fits");
    let alone = make(&placement, dynamic(64 * MIB + 1));
    let frame = rig.timeline().begin();
    drop((first, alone));
    assert_eq!(rig.memory.statistics().retired_count, 2, "on the to-delete list");
    assert_eq!(placement.end_frame().objects, 0, "the frame may use them");
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(placement.end_frame().objects, 2);
    let second = heap.create_texture(&target, 0, "second turn").expect("it fits");
    drop(heap);
    let held = rig.memory.statistics().total().dedicated_count;
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().total().dedicated_count, held, "it is still in use");
    drop(second);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().total().dedicated_count, held - 1);
}

/// If the caller knows that the device is done, it can destroy at once: a stand-alone resource with its memory, or a
/// placed resource with its range.
pub fn seed_004_16_what_stands_alone_is_destroyed_at_once_where_that_is_asked_for<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { texture_bytes_max: 4 * MIB, ..Default::default() });
    let alone = make(&placement, dynamic(64 * MIB + 1));
    let ranged = make(&placement, dynamic(100));
    let placed = make(&placement, of_usage(256, BufferUsage::STORAGE));
    let texture = placement.create_texture(&texture_of(TextureUsage::SAMPLED, 1100), "alone").expect("there is room");
    let pooled = placement.create_texture(&texture_of(TextureUsage::SAMPLED, 256), "pooled").expect("there is room");
    assert_eq!((alone.kind(), texture.kind()), (LocationKind::StandAlone, LocationKind::StandAlone));
    let own = u64::from(pooled.kind() == LocationKind::StandAlone);
    // The open frame does not delay the destruction.
    let frame = rig.timeline().begin();
    let figures = || {
        let calls = rig.memory.statistics().calls;
        [calls.destroy_object, calls.free_memory, sum(&placement, |pool| pool.range_count) as u64]
    };
    let mut before = figures();
    let mut step = |wanted: [u64; 3], what: &str| {
        let after = figures();
        assert_eq!([after[0] - before[0], after[1] - before[1], before[2] - after[2]], wanted, "{what}");
        assert_eq!(rig.memory.statistics().retired_count, 0, "{what}");
        before = after;
    };
    // SAFETY: no submission uses any of them.
    unsafe { alone.destroy_now() };
    step([1, 1, 0], "object and memory");
    // SAFETY: as above.
    unsafe { texture.destroy_now() };
    step([1, 1, 0], "object and memory");
    // SAFETY: as above.
    unsafe { ranged.destroy_now() };
    step([0, 0, 1], "its range");
    // SAFETY: as above.
    unsafe { placed.destroy_now() };
    step([1, 0, 1], "object and range");
    // SAFETY: as above.
    unsafe { pooled.destroy_now() };
    step([1, own, 1 - own], "object and range, unless it had its own memory");
    frame.discard();
}

pub fn seed_004_17_ranges_of_pools_and_buddies_never_come_back_at_once<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, small_blocks());
    let held = one_of_each(&placement, rig.timeline());
    let ranges = || each(&placement, |pool| pool.range_count);
    placement.end_frame();
    let before = ranges();
    assert_eq!((before[..4].to_vec(), before[8]), (vec![1; 4], 1));
    let frame = rig.timeline().begin();
    drop(held);
    assert_eq!(ranges(), before, "no cleanup has run");
    placement.end_frame();
    assert_eq!(ranges()[..8], before[..8], "the frame may use them; the page's is over");
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(ranges()[..8], before[..8], "no cleanup has run");
    placement.end_frame();
    assert_eq!(ranges(), [0; 9]);
}

pub fn seed_004_19_deleted_after_the_submitted_work_of_all_queues<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let alone = make(&placement, dynamic(64 * MIB + 1));
    let texture = placement.create_texture(&texture_of(TextureUsage::SAMPLED, 64), "").expect("there is room");
    let frames: Vec<_> = rig.timelines.iter().map(ringfence::Timeline::begin).collect();
    drop((alone, texture));
    let value = all_but_the_last(rig, frames);
    assert_eq!(placement.end_frame().objects, 0, "the last queue may still use them");
    open_the_gate(rig, value);
    assert_eq!(placement.end_frame().objects, 2);
}

/// Each of three queues is the late one once. Drivers with one queue are tested too: the three queues of the test then
/// share it, each has its own fence, and the late one is submitted last.
pub fn seed_004_19_deleted_whichever_of_several_queues_is_the_last<G: Gpu>(rig: &mut Rig<G>) {
    const QUEUES: usize = 3;
    let options = Options { queues: QUEUES, shared_queues: true, ..rig.options.clone() };
    run_on::<G>(&options, |rig| {
        assert_eq!(rig.timelines.len(), QUEUES, "the device has three queues, or they share one");
        let placement = policy(rig, PlacementDesc::default());
        // In the first three rounds, the resources are dropped before the submissions; in the others, after them.
        for number in 0..2 * QUEUES {
            let late = number % QUEUES;
            let alone = make(&placement, dynamic(64 * MIB + 1));
            let texture = placement.create_texture(&texture_of(TextureUsage::SAMPLED, 64), "").expect("there is room");
            let mut frames: Vec<_> = (0..).zip(rig.timelines.iter().map(ringfence::Timeline::begin)).collect();
            let mut held = Some((alone, texture));
            held.take_if(|_| number < QUEUES);
            frames.rotate_left(late + 1);
            let values: Vec<_> = frames.iter().map(|(queue, frame)| (*queue, frame.value())).collect();
            let gate = (rig.gpu.gate(), number as u64 + 1);
            for (queue, frame) in frames {
                let waits = if queue == late { std::slice::from_ref(&gate) } else { &[] };
                rig.gpu.submit(queue, waits, &[], frame.value()).expect("the device is not lost");
                rig.timelines[queue].submitted(frame).expect("in order");
            }
            drop(held);
            for &(queue, value) in &values[..QUEUES - 1] {
                assert!(rig.timelines[queue].wait(value, PATIENCE).expect("the device is not lost"));
            }
            assert_eq!(placement.end_frame().objects, 0, "queue {late} may still use them");
            rig.gpu.open_gate(gate.1).expect("the device is not lost");
            assert!(rig.timelines[late].wait(values[QUEUES - 1].1, PATIENCE).expect("the device is not lost"));
            assert_eq!(placement.end_frame().objects, 2, "queue {late} is done");
        }
    });
}

/// Describes blocks of a few MiB: each allocator creates one.
fn small_blocks() -> PlacementDesc {
    let bytes = 2 * MIB;
    PlacementDesc { default_block_bytes: bytes, texture_block_bytes: bytes, ..Default::default() }
}

/// Makes one request to each allocator. The page of fast constants belongs to a frame that is discarded before the
/// return.
fn one_of_each<D: Device>(placement: &Placement<D>, timeline: &ringfence::Timeline<D>) -> impl Sized + use<D> {
    let buffers = [
        make(placement, dynamic(100)),
        make(placement, dynamic(MIB)),
        make(placement, of_usage(256, BufferUsage::VERTEX)),
        make(placement, of_usage(256, BufferUsage::STORAGE)),
    ];
    let [sampled, target, storage] = [TextureUsage::SAMPLED, TextureUsage::RENDER_TARGET, TextureUsage::STORAGE];
    let textures = [(sampled, 16), (sampled, 256), (target, 256), (storage, 256)]
        .map(|(usage, side)| placement.create_texture(&texture_of(usage, side), "").expect("there is room"));
    let frame = timeline.begin();
    let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
    writer.write(&[1; 4]).expect("there is a page");
    frame.discard();
    (buffers, textures, writer)
}

/// Returns a figure of each allocator, in this order: uploads, default buffers, textures, fast pages.
fn each<D: Device>(placement: &Placement<D>, figure: impl Fn(&PoolFigures) -> usize) -> Vec<usize> {
    let figures = placement.figures();
    let uploads = [&figures.upload_small, &figures.upload_big].into_iter();
    let pools = uploads.chain(&figures.default_buffers).chain(&figures.textures);
    pools.chain([&figures.fast_pages]).map(figure).collect()
}

/// Returns the sum of a figure over all allocators.
fn sum<D: Device>(placement: &Placement<D>, figure: impl Fn(&PoolFigures) -> usize) -> usize {
    each(placement, figure).iter().sum()
}

/// The end of every frame frees ranges of each allocator and, later, its blocks.
pub fn seed_004_20_the_end_of_a_frame_cleans_every_allocator<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { idle_frames: 1, ..small_blocks() });
    let ranges = || each(&placement, |pool| pool.range_count);
    let blocks = || each(&placement, |pool| pool.block_count);
    for _ in 0..2 {
        let pooled = one_of_each(&placement, rig.timeline());
        let held = ranges();
        // Textures may be stand-alone. Buffers and pages are not.
        assert!(held[..4] == [1; 4] && held[4..8].iter().all(|count| *count <= 1) && held[8] == 1, "{held:?}");
        assert_eq!(blocks(), held, "a block for each");
        drop(pooled);
        assert_eq!((ranges(), blocks()), (held.clone(), held.clone()));
        assert_eq!(placement.end_frame().objects, 8, "and a page, which does not count as an object");
        assert_eq!((ranges(), blocks()), (vec![0; 9], held.clone()));
        assert_eq!(placement.end_frame().blocks, held.iter().sum::<usize>());
        assert_eq!(blocks(), [0; 9]);
    }
}

pub fn seed_004_23_an_empty_block_goes_after_a_lag_of_frames_without_use<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { idle_frames: 3, ..small_blocks() });
    let blocks = |placement: &Placement<G::Device>| sum(placement, |pool| pool.block_count);
    drop(one_of_each(&placement, rig.timeline()));
    let held = blocks(&placement);
    assert!(held >= 5);
    // A block that is used in every frame is not freed.
    for _ in 0..10 {
        drop(one_of_each(&placement, rig.timeline()));
        assert_eq!(placement.end_frame().blocks, 0);
        assert_eq!(blocks(&placement), held);
    }
    // The blocks were last used in the frame that just ended. They are freed in the third frame after it.
    let went: Vec<_> = (0..5).map(|_| placement.end_frame().blocks).collect();
    assert_eq!(went, [0, 0, held, 0, 0]);
    assert_eq!(blocks(&placement), 0);
    drop(one_of_each(&placement, rig.timeline()));
}

pub fn seed_004_21_freed_only_when_the_fence_of_its_frame_is_complete<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { default_buffer_bytes_max: MIB, ..Default::default() });
    let (placed, alone) = (of_usage(256, BufferUsage::STORAGE), of_usage(MIB + 1, BufferUsage::VERTEX));
    let others = [placed, alone].map(|request| make(&placement, request));
    let [target, held] = [0; 2].map(|_| make(&placement, of_usage(4 * KIB, COPIED)));
    let frame = rig.timeline().begin();
    let (point, value, gate) = (frame.point(), frame.value(), rig.gpu.gate());
    rig.gpu.submit(0, &[(gate, 1)], &[copy(&held, &target, 1024)], value).expect("the device is not lost");
    rig.timeline().submitted(frame).expect("in order");
    let later = rig.timeline().begin();
    for held in others.into_iter().chain([held]) {
        // SAFETY: no other frame uses it.
        unsafe { held.retire_after(&SyncSet::from(point)) };
    }
    assert_eq!(placement.end_frame().objects, 0, "its fence has not reached the value yet");
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(placement.end_frame().objects, 3, "the later frame does not hold them");
    later.discard();
    drop(target);
    placement.end_frame();
    // On every route, resources that are dropped between two frames wait for the first frame. Resources that are
    // dropped after the second frame began wait for the second.
    let requests = [dynamic(100), of_usage(256, BufferUsage::VERTEX), placed, alone];
    let [early, late] = [0; 2].map(|_| requests.map(|request| make(&placement, request)));
    let first = rig.timeline().begin();
    drop(early);
    let second = rig.timeline().begin();
    drop(late);
    let value = rig.submit(first, &[]);
    let last = rig.submit_behind_gate(2, second, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(placement.end_frame().objects, 4, "those of the first frame");
    rig.gpu.open_gate(2).expect("the device is not lost");
    assert!(rig.timeline().wait(last, PATIENCE).expect("the device is not lost"));
    assert_eq!(placement.end_frame().objects, 4);
}

pub fn seed_004_22_a_placed_resource_is_released_and_a_shared_one_lives_as_long_as_its_block<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { idle_frames: 2, ..Default::default() });
    let request = |strategy| BufferRequest { strategy: Some(strategy), ..of_usage(4 * KIB, COPIED) };
    let destroyed = |rig: &Rig<G>| rig.memory.statistics().calls.destroy_object;
    let before = destroyed(rig);
    drop(make(&placement, request(Strategy::Placed)));
    placement.end_frame();
    assert_eq!(destroyed(rig), before + 1);
    let [one, two] = [0; 2].map(|_| make(&placement, request(Strategy::Suballocated)));
    drop(one);
    (0..5).for_each(|_| _ = placement.end_frame());
    assert_eq!(destroyed(rig), before + 1, "the other range is still in it");
    drop(two);
    placement.end_frame();
    assert_eq!(destroyed(rig), before + 1, "its block may be used again");
    (0..5).for_each(|_| _ = placement.end_frame());
    assert_eq!(destroyed(rig), before + 2);
}

pub fn a_placement_that_is_dropped_first_leaves_its_locations_alone<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let (mut from, to) = (make(&placement, dynamic(256)), make(&placement, of_usage(256, COPIED)));
    let unused = placement.create_texture(&texture_of(TextureUsage::SAMPLED, 16), "").expect("there is room");
    drop((placement, unused));
    from.write(0, &pattern(8, 256)).expect("mapped");
    rig.run(&[copy(&from, &to, 256)]);
    drop((from, to));
    let before = rig.memory.statistics().total();
    assert!(rig.memory.reclaim().blocks >= 2, "no range will be requested again: blocks go at once");
    let after = rig.memory.statistics().total();
    assert!(after.range_count + after.dedicated_count < before.range_count + before.dedicated_count);
}

pub fn bad_placement_requests_are_typed_errors_and_change_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc::default());
    let invalid = |result: Result<BufferLocation<G::Device>, Error>| {
        assert!(matches!(result, Err(Error::Device(DeviceError::InvalidInfo(_)))), "{result:?}");
    };
    invalid(placement.create_buffer(&dynamic(0)));
    invalid(placement.create_buffer(&BufferRequest { alignment: 3, ..dynamic(100) }));
    let absurd = placement.create_buffer(&dynamic(u64::MAX));
    assert!(absurd.is_err(), "{absurd:?}");
    let usage = TextureUsage::COPY_DST;
    let heap = placement.aliased_heap(&texture_of(usage, 64), MIB, "").expect("there is room");
    assert!(heap.create_texture(&texture_of(usage, 64), 1, "").is_err(), "not aligned");
    assert!(matches!(heap.create_texture(&texture_of(usage, 64), MIB, ""), Err(Error::TooLarge { .. })));
    assert!(placement.aliased_heap(&texture_of(usage, 64), 0, "").is_err());
    let broken = [
        PlacementDesc { fast_page_bytes: 1000, ..Default::default() },
        PlacementDesc { small_upload_bytes_max: 8 * MIB, ..Default::default() },
        PlacementDesc { big_block_bytes: 0, ..Default::default() },
        PlacementDesc { small_granule_bytes: 0, ..Default::default() },
    ];
    for desc in broken {
        let refused = Placement::new(&rig.memory, desc);
        assert!(matches!(refused, Err(Error::Device(DeviceError::InvalidInfo(_)))), "{refused:?}");
    }
    assert_eq!(placement.figures(), Default::default());
    rig.memory.debug().validate().expect("the allocator is sound");
}

/// A range of a shared buffer outgrows its pool while the device still reads the old range. It keeps its bytes.
pub fn a_buffer_is_resized_across_routes_with_its_bytes<G: Gpu>(rig: &mut Rig<G>) {
    let placement = policy(rig, PlacementDesc { default_buffer_bytes_max: 64 * KIB, ..Default::default() });
    let bytes = pattern(6, 4096);
    let mut upload = make(&placement, dynamic(4096));
    upload.write(0, &bytes).expect("an upload is mapped");
    let mut held = make(&placement, of_usage(4096, COPIED));
    rig.run(&[copy(&upload, &held, 4096)]);
    for (size, alone) in [(16 * KIB, false), (128 * KIB, true), (4096, false)] {
        let frame = rig.timeline().begin();
        let moved = placement.resize_buffer(&mut held, &frame, &of_usage(size, COPIED), 4096).expect("there is room");
        let BufferCopy { src, src_offset, dst, dst_offset, size } = moved.expect("there are bytes to keep");
        rig.submit(frame, &[Command::CopyBuffer { src, src_offset, dst, dst_offset, size }]);
        assert_eq!(held.route() == Route::StandAlone, alone);
        placement.end_frame();
    }
    let back = placement.create_readback_texture(&TextureDesc { width: 1024, ..Default::default() }, "back");
    let back = back.expect("there is room").0;
    rig.run(&[copy(&held, &back, 4096)]);
    let mut read = vec![0; 4096];
    back.read(0, &mut read).expect("mapped");
    assert_eq!(read, bytes);
    let (_, theirs) = rig.allocator(ringfence::AllocatorDesc::default());
    let foreign = theirs[0].begin();
    let refused = placement.resize_buffer(&mut held, &foreign, &of_usage(8192, COPIED), 0);
    assert!(matches!(refused, Err(ReplaceError::ForeignFrame)));
    let frame = rig.timeline().begin();
    let refused = placement.resize_buffer(&mut held, &frame, &of_usage(8192, COPIED), 8192).map(drop);
    let numbers = ReplaceError::TooMuchToKeep { keep_bytes: 8192, old_bytes: 4096, new_bytes: 8192 };
    assert_eq!(refused, Err(numbers));
    frame.discard();
}
