//! Conversion of `HRESULT`s to [`DeviceError`]s. Each error names the call that failed.

use windows::Win32::Foundation::{E_INVALIDARG, E_NOINTERFACE, E_NOTIMPL, E_OUTOFMEMORY, E_POINTER};
use windows::Win32::Graphics::Dxgi::{
    DXGI_ERROR_DEVICE_HUNG, DXGI_ERROR_DEVICE_REMOVED, DXGI_ERROR_DEVICE_RESET, DXGI_ERROR_DRIVER_INTERNAL_ERROR,
    DXGI_ERROR_UNSUPPORTED,
};
use windows::core::HRESULT;

use ringfence_hal::{Api, ApiResult, DeviceError};

/// The name of an API call, and the messages of its errors.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) invalid: &'static str,
    pub(super) not_implemented: &'static str,
    pub(super) no_interface: &'static str,
    pub(super) unsupported: &'static str,
}

/// Creates a [`Call`] from the name of an API call and a noun phrase for its argument. If the driver rejects the
/// argument, the message names it.
macro_rules! call {
    ($name:literal, $what:literal) => {
        $crate::error::Call {
            name: $name,
            invalid: concat!($what, ": ", $name, " failed with E_INVALIDARG (0x80070057)"),
            not_implemented: concat!($what, ": ", $name, " failed with E_NOTIMPL (0x80004001)"),
            no_interface: concat!($what, ": ", $name, " failed with E_NOINTERFACE (0x80004002)"),
            unsupported: concat!($what, ": ", $name, " failed with DXGI_ERROR_UNSUPPORTED (0x887A0004)"),
        }
    };
}
pub(super) use call;

/// Returns a function that converts the error of a failed call, for `map_err`.
///
/// `E_OUTOFMEMORY` does not say if host memory or device memory ran out. It is reported as
/// [`DeviceError::OutOfDeviceMemory`], because the library can free device memory and try again.
pub(super) fn failed(call: Call) -> impl Fn(windows::core::Error) -> DeviceError {
    move |error| from_code(error.code(), call)
}

fn from_code(code: HRESULT, call: Call) -> DeviceError {
    match code {
        E_OUTOFMEMORY => DeviceError::OutOfDeviceMemory,
        E_INVALIDARG => DeviceError::invalid(call.invalid),
        E_NOTIMPL => DeviceError::unsupported(call.not_implemented),
        E_NOINTERFACE => DeviceError::unsupported(call.no_interface),
        DXGI_ERROR_UNSUPPORTED => DeviceError::unsupported(call.unsupported),
        DXGI_ERROR_DEVICE_REMOVED
        | DXGI_ERROR_DEVICE_HUNG
        | DXGI_ERROR_DEVICE_RESET
        | DXGI_ERROR_DRIVER_INTERNAL_ERROR => DeviceError::Lost,
        other => DeviceError::Api(ApiResult { api: Api::Direct3d12, code: other.0, call: call.name }),
    }
}

/// Returns the error of a failed system call, from the last error of the thread.
pub(super) fn from_system(call: &'static str) -> DeviceError {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as u32;
    // HRESULT_FROM_WIN32
    DeviceError::Api(ApiResult { api: Api::Direct3d12, code: (code & 0xFFFF | 0x8007_0000) as i32, call })
}

/// Returns the object that a call has created, from its `HRESULT` and its out parameter.
pub(super) fn made<T>(result: windows::core::Result<()>, object: Option<T>, call: Call) -> Result<T, DeviceError> {
    result.map_err(failed(call))?;
    object.ok_or(DeviceError::Api(ApiResult { api: Api::Direct3d12, code: E_POINTER.0, call: call.name }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_names_its_call_and_its_code() {
        let call = call!("ID3D12Device::CreateHeap", "the description of a heap");
        let codes = [
            E_INVALIDARG,
            E_NOTIMPL,
            E_NOINTERFACE,
            DXGI_ERROR_UNSUPPORTED,
            E_POINTER,
            HRESULT(0x8765_4321_u32 as i32),
        ];
        for code in codes {
            let text = from_code(code, call).to_string();
            let number = format!("0x{:08X}", code.0);
            assert!(text.contains(&number) && text.contains("ID3D12Device::CreateHeap"), "{text}");
        }
    }
}
