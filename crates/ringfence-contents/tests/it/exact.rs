//! Exact ranges, numbers and limits of meshes and vectors.

use ringfence::UploadBatch;
use ringfence::contents::{
    ContentsError, GpuVec, GpuVecDesc, Mesh, MeshArena, MeshArenaDesc, MeshArenaFigures, MeshDraw,
};
use ringfence::device::BufferUsage;
use ringfence::memory::AsBufferSlice;
use ringfence::sim::Device;
use ringfence::upload::CopyTarget;
use ringfence::{Frame, Location};

use super::program::Program;

type Vertex = [u32; 3];
type Arena = MeshArena<Device, Vertex, u16>;

fn arena(program: &Program) -> Arena {
    let desc = MeshArenaDesc { block_vertices: 100, block_indices: 90, name: "meshes", ..Default::default() };
    MeshArena::new(&program.memory, desc)
}

/// Inserts meshes of these numbers of vertices and indices in a frame. The bytes of a mesh are its number, from 1 on.
fn insert(program: &Program, arena: &mut Arena, sizes: &[(usize, usize)]) -> Vec<Mesh<Device>> {
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let meshes = (1..).zip(sizes).map(|(number, &(vertices, indices))| {
        let (vertices, indices) = (vec![[number; 3]; vertices], vec![number as u16; indices]);
        arena.insert(&vertices, &indices, &program.ring, &mut batch, &frame).expect("there is room")
    });
    let meshes = meshes.collect();
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    meshes
}

/// Returns the block, the first vertex, the first index and the number of indices of a mesh.
fn place(arena: &Arena, mesh: &Mesh<Device>) -> [u32; 4] {
    let MeshDraw { block, index_count, first_index, vertex_offset } = arena.draw(mesh).expect("its own mesh");
    [block, vertex_offset as u32, first_index, index_count]
}

/// Moves meshes, at most this number of bytes, and waits until they are drawn from their new places.
fn compact(program: &Program, arena: &mut Arena, bytes_max: u64) -> u64 {
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let moved = arena.compact(bytes_max, &mut batch, &frame).expect("its own frame");
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    arena.reclaim().expect("the device is not lost");
    moved
}

/// Writes bytes to the vertices or the indices of a mesh. Submits the frame, or discards it.
fn write(program: &Program, to: &impl CopyTarget<Device>, bytes: &[u8], is_lost: bool) {
    let (frame, mut batch): (Frame, _) = (program.timeline.begin(), UploadBatch::new());
    let staged = program.ring.write_for(&frame, bytes, 16).expect("there is room");
    batch.copy(&staged, to, 0).expect("inside the part");
    if is_lost {
        drop(batch);
        frame.discard();
    } else {
        program.submit(frame, &mut [&mut batch]);
        program.idle();
    }
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let desc = MeshArenaDesc::default();
    assert_eq!((desc.block_vertices, desc.block_indices, desc.name), (262_144, 1_048_576, ""));
    assert_eq!((desc.vertex_usage, desc.index_usage), (BufferUsage::empty(), BufferUsage::empty()));
    let desc = GpuVecDesc::default();
    assert_eq!((desc.usage, desc.update_bytes_max, desc.name), (BufferUsage::STORAGE_READ, 16_777_216, ""));
}

#[test]
fn the_parts_of_a_mesh_are_its_bytes_in_the_buffers_of_its_block() {
    let program = Program::new(1);
    let mut arena = arena(&program);
    let meshes = insert(&program, &mut arena, &[(10, 20), (7, 15), (3, 5)]);
    // Offset and size of the vertices of 12 bytes, then of the indices of 2 bytes.
    let expected = [[0, 120, 0, 40], [120, 84, 40, 30], [204, 36, 70, 10]];
    for ((mesh, expected), number) in meshes.iter().zip(expected).zip(1_u32..) {
        let (vertices, indices) = (arena.vertices(mesh).expect("settled"), arena.indices(mesh).expect("settled"));
        let [of_vertices, of_indices] = [vertices.as_slice(), indices.as_slice()];
        let found = [of_vertices.offset, of_vertices.size, of_indices.offset, of_indices.size];
        assert_eq!(found, expected, "{mesh:?}");
        assert_eq!([vertices.size(), indices.size()], [expected[1], expected[3]]);
        assert_eq!([vertices.location(), indices.location()], [Location::Device; 2]);
        let (buffer, other) = arena.block(0).expect("the first block");
        let is_of =
            |part: Option<&ringfence::Buffer<Device>>, whole| part.is_some_and(|part| std::ptr::eq(part, whole));
        assert!(is_of(vertices.resource(), buffer) && is_of(indices.resource(), other));
        assert_eq!((*of_vertices.object, *of_indices.object), (*buffer.object(), *other.object()));
        let found = program.read(buffer, of_vertices.offset, of_vertices.size);
        assert!(found.chunks(4).all(|word| word == number.to_le_bytes()), "{mesh:?}");
    }
    assert!(arena.block(1).is_none());
    // 100 vertices and 90 indices in a block, of which 20 and 40 are used.
    let expected =
        MeshArenaFigures { block_count: 1, mesh_count: 3, moving_count: 0, free_vertices: 80, free_indices: 50 };
    assert_eq!(arena.figures(), expected);
}

#[test]
fn a_copy_to_a_part_changes_that_part_only() {
    let program = Program::new(2);
    let mut arena = arena(&program);
    let meshes = insert(&program, &mut arena, &[(2, 2), (3, 4), (1, 1)]);
    write(&program, &arena.vertices(&meshes[1]).expect("settled"), &[9; 36], false);
    write(&program, &arena.indices(&meshes[1]).expect("settled"), &[8; 8], false);
    let (vertices, indices) = arena.block(0).expect("the first block");
    let found = program.read(vertices, 0, 72);
    let words: Vec<_> = found.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect();
    let nines = 0x0909_0909;
    assert_eq!(words, [[1; 6].as_slice(), &[nines; 9], &[3; 3]].concat());
    assert_eq!(program.read(indices, 0, 14), [1, 0, 1, 0, 8, 8, 8, 8, 8, 8, 8, 8, 3, 0]);
    assert!(!arena.take_content_lost(), "every copy arrived");
}

#[test]
fn a_lost_copy_to_either_part_is_reported_once() {
    let program = Program::new(3);
    let mut arena = arena(&program);
    let meshes = insert(&program, &mut arena, &[(2, 2)]);
    assert!(!arena.take_content_lost(), "the mesh arrived");
    write(&program, &arena.vertices(&meshes[0]).expect("settled"), &[9; 24], true);
    assert!(arena.take_content_lost());
    assert!(!arena.take_content_lost(), "the loss was reported");
    write(&program, &arena.indices(&meshes[0]).expect("settled"), &[9; 4], true);
    assert!(arena.take_content_lost());
    assert!(!arena.take_content_lost(), "the loss was reported");
    // Two losses in one block.
    write(&program, &arena.vertices(&meshes[0]).expect("settled"), &[9; 24], true);
    write(&program, &arena.indices(&meshes[0]).expect("settled"), &[9; 4], true);
    assert!(arena.take_content_lost());
    assert!(!arena.take_content_lost(), "both losses were reported");
}

#[test]
fn a_moved_mesh_keeps_its_bytes_and_the_number_of_its_indices() {
    let program = Program::new(4);
    let mut arena = arena(&program);
    let mut meshes = insert(&program, &mut arena, &[(60, 50), (40, 40), (20, 10), (30, 21)]);
    let places: Vec<_> = meshes.iter().map(|mesh| place(&arena, mesh)).collect();
    assert_eq!(places, [[0, 0, 0, 50], [0, 60, 50, 40], [1, 0, 0, 10], [1, 20, 10, 21]]);
    // The second block has fewer vertices in use, and its last mesh fits behind the first mesh of the first block.
    drop((meshes.remove(1), meshes.remove(1)));
    program.idle();
    arena.reclaim().expect("the device is not lost");
    assert_eq!(compact(&program, &mut arena, u64::MAX), 30 * 12 + 21 * 2);
    assert_eq!(place(&arena, &meshes[1]), [0, 60, 50, 21]);
    let (vertices, indices) = arena.block(0).expect("the first block");
    assert!(program.read(vertices, 60 * 12, 30 * 12).chunks(4).all(|word| word == [4, 0, 0, 0]));
    assert!(program.read(indices, 50 * 2, 21 * 2).chunks(2).all(|index| index == [4, 0]));
    assert_eq!(arena.figures().block_count, 1, "the second block is empty");
    assert!(!arena.take_content_lost());
}

#[test]
fn a_compaction_moves_as_many_meshes_as_fit_into_its_bytes() {
    // A mesh has 5 vertices of 12 bytes and 5 indices of 2 bytes.
    for (bytes_max, moved) in [(0, 0), (69, 0), (70, 70), (71, 70), (139, 70), (140, 140), (209, 140), (210, 210)] {
        let program = Program::new(5);
        let mut arena = arena(&program);
        let sizes = [[(80, 10)].as_slice(), &[(5, 5); 4], &[(5, 5); 3]].concat();
        let mut meshes = insert(&program, &mut arena, &sizes);
        assert_eq!(arena.figures().block_count, 2);
        // The first block has room again for the three meshes of the second one.
        meshes.drain(1..4);
        program.idle();
        arena.reclaim().expect("the device is not lost");
        assert_eq!(compact(&program, &mut arena, bytes_max), moved, "at most {bytes_max} bytes");
    }
}

#[test]
fn a_mesh_needs_a_vertex_and_an_index() {
    let program = Program::new(6);
    let mut arena = arena(&program);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    for (vertices, indices) in [(0, 0), (0, 3), (3, 0)] {
        let refused = arena
            .insert(&vec![[1; 3]; vertices], &vec![1; indices], &program.ring, &mut batch, &frame)
            .expect_err("a part is empty");
        let is_it = |counts: [u32; 2]| counts == [vertices as u32, indices as u32];
        assert!(
            matches!(refused, ContentsError::EmptyMesh { vertex_count, index_count } if is_it([vertex_count, index_count])),
            "{refused}"
        );
    }
    let mesh = arena.insert(&[[1; 3]], &[1], &program.ring, &mut batch, &frame).expect("one of each");
    assert_eq!(place(&arena, &mesh), [0, 0, 0, 1]);
    program.submit(frame, &mut [&mut batch]);
}

#[test]
fn a_block_is_as_large_as_its_description_or_its_mesh() {
    let program = Program::new(7);
    let mut arena = arena(&program);
    // Exactly one block, one vertex too many, one index too many.
    let meshes = insert(&program, &mut arena, &[(100, 90), (101, 1), (1, 91)]);
    let blocks: Vec<_> = meshes.iter().map(|mesh| place(&arena, mesh)[0]).collect();
    assert_eq!(blocks, [0, 1, 2]);
    let figures = arena.figures();
    assert_eq!((figures.block_count, figures.free_vertices, figures.free_indices), (3, 99, 89));
}

/// Returns the names of the ranges in use whose name contains `part`.
fn names(program: &Program, part: &str) -> Vec<String> {
    let ranges = program.memory.snapshot().blocks.into_iter().flat_map(|block| block.ranges);
    ranges.map(|range| range.name).filter(|name| name.contains(part)).collect()
}

#[test]
fn the_buffers_have_the_name_of_their_description() {
    let program = Program::new(8);
    let mut arena = arena(&program);
    let meshes = insert(&program, &mut arena, &[(1, 1)]);
    assert_eq!(names(&program, "meshes"), ["meshes", "meshes"], "of vertices and of indices");
    let mut vector = vector::<u32>(&program);
    vector.push(1);
    updated(&program, &mut vector);
    assert_eq!(names(&program, "elements"), ["elements"]);
    drop(meshes);
}

fn vector<T: bytemuck::NoUninit>(program: &Program) -> GpuVec<Device, T> {
    GpuVec::new(&program.memory, GpuVecDesc { name: "elements", ..Default::default() })
}

/// Updates the vector. Returns the number of copies and of staged bytes.
fn updated<T: bytemuck::NoUninit>(program: &Program, vector: &mut GpuVec<Device, T>) -> (u64, u64) {
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let staged = vector.update(&program.ring, &mut batch, &frame).expect("the ring has room").staged_bytes;
    let copies = batch.figures().copy_count;
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    (copies, staged)
}

#[test]
fn changes_up_to_256_bytes_apart_are_one_copy() {
    let program = Program::new(9);
    let mut words = vector::<u32>(&program);
    words.extend(0..1000);
    assert_eq!(updated(&program, &mut words), (1, 4000));
    // 64 elements of 4 bytes between the changes, or 65.
    for (first, second, copies, bytes) in
        [(100, 165, 1, 264), (100, 166, 2, 8), (200, 135, 1, 264), (200, 134, 2, 8), (300, 301, 1, 8), (300, 300, 1, 4)]
    {
        words.set(first, 7);
        words.set(second, 8);
        assert_eq!(updated(&program, &mut words), (copies, bytes), "{first} and {second}");
    }
    let mut wide = vector::<[u32; 4]>(&program);
    wide.extend([[1; 4]; 100]);
    assert_eq!(updated(&program, &mut wide), (1, 1600));
    for (first, second, copies, bytes) in [(20, 37, 1, 288), (20, 38, 2, 32), (60, 43, 1, 288), (60, 42, 2, 32)] {
        wide.set(first, [7; 4]);
        wide.set(second, [8; 4]);
        assert_eq!(updated(&program, &mut wide), (copies, bytes), "{first} and {second}");
    }
    // A change between two others, near to both, joins all three.
    words.set(100, 1);
    words.set(220, 2);
    words.set(160, 3);
    assert_eq!(updated(&program, &mut words), (1, 121 * 4));
}

#[test]
fn of_more_than_64_ranges_the_nearest_two_are_joined() {
    for (changes, copies, bytes) in [(64, 64, 64 * 4), (65, 64, 63 * 4 + 101 * 4)] {
        let program = Program::new(10);
        let mut words = vector::<u32>(&program);
        words.extend(0..20_000);
        updated(&program, &mut words);
        // 200 elements apart, except for the twentieth and the next, which are 100 apart.
        for change in 0..changes {
            words.set(if change <= 20 { change * 200 } else { change * 200 - 100 }, 7);
        }
        assert_eq!(updated(&program, &mut words), (copies, bytes), "{changes} changes");
        words.validate().expect("sound");
    }
}

#[test]
fn the_vector_and_its_view_have_the_sizes_of_the_elements() {
    let program = Program::new(11);
    let mut words = vector::<[u32; 3]>(&program);
    assert_eq!((words.len(), words.is_empty(), words.capacity()), (0, true, 0));
    words.extend([[1; 3]; 5]);
    assert_eq!((words.len(), words.is_empty(), words.capacity()), (5, false, 0));
    assert_eq!(updated(&program, &mut words), (1, 60));
    // The first buffer has 4 KiB.
    assert_eq!((words.capacity(), words.slice().map(|slice| slice.size())), (341, Some(60)));
    words.truncate(3);
    assert_eq!((words.len(), words.slice().map(|slice| slice.size())), (3, Some(36)));
    assert_eq!(updated(&program, &mut words), (0, 0), "nothing changed");
    assert_eq!(words.remove(0), [1; 3]);
    assert_eq!(updated(&program, &mut words), (1, 24));
    words.clear();
    assert_eq!((words.len(), words.is_empty(), words.capacity(), words.slice().is_none()), (0, true, 341, true));
}

#[test]
fn a_vector_grows_once_an_element_does_not_fit() {
    let program = Program::new(12);
    let mut words = vector::<u32>(&program);
    words.extend(0..1024);
    updated(&program, &mut words);
    let first = *words.object().expect("it has elements");
    assert_eq!(words.capacity(), 1024, "exactly the first 4 KiB");
    words.set(3, 5);
    updated(&program, &mut words);
    assert_eq!(words.object(), Some(&first));
    words.push(1024);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let grown = words.update(&program.ring, &mut batch, &frame).expect("the ring has room");
    assert_eq!((grown.staged_bytes, grown.kept_bytes, grown.is_moved, grown.waiting), (4, 4096, true, 0));
    program.submit(frame, &mut [&mut batch]);
    program.idle();
    assert!(words.capacity() == 2048 && words.object() != Some(&first), "twice the size");
    // More than twice: the buffer is as large as the elements.
    words.extend(0..7167);
    updated(&program, &mut words);
    assert_eq!((words.len(), words.capacity()), (8192, 8192));
}
