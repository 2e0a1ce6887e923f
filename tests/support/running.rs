//! The program at work, to be watched and to be sent signals.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{Dir, program};

/// The program at work on a command line, in a folder.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) messages: BufReader<ChildStderr>,
    pub(crate) seen: String,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) after: Duration,
}

impl Running {
    pub(crate) fn start(dir: &Dir, line: &str) -> Self {
        let mut command = program();
        command.current_dir(dir.path("")).args(line.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let messages = BufReader::new(child.stderr.take().unwrap());
        Self { child, messages, seen: String::new() }
    }

    /// Reads messages until one holds `part`.
    pub(crate) fn until(&mut self, part: &str) {
        loop {
            let mut line = String::new();
            let length = self.messages.read_line(&mut line).unwrap();
            self.seen.push_str(&line);
            assert!(length > 0, "ended before {part:?}:\n{}", self.seen);
            if line.contains(part) {
                return;
            }
        }
    }

    /// Waits until `is_so`, which something that the command does makes true.
    pub(crate) fn while_not(&mut self, is_so: impl Fn() -> bool) {
        while !is_so() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() || is_so(), "ended too early: {ended:?}");
            std::thread::yield_now();
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("sh").args(["-c", "kill -$0 $1", name, &pid]).status().unwrap().success()
        );
    }

    pub(crate) fn end(mut self) -> Ended {
        let began = Instant::now();
        self.messages.read_to_string(&mut self.seen).unwrap();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let status = self.child.wait().unwrap();
        Ended { status, stdout, stderr: self.seen, after: began.elapsed() }
    }
}
