//! The map: a row a block, its ranges to scale, what is under the pointer by name.

use egui::{Color32, Rect, Sense, Ui, pos2, vec2};
use ringfence::memory::{BlockSnapshot, Snapshot};

use super::bytes;

const ROW: f32 = 14.0;
/// More rows are not looked at; the largest blocks are shown.
const ROW_COUNT: usize = 40;

/// After Okabe and Ito; the rows say in words what they hold.
fn color(class: &str) -> Color32 {
    match class {
        "buffers" => Color32::from_rgb(0x00, 0x72, 0xb2),
        "textures" => Color32::from_rgb(0xe6, 0x9f, 0x00),
        "render targets" => Color32::from_rgb(0x00, 0x9e, 0x73),
        _ => Color32::from_rgb(0xcc, 0x79, 0xa7),
    }
}

pub(super) fn show(ui: &mut Ui, snapshot: &Snapshot, search: &str) {
    let mut blocks: Vec<&BlockSnapshot> = snapshot.blocks.iter().collect();
    blocks.sort_by_key(|block| std::cmp::Reverse(block.bytes));
    let search = search.to_lowercase();
    for block in blocks.iter().take(ROW_COUNT) {
        row(ui, block, &search);
    }
    if blocks.len() > ROW_COUNT {
        ui.label(format!("and {} smaller blocks", blocks.len() - ROW_COUNT));
    }
}

fn row(ui: &mut Ui, block: &BlockSnapshot, search: &str) {
    let used = block.bytes - block.free_bytes();
    ui.label(format!("{}, type {}: {} of {}", block.class, block.memory_type, bytes(used), bytes(block.bytes)));
    let (response, painter) = ui.allocate_painter(vec2(ui.available_width(), ROW), Sense::hover());
    let area = response.rect;
    painter.rect_filled(area, 2.0, ui.visuals().extreme_bg_color);
    let x = |byte: u64| area.left() + area.width() * (byte as f32 / block.bytes.max(1) as f32);
    let draw = |from: f32, to: f32, fill: Color32| {
        let drawn = Rect::from_min_max(pos2(from, area.top()), pos2(to.max(from + 0.5), area.bottom()));
        painter.rect_filled(drawn, 0.0, fill);
    };
    // Ranges closer than half a point are one rectangle: as many as the row has points, however many ranges.
    let mut run: Option<(f32, f32)> = None;
    for range in &block.ranges {
        let (from, to) = (x(range.offset), x(range.offset + range.bytes));
        run = match run {
            Some((start, end)) if from - end < 0.5 => Some((start, to)),
            held => {
                held.into_iter().for_each(|(from, to)| draw(from, to, color(&block.class)));
                Some((from, to))
            }
        };
    }
    run.into_iter().for_each(|(from, to)| draw(from, to, color(&block.class)));
    if !search.is_empty() {
        let found = block.ranges.iter().filter(|range| range.name.to_lowercase().contains(search));
        found.for_each(|range| draw(x(range.offset), x(range.offset + range.bytes), ui.visuals().strong_text_color()));
    }
    if let Some(pointer) = response.hover_pos() {
        let byte = ((pointer.x - area.left()) / area.width() * block.bytes as f32) as u64;
        let at = block.ranges.partition_point(|range| range.offset <= byte).checked_sub(1);
        let range = at.map(|at| &block.ranges[at]).filter(|range| byte < range.offset + range.bytes);
        let text = range.map_or("free".to_owned(), |range| {
            let name = if range.name.is_empty() { "(no name)" } else { &range.name };
            format!("{name}: {} at {}", bytes(range.bytes), bytes(range.offset))
        });
        response.on_hover_text_at_pointer(text);
    }
}
