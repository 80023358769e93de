//! The rules of paging, one by one.

use ringfence::AllocatorDesc;
use ringfence::defrag::DefragPass;
use ringfence::device::{BufferDesc, BufferUsage, Format, Priority, TextureDesc};
use ringfence::paging::{PageDesc, PageUses, PagedTexture, Paging, PagingDesc, PagingError, WhenAway};
use ringfence::placement::{Compactor, CompactorDesc};
use ringfence::sim::{Barrier, Command, Profile};
use ringfence::trace::{Event, Reader, State};

use super::program::{Program, Shared};
use super::scene::{contents, desc, texels};

/// Memory of one texture on the simulated device.
pub const TEXTURE: u64 = 24_576;

pub fn add(program: &mut Program, index: u64, page: PageDesc<'_>) -> PagedTexture {
    program.paging.add_texture(&desc(), &contents(index), page).expect("host memory")
}

pub fn uses_of<'a>(textures: impl IntoIterator<Item = &'a PagedTexture>) -> PageUses {
    let mut uses = PageUses::new();
    textures.into_iter().for_each(|texture| uses.add(texture));
    uses
}

/// Runs a frame that uses the texture and compares a row of it.
pub fn look(program: &mut Program, texture: &PagedTexture, index: u64) {
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&uses_of([texture]), &frame, &mut commands).expect("there is room");
    program.look(&frame, &mut commands, texture, 0, texels(index, 0)[..256].to_vec());
    program.submit(frame, commands);
    program.pace(0);
}

#[test]
fn a_written_buffer_leaves_once_its_bytes_are_on_the_host_and_comes_back_with_them() {
    let mut program = Program::limited(300_000);
    let size = 200_000;
    let desc = BufferDesc { size, usage: BufferUsage::STORAGE };
    let written = program.paging.add_empty_buffer(&desc, PageDesc::default()).expect("described");
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let mut uses = PageUses::new();
    uses.add_written(&written);
    program.commit(&uses, &frame, &mut commands).expect("there is room");
    let dst = *program.paging.buffer(&written).expect("present").object();
    commands.extend([Command::Barrier(Barrier::All), Command::FillBuffer { dst, offset: 0, size, value: 7 }]);
    program.submit(frame, commands);
    program.pace(0);
    // Another buffer needs the room: the written one cannot leave at once.
    let other = program.paging.add_buffer(&desc, &vec![9; size as usize], PageDesc::default()).expect("host memory");
    uses.clear();
    uses.add(&other);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let refused = program.commit(&uses, &frame, &mut commands);
    assert!(matches!(&refused, Err(PagingError::NoRoom { missing_bytes: 200_000, .. })), "{refused:?}");
    assert!(program.paging.buffer(&written).is_some());
    program.submit(frame, commands);
    program.pace(0);
    assert_eq!(program.paging.totals().written_back_bytes, size);
    let step = program.frame(&uses);
    assert_eq!((step.left_count, step.brought_count, step.written_back_bytes), (1, 1, 0));
    program.pace(0);
    uses.clear();
    uses.add(&written);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&uses, &frame, &mut commands).expect("the other leaves");
    program.look_at_buffer(&frame, &mut commands, &written, vec![7; size as usize]);
    program.submit(frame, commands);
    program.pace(0);
    assert_eq!(program.compared_bytes, size);
    drop((written, other));
    program.end();
}

#[test]
fn copies_of_a_frame_that_is_not_submitted_are_made_again() {
    let mut program = Program::limited(10 * TEXTURE);
    let texture = add(&mut program, 5, PageDesc { user_data: 55, ..Default::default() });
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&uses_of([&texture]), &frame, &mut commands).expect("there is room");
    assert_eq!(program.paging.take_changed(), [55]);
    let lost = program.paging.generation(&texture);
    drop(commands);
    frame.discard();
    look(&mut program, &texture, 5);
    assert_ne!(program.paging.generation(&texture), lost);
    assert_eq!(program.paging.totals().brought_bytes, 2 * 21_844);
    drop(texture);
    program.end();
}

/// The bytes of a written resource on the host are those of the last frame that was submitted.
#[test]
fn writes_of_a_frame_that_is_not_submitted_are_lost_and_the_earlier_bytes_stay() {
    let mut program = Program::limited(10 * TEXTURE);
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };
    let buffer = program.paging.add_buffer(&desc, &[3; 4096], PageDesc::default()).expect("host memory");
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let mut uses = PageUses::new();
    uses.add_written(&buffer);
    program.commit(&uses, &frame, &mut commands).expect("there is room");
    frame.discard();
    uses.clear();
    uses.add(&buffer);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&uses, &frame, &mut commands).expect("there is room");
    program.look_at_buffer(&frame, &mut commands, &buffer, vec![3; 4096]);
    program.submit(frame, commands);
    program.pace(0);
    drop(buffer);
    program.end();
}

#[test]
fn lower_priorities_leave_first_and_pinned_resources_stay() {
    let mut program = Program::limited(3 * TEXTURE);
    let page = |priority| PageDesc { priority, ..Default::default() };
    let high = add(&mut program, 0, page(Priority::High));
    let low = add(&mut program, 1, page(Priority::Low));
    let pinned = add(&mut program, 2, page(Priority::Lowest));
    let more = add(&mut program, 3, page(Priority::Normal));
    program.paging.set_pinned(&pinned, true);
    program.frame(&uses_of([&high, &low, &pinned]));
    program.pace(0);
    // `low` was used last.
    program.frame(&uses_of([&low]));
    program.pace(0);
    program.frame(&uses_of([&more]));
    let present = [&high, &low, &pinned, &more].map(|texture| program.paging.texture(texture).is_some());
    assert_eq!(present, [true, false, true, true]);
    program.pace(0);
    drop((high, low, pinned, more));
    program.end();
}

#[test]
fn a_texture_that_may_be_away_keeps_its_smallest_mip_levels() {
    let mut program = Program::limited(3 * TEXTURE);
    let page = PageDesc { when_away: WhenAway::MayBeAway { kept_mips: 3 }, ..Default::default() };
    let kept = add(&mut program, 0, page);
    let others: Vec<_> = (1..4).map(|index| add(&mut program, index, PageDesc::default())).collect();
    program.frame(&PageUses::new());
    assert_eq!(program.paging.texture(&kept).map(|(_, first)| first), Some(4), "before the first use");
    program.pace(0);
    look(&mut program, &kept, 0);
    assert_eq!(program.paging.texture(&kept).map(|(_, first)| first), Some(0));
    program.frame(&uses_of(&others[..2]));
    program.pace(0);
    let step = program.frame(&uses_of(&others));
    assert_eq!(step.left_count, 1, "{step:?}");
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    // The device is full of resources in use: the frame sees the kept levels.
    let mut uses = uses_of(&others);
    uses.add(&kept);
    let step = program.commit(&uses, &frame, &mut commands).expect("it may be away");
    assert_eq!(step.away_count, 1);
    program.look(&frame, &mut commands, &kept, 4, texels(0, 4)[..16].to_vec());
    program.submit(frame, commands);
    program.pace(0);
    drop((kept, others));
    program.end();
}

#[test]
fn a_texture_gives_up_the_mip_levels_that_its_uses_do_not_need() {
    let mut program = Program::limited(3 * TEXTURE);
    let textures: Vec<_> = (0..3).map(|index| add(&mut program, index, PageDesc::default())).collect();
    program.frame(&uses_of(&textures));
    let more = add(&mut program, 3, PageDesc { when_away: WhenAway::MayBeAway { kept_mips: 0 }, ..Default::default() });
    for frame in 0..4 {
        let mut uses = PageUses::new();
        textures.iter().for_each(|texture| uses.add_mips(texture, 2));
        uses.add(&more);
        let (open, mut commands) = (program.timeline.begin(), Vec::new());
        let step = program.commit(&uses, &open, &mut commands).expect("it may be away");
        assert_eq!(step.away_count, u32::from(frame == 0), "{step:?}");
        program.look(&open, &mut commands, &textures[1], 2, texels(1, 2)[..64].to_vec());
        program.submit(open, commands);
        program.pace(0);
    }
    assert_eq!(program.paging.texture(&textures[0]).map(|(_, first)| first), Some(2));
    look(&mut program, &more, 3);
    // The finer levels come back from the host, the others from the device.
    look(&mut program, &textures[0], 0);
    drop((textures, more));
    program.end();
}

#[test]
fn a_resource_without_room_is_used_from_host_memory_and_moves_later() {
    let mut program = Program::limited(TEXTURE);
    let first = add(&mut program, 0, PageDesc::default());
    let slow = add(&mut program, 1, PageDesc { when_away: WhenAway::UseFromHost, ..Default::default() });
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let step = program.commit(&uses_of([&first, &slow]), &frame, &mut commands).expect("host memory");
    assert_eq!((step.on_host_count, step.away_count), (1, 0));
    program.look(&frame, &mut commands, &slow, 0, texels(1, 0)[..256].to_vec());
    program.submit(frame, commands);
    program.pace(0);
    let step = program.frame(&uses_of([&slow]));
    assert_eq!((step.on_host_count, step.left_count), (0, 1));
    program.pace(0);
    look(&mut program, &slow, 1);
    drop((first, slow));
    program.end();
}

#[test]
fn a_lower_limit_names_the_resources_that_leave_and_they_leave() {
    let mut program = Program::limited(u64::MAX);
    let textures: Vec<_> =
        (0..8).map(|index| add(&mut program, index, PageDesc { user_data: index, ..Default::default() })).collect();
    for texture in &textures {
        program.frame(&uses_of([texture]));
    }
    program.pace(0);
    assert_eq!(program.paging.to_leave(), []);
    program.paging.set_device_bytes_max(3 * TEXTURE);
    assert_eq!(program.paging.to_leave(), [0, 1, 2, 3, 4]);
    let step = program.frame(&PageUses::new());
    assert_eq!((step.left_count, step.device_bytes <= 3 * TEXTURE), (5, true));
    assert!(textures.iter().map(|texture| program.paging.texture(texture).is_some()).eq((0..8).map(|index| index > 4)));
    drop(textures);
    program.end();
}

/// Resources leave blocks that keep others, so a compactor empties the blocks.
#[test]
fn a_lower_limit_of_the_heap_is_followed_and_its_blocks_become_empty() {
    let allocator = AllocatorDesc { device_block_bytes_max: 64 << 10, ..Default::default() };
    let desc = PagingDesc { reserve_bytes: 0, movable: true, ..Default::default() };
    let mut program = Program::new(Profile::h200(), allocator, desc);
    let textures: Vec<_> = (0..16).map(|index| add(&mut program, index, PageDesc::default())).collect();
    // Every second one is used last, so that the others leave.
    program.frame(&uses_of(&textures));
    program.pace(0);
    program.frame(&uses_of(textures.iter().step_by(2)));
    program.pace(0);
    let heap = program.memory.plan().texture(&super::scene::desc(), Default::default()).expect("described").heap;
    let held = program.memory.budgets().heap(heap).reserved_bytes;
    let limit = held * 2 / 3;
    assert_eq!(program.memory.budgets().set_limit(heap, limit), held - limit);
    let before = program.paging.to_leave().len();
    let limits = CompactorDesc { waste_min: 0.0, waste_bytes_min: 0, rest_steps: 0, ..Default::default() };
    let mut compactor = Compactor::new(&program.memory, limits);
    for step in 0..120 {
        let (frame, mut commands) = (program.timeline.begin(), Vec::new());
        let committed = program.commit(&PageUses::new(), &frame, &mut commands).expect("nothing is brought");
        assert!(step > 0 || before > 0 && committed.left_count as usize == before, "{before} {committed:?}");
        let paging = &mut program.paging;
        let move_one = |pass: &mut DefragPass<'_, _>, index| paging.move_resource(pass, index, &frame).map(drop);
        // SAFETY: the commands are submitted as this frame, and no other commands use the resources.
        let moved = unsafe { compactor.step(&frame, &mut commands, move_one) }.expect("its own frame");
        assert_eq!(moved.failed, None);
        if step % 5 == 3 {
            // The moved resources come back from the host.
            drop(commands);
            frame.discard();
        } else {
            program.submit(frame, commands);
        }
        program.pace(0);
    }
    assert!(compactor.statistics().moved_count > 0, "{:?}", compactor.statistics());
    let reserved = program.memory.budgets().heap(heap).reserved_bytes;
    assert!(reserved <= limit, "{reserved} of {limit}");
    for (index, texture) in (0..).zip(&textures) {
        look(&mut program, texture, index);
    }
    drop((compactor, textures));
    program.end();
}

/// A move does not wait for other queues.
#[test]
fn a_resource_that_another_timeline_uses_stays_until_the_use_has_passed() {
    let allocator = AllocatorDesc { device_block_bytes_max: 64 << 10, ..Default::default() };
    let desc = PagingDesc { reserve_bytes: 0, movable: true, ..Default::default() };
    let mut program = Program::new(Profile::h200(), allocator, desc);
    let textures: Vec<_> = (0..16).map(|index| add(&mut program, index, PageDesc::default())).collect();
    program.frame(&uses_of(&textures));
    program.pace(0);
    let textures: Vec<_> = textures.into_iter().step_by(2).collect();
    let (other, open) = program.other_queue();
    program.commit(&uses_of(&textures), &open, &mut Vec::new()).expect("they are there");
    let limits = CompactorDesc { waste_min: 0.0, waste_bytes_min: 0, rest_steps: 0, ..Default::default() };
    let mut compactor = Compactor::new(&program.memory, limits);
    let mut steps = |program: &mut Program| {
        let (mut tried, mut moved) = (0, 0);
        for _ in 0..20 {
            let (frame, mut commands) = (program.timeline.begin(), Vec::new());
            program.commit(&PageUses::new(), &frame, &mut commands).expect("nothing is brought");
            let paging = &mut program.paging;
            let move_one = |pass: &mut DefragPass<'_, _>, index| {
                tried += 1;
                paging.move_resource(pass, index, &frame).map(|is_moved| moved += u32::from(is_moved))
            };
            // SAFETY: the commands are submitted as this frame, and no other commands use the resources.
            unsafe { compactor.step(&frame, &mut commands, move_one) }.expect("its own frame");
            program.submit(frame, commands);
            program.pace(0);
        }
        (tried, moved)
    };
    let while_used = steps(&mut program);
    assert!(while_used.0 > 0 && while_used.1 == 0, "{while_used:?}");
    open.discard();
    let afterwards = steps(&mut program);
    assert!(afterwards.1 > 0, "{afterwards:?}");
    for (index, texture) in (0..).step_by(2).zip(&textures) {
        look(&mut program, texture, index);
    }
    drop((compactor, textures, other));
    program.end();
}

#[test]
fn a_trace_has_each_resource_that_comes_and_leaves() {
    let mut program = Program::limited(2 * TEXTURE);
    let bytes = Shared::default();
    program.memory.trace().start(bytes.clone()).expect("nothing was created");
    let textures: Vec<_> = (0..3)
        .map(|index| add(&mut program, index, PageDesc { name: ["a", "b", "c"][index as usize], ..Default::default() }))
        .collect();
    for texture in &textures {
        program.frame(&uses_of([texture]));
        program.pace(0);
    }
    program.memory.trace().stop().expect("written").expect("recorded");
    let bytes = bytes.0.lock().expect("not poisoned").clone();
    let (mut state, mut paged) = (State::new(), Vec::new());
    for event in Reader::new(&bytes[..]).expect("a trace") {
        let event = event.expect("whole");
        state.apply(&event);
        if let Event::Paged { arrives, name, .. } = event {
            paged.push((arrives, name));
        }
    }
    assert_eq!(state.odd_count(), 0);
    let expected =
        [(true, "a"), (true, "b"), (false, "a"), (true, "c")].map(|(arrives, name)| (arrives, name.to_owned()));
    assert_eq!(paged, expected);
    drop(textures);
    program.end();
}

#[test]
fn requests_that_cannot_be_served_are_refused_by_name() {
    let mut program = Program::limited(u64::MAX);
    let paging = &mut program.paging;
    let error = paging.add_texture(&desc(), &[0; 16], PageDesc::default()).expect_err("too short");
    assert!(matches!(error, PagingError::WrongSize { given: 16, needed: 21_844 }), "{error}");
    let depth = TextureDesc { format: Format::D32FloatS8Uint, ..desc() };
    let error = paging.add_empty_texture(&depth, PageDesc::default()).expect_err("two aspects");
    assert!(error.to_string().contains("D32FloatS8Uint"), "{error}");
    let smooth = TextureDesc { samples: 4, mips: 1, ..desc() };
    let error = paging.add_empty_texture(&smooth, PageDesc::default()).expect_err("multisampled");
    assert!(error.to_string().contains("4 samples"), "{error}");
    // SAFETY: nothing is submitted.
    let mut other = unsafe { Paging::new(&program.memory, PagingDesc::default()) };
    let foreign = other.add_texture(&desc(), &contents(0), PageDesc::default()).expect("host memory");
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let error = program.commit(&uses_of([&foreign]), &frame, &mut commands).expect_err("foreign");
    assert!(matches!(error, PagingError::ForeignResource), "{error}");
    frame.discard();
    drop((foreign, other));
    program.end();
}

#[test]
fn where_memory_is_evicted_as_a_whole_textures_stay_and_their_memory_leaves() {
    for profile in [Profile::d3d12_tier1(), Profile::d3d12_modern()] {
        let mut program = Program::new(profile, AllocatorDesc::default(), PagingDesc::default());
        let textures: Vec<_> = (0..6).map(|index| add(&mut program, index, PageDesc::default())).collect();
        for (index, texture) in (0..).zip(&textures) {
            look(&mut program, texture, index);
        }
        let heap = program.memory.plan().texture(&desc(), Default::default()).expect("described").heap;
        let held = program.memory.budgets().heap(heap).reserved_bytes;
        program.device.set_budget(heap as usize, Some(held / 2));
        program.memory.reclaim();
        for _ in 0..3 {
            for (index, texture) in (0..).zip(&textures) {
                look(&mut program, texture, index);
            }
        }
        assert_eq!(program.paging.totals().brought_bytes, 6 * 21_844, "brought once");
        drop(textures);
        program.end();
    }
}
