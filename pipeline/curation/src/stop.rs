//! The request to stop as an error, which ends a loop by `?`.

use corpus::Observer;

use crate::CurationError;

/// An error when the observer asks to stop.
pub(crate) fn stop_if_asked(observer: &dyn Observer) -> Result<(), CurationError> {
    if observer.stop_requested() { Err(CurationError::Stopped { stages: None }) } else { Ok(()) }
}
