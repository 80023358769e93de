//! Failure codes of graphics APIs, printed by name and number, with the call that failed.

use std::fmt;

/// The API of a failed call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Api {
    /// Vulkan: the code is a `VkResult`.
    Vulkan,
    /// Direct3D 12, DXGI or COM: the code is an `HRESULT`.
    Direct3d12,
}

/// A failure code of an API, and the call that returned it.
///
/// Prints as `vkCreateBuffer failed with VK_ERROR_UNKNOWN (-13)`, or as `ID3D12Device::CreateHeap failed with
/// DXGI_ERROR_INVALID_CALL (0x887A0001)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApiResult {
    /// The API of the call, which defines the code.
    pub api: Api,
    /// The failure code, which is negative.
    pub code: i32,
    /// The call, by its name in the API's documentation.
    pub call: &'static str,
}

/// Failure codes of Direct3D 12, DXGI and COM, in ascending order.
const HRESULTS: [(u32, &str); 43] = [
    (0x8000_4001, "E_NOTIMPL"),
    (0x8000_4002, "E_NOINTERFACE"),
    (0x8000_4003, "E_POINTER"),
    (0x8000_4004, "E_ABORT"),
    (0x8000_4005, "E_FAIL"),
    (0x8000_FFFF, "E_UNEXPECTED"),
    (0x8007_0005, "E_ACCESSDENIED"),
    (0x8007_0006, "E_HANDLE"),
    (0x8007_000E, "E_OUTOFMEMORY"),
    (0x8007_0057, "E_INVALIDARG"),
    (0x887A_0001, "DXGI_ERROR_INVALID_CALL"),
    (0x887A_0002, "DXGI_ERROR_NOT_FOUND"),
    (0x887A_0003, "DXGI_ERROR_MORE_DATA"),
    (0x887A_0004, "DXGI_ERROR_UNSUPPORTED"),
    (0x887A_0005, "DXGI_ERROR_DEVICE_REMOVED"),
    (0x887A_0006, "DXGI_ERROR_DEVICE_HUNG"),
    (0x887A_0007, "DXGI_ERROR_DEVICE_RESET"),
    (0x887A_000A, "DXGI_ERROR_WAS_STILL_DRAWING"),
    (0x887A_000B, "DXGI_ERROR_FRAME_STATISTICS_DISJOINT"),
    (0x887A_000C, "DXGI_ERROR_GRAPHICS_VIDPN_SOURCE_IN_USE"),
    (0x887A_0020, "DXGI_ERROR_DRIVER_INTERNAL_ERROR"),
    (0x887A_0021, "DXGI_ERROR_NONEXCLUSIVE"),
    (0x887A_0022, "DXGI_ERROR_NOT_CURRENTLY_AVAILABLE"),
    (0x887A_0023, "DXGI_ERROR_REMOTE_CLIENT_DISCONNECTED"),
    (0x887A_0024, "DXGI_ERROR_REMOTE_OUTOFMEMORY"),
    (0x887A_0025, "DXGI_ERROR_MODE_CHANGE_IN_PROGRESS"),
    (0x887A_0026, "DXGI_ERROR_ACCESS_LOST"),
    (0x887A_0027, "DXGI_ERROR_WAIT_TIMEOUT"),
    (0x887A_0028, "DXGI_ERROR_SESSION_DISCONNECTED"),
    (0x887A_0029, "DXGI_ERROR_RESTRICT_TO_OUTPUT_STALE"),
    (0x887A_002A, "DXGI_ERROR_CANNOT_PROTECT_CONTENT"),
    (0x887A_002B, "DXGI_ERROR_ACCESS_DENIED"),
    (0x887A_002C, "DXGI_ERROR_NAME_ALREADY_EXISTS"),
    (0x887A_002D, "DXGI_ERROR_SDK_COMPONENT_MISSING"),
    (0x887A_002E, "DXGI_ERROR_NOT_CURRENT"),
    (0x887A_0030, "DXGI_ERROR_HW_PROTECTION_OUTOFMEMORY"),
    (0x887A_0031, "DXGI_ERROR_DYNAMIC_CODE_POLICY_VIOLATION"),
    (0x887A_0032, "DXGI_ERROR_NON_COMPOSITED_UI"),
    (0x887A_0036, "DXGI_ERROR_CACHE_CORRUPT"),
    (0x887A_0037, "DXGI_ERROR_CACHE_FULL"),
    (0x887A_0038, "DXGI_ERROR_CACHE_HASH_COLLISION"),
    (0x887E_0001, "D3D12_ERROR_ADAPTER_NOT_FOUND"),
    (0x887E_0002, "D3D12_ERROR_DRIVER_VERSION_MISMATCH"),
];

/// Failure codes of the Vulkan commands that a device uses and of `vkCreateSwapchainKHR`, in descending order.
const VK_RESULTS: [(i32, &str); 15] = [
    (-1, "VK_ERROR_OUT_OF_HOST_MEMORY"),
    (-2, "VK_ERROR_OUT_OF_DEVICE_MEMORY"),
    (-3, "VK_ERROR_INITIALIZATION_FAILED"),
    (-4, "VK_ERROR_DEVICE_LOST"),
    (-5, "VK_ERROR_MEMORY_MAP_FAILED"),
    (-12, "VK_ERROR_FRAGMENTED_POOL"),
    (-13, "VK_ERROR_UNKNOWN"),
    (-1_000_000_001, "VK_ERROR_NATIVE_WINDOW_IN_USE_KHR"),
    (-1_000_011_001, "VK_ERROR_VALIDATION_FAILED_EXT"),
    (-1_000_069_000, "VK_ERROR_OUT_OF_POOL_MEMORY"),
    (-1_000_072_003, "VK_ERROR_INVALID_EXTERNAL_HANDLE"),
    (-1_000_158_000, "VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT"),
    (-1_000_161_000, "VK_ERROR_FRAGMENTATION"),
    (-1_000_174_001, "VK_ERROR_NOT_PERMITTED_KHR"),
    (-1_000_257_000, "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS"),
];

impl ApiResult {
    /// Returns the name of the code in the API's headers. Returns `None` if this crate does not know the code.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self.api {
            Api::Vulkan => VK_RESULTS.iter().find(|(code, _)| *code == self.code).map(|(_, name)| *name),
            Api::Direct3d12 => HRESULTS.iter().find(|(code, _)| *code as i32 == self.code).map(|(_, name)| *name),
        }
    }
}

impl fmt::Display for ApiResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api, code, call } = self;
        write!(f, "{call} failed with ")?;
        match (self.name(), api) {
            (Some(name), Api::Vulkan) => write!(f, "{name} ({code})"),
            (None, Api::Vulkan) => write!(f, "{code}"),
            (Some(name), Api::Direct3d12) => write!(f, "{name} (0x{code:08X})"),
            (None, Api::Direct3d12) => write!(f, "0x{code:08X}"),
        }
    }
}

impl fmt::Debug for ApiResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiResult({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceError;

    #[test]
    fn a_code_prints_in_hexadecimal_with_its_name_and_the_call() {
        let (api, call) = (Api::Direct3d12, "ID3D12Device::CreateHeap");
        let error = |code: u32| DeviceError::Api(ApiResult { api, code: code as i32, call });
        assert_eq!(
            error(0x887A_0001).to_string(),
            "ID3D12Device::CreateHeap failed with DXGI_ERROR_INVALID_CALL (0x887A0001)"
        );
        assert_eq!(error(0x8007_001F).to_string(), "ID3D12Device::CreateHeap failed with 0x8007001F");
        assert!(format!("{:?}", error(0x8000_4005)).contains("E_FAIL (0x80004005)"));
    }

    #[test]
    fn a_result_of_vulkan_prints_with_its_name_and_the_call() {
        let error = |code| DeviceError::Api(ApiResult { api: Api::Vulkan, code, call: "vkCreateBuffer" });
        assert_eq!(error(-13).to_string(), "vkCreateBuffer failed with VK_ERROR_UNKNOWN (-13)");
        assert_eq!(error(-7777).to_string(), "vkCreateBuffer failed with -7777");
        assert_eq!(
            format!("{:?}", error(-12)),
            "Api(ApiResult(vkCreateBuffer failed with VK_ERROR_FRAGMENTED_POOL (-12)))"
        );
    }

    #[test]
    fn every_name_is_of_one_failure() {
        assert!(HRESULTS.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, each once");
        assert!(HRESULTS.iter().all(|(code, _)| (*code as i32) < 0));
        assert!(VK_RESULTS.windows(2).all(|pair| pair[0].0 > pair[1].0), "in order, each once");
        assert!(VK_RESULTS.iter().all(|(code, _)| *code < 0));
    }

    #[test]
    fn a_name_belongs_to_the_code_of_its_own_api() {
        for (api, code, name) in [
            (Api::Vulkan, -1, Some("VK_ERROR_OUT_OF_HOST_MEMORY")),
            (Api::Vulkan, -4, Some("VK_ERROR_DEVICE_LOST")),
            (Api::Vulkan, -1_000_257_000, Some("VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS")),
            (Api::Vulkan, -6, None),
            (Api::Vulkan, 0x8007_000E_u32 as i32, None),
            (Api::Direct3d12, 0x8007_000E_u32 as i32, Some("E_OUTOFMEMORY")),
            (Api::Direct3d12, 0x887A_0005_u32 as i32, Some("DXGI_ERROR_DEVICE_REMOVED")),
            (Api::Direct3d12, 0x887E_0002_u32 as i32, Some("D3D12_ERROR_DRIVER_VERSION_MISMATCH")),
            (Api::Direct3d12, 0x887A_0008_u32 as i32, None),
            (Api::Direct3d12, -4, None),
        ] {
            assert_eq!(ApiResult { api, code, call: "call" }.name(), name, "{api:?} {code}");
        }
    }
}
