//! Texts on standard output: one as it comes, several one after the other, or all as JSON.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

use anyhow::Context;
use corpus::tokenizer::Tokenizer;
use training::generation::{GenerationRequest, TextStream};

use super::report::GenerationReport;
use crate::output;

/// Prints what is generated.
pub(super) struct Printer<'a> {
    form: Form<'a>,
    /// What became of the last write.
    written: io::Result<()>,
}

enum Form<'a> {
    /// The prompt and the one text, token by token.
    Stream { prompt: &'a str, stream: TextStream<'a>, ends_line: bool },
    /// Every text when all are there.
    Texts,
    /// The report.
    Json,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        prompt: &'a str,
        request: &GenerationRequest,
        tokenizer: &'a dyn Tokenizer,
        json: bool,
    ) -> Self {
        let form = match (json, request.num_samples.get()) {
            (true, _) => Form::Json,
            (false, 1) => {
                let stream = TextStream::after(tokenizer, &request.prompt);
                Form::Stream { prompt, stream, ends_line: true }
            }
            (false, _) => Form::Texts,
        };
        Self { form, written: Ok(()) }
    }

    /// Whether text comes token by token on a terminal, where a progress bar would tear it.
    pub(super) fn is_on_a_terminal(&self) -> bool {
        matches!(self.form, Form::Stream { .. }) && io::stdout().is_terminal()
    }

    /// Prints what stands before the first token.
    pub(super) fn begin(&mut self) {
        if let Form::Stream { prompt, .. } = &self.form {
            self.print(prompt);
        }
    }

    /// Prints one more token of a text, if it is the time for that; breaks where nobody reads on.
    pub(super) fn token(&mut self, _text: usize, token: u32) -> ControlFlow<()> {
        if let Form::Stream { stream, .. } = &mut self.form {
            let text = stream.push(token);
            self.print(&text);
        }
        if self.written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Prints what is left.
    ///
    /// # Errors
    ///
    /// When anything could not be printed; a reader that has gone away is no error.
    pub(super) fn finish(mut self, report: &GenerationReport) -> anyhow::Result<()> {
        match self.form {
            Form::Stream { stream, ends_line, .. } => {
                self.form = Form::Texts;
                let rest = stream.finish();
                self.print(&rest);
                if !ends_line || !rest.is_empty() {
                    self.print("\n");
                }
                match self.written {
                    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                        Err(error).context("cannot write to standard output")
                    }
                    _ => Ok(()),
                }
            }
            Form::Texts => output::text(&report.texts()),
            Form::Json => output::json(report),
        }
    }

    /// Writes `text`, unless an earlier one could not be written.
    fn print(&mut self, text: &str) {
        if text.is_empty() || self.written.is_err() {
            return;
        }
        let mut out = io::stdout().lock();
        self.written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if let Form::Stream { ends_line, .. } = &mut self.form {
            *ends_line = text.ends_with('\n');
        }
    }
}
