//! `ringfence doctor`: the parts of this machine that the library uses, and the missing ones.
//!
//! ```text
//!   real devices ──open, with validation──▶ Examined { validation, descriptors, parts } ──▶ text, or --json
//!   none ──▶ the reason, and the package that helps
//! ```
//!
//! Each device is opened once, which takes as long as in a program.

use std::io::{self, Write};
use std::process::ExitCode;

use comfy_table::Cell;
use serde::Serialize;

use crate::args::DoctorOptions;
use crate::failure::Failure;
use crate::table;

/// The result for the whole machine.
#[derive(Serialize)]
struct Examination {
    devices: Vec<Examined>,
    /// Reasons why an API has no devices, with the package that contains the missing part.
    problems: Vec<String>,
}

/// A device that was opened.
#[derive(Serialize)]
struct Examined {
    /// Value for `--device`.
    device: String,
    about: String,
    /// The reason why the device cannot be used; `None` if it can.
    unusable: Option<String>,
    /// The state of the validation layer.
    validation: String,
    /// The storage of the descriptors that shaders read.
    descriptors: &'static str,
    parts: Vec<Part>,
}

/// A feature or an extension that the library uses.
#[derive(Serialize, Clone, Copy)]
struct Part {
    name: &'static str,
    available: bool,
    used_for: &'static str,
    without_it: &'static str,
}

/// Examines every real device.
pub fn main(options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let mut examination = Examination { devices: Vec::new(), problems: Vec::new() };
    d3d12::examine(&mut examination);
    vulkan::examine(&mut examination);
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &examination)?;
        writeln!(out)?;
    } else {
        print(&mut out, &examination)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, examination: &Examination) -> io::Result<()> {
    for problem in &examination.problems {
        writeln!(out, "{}\n", table::wrapped(problem, 2))?;
    }
    for device in &examination.devices {
        writeln!(out, "{}", table::wrapped(&format!("{} ({})", device.device, device.about), 2))?;
        if let Some(reason) = &device.unusable {
            writeln!(out, "{}\n", table::wrapped(&format!("  cannot be used: {reason}"), 2))?;
            continue;
        }
        writeln!(out, "{}", table::wrapped(&format!("  {}", device.validation), 2))?;
        writeln!(out, "{}", table::wrapped(&format!("  descriptors: {}", device.descriptors), 2))?;
        for (available, heading) in [(true, "available"), (false, "missing")] {
            let parts = device.parts.iter().filter(|part| part.available == available);
            let rows: Vec<_> = parts
                .map(|part| [part.name, if available { part.used_for } else { part.without_it }].map(Cell::new))
                .collect();
            let effect = if available { "the library uses it for" } else { "without it" };
            if !rows.is_empty() {
                writeln!(out, "{}", table::text(&table::bordered([heading, effect], rows)))?;
            }
        }
        writeln!(out)?;
    }
    if examination.devices.iter().all(|device| device.unusable.is_some()) {
        writeln!(out, "No real device can be used. The simulated device always works: ringfence demo --device sim")?;
    }
    let advice = "Missing parts come from the driver: a newer driver may have them. A Vulkan program enables the available \
        parts with `vulkan::DeviceSetup`, and names them in `vulkan::DeviceDesc`.";
    writeln!(out, "{}", table::wrapped(advice, 0))
}

#[cfg(feature = "vulkan")]
mod vulkan {
    //! Vulkan devices: each part is a feature or an extension.

    use super::{Examination, Examined, Part};
    use ringfence::device::Driver;
    use ringfence::device::descriptors::{DescriptorModel, Descriptors};
    use ringfence::vulkan::Features;
    use ringfence_testkit::vulkan::{DeviceSummary, VulkanGpu, enumerate};
    use ringfence_testkit::{Gpu, Options};

    /// Each feature with its name in Vulkan, the library's use of it, and the effect if it is missing.
    const PARTS: [(Features, &str, &str, &str); 13] = [
        (
            Features::BUFFER_DEVICE_ADDRESS,
            "bufferDeviceAddress",
            "addresses of buffers; descriptor buffers",
            "buffers with the usage SHADER_DEVICE_ADDRESS are refused",
        ),
        (
            Features::DESCRIPTOR_BUFFER,
            "VK_EXT_descriptor_buffer",
            "descriptors as bytes in a buffer, if the program enables it",
            "descriptor sets are used",
        ),
        (
            Features::UPDATE_AFTER_BIND,
            "descriptorBinding…UpdateAfterBind",
            "one large descriptor set a heap, written while it is bound",
            "plain sets: few slots, and each bind after a write copies the heap's descriptors",
        ),
        (
            Features::PARTIALLY_BOUND,
            "descriptorBindingPartiallyBound",
            "empty slots of plain sets",
            "empty slots contain a placeholder",
        ),
        (
            Features::NULL_DESCRIPTOR,
            "VK_EXT_robustness2 (nullDescriptor)",
            "empty slots read as zero",
            "an empty slot must not be read",
        ),
        (
            Features::MEMORY_PRIORITY,
            "VK_EXT_memory_priority",
            "priorities of memory when it runs short",
            "priorities are ignored",
        ),
        (
            Features::PAGEABLE_DEVICE_LOCAL_MEMORY,
            "VK_EXT_pageable_device_local_memory",
            "priorities that change after the allocation",
            "a priority is fixed at the allocation",
        ),
        (Features::SAMPLER_ANISOTROPY, "samplerAnisotropy", "anisotropic samplers", "anisotropy is ignored"),
        (Features::IMAGE_CUBE_ARRAY, "imageCubeArray", "views of arrays of cubes", "these views are refused"),
        (Features::SPARSE_BUFFERS, "sparseResidencyBuffer", "sparse buffers", "sparse buffers are refused"),
        (Features::SPARSE_TEXTURES, "sparseResidencyImage2D", "sparse textures", "sparse textures are refused"),
        (
            Features::EXTERNAL_MEMORY_FD,
            "VK_KHR_external_memory_fd",
            "memory shared with other processes and APIs on Unix",
            "sharing through file descriptors is refused",
        ),
        (
            Features::EXTERNAL_MEMORY_WIN32,
            "VK_KHR_external_memory_win32",
            "memory shared with other processes and APIs on Windows",
            "sharing through Windows handles is refused",
        ),
    ];

    pub(super) fn examine(examination: &mut Examination) {
        match enumerate() {
            Ok(found) => examination.devices.extend(found.into_iter().map(examined)),
            Err(error) => examination.problems.push(format!("Vulkan: {error}")),
        }
    }

    fn examined(summary: DeviceSummary) -> Examined {
        let about = format!("Vulkan {}, {}, {}", summary.api_version, summary.kind, summary.driver);
        let device = format!("vulkan:{}", summary.name);
        let none = |reason: String| Examined {
            device: device.clone(),
            about: about.clone(),
            unusable: Some(reason),
            validation: String::new(),
            descriptors: "",
            parts: Vec::new(),
        };
        if let Err(error) = &summary.capabilities {
            return none(error.to_string());
        }
        let options = Options {
            name: Some(summary.name.clone()),
            validation: true,
            may_lack_validation: true,
            ..Default::default()
        };
        let gpu = match VulkanGpu::open(&options) {
            Ok(gpu) => gpu,
            Err(error) => return none(error.to_string()),
        };
        let opened = gpu.device();
        let features = opened.desc().features;
        let offered = PARTS.map(|(feature, name, used_for, without_it)| Part {
            name,
            available: features.contains(feature),
            used_for,
            without_it,
        });
        // The extension of the other kind of system.
        let elsewhere = if cfg!(windows) { "VK_KHR_external_memory_fd" } else { "VK_KHR_external_memory_win32" };
        let budgets = Part {
            name: "VK_EXT_memory_budget",
            available: opened.budgets().is_some(),
            used_for: "the usage of other programs, and the budget of each heap",
            without_it: "the budget is a part of each heap, and other programs are not seen",
        };
        Examined {
            validation: gpu.validation().to_string(),
            descriptors: match opened.descriptor_support().model {
                DescriptorModel::Buffers => "descriptor buffers",
                DescriptorModel::UpdateAfterBind => "descriptor sets that are written while they are bound",
                DescriptorModel::PlainSets => "plain descriptor sets",
                _ => "heaps",
            },
            parts: [budgets].into_iter().chain(offered).filter(|part| part.name != elsewhere).collect(),
            unusable: None,
            device,
            about,
        }
    }
}

#[cfg(not(feature = "vulkan"))]
mod vulkan {
    //! Built without Vulkan.

    pub(super) fn examine(examination: &mut super::Examination) {
        examination.problems.push("Vulkan: this command was built without the feature `vulkan`".to_owned());
    }
}

#[cfg(all(windows, feature = "d3d12"))]
mod d3d12 {
    //! Direct3D 12 devices: each part is an optional feature.

    use super::{Examination, Examined, Part};
    use ringfence::d3d12::Device;
    use ringfence::device::Driver;
    use ringfence_testkit::d3d12::enumerate;

    pub(super) fn examine(examination: &mut Examination) {
        match enumerate() {
            Ok(found) => examination.devices.extend(found.iter().map(examined)),
            Err(error) => examination.problems.push(format!("Direct3D 12: {error}")),
        }
    }

    fn examined(device: &Device) -> Examined {
        let features = device.features();
        let parts = [
            (
                features.mixed_heaps,
                "heap tier 2",
                "buffers, textures and render targets in one block",
                "each class has its own blocks",
            ),
            (features.not_zeroed, "CREATE_NOT_ZEROED", "heaps without a first fill", "new heaps are filled with zeros"),
            (
                features.gpu_upload_heaps,
                "GPU_UPLOAD heaps",
                "device memory that the host writes (`Location::DeviceUpload`)",
                "`Location::DeviceUpload` is in host memory",
            ),
            (
                features.tight_alignment,
                "tight alignment",
                "small resources close together",
                "small buffers have an alignment of 64 KiB",
            ),
            (
                features.small_msaa,
                "small multisampled alignment",
                "multisampled targets at 64 KiB",
                "multisampled targets have an alignment of 4 MiB",
            ),
        ];
        let parts = parts.map(|(available, name, used_for, without_it)| Part { name, available, used_for, without_it });
        Examined {
            device: format!("d3d12:{}", device.capabilities().name),
            about: format!("Direct3D 12, resource binding tier {}", features.resource_binding_tier),
            unusable: None,
            validation: "validation: not examined on Direct3D 12".to_owned(),
            descriptors: "heaps",
            parts: parts.into(),
        }
    }
}

#[cfg(not(all(windows, feature = "d3d12")))]
mod d3d12 {
    //! Direct3D 12 is part of Windows.

    pub(super) fn examine(_examination: &mut super::Examination) {}
}
