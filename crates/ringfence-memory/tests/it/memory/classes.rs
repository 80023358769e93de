//! Buffers and textures in common blocks: the distance that the device requires is kept, and blocks are shared if that
//! is cheap. The simulated device reports each pair that is too close.

use std::ops::Deref;

use proptest::prelude::*;
use ringfence::debugging::DebugDesc;
use ringfence::defrag::{Defrag, DefragDesc, DefragState};
use ringfence::device::{TextureDesc, TextureUsage};
use ringfence::sim::{self, Profile};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Location, Texture};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, info};

/// A device with one memory type. The alignment of its resources is smaller than the distance.
fn close(class_granularity_bytes: u64) -> Profile {
    let mut profile = Profile::lavapipe();
    profile.capabilities.class_granularity_bytes = class_granularity_bytes;
    profile.capabilities.class_groups = if class_granularity_bytes == 1 { [0, 0, 0] } else { [0, 1, 1] };
    let alignment = 16;
    Profile {
        buffer_alignment: alignment,
        texture_alignment: alignment,
        small_texture_alignment: alignment,
        multisampled_alignment: alignment,
        mip_alignment: alignment,
        ..profile
    }
}

#[derive(Clone, Debug)]
enum Op {
    Buffer { bytes: u64, location: Location },
    Texture { desc: TextureDesc },
    Drop(usize),
    Frame { moves: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![8 => 16..6 * KIB, 1 => KIB..200 * KIB];
    let location = prop_oneof![Just(Location::Device), Just(Location::Upload)];
    let texture = (1..40_u32, 1..40_u32, 1..3_u32, 0..3_u32).prop_map(|(width, height, mips, kind)| {
        let usage = [TextureUsage::SAMPLED, TextureUsage::RENDER_TARGET, TextureUsage::STORAGE][kind as usize];
        let usage = usage | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
        let mips = mips.min(width.max(height).ilog2() + 1);
        Op::Texture { desc: TextureDesc { width, height, mips, usage, ..Default::default() } }
    });
    prop_oneof![
        8 => (bytes, location).prop_map(|(bytes, location)| Op::Buffer { bytes, location }),
        8 => texture,
        9 => any::<usize>().prop_map(Op::Drop),
        2 => any::<bool>().prop_map(|moves| Op::Frame { moves }),
    ]
}

enum Held {
    Buffer(Buffer<sim::Device>),
    Texture(Texture<sim::Device>),
}

struct Mixed {
    base: Fixture,
    held: Vec<Option<Held>>,
    run: Option<Defrag<sim::Device>>,
}

impl Deref for Mixed {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.base
    }
}

impl Mixed {
    fn new(profile: Profile, desc: AllocatorDesc) -> Self {
        let base = Fixture::new(FixtureDesc { profile, allocator: desc, ..Default::default() });
        Self { base, held: Vec::new(), run: None }
    }

    fn apply(&mut self, op: &Op) {
        let desc = AllocationDesc { movable: true, user_data: self.held.len() as u64, ..Default::default() };
        match *op {
            Op::Buffer { bytes, location } => {
                let made = self.memory.create_buffer(&info(bytes), AllocationDesc { location, ..desc });
                self.held.push(Some(Held::Buffer(made.expect("there is room"))));
            }
            Op::Texture { desc: texture } => {
                let made = self.memory.create_texture(&texture, desc);
                self.held.push(Some(Held::Texture(made.expect("there is room"))));
            }
            Op::Drop(at) if !self.held.is_empty() => {
                let at = at % self.held.len();
                self.held[at] = None;
            }
            Op::Drop(_) => {}
            Op::Frame { moves } => self.frame(moves),
        }
    }

    /// Runs a frame that uses no resource, and moves everything that a pass finds.
    fn frame(&mut self, moves: bool) {
        let frame = self.timeline().begin();
        if moves {
            let desc = DefragDesc { host_memory: true, ..Default::default() };
            let run = self.run.get_or_insert_with(|| self.base.memory.defragment(desc));
            let mut pass = run.begin_pass(&frame).expect("the frame is ours");
            for index in 0..pass.moves().len() {
                let number = pass.moves()[index].user_data as usize;
                match self.held[number].as_mut().expect("a dropped resource is not moved") {
                    Held::Buffer(buffer) => _ = pass.copy_buffer(buffer).expect("the room is there"),
                    Held::Texture(texture) => _ = pass.copy_texture(texture).expect("the room is there"),
                }
            }
            drop(pass);
            if run.state() == DefragState::Done {
                self.run = None;
            }
        }
        self.device.submit(0, &[], Vec::new(), (self.fence(), frame.value())).expect("the device is not lost");
        self.timeline().submitted(frame).expect("frames are submitted in order");
        assert!(self.device.run_until_idle());
        self.memory.reclaim();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn buffers_and_textures_keep_the_distance_that_the_device_asks_for(
        distance in prop_oneof![
            Just(1), Just(64), Just(256), Just(KIB), Just(4 * KIB), Just(8 * KIB), Just(64 * KIB)
        ],
        slots in any::<bool>(),
        margin_bytes in prop_oneof![4 => Just(0_u32), 1 => 1..100_u32],
        ops in proptest::collection::vec(op(), 1..160),
    ) {
        let debug = DebugDesc { margin_bytes, ..Default::default() };
        let small = AllocatorDesc { small_slots: slots, debug, device_block_bytes_max: MIB, ..Default::default() };
        let mut world = Mixed::new(close(distance), small);
        for op in &ops {
            world.apply(op);
            world.memory.debug().validate().map_err(|invalid| TestCaseError::fail(invalid.to_string()))?;
            prop_assert_eq!(world.device.hazards(), []);
        }
    }
}

/// Returns the number of blocks in use after creating a buffer and a texture.
fn block_count(profile: Profile) -> (u64, Vec<String>) {
    let mut world = Mixed::new(profile, AllocatorDesc::default());
    world.apply(&Op::Buffer { bytes: 5000, location: Location::Device });
    world.apply(&Op::Texture { desc: TextureDesc { width: 30, height: 30, ..Default::default() } });
    let snapshot = world.memory.snapshot();
    (world.memory.statistics().total().block_count, snapshot.blocks.into_iter().map(|block| block.class).collect())
}

#[test]
fn a_small_distance_is_kept_within_a_block_and_a_large_one_by_blocks() {
    for distance in [1, 64, KIB, 4 * KIB] {
        assert_eq!(block_count(close(distance)), (1, vec!["all".to_owned()]), "{distance} bytes");
    }
    for distance in [8 * KIB, 64 * KIB] {
        let expected = (2, vec!["buffers".to_owned(), "textures".to_owned()]);
        assert_eq!(block_count(close(distance)), expected, "{distance} bytes");
    }
    assert_eq!(block_count(Profile::d3d12_tier1()).0, 2, "heap tier 1 separates them permanently");
    assert_eq!(block_count(Profile::d3d12_modern()).0, 1, "tier 2 does not");
}
