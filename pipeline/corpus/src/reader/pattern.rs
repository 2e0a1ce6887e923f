//! Globs: the patterns by which files of a folder are chosen, and paths that are patterns
//! themselves.

use std::path::{Component, Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher};

/// Characters that make a path a pattern.
const GLOB_CHARACTERS: [char; 4] = ['*', '?', '[', '{'];

/// A path that stands for files: a folder, and a pattern for paths relative to it.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    /// The folder: all of the path before its first component that is a pattern.
    pub(super) folder: PathBuf,
    files: GlobMatcher,
    /// Patterns of the folders that lead to the files, one for each depth; empty where depths are
    /// not told apart.
    folders: Vec<GlobMatcher>,
    /// Whether files lie at any depth.
    is_deep: bool,
}

impl PathPattern {
    /// The pattern that `path` is; `None` for a path that exists or holds no pattern.
    pub(super) fn parse(path: &Path) -> Result<Option<Self>, globset::Error> {
        if path.exists() {
            return Ok(None);
        }
        let mut folder = PathBuf::new();
        let mut components = path.components().peekable();
        while let Some(component) = components.next_if(|it| !is_pattern(&folder, *it)) {
            folder.push(component);
        }
        let Some(pattern) = components.collect::<PathBuf>().to_str().map(ToOwned::to_owned) else {
            return Ok(None);
        };
        if pattern.is_empty() {
            return Ok(None);
        }
        if folder.as_os_str().is_empty() {
            folder.push(".");
        }
        let files = glob(&pattern)?.compile_matcher();
        // A slash inside braces is none between folders: then the parts are no patterns, and any
        // folder may lead to a file.
        let parts: Option<Vec<GlobMatcher>> = pattern
            .split('/')
            .take_while(|part| !part.contains("**"))
            .map(|part| glob(part).ok().map(|glob| glob.compile_matcher()))
            .collect();
        let is_deep = parts.is_none() || pattern.contains("**");
        let mut folders = parts.unwrap_or_default();
        if !is_deep {
            folders.pop();
        }
        Ok(Some(Self { folder, files, folders, is_deep }))
    }

    /// Whether the file at `relative` is meant.
    pub(super) fn matches(&self, relative: &Path) -> bool {
        self.files.is_match(relative)
    }

    /// Whether files that are meant may lie below the folder at `relative`.
    pub(super) fn may_lie_below(&self, relative: &Path) -> bool {
        let depth = relative.components().count();
        let leads = relative
            .components()
            .zip(&self.folders)
            .all(|(component, pattern)| pattern.is_match(component.as_os_str()));
        leads && (self.is_deep || depth <= self.folders.len())
    }
}

/// Whether `component` is a pattern: there is nothing in `folder` that is called so.
fn is_pattern(folder: &Path, component: Component<'_>) -> bool {
    let text = component.as_os_str().to_string_lossy();
    text.contains(GLOB_CHARACTERS) && !folder.join(component).exists()
}

/// A pattern in which `*` stays within a name and `**` crosses folders.
pub(super) fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        PathPattern::parse(Path::new(text)).unwrap().unwrap()
    }

    #[test]
    fn folder_is_what_stands_before_the_first_pattern() {
        for (text, folder) in [
            ("/no/such/*.jsonl", "/no/such"),
            ("*.jsonl", "."),
            ("no/such/**/x.jsonl", "no/such"),
            ("../no/{a,b}/c.jsonl", "../no"),
        ] {
            assert_eq!(pattern(text).folder, Path::new(folder), "{text}");
        }
        assert!(PathPattern::parse(Path::new("/no/such/file")).unwrap().is_none());
        assert!(PathPattern::parse(Path::new("no/such/[a")).is_err());
    }

    #[test]
    fn names_that_exist_are_no_patterns() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a[1]");
        std::fs::create_dir(&odd).unwrap();
        assert!(PathPattern::parse(&odd).unwrap().is_none());
        let below = PathPattern::parse(&odd.join("*.jsonl")).unwrap().unwrap();
        assert_eq!(below.folder, odd);
    }

    #[test]
    fn only_folders_that_lead_to_files_are_entered() {
        let below = |text: &str, folder: &str| pattern(text).may_lie_below(Path::new(folder));
        assert!(!below("no/*.jsonl", "a"));
        assert!(below("no/a*/x.jsonl", "ab"));
        assert!(!below("no/a*/x.jsonl", "b"));
        assert!(!below("no/a*/x.jsonl", "ab/c"));
        assert!(below("no/a*/**/x.jsonl", "ab/c/d"));
        assert!(!below("no/a*/**/x.jsonl", "b/c"));
        assert!(below("no/{a,b/c}/x.jsonl", "b/c"));
    }

    #[test]
    fn stars_stay_within_a_name_and_double_stars_do_not() {
        let matches = |text: &str, file: &str| pattern(text).matches(Path::new(file));
        assert!(matches("no/*.jsonl{,.gz}", "a.jsonl"));
        assert!(matches("no/*.jsonl{,.gz}", "a.jsonl.gz"));
        assert!(!matches("no/*.jsonl", "a/b.jsonl"));
        assert!(matches("no/**/*.jsonl", "a/b.jsonl"));
        assert!(matches("no/**/*.jsonl", "b.jsonl"));
    }
}
