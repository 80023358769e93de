//! The driver's `HRESULT`s as [`DeviceError`]s.

use windows::Win32::Foundation::{E_INVALIDARG, E_NOINTERFACE, E_NOTIMPL, E_OUTOFMEMORY};
use windows::Win32::Graphics::Dxgi::{
    DXGI_ERROR_DEVICE_HUNG, DXGI_ERROR_DEVICE_REMOVED, DXGI_ERROR_DEVICE_RESET, DXGI_ERROR_DRIVER_INTERNAL_ERROR,
    DXGI_ERROR_UNSUPPORTED,
};

use crate::device::DeviceError;

/// The error of a failed call; `what` says what the call was given, for when that is what the driver rejects.
///
/// The driver does not say whether memory ran out on the host or on the device. The device's is the one that the
/// library can do something about, so that is what it is called.
pub(super) fn from_driver(error: &windows::core::Error, what: &'static str) -> DeviceError {
    match error.code() {
        E_OUTOFMEMORY => DeviceError::OutOfDeviceMemory,
        E_INVALIDARG => DeviceError::InvalidInfo(what),
        E_NOTIMPL | E_NOINTERFACE | DXGI_ERROR_UNSUPPORTED => DeviceError::Unsupported(what),
        DXGI_ERROR_DEVICE_REMOVED
        | DXGI_ERROR_DEVICE_HUNG
        | DXGI_ERROR_DEVICE_RESET
        | DXGI_ERROR_DRIVER_INTERNAL_ERROR => DeviceError::Lost,
        other => DeviceError::Other(i64::from(other.0)),
    }
}

/// What a creating call has made: its `HRESULT` and its out parameter as one.
pub(super) fn made<T>(
    result: windows::core::Result<()>,
    object: Option<T>,
    what: &'static str,
) -> Result<T, DeviceError> {
    result.map_err(|error| from_driver(&error, what))?;
    object.ok_or(DeviceError::Other(0))
}
