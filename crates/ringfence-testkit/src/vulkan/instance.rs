//! The loader and the instance, with or without validation.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use ash::{ext, khr, vk};
use parking_lot::ReentrantMutex;

use super::messages::Messages;
use super::{enumerate, failed};
use crate::{OpenError, Options, Validation};

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// A lock that is held while an instance or a device is created or destroyed. With many threads at once, these calls of
/// NVIDIA's driver occasionally never return.
pub(super) static ONE_AT_A_TIME: ReentrantMutex<()> = ReentrantMutex::new(());

/// A Vulkan instance for Vulkan 1.2, and its loader.
pub(super) struct Instance {
    raw: ash::Instance,
    /// `true` if `VK_EXT_debug_utils` is enabled.
    debug_utils: bool,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    messages: Messages,
    validation: Validation,
    /// The library that contains all functions.
    _entry: ash::Entry,
}

impl Instance {
    /// Loads Vulkan and creates an instance, with the validation layer if `options` request it.
    pub(super) fn new(options: &Options) -> Result<Self, OpenError> {
        let entry = load()?;
        keep_drivers_loaded(&entry);
        let (layer, validation) = Layer::wanted(&entry, options)?;
        let messages = Messages::default();
        let (names, flags) = extensions(&entry, layer.as_ref())?;
        let raw = create(&entry, layer.as_ref(), &names, flags, &messages)?;
        let debug_utils = names.contains(&ext::debug_utils::NAME);
        let mut instance = Self { raw, debug_utils, messenger: None, messages, validation, _entry: entry };
        if layer.is_some() {
            instance.listen()?;
        }
        Ok(instance)
    }

    pub(super) fn raw(&self) -> &ash::Instance {
        &self.raw
    }

    pub(super) fn has_debug_utils(&self) -> bool {
        self.debug_utils
    }

    /// Returns the messages of the validation layers. The result stays valid after the instance is destroyed.
    pub(super) fn messages(&self) -> Messages {
        self.messages.clone()
    }

    pub(super) fn validation(&self) -> &Validation {
        &self.validation
    }

    /// Returns all physical devices. Fails with [`OpenError::Absent`] if there are none.
    pub(super) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>, OpenError> {
        // SAFETY: the instance is alive.
        match unsafe { self.raw.enumerate_physical_devices() } {
            Ok(devices) if !devices.is_empty() => Ok(devices),
            Ok(_) | Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Err(no_driver()),
            Err(error) => Err(failed("listing the Vulkan devices")(error)),
        }
    }

    fn listen(&mut self) -> Result<(), OpenError> {
        let utils = ext::debug_utils::Instance::new(&self._entry, &self.raw);
        // SAFETY: the instance has the extension. The messages outlive the instance.
        let messenger = unsafe { utils.create_debug_utils_messenger(&self.messages.messenger(), None) }
            .map_err(failed("registering for messages of the validation layers"))?;
        self.messenger = Some((utils, messenger));
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _one = ONE_AT_A_TIME.lock();
        // SAFETY: both are alive, and all objects that were created with the instance are destroyed.
        unsafe {
            if let Some((utils, messenger)) = self.messenger.take() {
                utils.destroy_debug_utils_messenger(messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

/// Extension through which the validation layer is configured to check synchronization.
enum Layer {
    /// `VK_EXT_validation_features`.
    Features,
    /// `VK_EXT_layer_settings`, its successor.
    Settings,
}

impl Layer {
    /// Returns the layer if it is requested and found, and the resulting state of validation.
    fn wanted(entry: &ash::Entry, options: &Options) -> Result<(Option<Self>, Validation), OpenError> {
        if !options.validation {
            return Ok((None, Validation::Off));
        }
        match Self::find(entry) {
            Ok((layer, version)) => {
                let name = VALIDATION.to_string_lossy();
                Ok((Some(layer), Validation::On(format!("{name} {version}, synchronization on"))))
            }
            Err(OpenError::Absent(reason)) if options.may_lack_validation => Ok((None, Validation::Absent(reason))),
            Err(error) => Err(error),
        }
    }

    fn find(entry: &ash::Entry) -> Result<(Self, String), OpenError> {
        // SAFETY: the loader is alive.
        let layers = unsafe { entry.enumerate_instance_layer_properties() }.map_err(failed("listing Vulkan layers"))?;
        let Some(found) = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION)) else {
            return Err(absent("VK_LAYER_KHRONOS_validation is not installed (Debian: vulkan-validationlayers)"));
        };
        let version = enumerate::version(found.spec_version);
        // SAFETY: as above.
        let offered = unsafe { entry.enumerate_instance_extension_properties(Some(VALIDATION)) }
            .map_err(failed("listing the extensions of the validation layer"))?;
        if lists(&offered, ext::validation_features::NAME) {
            Ok((Self::Features, version))
        } else if lists(&offered, ext::layer_settings::NAME) {
            Ok((Self::Settings, version))
        } else {
            Err(absent("VK_LAYER_KHRONOS_validation is too old to validate synchronization"))
        }
    }

    fn extension(&self) -> &'static CStr {
        match self {
            Self::Features => ext::validation_features::NAME,
            Self::Settings => ext::layer_settings::NAME,
        }
    }
}

/// Loads the Vulkan loader. Returns an error if it does not support Vulkan 1.2.
fn load() -> Result<ash::Entry, OpenError> {
    // SAFETY: the library with this name is the Vulkan loader. Its initialisation has no preconditions.
    let entry = unsafe { ash::Entry::load() }.map_err(|error| {
        absent(&format!("no Vulkan loader found: {error} (Debian: libvulkan1, and mesa-vulkan-drivers for a driver)"))
    })?;
    // SAFETY: the loader is alive.
    let version = unsafe { entry.try_enumerate_instance_version() }.map_err(failed("querying the loader's version"))?;
    match version {
        Some(version) if version >= vk::API_VERSION_1_2 => Ok(entry),
        _ => Err(absent("the Vulkan loader is older than Vulkan 1.2")),
    }
}

/// Creates an instance that lives as long as the process. Without it, the loader would unload the drivers with the last
/// instance. After about thirty unloads, NVIDIA's driver has no space left for its thread-local variables and is not
/// found.
fn keep_drivers_loaded(entry: &ash::Entry) {
    static KEPT: OnceLock<Option<(ash::Instance, ash::Entry)>> = OnceLock::new();
    KEPT.get_or_init(|| {
        // SAFETY: the info is valid, and the loader is kept with the instance.
        let instance = unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) }.ok()?;
        // SAFETY: the instance is alive. This call loads the drivers.
        let _ = unsafe { instance.enumerate_physical_devices() };
        Some((instance, entry.clone()))
    });
}

fn create(
    entry: &ash::Entry,
    layer: Option<&Layer>,
    extensions: &[&'static CStr],
    flags: vk::InstanceCreateFlags,
    messages: &Messages,
) -> Result<ash::Instance, OpenError> {
    let application =
        vk::ApplicationInfo::default().application_name(c"ringfence-testkit").api_version(vk::API_VERSION_1_2);
    let extensions: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
    let layers: &[*const c_char] = if layer.is_some() { &[VALIDATION.as_ptr()] } else { &[] };
    let mut info = vk::InstanceCreateInfo::default()
        .application_info(&application)
        .enabled_layer_names(layers)
        .enabled_extension_names(&extensions)
        .flags(flags);
    let mut messenger = messages.messenger();
    let enabled =
        [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION, vk::ValidationFeatureEnableEXT::BEST_PRACTICES];
    let enabled = if wants_best_practices() { &enabled[..] } else { &enabled[..1] };
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(enabled);
    let on = vk::TRUE;
    let setting = [switch(c"validate_sync", &on), switch(c"validate_best_practices", &on)];
    let setting = if wants_best_practices() { &setting[..] } else { &setting[..1] };
    let mut settings = vk::LayerSettingsCreateInfoEXT::default().settings(setting);
    if layer.is_some() {
        info = info.push_next(&mut messenger);
    }
    info = match layer {
        Some(Layer::Features) => info.push_next(&mut features),
        Some(Layer::Settings) => info.push_next(&mut settings),
        None => info,
    };
    // SAFETY: the layer and the extensions exist, and all memory that `info` points to is alive.
    unsafe { entry.create_instance(&info, None) }.map_err(|error| match error {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => no_driver(),
        error => failed("creating a Vulkan instance")(error),
    })
}

/// Returns the instance extensions to enable, and the flags that they require.
fn extensions(
    entry: &ash::Entry,
    layer: Option<&Layer>,
) -> Result<(Vec<&'static CStr>, vk::InstanceCreateFlags), OpenError> {
    // SAFETY: the loader is alive.
    let offered = unsafe { entry.enumerate_instance_extension_properties(None) }
        .map_err(failed("listing Vulkan instance extensions"))?;
    let mut names = Vec::new();
    let mut flags = vk::InstanceCreateFlags::empty();
    // If the loader lacks the extension, the validation layer has it.
    if layer.is_some() || lists(&offered, ext::debug_utils::NAME) {
        names.push(ext::debug_utils::NAME);
    }
    // Otherwise the loader hides drivers that lack a few features of Vulkan (MoltenVK).
    if lists(&offered, khr::portability_enumeration::NAME) {
        names.push(khr::portability_enumeration::NAME);
        flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
    }
    names.extend(layer.map(Layer::extension));
    Ok((names, flags))
}

/// Returns `true` if the layer must also check best practices, which is slower. [`super::messages`] filters its advice.
pub(super) fn wants_best_practices() -> bool {
    std::env::var_os("RINGFENCE_BEST_PRACTICES").is_some()
}

/// Returns a setting of the layer. The fields are set by hand, because `ash` counts values in bytes.
fn switch<'a>(name: &'a CStr, on: &'a vk::Bool32) -> vk::LayerSettingEXT<'a> {
    let mut setting =
        vk::LayerSettingEXT::default().layer_name(VALIDATION).setting_name(name).ty(vk::LayerSettingTypeEXT::BOOL32);
    setting.value_count = 1;
    setting.p_values = std::ptr::from_ref(on).cast();
    setting
}

pub(super) fn lists(offered: &[vk::ExtensionProperties], name: &CStr) -> bool {
    offered.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
}

pub(super) fn absent(reason: &str) -> OpenError {
    OpenError::Absent(reason.to_owned())
}

fn no_driver() -> OpenError {
    absent("the Vulkan loader found no driver (Debian: mesa-vulkan-drivers contains a software driver)")
}
