//! A panel for [egui](egui): heaps against their budgets, a map of the blocks, who has the memory, rings; while the program
//! runs.
//!
//! ```text
//!   statistics, budgets ── each frame: a few loads ──┐
//!   snapshot ── now and then: O(ranges) ─────────────┴──▶ Panel::show(ui)
//! ```
//!
//! An example to take along rather than a part of the library: `egui` changes its interface with each version, and a
//! program that has a panel has its own version of it. Copy the file, or depend on this folder.

mod map;

use std::time::{Duration, Instant};

use egui::{Grid, ProgressBar, RichText, ScrollArea, Ui};
use ringfence::Allocator;
use ringfence::device::Device;
use ringfence::memory::Snapshot;
use ringfence_report::{Consumer, Figures, consumers};

/// How often the snapshot is taken anew.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// Top consumers that are listed.
const CONSUMER_COUNT: usize = 12;

/// What a panel keeps from one frame to the next.
#[derive(Default)]
pub struct Panel {
    snapshot: Snapshot,
    consumers: Vec<Consumer>,
    taken: Option<Instant>,
    /// Ranges whose names hold this are marked.
    search: String,
}

impl Panel {
    /// Draws the panel. A snapshot is taken once a second, which costs O(ranges); the rest is a few loads.
    pub fn show<D: Device>(&mut self, ui: &mut Ui, memory: &Allocator<D>) {
        if self.taken.is_none_or(|taken| taken.elapsed() >= SNAPSHOT_EVERY) {
            self.take(memory);
        }
        ScrollArea::vertical().show(ui, |ui| {
            figures(ui, &Figures::of(&self.snapshot), memory);
            ui.separator();
            for heap in 0..self.snapshot.heaps.len() as u32 {
                budget(ui, heap, memory);
            }
            ui.separator();
            ui.horizontal(|ui| {
                let label = ui.label("Find by name");
                ui.text_edit_singleline(&mut self.search).labelled_by(label.id);
            });
            map::show(ui, &self.snapshot, &self.search);
            ui.separator();
            top(ui, &self.consumers);
            rings(ui, &self.snapshot);
        });
    }

    /// Takes the snapshot now.
    pub fn take<D: Device>(&mut self, memory: &Allocator<D>) {
        self.snapshot = memory.snapshot();
        self.consumers = consumers(&self.snapshot);
        self.taken = Some(Instant::now());
    }

    /// What is shown.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

fn figures<D: Device>(ui: &mut Ui, figures: &Figures, memory: &Allocator<D>) {
    let total = memory.statistics();
    ui.horizontal_wrapped(|ui| {
        for (label, value) in [
            ("reserved", bytes(figures.reserved_bytes)),
            ("used", bytes(figures.used_bytes)),
            ("blocks", figures.block_count.to_string()),
            ("ranges", figures.allocation_count.to_string()),
            ("waiting", total.retired_count.to_string()),
        ] {
            ui.label(label);
            ui.label(RichText::new(value).strong());
        }
    });
}

fn budget<D: Device>(ui: &mut Ui, heap: u32, memory: &Allocator<D>) {
    let held = memory.budget(heap);
    let share = held.usage_bytes as f32 / held.budget_bytes.max(1) as f32;
    let text = format!(
        "heap {heap}: {} of {}, {} ours",
        bytes(held.usage_bytes),
        bytes(held.budget_bytes),
        bytes(held.reserved_bytes)
    );
    ui.add(ProgressBar::new(share.min(1.0)).text(text));
}

fn top(ui: &mut Ui, consumers: &[Consumer]) {
    Grid::new("ringfence consumers").striped(true).num_columns(3).show(ui, |ui| {
        for heading in ["name begins with", "bytes", "ranges"] {
            ui.label(RichText::new(heading).weak());
        }
        ui.end_row();
        for one in consumers.iter().take(CONSUMER_COUNT) {
            ui.label(if one.prefix.is_empty() { "(no name)" } else { &one.prefix });
            ui.label(bytes(one.bytes));
            ui.label(one.count.to_string());
            ui.end_row();
        }
    });
}

fn rings(ui: &mut Ui, snapshot: &Snapshot) {
    for ring in &snapshot.rings {
        let share = ring.used_bytes as f32 / ring.capacity_bytes.max(1) as f32;
        let text = format!("{}: {} of {}", ring.name, bytes(ring.used_bytes), bytes(ring.capacity_bytes));
        ui.add(ProgressBar::new(share).text(text));
    }
}

/// With a binary unit.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (count.checked_ilog2().unwrap_or(0) / 10).min(4);
    let scaled = count as f64 / (1_u64 << (10 * power)) as f64;
    let decimals = usize::from(power > 0 && scaled < 100.0);
    format!("{scaled:.decimals$} {}", UNITS[power as usize])
}
