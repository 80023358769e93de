//! Instance, device, queue, allocator and timeline: the objects that every Vulkan program has.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ash::{ext, vk};
use ringfence::debugging::DebugDesc;
use ringfence::lifetime::RetireBin;
use ringfence::vulkan::{self, CopyRecorder, DeviceSetup, Features};
use ringfence::{AllocatorDesc, Frame, SyncPoint};

/// Any error of a step. A step that returns one exits with code 1.
pub type Failure = Box<dyn std::error::Error>;

/// The longest wait for the GPU.
pub const PATIENCE: Duration = Duration::from_secs(60);

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Messages of the validation layer.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// An open device with one queue.
pub struct Gpu {
    pub memory: vulkan::Allocator,
    pub timeline: vulkan::Timeline,
    pub device: ash::Device,
    /// `true` if shaders may compute the index into an array of textures.
    pub can_index_textures: bool,
    queue: vk::Queue,
    pool: vk::CommandPool,
    semaphore: vk::Semaphore,
    retired: RetireBin<Retired>,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    instance: ash::Instance,
    _entry: ash::Entry,
    /// The queue and the pool may be used by one thread at a time.
    _one_thread: PhantomData<Cell<()>>,
}

/// Vulkan objects of the program that the GPU may still use.
pub enum Retired {
    Commands(vk::CommandBuffer),
    Pipeline(vk::Pipeline, vk::PipelineLayout),
}

/// One submission that is being recorded: its frame, and a command buffer in the recording state.
#[non_exhaustive]
pub struct Work {
    pub frame: Frame,
    pub commands: vk::CommandBuffer,
}

impl Gpu {
    /// Opens the first device with Vulkan 1.3, if possible one that is not a CPU.
    pub fn open() -> Result<Self, Failure> {
        // SAFETY: the loader is the system's own. Every handle is used with the object that it was created from, while
        // that object is alive.
        unsafe {
            let entry = ash::Entry::load()?;
            let (instance, messenger) = make_instance(&entry)?;
            let (physical, family) = choose(&instance)?;

            // Finds the features that help the library and that the device has, and enables them.
            let debug = if messenger.is_some() { Features::DEBUG_UTILS } else { Features::empty() };
            let mut setup = DeviceSetup::query(&instance, physical, Features::USUAL | debug)?;
            let can_index_textures = setup.core.shader_sampled_image_array_dynamic_indexing == vk::TRUE;
            let (names, desc) = (setup.extension_names(), setup.desc());
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let mut rendering = vk::PhysicalDeviceDynamicRenderingFeatures::default().dynamic_rendering(true);
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
            let device = instance.create_device(physical, &setup.chain(info.push_next(&mut rendering)), None)?;

            let queue = device.get_device_queue(family, 0);
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
            let pool = device.create_command_pool(&info, None)?;
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let semaphore = device.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None)?;

            // The allocator, and the timeline of the queue. `Gpu::submit` makes every submission; it signals the
            // semaphore with the value of the frame.
            let wrapped = vulkan::Device::new(&instance, physical, device.clone(), desc)?;
            let debug = DebugDesc { leaks: true, ..Default::default() };
            let memory = vulkan::Allocator::over(wrapped, AllocatorDesc { debug, ..Default::default() });
            let timeline = memory.timeline(semaphore)?;
            let retired = RetireBin::new();
            Ok(Self {
                memory,
                timeline,
                device,
                can_index_textures,
                queue,
                pool,
                semaphore,
                retired,
                messenger,
                instance,
                _entry: entry,
                _one_thread: PhantomData,
            })
        }
    }

    /// Returns `true` if the validation layer checks the program.
    pub fn is_validated(&self) -> bool {
        self.messenger.is_some()
    }

    /// Begins a frame and a command buffer for it.
    pub fn begin(&self) -> Result<Work, Failure> {
        self.memory.retirement().release_from(&self.retired, usize::MAX, |object| self.destroy(object))?;
        let frame = self.timeline.begin();
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the pool belongs to the device. Only this thread uses it, because `Gpu` is not `Sync`.
        let commands = unsafe {
            let commands = self.device.allocate_command_buffers(&info)?[0];
            self.device.begin_command_buffer(commands, &begin)?;
            commands
        };
        Ok(Work { frame, commands })
    }

    /// Returns a recorder of the library's copies. `layout` is the layout of textures before and after the copies.
    pub fn recorder(&self, work: &Work, layout: vk::ImageLayout) -> CopyRecorder<'_> {
        // SAFETY: the command buffer belongs to the device and is being recorded. The steps use the recorder outside of
        // passes.
        unsafe { CopyRecorder::new(&self.device, work.commands) }.texture_layout(layout)
    }

    /// Submits the commands. Returns the point at which the GPU has executed them.
    pub fn submit(&self, work: Work) -> Result<SyncPoint, Failure> {
        let Work { frame, commands } = work;
        let point = self.timeline.submit(frame, |value| {
            let (values, semaphores, list) = ([value], [self.semaphore], [commands]);
            let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
            let submit = vk::SubmitInfo::default().command_buffers(&list).signal_semaphores(&semaphores);
            // SAFETY: the command buffer is being recorded, and all objects belong to the device.
            unsafe {
                self.device.end_command_buffer(commands)?;
                self.device.queue_submit(self.queue, &[submit.push_next(&mut signal)], vk::Fence::null())?;
            }
            Ok::<_, Failure>(())
        })?;
        self.retire(Retired::Commands(commands));
        Ok(point)
    }

    /// Waits until the GPU has reached a point.
    pub fn wait(&self, point: SyncPoint) -> Result<(), Failure> {
        match self.timeline.wait(point.value, PATIENCE)? {
            true => Ok(()),
            false => Err(format!("the GPU has not reached {point} in {PATIENCE:?}").into()),
        }
    }

    /// Destroys an object once all frames that have begun are complete.
    pub fn retire(&self, object: Retired) {
        self.memory.retirement().retire_into(&self.retired, object);
    }

    fn destroy(&self, object: Retired) {
        // SAFETY: the objects belong to the device. The frames that used them are complete.
        unsafe {
            match object {
                Retired::Commands(commands) => self.device.free_command_buffers(self.pool, &[commands]),
                Retired::Pipeline(pipeline, layout) => {
                    self.device.destroy_pipeline(pipeline, None);
                    self.device.destroy_pipeline_layout(layout, None);
                }
            }
        }
    }

    /// Waits for the GPU and destroys everything. Fails if a resource is still alive, or if the validation layer has
    /// reported anything.
    pub fn close(self) -> Result<(), Failure> {
        self.memory.shutdown(PATIENCE)?;
        let leaks = self.memory.debug().take_findings();
        self.retired.release_all(|object| self.destroy(object));
        drop((self.timeline, self.memory));
        // SAFETY: `shutdown` has waited for the GPU. All objects of the device and of the allocator are destroyed.
        unsafe {
            self.device.destroy_semaphore(self.semaphore, None);
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_device(None);
            if let Some((functions, messenger)) = self.messenger {
                functions.destroy_debug_utils_messenger(messenger, None);
            }
            self.instance.destroy_instance(None);
        }
        let messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
        match (leaks.first(), messages.first()) {
            (Some(leak), _) => Err(leak.to_string().into()),
            (_, Some(message)) => Err(format!("{} validation messages, the first: {message}", messages.len()).into()),
            _ => Ok(()),
        }
    }
}

type Messenger = (ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT);

/// Creates the instance, with the validation layer if it is installed.
///
/// # Safety
/// The entry is the loader's.
unsafe fn make_instance(entry: &ash::Entry) -> Result<(ash::Instance, Option<Messenger>), Failure> {
    // SAFETY: the names end with zero. The instance and the messenger are created from the entry.
    unsafe {
        let layers = entry.enumerate_instance_layer_properties()?;
        let validates = layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(LAYER));
        let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&app);
        if !validates {
            return Ok((entry.create_instance(&info, None)?, None));
        }
        let layers = [LAYER.as_ptr()];
        let extensions = [ext::debug_utils::NAME.as_ptr(), ext::validation_features::NAME.as_ptr()];
        let also = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&also);
        let info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions).push_next(&mut features);
        let instance = entry.create_instance(&info, None)?;
        let functions = ext::debug_utils::Instance::new(entry, &instance);
        let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(on_message));
        let messenger = functions.create_debug_utils_messenger(&info, None)?;
        Ok((instance, Some((functions, messenger))))
    }
}

/// Keeps a message of the validation layer for `Gpu::close`.
unsafe extern "system" fn on_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes a valid message.
    let text = unsafe { (*data).message_as_c_str() }.unwrap_or(c"").to_string_lossy().into_owned();
    eprintln!("validation: {text}");
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    vk::FALSE
}

/// Returns a device with Vulkan 1.3, and its first queue family for graphics.
fn choose(instance: &ash::Instance) -> Result<(vk::PhysicalDevice, u32), Failure> {
    // SAFETY: the instance is alive, and the devices belong to it.
    unsafe {
        let mut devices = Vec::new();
        for physical in instance.enumerate_physical_devices()? {
            let properties = instance.get_physical_device_properties(physical);
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.iter().position(|family| family.queue_flags.contains(vk::QueueFlags::GRAPHICS));
            if let (Some(family), true) = (family, properties.api_version >= vk::API_VERSION_1_3) {
                devices.push((properties.device_type == vk::PhysicalDeviceType::CPU, physical, family as u32));
            }
        }
        let (_, physical, family) =
            devices.into_iter().min_by_key(|(is_cpu, ..)| *is_cpu).ok_or("there is no device with Vulkan 1.3")?;
        Ok((physical, family))
    }
}
