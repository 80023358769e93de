//! The panel without a window: it draws what the allocator holds, and quickly.

use std::time::Instant;

use egui::{Context, RawInput, Rect, Shape, pos2, vec2};
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, UploadDesc, sim};
use ringfence_panel::Panel;

fn memory(count: u64) -> (Allocator<sim::Device>, Vec<Buffer<sim::Device>>) {
    let memory = Allocator::over(sim::Device::new(sim::Profile::h200(), Default::default()), AllocatorDesc::default());
    let make = |index: u64| {
        let info = BufferDesc { size: 256 << (index % 7), usage: BufferUsage::COPY_DST };
        let name = format!("{}/{index}", ["terrain", "water"][(index % 2) as usize]);
        memory.create_buffer(&info, AllocationDesc { name: &name, ..Default::default() }).expect("there is room")
    };
    let held = (0..count).map(make).collect();
    (memory, held)
}

/// A frame of the panel, and every text that it drew.
fn frame(context: &Context, panel: &mut Panel, memory: &Allocator<sim::Device>) -> Vec<String> {
    let screen = Rect::from_min_size(pos2(0.0, 0.0), vec2(600.0, 2000.0));
    let input = RawInput { screen_rect: Some(screen), ..Default::default() };
    let output = context.run_ui(input, |ui| panel.show(ui, memory));
    let mut texts = Vec::new();
    output.shapes.into_iter().for_each(|clipped| collect(&clipped.shape, &mut texts));
    texts
}

fn collect(shape: &Shape, texts: &mut Vec<String>) {
    match shape {
        Shape::Vec(all) => all.iter().for_each(|shape| collect(shape, texts)),
        Shape::Text(text) => texts.push(text.galley.text().to_owned()),
        _ => {}
    }
}

#[test]
fn shows_heaps_blocks_consumers_and_rings() {
    let (memory, held) = memory(300);
    let _ring = memory.upload_ring(UploadDesc { name: "uploads", ..Default::default() }).expect("there is room");
    let (context, mut panel) = (Context::default(), Panel::default());
    frame(&context, &mut panel, &memory);
    let texts = frame(&context, &mut panel, &memory);
    let has = |part: &str| texts.iter().any(|text| text.contains(part));
    for part in ["reserved", "heap 0: ", "buffers, type ", "terrain", "water", "uploads: ", "Find by name"] {
        assert!(has(part), "{part:?} is not among {texts:?}");
    }
    let ranges: usize = panel.snapshot().blocks.iter().map(|block| block.ranges.len()).sum();
    assert_eq!(ranges, held.len() + 1);
    assert!(has(&ranges.to_string()));
}

#[test]
fn a_frame_over_many_ranges_is_quick() {
    let (memory, _held) = memory(20_000);
    let (context, mut panel) = (Context::default(), Panel::default());
    frame(&context, &mut panel, &memory);
    let start = Instant::now();
    let count = 20;
    (0..count).for_each(|_| drop(frame(&context, &mut panel, &memory)));
    println!("{:?} a frame of the panel over 20,000 ranges", start.elapsed() / count);
}
