//! What a file holds: by its name, which its first bytes must fit.
//!
//! The name decides, because JSONL and text have no mark of their own; the first bytes are held against it, because a
//! compressed file under a plain name, or the reverse, would be read as garbage or not at all.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::compression::Compression;
use crate::CorpusError;

/// How documents lie in a file, and what it is compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) content: Content,
    pub(super) compression: Option<Compression>,
}

/// How documents lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// One JSON object per line.
    Jsonl,
    /// One document.
    Text,
}

impl Content {
    /// The content that a name's last extension, but for that of a compression, stands for.
    fn of_extension(extension: &[u8]) -> Option<Self> {
        match extension {
            b"jsonl" | b"ndjson" | b"json" => Some(Self::Jsonl),
            b"txt" => Some(Self::Text),
            _ => None,
        }
    }

    /// The names of such files, as a user is told them.
    pub(super) fn names(self) -> &'static str {
        match self {
            Self::Jsonl => "*.jsonl, *.ndjson or *.json, with .gz or .zst where compressed",
            Self::Text => "*.txt, with .gz or .zst where compressed",
        }
    }
}

/// As messages call it: `JSONL`, `text`.
impl fmt::Display for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Jsonl => "JSONL",
            Self::Text => "text",
        })
    }
}

impl Form {
    /// The form that a file's name stands for; `None` for a name that stands for none.
    pub(super) fn of_name(path: &Path) -> Option<Self> {
        let compression = Compression::of_name(path);
        let bare = compression.map_or_else(|| path.to_owned(), |_| path.with_extension(""));
        let content = Content::of_extension(bare.extension()?.as_bytes())?;
        Some(Self { content, compression })
    }

    /// Text, whatever its name; compressed as its name says.
    pub(super) fn text(path: &Path) -> Self {
        Self { content: Content::Text, compression: Compression::of_name(path) }
    }

    /// Refuses a file whose first bytes are not what its name promises.
    ///
    /// A compressed file of fewer bytes than its mark has is no other form but cut off, which its decoder finds.
    pub(super) fn check_first_bytes(self, path: &Path, first: &[u8]) -> Result<(), CorpusError> {
        let found = Mark::of(first, self.content);
        let fits = match self.compression {
            None => found.is_none(),
            Some(compression) => {
                found == Some(Mark::of_compression(compression))
                    || (first.len() < 4 && compression.mark().starts_with(first))
            }
        };
        if fits {
            return Ok(());
        }
        Err(CorpusError::NameDisagrees {
            path: path.to_owned(),
            name_says: self.compression.map_or("no compression", Compression::name),
            bytes_say: found.map_or("nothing that is compressed", |mark| mark.name),
            remedy: rename(path, self.compression.is_some(), found),
        })
    }
}

/// What to do about a file whose name promises something else than what it holds.
fn rename(path: &Path, is_named_as_compressed: bool, found: Option<Mark>) -> String {
    let bare = if is_named_as_compressed { path.with_extension("") } else { path.to_owned() };
    match found {
        None => format!("Rename it to {}", bare.display()),
        Some(Mark { extension: Some(extension), .. }) => {
            format!("Rename it to {}.{extension}", bare.display())
        }
        Some(Mark { name, .. }) => {
            format!("{name} is not read here: unpack it, or compress it with gzip or zstd instead")
        }
    }
}

/// First bytes that tell what a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    name: &'static str,
    /// What a name ends in that this reader reads.
    extension: Option<&'static str>,
}

impl Mark {
    const GZIP: Self = Self { name: "gzip", extension: Some("gz") };
    const ZSTD: Self = Self { name: "Zstandard", extension: Some("zst") };

    fn of_compression(compression: Compression) -> Self {
        match compression {
            Compression::Gzip => Self::GZIP,
            Compression::Zstd => Self::ZSTD,
        }
    }

    /// The mark at the beginning of a file. `PAR1` may begin a text, but no JSON; all others begin neither.
    fn of(first: &[u8], content: Content) -> Option<Self> {
        let unread = |name| Some(Self { name, extension: None });
        match first {
            [0x1f, 0x8b, ..] => Some(Self::GZIP),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::ZSTD),
            // A skippable frame, with which the parallel compressors begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::ZSTD),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => unread("xz"),
            [b'B', b'Z', b'h', _, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => unread("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => unread("LZ4"),
            [b'P', b'K', 3, 4, ..] => unread("zip"),
            [b'P', b'A', b'R', b'1', ..] if content == Content::Jsonl => unread("Parquet"),
            _ => None,
        }
    }
}

/// What is said of a file whose name stands for nothing that is read, and what to do about it.
pub(super) fn unknown(path: &Path) -> CorpusError {
    let packed = path.extension().and_then(|extension| match extension.as_bytes() {
        b"bz2" => Some("bzip2"),
        b"xz" => Some("xz"),
        b"lz4" => Some("LZ4"),
        b"zip" => Some("zip"),
        b"tar" | b"tgz" => Some("tar"),
        b"parquet" => Some("Parquet"),
        _ => None,
    });
    let (found, remedy) = match packed {
        Some(form) => (
            format!("{form} is not read"),
            "Unpack it, and where it is large compress its files with gzip or zstd".to_owned(),
        ),
        None => (
            "unknown file type".to_owned(),
            format!(
                "Read are JSONL ({}) and text ({}): rename it if it is one of these, or name a glob that selects the files wanted, such as '{}'",
                Content::Jsonl.names(),
                Content::Text.names(),
                path.with_file_name("*.jsonl").display()
            ),
        ),
    };
    CorpusError::UnreadForm { path: path.to_owned(), found, remedy }
}

/// A glob for all files of `folder` whose names end as those of `files` do.
pub(super) fn glob_of_endings<'a>(folder: &Path, files: impl Iterator<Item = &'a Path>) -> PathBuf {
    let endings: BTreeSet<String> = files.map(ending).collect();
    let endings: Vec<&str> = endings.iter().map(String::as_str).collect();
    folder.join("**").join(match &endings[..] {
        [one] => format!("*{one}"),
        several => format!("*{{{}}}", several.join(",")),
    })
}

/// `.jsonl.gz` of `a.b.jsonl.gz`.
fn ending(path: &Path) -> String {
    let dotted = |path: &Path| {
        path.extension().map_or_else(String::new, |it| format!(".{}", it.to_string_lossy()))
    };
    let bare =
        Compression::of_name(path).map_or_else(String::new, |_| dotted(&path.with_extension("")));
    bare + &dotted(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_forms() {
        for (name, form) in [
            ("a.jsonl", Some((Content::Jsonl, None))),
            ("a.ndjson.gz", Some((Content::Jsonl, Some(Compression::Gzip)))),
            ("c4-train.00000-of-01024.json.gz", Some((Content::Jsonl, Some(Compression::Gzip)))),
            ("a.jsonl.zst", Some((Content::Jsonl, Some(Compression::Zstd)))),
            ("a.txt", Some((Content::Text, None))),
            ("a.txt.gz", Some((Content::Text, Some(Compression::Gzip)))),
            ("a.gz", None),
            ("a.jsonl.bz2", None),
            ("jsonl", None),
            (".jsonl", None),
        ] {
            let found = Form::of_name(Path::new(name));
            assert_eq!(found.map(|it| (it.content, it.compression)), form, "{name}");
        }
    }

    #[test]
    fn first_bytes_that_do_not_fit_the_name_are_told_with_both_and_the_right_name() {
        let message = |name: &str, first: &[u8]| {
            let path = Path::new(name);
            Form::of_name(path).unwrap().check_first_bytes(path, first).unwrap_err().to_string()
        };
        assert_eq!(
            message("in/a.jsonl", b"\x1f\x8b\x08"),
            "in/a.jsonl: its name says no compression, but its first bytes say gzip. Rename it to in/a.jsonl.gz"
        );
        assert_eq!(
            message("a.jsonl.gz", b"{\"text\":"),
            "a.jsonl.gz: its name says gzip, but its first bytes say nothing that is compressed. Rename it to a.jsonl"
        );
        assert_eq!(
            message("a.txt.gz", b"\x28\xb5\x2f\xfd"),
            "a.txt.gz: its name says gzip, but its first bytes say Zstandard. Rename it to a.txt.zst"
        );
        assert!(message("a.jsonl", b"PAR1").contains("say Parquet. Parquet is not read here"));
        assert!(message("a.txt", b"\xfd7zXZ\0").contains("say xz. xz is not read here"));
    }

    #[test]
    fn first_bytes_that_fit_pass() {
        for (name, first) in [
            ("a.jsonl", &b"{"[..]),
            ("a.jsonl", b""),
            ("a.txt", b"PAR1 is short for parish one"),
            ("a.jsonl.gz", b"\x1f\x8b\x08\0"),
            ("a.jsonl.gz", b""),
            ("a.jsonl.gz", b"\x1f"),
            ("a.jsonl.zst", b"\x28\xb5\x2f\xfd"),
            ("a.jsonl.zst", b"\x50\x2a\x4d\x18"),
            ("a.jsonl.zst", b"\x28\xb5"),
        ] {
            let path = Path::new(name);
            Form::of_name(path).unwrap().check_first_bytes(path, first).unwrap();
        }
    }
}
