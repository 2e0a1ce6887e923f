//! What the tests of the program share: a folder of their own, the program itself, and small texts.

mod running;
pub(crate) mod word_pieces;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub(crate) use running::{Ended, Running};

/// A temporary folder that vanishes with the value.
pub(crate) struct Dir(tempfile::TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes `content` under `name` (folders are made) and returns the path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a writable folder");
        fs::write(&path, content).expect("a writable folder");
        path
    }
}

/// What several tests use and none changes: made for the first of them, and gone with the last that
/// runs at the same time, so that a folder in it vanishes too.
pub(crate) struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let made = Arc::new(make());
            *shared = Arc::downgrade(&made);
            made
        })
    }
}

/// One run of the program and what came of it.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Runs `command` to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output: Output = command.output().expect("the program starts");
        Self {
            code: output.status.code().expect("the program ends by itself"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on standard output"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on standard error"),
        }
    }

    /// The run, if it ended with `code` and a message that holds `part` and speaks of no panic;
    /// panics with its messages otherwise.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, part: &str) -> Self {
        assert_eq!(self.code, code, "standard error:\n{}", self.stderr);
        assert!(self.stderr.contains(part), "no {part:?} in standard error:\n{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// The run, if it ended with exit code 0; panics with its messages otherwise.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, 0, "exit code {}; standard error:\n{}", self.code, self.stderr);
        self
    }

    /// The standard output, read as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).expect("JSON on standard output")
    }
}

/// Runs `pipeline` with `args`.
pub(crate) fn pipeline<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    Run::of(program().args(args))
}

/// Runs `pipeline` in the folder `dir` with the words of `line`, so that paths are relative to it.
pub(crate) fn pipeline_in(dir: &Dir, line: &str) -> Run {
    Run::of(program().current_dir(dir.path("")).args(line.split_whitespace()))
}

/// Runs `pipeline` with `args` and environment variables of its own.
pub(crate) fn pipeline_with<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    variables: &[(&str, &OsStr)],
) -> Run {
    Run::of(program().args(args).envs(variables.iter().copied()))
}

/// The program, without arguments yet, hearing nothing from the environment that changes its
/// messages.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeline"));
    command.env_remove("RUST_LOG").env_remove("RUST_BACKTRACE");
    command
}

/// JSONL of one record per text.
pub(crate) fn jsonl(texts: &[impl AsRef<str>]) -> String {
    texts.iter().map(|text| format!("{}\n", serde_json::json!({ "text": text.as_ref() }))).collect()
}

/// The values of a text of JSONL.
pub(crate) fn lines_of(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("the file exists")).expect("the file is JSON")
}

/// `count` words of made-up text that differ for each `seed`, in sentences of twelve.
pub(crate) fn words(seed: u64, count: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    for index in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (a, b) = (state % 26, (state >> 8) % 26);
        let letter = |n: u64| char::from(b'a' + n as u8);
        text.extend([letter(a), 'a', letter(b), 'o', letter((a + b) % 26)]);
        text.push_str(if index % 12 == 11 { ".\n" } else { " " });
    }
    text
}

/// A shard of `lengths` bytes as tokens, all of them 0 but the last five: files with holes.
/// Returns their number.
pub(crate) fn sparse_shard(stem: &Path, lengths: &[i32]) -> u64 {
    let mut index = b"MMIDIDX\0\0".to_vec();
    index.extend(1_u64.to_le_bytes());
    index.push(1); // u8
    index.extend((lengths.len() as u64).to_le_bytes());
    index.extend((lengths.len() as u64 + 1).to_le_bytes());
    index.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
    let mut total = 0_i64;
    for &length in lengths {
        index.extend(total.to_le_bytes());
        total += i64::from(length);
    }
    index.extend((0..=lengths.len() as i64).flat_map(i64::to_le_bytes));
    fs::write(stem.with_extension("idx"), index).expect("a writable folder");
    let mut data = File::create(stem.with_extension("bin")).expect("a writable folder");
    data.set_len(total as u64).expect("a writable folder");
    data.seek(SeekFrom::End(-5)).expect("a writable folder");
    data.write_all(&[1, 2, 3, 4, 5]).expect("a writable folder");
    total as u64
}
