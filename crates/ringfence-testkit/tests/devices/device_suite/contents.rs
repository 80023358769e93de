//! Vectors and meshes on the device, compared with models on the host over generated steps.

use std::collections::BTreeMap;

use ringfence::contents::{GpuVec, GpuVecDesc, Mesh, MeshArena, MeshArenaDesc};
use ringfence::sim::rng::Rng;
use ringfence::upload::{BatchError, UploadDesc};
use ringfence::{UploadBatch, UploadRing};
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{PATIENCE, Rig};

const FRAMES: usize = 400;
const STEPS: usize = 25;

/// Ten thousand changes in 400 frames. On simulated devices, one frame in eight is discarded, and its upload is lost.
pub fn a_vector_on_the_device_equals_its_model<G: Gpu>(rig: &mut Rig<G>) {
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 4 << 20, ..Default::default() }).expect("room");
    let mut vector = GpuVec::<_, u32>::new(&rig.memory, GpuVecDesc { name: "vector", ..Default::default() });
    let (mut model, mut dice, mut moves) = (Vec::new(), Rng::new(39), 0);
    for number in 0..FRAMES {
        (0..STEPS).for_each(|_| change(&mut dice, &mut vector, &mut model));
        vector.validate().expect("sound");
        assert_eq!(vector.as_slice(), model);
        let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
        let updated = vector.update(&ring, &mut batch, &frame).expect("the ring has room");
        assert_eq!(updated.waiting, 0);
        moves += u32::from(updated.is_moved);
        if dice.below(8) == 0 && G::NAME == "sim" {
            drop(batch);
            frame.discard();
            continue;
        }
        let value = rig.submit(frame, &[Command::Upload(Box::new(batch))]);
        keep_up(rig, value);
        if number % 20 == 0 {
            check(rig, &vector);
        }
    }
    let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
    vector.update(&ring, &mut batch, &frame).expect("the ring has room");
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    check(rig, &vector);
    assert!(moves >= 2, "the vector has outgrown its buffer");
}

/// Waits for the frame, unless the device is simulated. On a busy machine, validation layer 1.3.239 reports that its own
/// wait for a semaphore has timed out ("most likely a validation bug"), if submissions pile up or values are skipped.
fn keep_up<G: Gpu>(rig: &Rig<G>, submitted: u64) {
    let is_over = G::NAME == "sim" || rig.timeline().wait(submitted, PATIENCE).expect("the device is not lost");
    assert!(is_over);
    rig.memory.reclaim();
}

fn check<G: Gpu>(rig: &mut Rig<G>, vector: &GpuVec<G::Device, u32>) {
    let Some(buffer) = vector.buffer().filter(|_| !vector.is_empty()) else { return };
    let bytes = rig.download(buffer, vector.len() as u64 * 4);
    let found = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    assert!(found.eq(vector.as_slice().iter().copied()), "{vector:?}");
}

fn change<D: ringfence::device::Device>(dice: &mut Rng, vector: &mut GpuVec<D, u32>, model: &mut Vec<u32>) {
    let value = dice.below(1 << 32) as u32;
    let at = dice.below(model.len() as u64) as usize;
    match dice.below(8) {
        0 | 1 => {
            vector.push(value);
            model.push(value);
        }
        2 if dice.below(4) == 0 => {
            let more: Vec<u32> = (0..200).map(|step| value ^ step).collect();
            vector.extend_from_slice(&more);
            model.extend(more);
        }
        3 if !model.is_empty() => assert_eq!(vector.swap_remove(at), model.swap_remove(at)),
        4 if !model.is_empty() => assert_eq!(vector.remove(at), model.remove(at)),
        5 => {
            vector.insert(at, value);
            model.insert(at, value);
        }
        _ if !model.is_empty() => assert_eq!(vector.set(at, value), std::mem::replace(&mut model[at], value)),
        _ => {}
    }
}

type Arena<G> = MeshArena<<G as Gpu>::Device, [u32; 3], u16>;
/// Vertices and indices of a mesh.
type Model = (Vec<[u32; 3]>, Vec<u16>);

/// Meshes are inserted, dropped and moved to other blocks in 200 frames. On simulated devices, one frame in eight is
/// discarded: its meshes are dropped, and its moves do not happen.
pub fn meshes_hold_their_bytes_wherever_they_are_moved<G: Gpu>(rig: &mut Rig<G>) {
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 4 << 20, ..Default::default() }).expect("room");
    let desc = MeshArenaDesc { block_vertices: 600, block_indices: 1000, name: "meshes", ..Default::default() };
    let mut arena = Arena::<G>::new(&rig.memory, desc);
    let (mut live, mut dice, mut moved_bytes) = (BTreeMap::new(), Rng::new(40), 0);
    for number in 0..200_u64 {
        let (frame, mut inserts, mut moves) = (rig.timeline().begin(), UploadBatch::new(), UploadBatch::new());
        let is_growing = number % 50 < 30;
        let first = number * 10;
        for key in first..first + dice.below(if is_growing { 4 } else { 2 }) {
            let model = model(&mut dice);
            let mesh = arena.insert(&model.0, &model.1, &ring, &mut inserts, &frame).expect("there is room");
            live.insert(key, (mesh, model));
        }
        for _ in 0..dice.below(if is_growing { 2 } else { 5 }) {
            let at = dice.below(live.len() as u64) as usize;
            let key = live.keys().nth(at).copied();
            drop(key.and_then(|key| live.remove(&key)));
        }
        moved_bytes += arena.compact(8000, &mut moves, &frame).expect("its own frame");
        if dice.below(8) == 0 && G::NAME == "sim" {
            drop((inserts, moves));
            frame.discard();
            drop(live.split_off(&first));
            let _ = arena.take_content_lost();
            continue;
        }
        let value = rig.submit(frame, &[Command::Upload(Box::new(inserts)), Command::Upload(Box::new(moves))]);
        keep_up(rig, value);
        if number % 20 == 0 {
            check_meshes(rig, &arena, live.values());
        }
    }
    check_meshes(rig, &arena, live.values());
    assert!(moved_bytes > 0, "meshes are moved");
    rewrite(rig, &mut arena, &ring, &mut live, &mut dice);
}

/// Overwrites parts of meshes in place. The others keep their bytes.
fn rewrite<G: Gpu>(
    rig: &mut Rig<G>,
    arena: &mut Arena<G>,
    ring: &UploadRing<G::Device>,
    live: &mut BTreeMap<u64, (Mesh<G::Device>, Model)>,
    dice: &mut Rng,
) {
    let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
    for key in 0..5 {
        let model = model(dice);
        let mesh = arena.insert(&model.0, &model.1, ring, &mut batch, &frame).expect("there is room");
        live.insert(1_000_000 + key, (mesh, model));
    }
    let value = rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    // Moves of the last frames are complete.
    arena.reclaim().expect("the device is not lost");
    let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
    for (mesh, (vertices, indices)) in live.values_mut().step_by(2) {
        let (of_vertices, of_indices) = (arena.vertices(mesh).expect("settled"), arena.indices(mesh).expect("settled"));
        assert_eq!(of_vertices.size(), size_of_val(&vertices[..]) as u64);
        assert_eq!(of_indices.size(), size_of_val(&indices[..]) as u64);
        let last = vertices.len() - 1;
        vertices[last] = [7, 8, 9];
        indices.iter_mut().for_each(|index| *index ^= 1);
        let vertex: Vec<u8> = vertices[last].iter().flat_map(|word| word.to_le_bytes()).collect();
        let words: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let staged = [&vertex, &words].map(|bytes| ring.write_for(&frame, bytes, 4).expect("there is room"));
        batch.copy(&staged[0], &of_vertices, last as u64 * 12).expect("inside");
        batch.copy(&staged[1], &of_indices, 0).expect("inside");
        let behind = batch.copy(&staged[0], &of_vertices, of_vertices.size() - 8);
        assert!(matches!(behind, Err(BatchError::OutOfRange { .. })), "{behind:?}");
    }
    let value = rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    check_meshes(rig, arena, live.values());
}

fn model(dice: &mut Rng) -> Model {
    let [first, vertices, indices] = [1 << 30, 100, 150].map(|bound| dice.below(bound) as u32);
    let vertices = (0..=vertices).map(|number| [first, number, first ^ number]).collect();
    (vertices, (0..=indices).map(|number| (first ^ number) as u16).collect())
}

fn check_meshes<'a, G: Gpu>(
    rig: &mut Rig<G>,
    arena: &Arena<G>,
    meshes: impl Iterator<Item = &'a (Mesh<G::Device>, Model)>,
) {
    let mut blocks = BTreeMap::new();
    for (mesh, (vertices, indices)) in meshes {
        let draw = arena.draw(mesh).expect("its own mesh");
        let (vertex_bytes, index_bytes) = blocks.entry(draw.block).or_insert_with(|| {
            let (vertices, indices) = arena.block(draw.block).expect("the block exists");
            (rig.download(vertices, vertices.size()), rig.download(indices, indices.size()))
        });
        let found = vertex_bytes.chunks_exact(12).skip(draw.vertex_offset as usize);
        let words = |vertex: &[u32; 3]| vertex.map(u32::to_le_bytes).concat();
        assert!(found.zip(vertices).all(|(found, vertex)| found == words(vertex)), "vertices of {mesh:?}, {draw:?}");
        let found = index_bytes.chunks_exact(2).skip(draw.first_index as usize);
        assert!(found.zip(indices).all(|(found, index)| found == index.to_le_bytes()), "indices of {mesh:?}, {draw:?}");
    }
}
