//! Views of transient targets: made in safe code, cached by the id of their object.

use std::collections::HashMap;

use ringfence::descriptor::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, DescriptorError, View};
use ringfence::device::descriptors::{Descriptors, HeapKind, TextureView, TextureViewKind};
use ringfence::device::{Create, TextureDesc, TextureUsage, Textures};
use ringfence::transient::{
    Described, FramePass, FrameResource, TransientDesc, TransientError, TransientId, TransientTexture,
};
use ringfence::{Allocator, AllocatorDesc, TransientAllocator};
use ringfence_testkit::Gpu;

use crate::device_suite::rig::Rig;

fn target(side: u32) -> TextureDesc {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
    TextureDesc { width: side, height: side, usage, ..Default::default() }
}

fn view(kind: TextureViewKind) -> TextureView {
    TextureView::new(kind, 0..1, 0..1)
}

pub fn views_of_targets_are_cached_by_their_id<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: Descriptors,
{
    let heap = |kind| CpuDescriptorHeap::new(&rig.memory, CpuHeapDesc { kind, block_slots: 16, ..Default::default() });
    let heaps = [HeapKind::RenderTargets, HeapKind::Resources].map(|kind| heap(kind).expect("a small heap"));
    let kinds = [TextureViewKind::RenderTarget, TextureViewKind::Sampled];
    let mut transient = TransientAllocator::new(&rig.memory, TransientDesc::default());
    let (descs, passes) = ([target(64), target(32), target(48)], [FramePass::on(rig.timeline().id()); 3]);
    let describe =
        |desc| Create::<Textures>::describe(rig.memory.device(), desc).expect("every device has such targets");
    let infos = descs.each_ref().map(describe);
    let mut views: HashMap<(TransientId, TextureView), CpuDescriptors<G::Device>> = HashMap::new();
    for frame_number in 0..4 {
        let infos = infos.each_ref().map(Described::Texture);
        let resources = [(0, &[1][..]), (1, &[2][..]), (2, &[][..])];
        let resources: Vec<_> = infos
            .into_iter()
            .zip(resources)
            .map(|(info, (first, last))| FrameResource { info, first, last, name: "target" })
            .collect();
        let frame = rig.timeline().begin();
        let execution = transient.plan(&passes, &resources, |_| true).expect("there is room");
        for (place, desc) in descs.iter().enumerate() {
            let handle: TransientTexture = execution.planned(place).expect("a texture");
            let placed = execution.target(handle).expect("it was described portably");
            assert_eq!(placed.object(), execution.texture(handle).expect("alive"));
            // Direct3D 12 adds usages that every texture has.
            let usage = placed.desc().usage & desc.usage;
            assert_eq!(TextureDesc { usage, ..*placed.desc() }, *desc);
            for (kind, heap) in kinds.into_iter().zip(&heaps) {
                views.entry((handle.id(), view(kind))).or_insert_with(|| {
                    assert_eq!(frame_number, 0, "later frames of the same shape have the same objects");
                    let mut slot = heap.allocate(1).expect("a free slot");
                    let shown = View::target(placed, view(kind)).expect("made for it");
                    slot.write(0, &shown).expect("every device has such views");
                    slot
                });
            }
        }
        let point = frame.point();
        rig.submit(frame, &[]);
        execution.finish(&[point]);
        transient.end_frame();
    }
    assert_eq!(views.len(), 6);
}

pub fn views_of_targets_are_refused_by_name<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: Descriptors + Clone,
{
    let mut transient = TransientAllocator::new(&rig.memory, TransientDesc::default());
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).expect("the first queue");
    let handle = execution.acquire_texture(&target(16), pass, "target").expect("there is room");
    let placed = execution.target(handle).expect("it was described portably");
    let storage = View::target(placed, view(TextureViewKind::Storage)).map(drop);
    assert!(matches!(storage, Err(DescriptorError::BadView(_))), "{storage:?}");
    let other = Allocator::over(rig.memory.device().clone(), AllocatorDesc::default());
    let desc = CpuHeapDesc { kind: HeapKind::RenderTargets, block_slots: 16, ..Default::default() };
    let foreign = CpuDescriptorHeap::new(&other, desc).expect("a small heap");
    let shown = View::target(placed, view(TextureViewKind::RenderTarget)).expect("made for it");
    let written = foreign.allocate(1).expect("a free slot").write(0, &shown);
    assert_eq!(written, Err(DescriptorError::Foreign));
    drop(shown);
    drop(execution);
    drop(transient.begin());
    let stale = transient.target(handle).map(drop);
    assert!(matches!(stale, Err(TransientError::Stale { .. })), "{stale:?}");
    drop(foreign);
    drop(other);
}
