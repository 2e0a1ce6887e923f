//! What a file holds: by its name, which its first bytes must fit.
//!
//! The name decides, because JSONL and text have no mark of their own; the first bytes are held
//! against it, because a compressed file under a plain name, or the reverse, would be read as
//! garbage or not at all.

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
    /// One row of a table each.
    Parquet,
    /// One document.
    Text,
}

impl Content {
    /// The content that a name's last extension, but for that of a compression, stands for.
    fn of_extension(extension: &[u8]) -> Option<Self> {
        match extension {
            b"jsonl" | b"ndjson" | b"json" => Some(Self::Jsonl),
            b"parquet" => Some(Self::Parquet),
            b"txt" => Some(Self::Text),
            _ => None,
        }
    }

    /// The names of such files, as a user is told them.
    pub(super) fn names(self) -> &'static str {
        match self {
            Self::Jsonl => "*.jsonl, *.ndjson or *.json, with .gz or .zst where compressed",
            Self::Parquet => "*.parquet",
            Self::Text => "*.txt, with .gz or .zst where compressed",
        }
    }
}

/// As messages call it: `JSONL`, `Parquet`, `text`.
impl fmt::Display for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Jsonl => "JSONL",
            Self::Parquet => "Parquet",
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
        // The pages of a Parquet file are compressed, never the file.
        let is_known = compression.is_none() || content != Content::Parquet;
        is_known.then_some(Self { content, compression })
    }

    /// Text, whatever its name; compressed as its name says.
    pub(super) fn text(path: &Path) -> Self {
        Self { content: Content::Text, compression: Compression::of_name(path) }
    }

    /// Refuses a file whose first bytes are not what its name promises.
    ///
    /// A file of fewer bytes than its mark has is no other form but cut off, which its decoder
    /// finds.
    pub(super) fn check_first_bytes(self, path: &Path, first: &[u8]) -> Result<(), CorpusError> {
        if self.compression.is_none() && self.content != Content::Parquet {
            check_encoding(path, first)?;
        }
        let (expected, found) = (Mark::of_form(self), Mark::of(first, self.content));
        let is_cut_off = |mark: Mark| first.len() < 4 && mark.bytes.starts_with(first);
        if found == expected || expected.is_some_and(is_cut_off) {
            return Ok(());
        }
        Err(CorpusError::NameDisagrees {
            path: path.to_owned(),
            name_says: expected.map_or("no compression", |mark| mark.name),
            bytes_say: found.map_or("nothing that is compressed", |mark| mark.name),
            remedy: rename(path, expected, found),
        })
    }
}

/// Refuses text that begins with a byte order mark of UTF-16, of which no line is UTF-8.
pub(super) fn check_encoding(path: &Path, first: &[u8]) -> Result<(), CorpusError> {
    match first {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(CorpusError::UnreadForm {
            path: path.to_owned(),
            found: "its text is UTF-16".to_owned(),
            remedy: "Convert it to UTF-8, as iconv -f UTF-16 -t UTF-8 does".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// What to do about a file whose name promises something else than what it holds.
fn rename(path: &Path, expected: Option<Mark>, found: Option<Mark>) -> String {
    let bare = match expected {
        Some(_) => path.with_extension(""),
        None => path.to_owned(),
    };
    match found {
        None if expected == Some(Mark::PARQUET) => "Rename it after what it holds".to_owned(),
        None => format!("Rename it to {}", bare.display()),
        Some(Mark::PARQUET) => {
            format!("Rename it to {}", path.with_extension("parquet").display())
        }
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
    bytes: &'static [u8],
    /// What a name ends in that this reader reads.
    extension: Option<&'static str>,
}

impl Mark {
    const GZIP: Self = Self { name: "gzip", bytes: b"\x1f\x8b", extension: Some("gz") };
    const ZSTD: Self =
        Self { name: "Zstandard", bytes: b"\x28\xb5\x2f\xfd", extension: Some("zst") };
    const PARQUET: Self = Self { name: "Parquet", bytes: b"PAR1", extension: Some("parquet") };
    const UNREAD: [Self; 5] = [
        Self { name: "xz", bytes: b"\xfd7zXZ\0", extension: None },
        Self { name: "bzip2", bytes: b"BZh91AY&SY", extension: None },
        Self { name: "LZ4", bytes: b"\x04\x22\x4d\x18", extension: None },
        Self { name: "zip", bytes: b"PK\x03\x04", extension: None },
        Self { name: "encrypted Parquet", bytes: b"PARE", extension: None },
    ];

    /// The mark that a file of a form begins with; plain text and JSONL have none.
    fn of_form(form: Form) -> Option<Self> {
        match (form.compression, form.content) {
            (Some(Compression::Gzip), _) => Some(Self::GZIP),
            (Some(Compression::Zstd), _) => Some(Self::ZSTD),
            (None, Content::Parquet) => Some(Self::PARQUET),
            (None, Content::Jsonl | Content::Text) => None,
        }
    }

    /// The mark at the beginning of a file. Those of Parquet may begin a text, but no JSON; all
    /// others begin neither.
    fn of(first: &[u8], content: Content) -> Option<Self> {
        // A skippable frame, with which the parallel compressors begin.
        if matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) {
            return Some(Self::ZSTD);
        }
        [Self::GZIP, Self::ZSTD, Self::PARQUET]
            .into_iter()
            .chain(Self::UNREAD)
            .find(|mark| first.starts_with(mark.bytes))
            .filter(|mark| content != Content::Text || !mark.bytes.starts_with(b"PAR"))
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
                "Read are JSONL ({}), Parquet ({}) and text ({}): rename it if it is one of these, or name a glob that selects the files wanted, such as '{}'",
                Content::Jsonl.names(),
                Content::Parquet.names(),
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
            ("a.snappy.parquet", Some((Content::Parquet, None))),
            ("a.parquet.gz", None),
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
        assert!(message("a.jsonl", b"PAR1").ends_with("say Parquet. Rename it to a.parquet"));
        assert!(message("a.parquet", b"{}").contains("its name says Parquet, but"));
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
