//! `MeshArena`: generated inserts, drops, lost frames and compaction, read back from the device.

use std::collections::BTreeMap;

use ringfence::contents::{ContentsError, Mesh, MeshArena, MeshArenaDesc};
use ringfence::sim::Device;
use ringfence::upload::UploadError;
use ringfence::{Frame, UploadBatch};
use ringfence_core::testing::rng::Rng;

use super::program::Program;

type Vertex = [u32; 3];
type Arena = MeshArena<Device, Vertex, u16>;

fn arena_of(program: &Program, block_vertices: u32, block_indices: u32) -> Arena {
    let desc = MeshArenaDesc { block_vertices, block_indices, name: "meshes", ..Default::default() };
    MeshArena::new(&program.memory, desc)
}

fn model(vertices: usize, value: u32) -> Model {
    Model { vertices: vec![[value; 3]; vertices], indices: vec![1; 10] }
}

/// Inserts a large and a small mesh into each of two blocks, and drops the large meshes. Returns the small ones.
fn two_blocks(program: &Program, small: &Model) -> (Arena, [Mesh<Device>; 2]) {
    let mut arena = arena_of(program, 100, 100);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let mut insert = |model: &Model| model.insert(&mut arena, program, &mut batch, &frame).expect("there is room");
    let meshes = [0, 1].map(|_| (insert(&model(60, 80)), insert(small)).1);
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!(arena.figures().block_count, 2, "no block has room for two large meshes");
    (arena, meshes)
}

/// Checks that the arena's buffers contain the mesh at the place where it is drawn.
fn check(program: &Program, arena: &Arena, mesh: &Mesh<Device>, model: &Model) {
    let draw = arena.draw(mesh).expect("its own mesh");
    assert_eq!(draw.index_count as usize, model.indices.len());
    let (vertices, indices) = arena.block(draw.block).expect("the block exists");
    let found = program.read(vertices, draw.vertex_offset as u64 * 12, model.vertices.len() as u64 * 12);
    assert_eq!(found, bytemuck::cast_slice::<_, u8>(&model.vertices), "vertices of {mesh:?}");
    let found = program.read(indices, u64::from(draw.first_index) * 2, model.indices.len() as u64 * 2);
    assert_eq!(found, bytemuck::cast_slice::<_, u8>(&model.indices), "indices of {mesh:?}");
}

struct Model {
    vertices: Vec<Vertex>,
    indices: Vec<u16>,
}

impl Model {
    fn roll(dice: &mut Rng, vertices_max: u64, indices_max: u64) -> Self {
        let [first, vertices, indices] = [1 << 30, vertices_max, indices_max].map(|bound| dice.below(bound) as u32);
        let vertices = (0..=vertices).map(|number| [first, number, first ^ number]).collect();
        Self { vertices, indices: (0..=indices).map(|number| (first ^ number) as u16).collect() }
    }

    fn insert(
        &self,
        arena: &mut Arena,
        program: &Program,
        batch: &mut UploadBatch<Device>,
        frame: &Frame,
    ) -> Result<Mesh<Device>, ContentsError> {
        arena.insert(&self.vertices, &self.indices, &program.ring, batch, frame)
    }
}

#[test]
fn generated_meshes_hold_their_bytes_wherever_they_are_moved() {
    let (mut moves, mut losses) = (0, 0);
    for seed in 0..3 {
        let (program, mut dice) = (Program::new(seed), Rng::new(seed + 7));
        let mut arena = arena_of(&program, 600, 1000);
        let mut live = BTreeMap::new();
        for number in 0..500_u64 {
            let (frame, mut batch, mut added) = (program.timeline.begin(), UploadBatch::new(), Vec::new());
            let is_growing = number % 100 < 60;
            for step in 0..dice.below(if is_growing { 4 } else { 2 }) {
                let model = Model::roll(&mut dice, 100, 150);
                let mesh = model.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
                live.insert((number, step), (mesh, model));
                added.push((number, step));
            }
            let drops = dice.below(if is_growing { 2 } else { 5 });
            for _ in 0..drops.min(live.len() as u64) {
                let at = dice.below(live.len() as u64) as usize;
                let key = *live.keys().nth(at).expect("it is below the count");
                live.remove(&key);
            }
            // Not in the batch of the inserts, which writes the blocks.
            let mut moving = UploadBatch::new();
            let moved = arena.compact(8000, &mut moving, &frame).expect("its own frame");
            moves += u64::from(moved > 0);
            if dice.below(6) == 0 {
                let has_copies = moved > 0 || !added.is_empty();
                drop((batch, moving));
                frame.discard();
                added.iter().for_each(|key| drop(live.remove(key)));
                let is_lost = arena.take_content_lost();
                assert!(is_lost || !has_copies, "the copies were lost");
                losses += u64::from(moved > 0);
            } else {
                program.submit(frame, &mut [&mut batch, &mut moving]);
            }
            if number % 25 == 0 {
                live.values().for_each(|(mesh, model)| check(&program, &arena, mesh, model));
            }
        }
        live.values().for_each(|(mesh, model)| check(&program, &arena, mesh, model));
        drop(live);
        for _ in 0..2 {
            program.idle();
            arena.reclaim().expect("the device is not lost");
        }
        let figures = arena.figures();
        assert_eq!((figures.block_count, figures.mesh_count, figures.moving_count), (0, 0, 0), "{figures:?}");
        assert_eq!(program.device.hazards(), []);
    }
    assert!(moves > 50 && losses > 5, "{moves} frames moved meshes, {losses} of them were lost");
}

#[test]
fn meshes_share_blocks_and_a_large_mesh_gets_its_own() {
    let program = Program::new(9);
    let mut arena = arena_of(&program, 600, 1000);
    let (frame, mut batch, mut dice) = (program.timeline.begin(), UploadBatch::new(), Rng::new(1));
    let large = Model { vertices: vec![[7; 3]; 5000], indices: vec![3; 100] };
    let mesh = large.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    let models: Vec<_> = (0..10).map(|_| Model::roll(&mut dice, 40, 80)).collect();
    let insert = |model: &Model| model.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    let meshes: Vec<_> = models.iter().map(insert).collect();
    program.submit(frame, &mut [&mut batch]);
    check(&program, &arena, &mesh, &large);
    let draws = arena.draws(&meshes).expect("its own meshes");
    assert!(draws.is_sorted_by_key(|(index, draw)| (draw.block, *index)));
    let own = |index: &usize| arena.draw(&meshes[*index]).expect("its own mesh");
    assert!(draws.len() == meshes.len() && draws.iter().all(|(index, draw)| *draw == own(index)), "{draws:?}");
    assert_eq!(arena.figures().block_count, 2);
    let draw = arena.draw(&meshes[3]).expect("its own mesh");
    let words = draw.indirect(4, 9);
    assert_eq!(words, [draw.index_count, 4, draw.first_index, draw.vertex_offset as u32, 9]);
    meshes.iter().zip(&models).for_each(|(mesh, model)| check(&program, &arena, mesh, model));
}

#[test]
fn ranges_of_a_dropped_mesh_are_reused_after_its_submissions_only() {
    let program = Program::new(10);
    let mut arena = arena_of(&program, 100, 100);
    let full = Model { vertices: vec![[1; 3]; 100], indices: vec![1; 100] };
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let first = full.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    drop(first);
    // The frame is open, so the ranges of the first mesh are in use.
    let second = full.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    assert_eq!(arena.figures().block_count, 2);
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!((arena.figures().block_count, arena.figures().mesh_count), (1, 1), "the empty block is freed");
    check(&program, &arena, &second, &full);
}

#[test]
fn compaction_empties_a_block_within_its_bound() {
    let program = Program::new(11);
    let mut arena = arena_of(&program, 100, 100);
    let part = Model { vertices: vec![[5; 3]; 25], indices: vec![2; 25] };
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let mut insert = || part.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    let mut meshes: Vec<_> = (0..8).map(|_| insert()).collect();
    program.submit(frame, &mut [&mut batch]);
    // Two of four are left in each block.
    meshes.retain({
        let mut number = 0;
        move |_| {
            number += 1;
            number % 2 == 0
        }
    });
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!(arena.figures().block_count, 2);
    let bytes = 25 * 12 + 25 * 2;
    for expected in [1, 1, 0] {
        let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
        let moved = arena.compact(bytes + 10, &mut batch, &frame).expect("its own frame");
        assert_eq!(moved, expected * bytes, "one mesh in each frame");
        program.submit(frame, &mut [&mut batch]);
        program.idle();
        meshes.iter().for_each(|mesh| check(&program, &arena, mesh, &part));
    }
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!(arena.figures().block_count, 1);
    meshes.iter().for_each(|mesh| check(&program, &arena, mesh, &part));
}

#[test]
fn compaction_waits_for_copies_of_another_batch() {
    let program = Program::new(17);
    let (small, changed) = (model(25, 10), model(25, 60));
    let (mut arena, [first, second]) = two_blocks(&program, &small);

    // New vertices for both, in a batch that is recorded after the copies of `compact`.
    let (frame, mut writes, mut moves) = (program.timeline.begin(), UploadBatch::new(), UploadBatch::new());
    for mesh in [&first, &second] {
        let staged =
            program.ring.write_for(&frame, bytemuck::cast_slice(&changed.vertices), 16).expect("there is room");
        writes.copy(&staged, &arena.vertices(mesh).expect("its own mesh"), 0).expect("the ring's bytes");
    }
    assert_eq!(arena.compact(u64::MAX, &mut moves, &frame).expect("its own frame"), 0);
    program.submit(frame, &mut [&mut moves, &mut writes]);
    program.idle();
    for mesh in [&first, &second] {
        check(&program, &arena, mesh, &changed);
    }

    // The copies are recorded: they do not prevent a move. Neither do the copies of the batch itself to other meshes.
    let frame = program.timeline.begin();
    assert!(arena.compact(u64::MAX, &mut moves, &frame).expect("its own frame") > 0);
    program.submit(frame, &mut [&mut moves]);
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!(arena.figures().block_count, 1);
    for mesh in [&first, &second] {
        check(&program, &arena, mesh, &changed);
    }
}

#[test]
fn misuse_is_refused_by_name_and_changes_nothing() {
    let (program, other) = (Program::new(12), Program::new(13));
    let (mut arena, twin) = (arena_of(&program, 100, 100), arena_of(&program, 100, 100));
    let (frame, foreign, mut batch) = (program.timeline.begin(), other.timeline.begin(), UploadBatch::new());
    let none = Model { vertices: vec![[1; 3]; 2], indices: Vec::new() };
    let refused = none.insert(&mut arena, &program, &mut batch, &frame).map(drop);
    assert!(matches!(refused, Err(ContentsError::EmptyMesh { vertex_count: 2, index_count: 0 })), "{refused:?}");
    let model = Model { vertices: vec![[1; 3]; 2], indices: vec![0; 3] };
    let refused = model.insert(&mut arena, &program, &mut batch, &foreign).map(drop);
    assert!(matches!(refused, Err(ContentsError::Upload(UploadError::ForeignFrame { .. }))), "{refused:?}");
    let refused = arena.compact(100, &mut batch, &foreign);
    assert!(matches!(refused, Err(ContentsError::Upload(UploadError::ForeignFrame { .. }))), "{refused:?}");
    assert_eq!(arena.figures().block_count, 0);
    // More than the ring has.
    let huge = Model { vertices: vec![[1; 3]; 200_000], indices: vec![0; 3] };
    let refused = huge.insert(&mut arena, &program, &mut batch, &frame).map(drop);
    assert!(matches!(refused, Err(ContentsError::Upload(_))), "{refused:?}");
    assert_eq!(arena.figures().mesh_count, 0);
    let mesh = model.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    assert!(matches!(twin.draw(&mesh), Err(ContentsError::ForeignMesh)));
    assert!(arena.draw(&mesh).is_ok());
    program.submit(frame, &mut [&mut batch]);
    check(&program, &arena, &mesh, &model);
    foreign.discard();
}

#[test]
fn a_move_whose_frame_is_discarded_is_undone() {
    let program = Program::new(15);
    let mut arena = arena_of(&program, 100, 100);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let [large, small] =
        [80, 25].map(|count| Model { vertices: vec![[count; 3]; count as usize], indices: vec![1; 10] });
    let first = large.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    let second = small.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    let third = small.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    drop(first);
    program.idle();
    arena.reclaim().expect("the device is not lost");
    let other = Model { vertices: vec![[9; 3]; 60], indices: vec![4; 10] };
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let fourth = other.insert(&mut arena, &program, &mut batch, &frame).expect("there is room");
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    let places = |arena: &Arena| [&second, &third, &fourth].map(|mesh| arena.draw(mesh).expect("its own mesh"));
    let before = places(&arena);
    assert_eq!(arena.figures().block_count, 2);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let moved = arena.compact(u64::MAX, &mut batch, &frame).expect("its own frame");
    let moving = arena.figures().moving_count;
    assert_eq!(arena.compact(u64::MAX, &mut UploadBatch::new(), &frame).expect("its own frame"), 0, "not twice");
    assert_eq!(arena.figures().moving_count, moving);
    let is_moving = |mesh: &&Mesh<Device>| matches!(arena.vertices(mesh), Err(ContentsError::Moving));
    let refused = [&second, &third, &fourth].iter().filter(|mesh| is_moving(mesh)).count();
    assert_eq!(refused, moving, "a copy to a mesh that is being moved would be lost");
    arena.reclaim().expect("the device is not lost");
    assert_eq!(places(&arena), before, "the frame is open");
    drop(batch);
    frame.discard();
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!((places(&arena), arena.figures().moving_count), (before, 0));
    assert_eq!(arena.take_content_lost(), moved > 0);
    for (mesh, model) in [(&second, &small), (&third, &small), (&fourth, &other)] {
        check(&program, &arena, mesh, model);
    }
    assert!(moved > 0, "the test moves a mesh");
}

#[test]
fn a_block_without_room_for_the_indices_keeps_its_vertices() {
    let program = Program::new(16);
    let mut arena = arena_of(&program, 100, 100);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let [many, few] = [90, 20].map(|count| Model { vertices: vec![[1; 3]; 10], indices: vec![1; count] });
    let meshes = [&many, &few].map(|model| model.insert(&mut arena, &program, &mut batch, &frame).expect("room"));
    assert_eq!(arena.figures().free_vertices, 180);
    program.submit(frame, &mut [&mut batch]);
    drop(meshes);
}

/// The copies of a move are lost with their own frame, whatever becomes of other open frames.
#[test]
fn a_move_whose_frame_is_lost_is_undone_also_beside_another_open_frame() {
    for later_is_submitted in [false, true] {
        let program = Program::new(18);
        let small = model(25, 10);
        let (mut arena, meshes) = two_blocks(&program, &small);
        let places = |arena: &Arena| [0, 1].map(|at: usize| arena.draw(&meshes[at]).expect("its own mesh"));
        let before = places(&arena);

        let (frame, mut moves) = (program.timeline.begin(), UploadBatch::new());
        assert!(arena.compact(u64::MAX, &mut moves, &frame).expect("its own frame") > 0);
        let mut commands = Vec::new();
        // SAFETY: the commands are never submitted; the frame is discarded.
        unsafe { moves.record(&mut commands) }.expect("the destinations are there");
        let later = program.timeline.begin();
        if later_is_submitted {
            program.submit(later, &mut []);
            program.idle();
            arena.reclaim().expect("the device is not lost");
            assert_eq!(places(&arena), before, "the frame of the move is open");
            frame.discard();
        } else {
            frame.discard();
            arena.reclaim().expect("the device is not lost");
            program.submit(later, &mut []);
        }
        program.idle();
        arena.reclaim().expect("the device is not lost");
        assert_eq!(places(&arena), before, "the copies never ran");
        assert!(arena.take_content_lost());
        meshes.iter().for_each(|mesh| check(&program, &arena, mesh, &small));
    }
}

/// The mesh is dropped while the frame of its move is open, and a later frame is complete. A new mesh gets its number.
#[test]
fn a_move_of_a_dropped_mesh_ends_with_it() {
    let program = Program::new(19);
    let (mut arena, [first, second]) = two_blocks(&program, &model(25, 10));
    let (frame, mut moves) = (program.timeline.begin(), UploadBatch::new());
    assert!(arena.compact(u64::MAX, &mut moves, &frame).expect("its own frame") > 0);
    // SAFETY: the commands are never submitted; the frame is discarded.
    unsafe { moves.record(&mut Vec::new()) }.expect("the destinations are there");
    drop((first, second));
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!((arena.figures().mesh_count, arena.figures().moving_count), (0, 0));
    let (later, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let models = [30, 40].map(|value| model(20, value));
    let mut insert = |model: &Model| model.insert(&mut arena, &program, &mut batch, &later).expect("there is room");
    let meshes = [insert(&models[0]), insert(&models[1])];
    program.submit(later, &mut [&mut batch]);
    frame.discard();
    program.idle();
    arena.reclaim().expect("the device is not lost");
    for (mesh, model) in meshes.iter().zip(&models) {
        check(&program, &arena, mesh, model);
    }
}
