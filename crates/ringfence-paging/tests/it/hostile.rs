//! Frames that are open at the same time, lost or on other queues; partial textures that are written; full devices.

use ringfence::AllocatorDesc;
use ringfence::device::{BufferDesc, BufferUsage, MemoryProperties};
use ringfence::paging::{PageDesc, PageUses, PagedTexture, PagingDesc, PagingError, WhenAway};
use ringfence::sim::{Barrier, Command, Profile};

use super::program::Program;
use super::rules::{TEXTURE, add, look, uses_of};
use super::scene::texels;

const AWAY: PageDesc<'_> = PageDesc {
    name: "may be away",
    priority: ringfence::device::Priority::Normal,
    when_away: WhenAway::MayBeAway { kept_mips: 0 },
    user_data: 7,
};

/// Fills the device with three textures that are used in each frame.
fn full(program: &mut Program) -> Vec<PagedTexture> {
    let used: Vec<_> = (10..13).map(|index| add(program, index, PageDesc::default())).collect();
    program.frame(&uses_of(&used));
    used
}

#[test]
fn a_partial_texture_that_could_not_be_written_keeps_its_contents() {
    let mut program = Program::limited(3 * TEXTURE + 8192);
    let partial = add(&mut program, 1, AWAY);
    let mut uses = PageUses::new();
    uses.add_mips(&partial, 2);
    program.frame(&uses);
    let used = full(&mut program);
    program.frame(&uses_of(&used));
    for _ in 0..3 {
        let mut uses = uses_of(&used);
        uses.add_written(&partial);
        let (frame, mut commands) = (program.timeline.begin(), Vec::new());
        let refused = program.commit(&uses, &frame, &mut commands);
        assert!(matches!(refused, Err(PagingError::NoRoom { .. })), "{refused:?}");
        program.submit(frame, commands);
        program.pace(0);
    }
    for _ in 0..3 {
        program.frame(&uses_of(&used));
        program.pace(0);
    }
    assert_eq!(program.paging.totals().written_back_bytes, 0);
    drop(used);
    look(&mut program, &partial, 1);
    drop(partial);
    program.end();
}

#[test]
fn a_resource_of_an_open_frame_is_refused_in_another_one() {
    let mut program = Program::limited(4 * TEXTURE);
    let texture = add(&mut program, 2, PageDesc::default());
    let (first, mut list) = (program.timeline.begin(), Vec::new());
    program.commit(&uses_of([&texture]), &first, &mut list).expect("there is room");
    let (second, mut other) = (program.timeline.begin(), Vec::new());
    let refused = program.commit(&uses_of([&texture]), &second, &mut other);
    assert!(matches!(&refused, Err(PagingError::OpenFrame { open, .. }) if *open == first.point()), "{refused:?}");
    first.discard();
    program.commit(&uses_of([&texture]), &second, &mut other).expect("the fill is lost, and made again");
    program.look(&second, &mut other, &texture, 0, texels(2, 0)[..256].to_vec());
    program.submit(second, other);
    program.pace(0);
    drop(texture);
    program.end();
}

/// A frame that was begun earlier can end after a later one is complete.
#[test]
fn a_fill_counts_as_made_only_once_its_frame_has_ended() {
    let mut program = Program::limited(4 * TEXTURE);
    let texture = add(&mut program, 3, PageDesc::default());
    let (first, mut list) = (program.timeline.begin(), Vec::new());
    program.commit(&uses_of([&texture]), &first, &mut list).expect("there is room");
    program.frame(&PageUses::new());
    program.pace(0);
    program.frame(&PageUses::new());
    drop(list);
    first.discard();
    look(&mut program, &texture, 3);
    drop(texture);
    program.end();
}

#[test]
fn another_timeline_waits_for_the_copies() {
    let mut program = Program::limited(4 * TEXTURE);
    let texture = add(&mut program, 4, PageDesc::default());
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let mut uses = PageUses::new();
    uses.add_mips(&texture, 2);
    program.commit(&uses, &frame, &mut commands).expect("there is room");
    let filled = frame.point();
    program.device.pause(0);
    program.submit(frame, commands);
    let (other, frame) = program.other_queue();
    for first_mip in [2, 0] {
        // Once the texture is there, and once it is copied from the object that is being filled.
        uses.clear();
        uses.add_mips(&texture, first_mip);
        let mut commands = Vec::new();
        program.commit(&uses, &frame, &mut commands).expect("there is room");
        assert_eq!(program.paging.waits().value_on(filled.timeline), Some(filled.value), "from mip {first_mip}");
    }
    frame.discard();
    program.device.resume(0);
    program.pace(0);
    drop((texture, other));
    program.end();
}

#[test]
fn a_failed_commit_reports_its_changes_with_the_next_one() {
    let mut program = Program::limited(3 * TEXTURE);
    let page = |user_data| PageDesc { user_data, ..Default::default() };
    let idle = add(&mut program, 0, page(1));
    program.frame(&uses_of([&idle]));
    program.pace(0);
    assert_eq!(program.paging.take_changed(), [1]);
    let used: Vec<_> = (1..5).map(|index| add(&mut program, index, page(index + 1))).collect();
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&uses_of(&used), &frame, &mut commands).expect_err("four do not fit");
    program.commit(&uses_of(&used[..3]), &frame, &mut commands).expect("three do");
    let mut changed = program.paging.take_changed();
    changed.sort_unstable();
    assert_eq!(changed, [1, 2, 3, 4]);
    program.submit(frame, commands);
    program.pace(0);
    drop((idle, used));
    program.end();
}

/// A discarded frame uses nothing, so the next one does not wait for it.
#[test]
fn a_resource_of_a_discarded_frame_can_leave() {
    let mut program = Program::limited(TEXTURE);
    let [one, two] = [0, 1].map(|index| add(&mut program, index, PageDesc::default()));
    program.frame(&uses_of([&one]));
    program.pace(0);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&uses_of([&one]), &frame, &mut commands).expect("it is there");
    frame.discard();
    look(&mut program, &two, 1);
    drop((one, two));
    program.end();
}

#[test]
fn resources_on_the_device_are_in_its_memory() {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = 5 * TEXTURE;
    let allocator = AllocatorDesc { heap_bytes_max, device_block_bytes_max: 64 << 10, ..Default::default() };
    let desc = PagingDesc { reserve_bytes: 0, ..Default::default() };
    let mut program = Program::new(Profile::h200(), allocator, desc);
    let textures: Vec<_> = (0..8).map(|index| add(&mut program, index, PageDesc::default())).collect();
    for round in 0..3 {
        for (index, texture) in (0..).zip(&textures) {
            look(&mut program, texture, index);
            let (of, _) = program.paging.texture(texture).expect("it was used");
            let memory_type = program.memory.capabilities().memory_types[of.memory_type() as usize];
            assert!(memory_type.properties.contains(MemoryProperties::DEVICE_LOCAL), "round {round}, {index}");
        }
    }
    drop(textures);
    program.end();
}

#[test]
fn where_memory_is_evicted_kept_mip_levels_are_all_levels() {
    let mut program = Program::new(Profile::d3d12_modern(), AllocatorDesc::default(), PagingDesc::default());
    let page = PageDesc { when_away: WhenAway::MayBeAway { kept_mips: 3 }, ..Default::default() };
    let texture = add(&mut program, 6, page);
    for _ in 0..3 {
        program.frame(&PageUses::new());
        program.pace(0);
    }
    for _ in 0..2 {
        look(&mut program, &texture, 6);
    }
    drop(texture);
    program.end();
}

#[test]
fn where_memory_is_evicted_a_full_device_is_an_error_and_not_a_loop() {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = 4 * TEXTURE;
    let allocator = AllocatorDesc { heap_bytes_max, ..Default::default() };
    let mut program = Program::new(Profile::d3d12_modern(), allocator, PagingDesc::default());
    let textures: Vec<_> = (0..6).map(|index| add(&mut program, index, PageDesc::default())).collect();
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let refused = program.commit(&uses_of(&textures), &frame, &mut commands);
    assert!(matches!(&refused, Err(PagingError::NoRoom { cause: Some(_), .. })), "{refused:?}");
    program.submit(frame, commands);
    program.pace(0);
    drop(textures);
    program.end();
}

#[test]
fn a_texture_that_has_no_room_beside_itself_is_filled_anew() {
    let mut program = Program::limited(TEXTURE + TEXTURE / 8);
    let texture = add(&mut program, 8, PageDesc::default());
    let mut uses = PageUses::new();
    uses.add_mips(&texture, 1);
    program.frame(&uses);
    program.pace(0);
    look(&mut program, &texture, 8);
    drop(texture);
    program.end();
}

#[test]
fn a_written_buffer_in_host_memory_moves_to_the_device_with_its_bytes() {
    let mut program = Program::limited(5000);
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };
    let filler = program.paging.add_buffer(&desc, &[1; 4096], PageDesc::default()).expect("host memory");
    let page = PageDesc { when_away: WhenAway::UseFromHost, ..Default::default() };
    let slow = program.paging.add_buffer(&desc, &[2; 4096], page).expect("host memory");
    let mut uses = PageUses::new();
    uses.add(&filler);
    uses.add_written(&slow);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let step = program.commit(&uses, &frame, &mut commands).expect("host memory");
    assert_eq!(step.on_host_count, 1);
    let dst = *program.paging.buffer(&slow).expect("it is there").object();
    commands.extend([Command::Barrier(Barrier::All), Command::FillBuffer { dst, offset: 0, size: 4096, value: 9 }]);
    program.submit(frame, commands);
    program.pace(0);
    drop(filler);
    program.frame(&PageUses::new());
    program.pace(0);
    uses.clear();
    uses.add(&slow);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let step = program.commit(&uses, &frame, &mut commands).expect("there is room");
    assert_eq!(step.on_host_count, 0, "{step:?}");
    program.look_at_buffer(&frame, &mut commands, &slow, vec![9; 4096]);
    program.submit(frame, commands);
    program.pace(0);
    drop(slow);
    program.end();
}

#[test]
fn a_request_that_cannot_fit_makes_nothing_leave() {
    let mut program = Program::limited(3 * TEXTURE);
    let idle: Vec<_> = (0..3).map(|index| add(&mut program, index, PageDesc::default())).collect();
    program.frame(&uses_of(&idle));
    program.pace(0);
    let desc = BufferDesc { size: 4 * TEXTURE, usage: BufferUsage::STORAGE };
    let large = program.paging.add_buffer(&desc, &vec![1; 4 * TEXTURE as usize], AWAY).expect("host memory");
    let mut uses = PageUses::new();
    uses.add(&large);
    let step = program.frame(&uses);
    assert_eq!((step.away_count, step.left_count), (1, 0));
    program.pace(0);
    drop((idle, large));
    program.end();
}

#[test]
fn a_prefetched_resource_comes_before_its_use_and_never_fails_a_commit() {
    let mut program = Program::limited(2 * TEXTURE);
    let textures: Vec<_> = (0..3).map(|index| add(&mut program, index, PageDesc::default())).collect();
    let mut uses = uses_of(&textures[..1]);
    textures.iter().for_each(|texture| uses.prefetch(texture));
    let step = program.frame(&uses);
    assert_eq!(step.away_count, 1, "{step:?}");
    let present =
        textures.iter().filter(|texture| program.paging.texture(texture).is_some_and(|(_, first)| first == 0));
    assert_eq!(present.count(), 2);
    program.pace(0);
    drop(textures);
    program.end();
}

/// The copies of the first attempt are in the list, so the frame waits for what they read.
#[test]
fn a_repeated_commit_keeps_the_waits_and_the_objects_of_the_first_one() {
    let mut program = Program::limited(TEXTURE + TEXTURE / 2);
    let [texture, more] = [4, 5].map(|index| add(&mut program, index, PageDesc::default()));
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let mut uses = PageUses::new();
    uses.add_mips(&texture, 2);
    program.commit(&uses, &frame, &mut commands).expect("there is room");
    let filled = frame.point();
    program.device.pause(0);
    program.submit(frame, commands);
    let (other, frame) = program.other_queue();
    let (both, mut commands) = (uses_of([&texture, &more]), Vec::new());
    program.commit(&both, &frame, &mut commands).expect_err("two do not fit");
    let generation = program.paging.generation(&texture);
    program.commit(&uses_of([&texture]), &frame, &mut commands).expect("one does");
    assert_eq!(program.paging.waits().value_on(filled.timeline), Some(filled.value));
    assert_eq!(program.paging.generation(&texture), generation);
    frame.discard();
    program.device.resume(0);
    program.pace(0);
    drop((texture, more, other));
    program.end();
}

/// The second commit copies nothing, so it cannot find the wait of the first one again.
#[test]
fn a_repeated_commit_keeps_its_waits_after_the_commit_of_another_frame() {
    let mut program = Program::limited(4 * TEXTURE);
    let texture = add(&mut program, 4, PageDesc::default());
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let mut uses = PageUses::new();
    uses.add_mips(&texture, 2);
    program.commit(&uses, &frame, &mut commands).expect("there is room");
    let filled = frame.point();
    program.device.pause(0);
    program.submit(frame, commands);
    let ((other, frame), mut commands) = (program.other_queue(), Vec::new());
    let uses = uses_of([&texture]);
    program.commit(&uses, &frame, &mut commands).expect("there is room");
    let between = program.timeline.begin();
    program.commit(&PageUses::new(), &between, &mut Vec::new()).expect("nothing is used");
    assert_eq!(program.paging.waits().value_on(filled.timeline), None, "the frame between has no waits");
    program.commit(&uses, &frame, &mut commands).expect("the texture is there");
    assert_eq!(program.paging.waits().value_on(filled.timeline), Some(filled.value));
    between.discard();
    frame.discard();
    program.device.resume(0);
    program.pace(0);
    drop((texture, other));
    program.end();
}

/// A frame that is open may never be submitted, so a program that waits for it may wait for ever.
#[test]
fn a_refusal_names_a_submitted_frame_to_wait_for_but_no_open_one() {
    let mut program = Program::limited(TEXTURE + TEXTURE / 2);
    let [held, refused] = [6, 7].map(|index| add(&mut program, index, PageDesc::default()));
    let waits_for = |program: &mut Program| {
        let frame = program.timeline.begin();
        let result = program.commit(&uses_of([&refused]), &frame, &mut Vec::new());
        frame.discard();
        let Err(PagingError::NoRoom { waits_for, .. }) = result else { panic!("{result:?}") };
        waits_for
    };
    program.device.pause(0);
    program.frame(&uses_of([&held]));
    let submitted = program.timeline.submitted_value();
    assert_eq!(waits_for(&mut program).map(|point| point.value), Some(submitted));
    program.device.resume(0);
    program.pace(0);
    let (other, open) = program.other_queue();
    program.commit(&uses_of([&held]), &open, &mut Vec::new()).expect("it is there");
    assert_eq!(waits_for(&mut program), None);
    open.discard();
    drop((held, refused, other));
    program.end();
}

#[test]
fn a_copy_to_the_host_that_is_lost_is_made_again() {
    let mut program = Program::limited(5000);
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };
    let written = program.paging.add_buffer(&desc, &[1; 4096], PageDesc::default()).expect("host memory");
    let mut uses = PageUses::new();
    uses.add_written(&written);
    program.frame(&uses);
    program.pace(0);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    let lost = program.commit(&PageUses::new(), &frame, &mut commands).expect("nothing is used");
    // Another frame sees the copy under way.
    program.frame(&PageUses::new());
    program.pace(0);
    drop(commands);
    frame.discard();
    let again = program.frame(&PageUses::new());
    assert_eq!((lost.written_back_bytes, again.written_back_bytes), (4096, 4096));
    program.pace(0);
    drop(written);
    program.end();
}

/// A later frame is complete while the frame that fills the object is open: the host copy is the only one.
#[test]
fn an_object_is_not_written_back_while_the_frame_that_fills_it_is_open() {
    let mut program = Program::limited(5000);
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };
    let written = program.paging.add_buffer(&desc, &[1; 4096], PageDesc::default()).expect("host memory");
    let mut uses = PageUses::new();
    uses.add_written(&written);
    let (first, mut lost) = (program.timeline.begin(), Vec::new());
    program.commit(&uses, &first, &mut lost).expect("there is room");
    program.frame(&PageUses::new());
    program.pace(0);
    let while_open = program.frame(&PageUses::new());
    assert_eq!(while_open.written_back_bytes, 0, "the object may never be filled");
    program.pace(0);
    drop(lost);
    first.discard();
    program.frame(&uses);
    program.pace(0);
    assert_eq!(program.frame(&PageUses::new()).written_back_bytes, 4096);
    program.pace(0);
    drop(written);
    program.end();
}

#[test]
fn a_dropped_resource_lives_until_its_uses_have_passed() {
    let mut program = Program::limited(4 * TEXTURE);
    let texture = add(&mut program, 9, PageDesc::default());
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&uses_of([&texture]), &frame, &mut commands).expect("there is room");
    program.look(&frame, &mut commands, &texture, 0, texels(9, 0)[..256].to_vec());
    program.device.pause(0);
    program.submit(frame, commands);
    drop(texture);
    let (frame, mut commands) = (program.timeline.begin(), Vec::new());
    program.commit(&PageUses::new(), &frame, &mut commands).expect("nothing is used");
    program.submit(frame, commands);
    program.device.resume(0);
    program.end();
}
