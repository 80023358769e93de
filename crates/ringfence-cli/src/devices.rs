//! `ringfence devices`: the devices of this machine, and the simulated profiles.

use std::io::{self, Write};
use std::process::ExitCode;

use comfy_table::{Cell, Table};
use ringfence::device::{Capabilities, Driver, HeapBudget};
use ringfence::sim::{self, Profile};
use ringfence_report::bytes as whole_bytes;
use serde::Serialize;

use crate::args::DevicesOptions;
use crate::failure::Failure;
use crate::table::{self, number};
use crate::units::{bytes, count};

/// A device in the output: an element of the JSON array, or a section of the text.
#[derive(Serialize)]
struct Listed {
    /// Value for `--device`.
    device: String,
    name: String,
    /// Vulkan: API version, kind and driver. Direct3D 12: the features. Simulated device: `simulated`.
    about: String,
    /// The reason why Ringfence cannot use the device; `None` if it can.
    unusable: Option<String>,
    heaps: Vec<Heap>,
    types: Vec<Type>,
    limits: Limits,
}

#[derive(Serialize)]
struct Heap {
    bytes: u64,
    device_local: bool,
    usage_bytes: Option<u64>,
    budget_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Type {
    heap: u32,
    properties: Vec<&'static str>,
}

#[derive(Serialize, Default)]
struct Limits {
    memory_objects_max: u64,
    memory_object_bytes_max: u64,
    class_granularity_bytes: u64,
    class_groups: [u8; 3],
    non_coherent_atom_bytes: u64,
    texture_copy_offset_alignment: u64,
    texture_copy_row_alignment: u64,
    constant_alignment: u64,
}

impl Limits {
    fn of(held: &Capabilities) -> Self {
        Self {
            memory_objects_max: held.memory_objects_max,
            memory_object_bytes_max: held.memory_object_bytes_max,
            class_granularity_bytes: held.class_granularity_bytes,
            class_groups: held.class_groups,
            non_coherent_atom_bytes: held.non_coherent_atom_bytes,
            texture_copy_offset_alignment: held.texture_copy_offset_alignment,
            texture_copy_row_alignment: held.texture_copy_row_alignment,
            constant_alignment: held.constant_alignment,
        }
    }
}

impl Listed {
    fn of(device: String, about: String, held: &Capabilities, budgets: Option<&[HeapBudget]>) -> Self {
        let budget = |index: usize| budgets.and_then(|budgets| budgets.get(index));
        let heaps = held.memory_heaps.iter().enumerate().map(|(index, heap)| Heap {
            bytes: heap.bytes,
            device_local: heap.device_local,
            usage_bytes: budget(index).map(|held| held.usage_bytes),
            // Some drivers report a budget that exceeds the size of the heap.
            budget_bytes: budget(index).map(|held| held.budget_bytes.min(heap.bytes)),
        });
        let types = &held.memory_types;
        Self {
            device,
            name: held.name.clone(),
            about,
            unusable: None,
            heaps: heaps.collect(),
            types: types
                .iter()
                .map(|held| Type {
                    heap: held.heap,
                    properties: held.properties.iter_names().map(|(name, _)| name).collect(),
                })
                .collect(),
            limits: Limits::of(held),
        }
    }
}

/// Lists every device, real ones first. If the devices of an API cannot be enumerated, its error is written to standard
/// error.
pub fn main(options: &DevicesOptions) -> Result<ExitCode, Failure> {
    let mut devices = real();
    devices.extend(Profile::all().map(|profile| {
        let device = format!("sim:{}", profile.name);
        let opened = sim::Device::new(profile, sim::SimOptions::default());
        Listed::of(device, "simulated".to_owned(), opened.capabilities(), opened.budgets().as_deref())
    }));
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &devices)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    for device in &devices {
        print(&mut out, device)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn real() -> Vec<Listed> {
    d3d12_devices().into_iter().chain(vulkan_devices()).collect()
}

#[cfg(all(windows, feature = "d3d12"))]
fn d3d12_devices() -> Vec<Listed> {
    let found = ringfence_testkit::d3d12::enumerate().unwrap_or_else(|error| {
        eprintln!("{error}");
        Vec::new()
    });
    let list = |device: &ringfence::d3d12::Device| {
        let (held, budgets) = (device.capabilities(), device.budgets());
        let about = format!("Direct3D 12, {:?}", device.features());
        Listed::of(format!("d3d12:{}", held.name), about, held, budgets.as_deref())
    };
    found.iter().map(list).collect()
}

#[cfg(not(all(windows, feature = "d3d12")))]
fn d3d12_devices() -> Vec<Listed> {
    Vec::new()
}

#[cfg(feature = "vulkan")]
fn vulkan_devices() -> Vec<Listed> {
    let found = ringfence_testkit::vulkan::enumerate().unwrap_or_else(|error| {
        eprintln!("{error}");
        Vec::new()
    });
    found.into_iter().map(vulkan).collect()
}

#[cfg(not(feature = "vulkan"))]
fn vulkan_devices() -> Vec<Listed> {
    Vec::new()
}

#[cfg(feature = "vulkan")]
fn vulkan(device: ringfence_testkit::vulkan::DeviceSummary) -> Listed {
    let about = format!("Vulkan {}, {}, {}", device.api_version, device.kind, device.driver);
    let name = format!("vulkan:{}", device.name);
    match &device.capabilities {
        Ok(held) => Listed::of(name, about, held, device.budgets.as_deref()),
        Err(error) => Listed {
            device: name,
            name: device.name,
            about,
            unusable: Some(error.to_string()),
            heaps: Vec::new(),
            types: Vec::new(),
            limits: Limits::default(),
        },
    }
}

fn print(out: &mut impl Write, device: &Listed) -> io::Result<()> {
    let heading = format!("{} ({})", device.device, device.about.trim_end_matches([' ', ',']));
    writeln!(out, "{}", table::wrapped(&heading, 2))?;
    if let Some(why) = &device.unusable {
        return writeln!(out, "{}\n", table::wrapped(&format!("  cannot be used: {why}"), 2));
    }
    writeln!(out, "{}\n{}", table::text(&heap_table(device)), table::text(&type_table(device)))?;
    let Limits {
        memory_objects_max, memory_object_bytes_max, class_granularity_bytes, non_coherent_atom_bytes, ..
    } = device.limits;
    let objects =
        if memory_objects_max >= u64::from(u32::MAX) { "any number".to_owned() } else { count(memory_objects_max) };
    let limits = format!(
        "  memory objects: {objects}, at most {} each; buffers and textures share no page of {}; flushes aligned to {}",
        bytes(memory_object_bytes_max),
        bytes(class_granularity_bytes),
        bytes(non_coherent_atom_bytes),
    );
    writeln!(out, "{}\n", table::wrapped(&limits, 2))
}

fn heap_table(device: &Listed) -> Table {
    let or_unknown = |figure: Option<u64>| number(figure.map_or("unknown".to_owned(), whole_bytes));
    let rows = device.heaps.iter().enumerate().map(|(index, heap)| {
        let place = if heap.device_local { "device" } else { "host" };
        [
            number(index),
            number(whole_bytes(heap.bytes)),
            number(place),
            or_unknown(heap.usage_bytes),
            or_unknown(heap.budget_bytes),
        ]
    });
    table::bordered(["heap", "size", "where", "in use", "budget"], rows)
}

fn type_table(device: &Listed) -> Table {
    let rows = device.types.iter().enumerate().map(|(index, held)| {
        let properties = held.properties.join(" ").to_lowercase();
        [Cell::new(index), Cell::new(held.heap), Cell::new(properties)]
    });
    table::bordered(["type", "heap", "properties"], rows)
}
