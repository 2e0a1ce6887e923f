//! Mending text that was decoded wrongly before it came here: `â€™` for `’`.
//!
//! ```toml
//! [unicode_repair]
//! ```
//!
//! The repair is that of `ftfy`, which Megatron-LM's own cleaning of OpenWebText called
//! (`cleanup_dataset.py`), as ported by the crate `plsfix`: mojibake is decoded, HTML entities are
//! resolved, curly quotes, ligatures and full-width letters become plain, line ends become `\n`,
//! control characters go, and the rest is composed (NFC). It changes the text that is trained on,
//! and so is off unless its table is there; how many documents were changed is counted.
//!
//! `plsfix` brings a hundred crates, so that the program has it only where it is built with the
//! feature `unicode-repair`. A line that it would leave as it is, of plain ASCII, is not given to
//! it.

#[cfg(feature = "unicode-repair")]
mod mender;

#[cfg(not(feature = "unicode-repair"))]
use std::convert::Infallible;

use corpus::Observer;
use serde::{Deserialize, Serialize};

use crate::{ConfigProblem, CurationError};

/// Table `[unicode_repair]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnicodeRepairConfig {}

/// What mends texts; there is none in a program that was built without it.
#[derive(Debug, Clone)]
pub struct UnicodeRepair(
    #[cfg(feature = "unicode-repair")] mender::Mender,
    #[cfg(not(feature = "unicode-repair"))] Infallible,
);

impl UnicodeRepair {
    /// What mends texts as a table asks for.
    ///
    /// # Errors
    ///
    /// [`ConfigProblem::NoUnicodeRepair`] where this program was built without it.
    pub fn new(_config: &UnicodeRepairConfig) -> Result<Self, ConfigProblem> {
        #[cfg(feature = "unicode-repair")]
        {
            Ok(Self(mender::Mender))
        }
        #[cfg(not(feature = "unicode-repair"))]
        {
            Err(ConfigProblem::NoUnicodeRepair)
        }
    }

    /// The mended text; `None` where there is nothing to mend.
    ///
    /// # Errors
    ///
    /// [`CurationError::Stopped`] where the observer asks to stop; it is asked line by line.
    #[cfg_attr(
        not(feature = "unicode-repair"),
        expect(unused_variables, reason = "nothing is mended in a program without the feature")
    )]
    pub fn repair(
        &self,
        text: &str,
        observer: &dyn Observer,
    ) -> Result<Option<String>, CurationError> {
        #[cfg(feature = "unicode-repair")]
        {
            self.0.mend(text, observer)
        }
        #[cfg(not(feature = "unicode-repair"))]
        {
            match self.0 {}
        }
    }
}
