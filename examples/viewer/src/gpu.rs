//! Instance, device, queue and allocator, as in every Vulkan program.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ash::{ext, khr, vk};
use ringfence::AllocatorDesc;
use ringfence::debugging::DebugDesc;
use ringfence::vulkan::{self, DeviceSetup, Features, PlainViews};

use crate::Failure;

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Number of messages of the validation layer.
static MESSAGES: AtomicU32 = AtomicU32::new(0);

pub struct Gpu {
    pub memory: vulkan::Allocator,
    pub timeline: vulkan::Timeline,
    pub queue: vk::Queue,
    pub name: String,
    /// Samples per texel of the scene's targets.
    pub samples: vk::SampleCountFlags,
    /// Largest anisotropy of samplers.
    pub anisotropy: u8,
    /// `true` if the device samples BC textures.
    pub has_bc: bool,
    /// `true` if shaders may compute the index into an array of textures.
    pub is_bindless: bool,
    semaphore: vk::Semaphore,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    entry: ash::Entry,
}

/// Options of the device.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'a> {
    pub name: Option<&'a str>,
    pub validate: bool,
    /// Extensions of the instance for a window; if there are any, the device gets a swapchain.
    pub surface: &'a [*const std::ffi::c_char],
}

impl Gpu {
    pub fn new(wanted: Wanted<'_>) -> Result<Self, Failure> {
        // SAFETY: the loader is the system's own. Every handle is used with the object that it was created from, while
        // that object is alive.
        unsafe {
            let entry = ash::Entry::load()?;
            let instance = make_instance(&entry, wanted)?;
            let messenger = if wanted.validate { Some(listen(&entry, &instance)?) } else { None };
            let physical = choose(&instance, wanted.name)?;
            let raw = make_device(&instance, physical, wanted)?;
            let queue = raw.device.get_device_queue(0, 0);
            let is_old = is_old_llvmpipe(&instance, physical);
            if is_old {
                println!("no multisampling, no anisotropy: Mesa's llvmpipe before version 23 crashes or hangs");
            }
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let semaphore =
                raw.device.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None)?;
            let device = vulkan::Device::new(&instance, physical, raw.device, raw.desc)?;
            let debug =
                if wanted.validate { DebugDesc { leaks: true, ..Default::default() } } else { DebugDesc::default() };
            let memory = vulkan::Allocator::over(device, AllocatorDesc { debug, ..Default::default() });
            // Every submission of the program is made in `Gpu::submit`, which signals this semaphore.
            let timeline = memory.timeline(semaphore)?;
            Ok(Self {
                memory,
                timeline,
                queue,
                name: name_of(&instance, physical),
                samples: if is_old { vk::SampleCountFlags::TYPE_1 } else { vk::SampleCountFlags::TYPE_4 },
                anisotropy: if is_old { 1 } else { 4 },
                has_bc: raw.has_bc,
                is_bindless: raw.is_bindless,
                semaphore,
                instance,
                physical,
                messenger,
                entry,
            })
        }
    }

    /// Returns the functions of the device.
    pub fn raw(&self) -> &ash::Device {
        self.memory.device().raw()
    }

    /// Submits commands that signal the value of a frame, after `wait`, and before `signal`.
    pub fn submit(
        &self,
        commands: vk::CommandBuffer,
        value: u64,
        wait: Option<vk::Semaphore>,
        signal: Option<vk::Semaphore>,
    ) -> Result<(), vk::Result> {
        let waits: Vec<_> = wait.into_iter().collect();
        let signals: Vec<_> = [self.semaphore].into_iter().chain(signal).collect();
        let (values, zeros) = ([value, 0], [0]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&zeros[..waits.len()])
            .signal_semaphore_values(&values[..signals.len()]);
        let (commands, stages) = ([commands], [vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT]);
        let submit = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages[..waits.len()])
            .signal_semaphores(&signals)
            .push_next(&mut timeline);
        // SAFETY: the commands are recorded, and all objects belong to the device.
        unsafe { self.raw().queue_submit(self.queue, &[submit], vk::Fence::null()) }
    }

    /// Returns the objects that a window needs.
    #[cfg_attr(not(feature = "window"), expect(dead_code, reason = "only a window needs them"))]
    pub fn parts(&self) -> (&ash::Entry, &ash::Instance, vk::PhysicalDevice) {
        (&self.entry, &self.instance, self.physical)
    }

    /// Destroys everything. Fails if something that the program created is still alive. Returns the number of messages
    /// of the validation layer.
    pub fn finish(self) -> Result<u32, Failure> {
        self.memory.shutdown(Duration::from_secs(30))?;
        if let Some(finding) = self.memory.debug().take_findings().first() {
            return Err(finding.to_string().into());
        }
        let device = self.raw().clone();
        drop((self.timeline, self.memory));
        // SAFETY: `shutdown` has waited for all work and destroyed the objects of the allocator.
        unsafe {
            device.destroy_semaphore(self.semaphore, None);
            device.destroy_device(None);
            if let Some((functions, messenger)) = self.messenger {
                functions.destroy_debug_utils_messenger(messenger, None);
            }
            self.instance.destroy_instance(None);
        }
        Ok(MESSAGES.load(Ordering::Relaxed))
    }
}

/// # Safety
/// The entry is the loader's.
unsafe fn make_instance(entry: &ash::Entry, wanted: Wanted<'_>) -> Result<ash::Instance, Failure> {
    let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
    let (mut layers, mut extensions) = (Vec::new(), wanted.surface.to_vec());
    let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
    if wanted.validate {
        layers.push(LAYER.as_ptr());
        extensions.push(ext::debug_utils::NAME.as_ptr());
        extensions.push(ext::validation_features::NAME.as_ptr());
    }
    let mut info = vk::InstanceCreateInfo::default()
        .application_info(&app)
        .enabled_layer_names(&layers)
        .enabled_extension_names(&extensions);
    if wanted.validate {
        info = info.push_next(&mut features);
    }
    // SAFETY: the names end with zero. The loader refuses layers and extensions that it does not have.
    unsafe { entry.create_instance(&info, None) }.map_err(|error| match error {
        vk::Result::ERROR_LAYER_NOT_PRESENT => "--validate needs the layer VK_LAYER_KHRONOS_validation".into(),
        other => other.into(),
    })
}

/// # Safety
/// The instance has the extension for messages.
unsafe fn listen(
    entry: &ash::Entry,
    instance: &ash::Instance,
) -> Result<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT), vk::Result> {
    let functions = ext::debug_utils::Instance::new(entry, instance);
    let severity = vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR;
    let kinds = vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE;
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(severity)
        .message_type(kinds)
        .pfn_user_callback(Some(on_message));
    // SAFETY: the callback is a function of this program.
    let messenger = unsafe { functions.create_debug_utils_messenger(&info, None) }?;
    Ok((functions, messenger))
}

/// Prints a message of the validation layer, and counts it.
unsafe extern "system" fn on_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes a valid message.
    let text = unsafe { (*data).message_as_c_str() }.unwrap_or(c"");
    eprintln!("validation: {}", text.to_string_lossy());
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    vk::FALSE
}

fn name_of(instance: &ash::Instance, physical: vk::PhysicalDevice) -> String {
    // SAFETY: the device belongs to the instance.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned()
}

/// Returns the first device with Vulkan 1.3 whose name contains `name`.
fn choose(instance: &ash::Instance, name: Option<&str>) -> Result<vk::PhysicalDevice, Failure> {
    // SAFETY: the instance is alive.
    let devices = unsafe { instance.enumerate_physical_devices() }?;
    let fits = |physical: &vk::PhysicalDevice| {
        // SAFETY: the device belongs to the instance.
        let version = unsafe { instance.get_physical_device_properties(*physical) }.api_version;
        let is_named = name.is_none_or(|part| name_of(instance, *physical).contains(part));
        version >= vk::API_VERSION_1_3 && is_named
    };
    Ok(devices.into_iter().find(fits).ok_or("there is no device with Vulkan 1.3 and this name")?)
}

/// Returns `true` for Mesa's software driver before version 23. It crashes when it resolves samples, and its anisotropic
/// filter visits every texel between two neighbouring pixels, which can take minutes.
fn is_old_llvmpipe(instance: &ash::Instance, physical: vk::PhysicalDevice) -> bool {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: the device supports Vulkan 1.3.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    // For example "Mesa 22.3.6 (LLVM 15.0.6)"; the number of the driver's version does not tell.
    let info = driver.driver_info_as_c_str().unwrap_or(c"").to_string_lossy();
    let major = info.strip_prefix("Mesa ").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    driver.driver_id == vk::DriverId::MESA_LLVMPIPE && major.is_none_or(|major| major < 23)
}

struct RawDevice {
    device: ash::Device,
    desc: vulkan::DeviceDesc,
    has_bc: bool,
    is_bindless: bool,
}

/// # Safety
/// The physical device belongs to the instance and supports Vulkan 1.3.
unsafe fn make_device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    wanted: Wanted<'_>,
) -> Result<RawDevice, Failure> {
    let debug = if wanted.validate { Features::DEBUG_UTILS } else { Features::empty() };
    // Not `DESCRIPTOR_BUFFER`: the inputs of the passes are descriptor sets of the program.
    // SAFETY: the caller promises it.
    let mut setup = unsafe { DeviceSetup::query(instance, physical, Features::USUAL | debug) }?;
    setup.core.texture_compression_bc = setup.supported().texture_compression_bc;
    let mut names = setup.extension_names();
    if !wanted.surface.is_empty() {
        names.push(khr::swapchain::NAME.as_ptr());
    }
    // Plain sets: one array for each of these kinds of view, instead of one for every kind.
    let plain_views = PlainViews::FLOAT_2D | PlainViews::FLOAT_CUBE | PlainViews::FLOAT_3D;
    let desc = vulkan::DeviceDesc { plain_views, ..setup.desc() };
    let has_bc = setup.supported().texture_compression_bc == vk::TRUE;
    let is_bindless = setup.core.shader_sampled_image_array_dynamic_indexing == vk::TRUE;
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&priorities)];
    let mut dynamic = vk::PhysicalDeviceDynamicRenderingFeatures::default().dynamic_rendering(true);
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
    let info = setup.chain(info.push_next(&mut dynamic));
    // SAFETY: the device has the features, the extensions and a first queue. The window needs a swapchain, which fails
    // here if it is missing.
    let device = unsafe { instance.create_device(physical, &info, None) }?;
    Ok(RawDevice { device, desc, has_bc, is_bindless })
}
