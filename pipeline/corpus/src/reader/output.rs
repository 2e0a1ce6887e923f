//! Where the output of a run may lie: not among the files that its sources read.
//!
//! A folder is read with all it holds, so that an output inside it is input of the next run.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::SourceConfig;
use super::files::Names;
use super::pattern::PathPattern;
use crate::CorpusError;

impl SourceConfig {
    /// Refuses the folder `out` as an output where this source would read what lies in it.
    ///
    /// # Errors
    ///
    /// [`CorpusError::OutputInInput`]; a bad pattern; a path that cannot be resolved.
    pub fn check_output(&self, out: &Path) -> Result<(), CorpusError> {
        let names = Names::of(self)?;
        let real_out = without_links(out)?;
        for path in &self.paths {
            let pattern = PathPattern::parse(path).map_err(|source| CorpusError::BadGlob {
                origin: path.display().to_string(),
                source,
            })?;
            let folder = pattern.as_ref().map_or(path, |pattern| &pattern.folder);
            if !folder.is_dir() {
                continue;
            }
            let real_folder =
                fs::canonicalize(folder).map_err(CorpusError::io("resolve", folder))?;
            let Ok(below) = real_out.strip_prefix(&real_folder) else { continue };
            let is_entered = pattern.is_none_or(|pattern| pattern.may_lie_below(below));
            if is_entered && !below.ancestors().any(|it| is_hidden(it) || names.leaves_out(it)) {
                let (path, input) = (out.to_owned(), path.clone());
                return Err(CorpusError::OutputInInput { path, input });
            }
        }
        Ok(())
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

/// `path` without links as far as it exists.
fn without_links(path: &Path) -> Result<PathBuf, CorpusError> {
    let absolute = std::path::absolute(path).map_err(CorpusError::io("resolve", path))?;
    let resolved = absolute.ancestors().find_map(|ancestor| {
        let rest = absolute.strip_prefix(ancestor).ok()?;
        Some(fs::canonicalize(ancestor).ok()?.join(rest))
    });
    Ok(resolved.unwrap_or(absolute))
}
